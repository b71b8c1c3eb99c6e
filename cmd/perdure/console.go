package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/perdure/perdure/definitions/view"
)

// A console is where a command reads and writes. Text to out and err is for people,
// also in a pipe, which may end at a terminal: characters that cannot be seen are
// marked (view.Text), and styles become colours.
type console struct {
	in       io.Reader
	out, err io.Writer
	exact    io.Writer // out for data that programs read: unmarked, unless it is a terminal

	inTerminal  bool // standard input is a terminal
	outTerminal bool
	errTerminal bool
	colour      bool // use colours where the output is a terminal

	screen io.Writer                  // err unmarked, for control sequences
	size   func() (width, height int) // of the terminal, in cells
}

func systemConsole() *console {
	c := &console{
		in:          os.Stdin,
		exact:       os.Stdout,
		screen:      os.Stderr,
		size:        terminalSize,
		inTerminal:  isTerminal(os.Stdin),
		outTerminal: isTerminal(os.Stdout),
		errTerminal: isTerminal(os.Stderr),
		colour:      os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
	c.out, c.err = c.shows(os.Stdout, c.outTerminal), c.shows(os.Stderr, c.errTerminal)
	if c.outTerminal {
		c.exact = c.out
	}
	return c
}

// shows returns a writer for people, with styles if colours are on.
func (c *console) shows(to io.Writer, terminal bool) io.Writer {
	if !terminal || !c.colour {
		return view.NewWriter(to, nil)
	}
	return view.NewWriter(to, sequences)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminalSize is that of the terminal at standard output or error; that of old where
// there is none.
func terminalSize() (width, height int) {
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

// A style is how a word looks on a terminal: a private character that the writer of
// the console replaces by its ANSI sequence.
type style rune

// The styles, and the end of one: characters that Unicode leaves unassigned.
const (
	bold style = 0xfdd0 + iota
	faint
	red
	green
	yellow
	unstyled
)

var sequences = map[rune]string{
	rune(bold): "\x1b[1m", rune(faint): "\x1b[2m", rune(red): "\x1b[31m", rune(green): "\x1b[32m", rune(yellow): "\x1b[33m",
	rune(unstyled): "\x1b[0m",
}

// outStyle and errStyle mark up text for standard output and error, unless it is no
// terminal.
func (c *console) outStyle(s style, text string) string {
	return s.mark(text, c.colour && c.outTerminal)
}
func (c *console) errStyle(s style, text string) string {
	return s.mark(text, c.colour && c.errTerminal)
}

func (s style) mark(text string, on bool) string {
	if !on || s == 0 {
		return text
	}
	return string(s) + text + string(unstyled)
}

// eraseLine clears the current line of the terminal.
func (c *console) eraseLine() { fmt.Fprint(c.screen, "\r\x1b[K") }

// notef prints a note for a person on standard error.
func (c *console) notef(format string, args ...any) {
	fmt.Fprintln(c.err, c.prose(fmt.Sprintf(format, args...), c.errTerminal))
}

// printJSON writes a value as indented JSON. Numbers of a json.RawMessage keep
// every digit; characters that cannot be seen are escaped.
func (c *console) printJSON(v any) error {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := fmt.Fprintf(c.out, "%s\n", view.Exact(raw.Bytes()))
	return err
}
