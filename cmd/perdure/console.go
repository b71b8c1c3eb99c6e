package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/perdure/perdure/internal/visible"
)

// A console is where a command reads and writes. What out and err are given reaches
// people: it is text with marks for what cannot be seen (visible.Text), and the
// styles below. Also into a pipe, whose end may be a terminal.
type console struct {
	in       io.Reader
	out, err io.Writer
	exact    io.Writer // out for data that programs read: without marks, if it is no terminal

	inTerminal  bool // a person can be asked
	outTerminal bool
	errTerminal bool
	colour      bool // on what is a terminal

	screen io.Writer // err as it is, for what steers the terminal
}

func systemConsole() *console {
	c := &console{
		in:          os.Stdin,
		exact:       os.Stdout,
		screen:      os.Stderr,
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

// shows makes a writer for people; only where there are colours it has styles.
func (c *console) shows(to io.Writer, terminal bool) io.Writer {
	if !terminal || !c.colour {
		return visible.NewWriter(to, nil)
	}
	return visible.NewWriter(to, sequences)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// A style is how a word looks on a terminal: a character that the writer of the
// console replaces by its ANSI sequence.
type style rune

// The styles, and what ends one. Unicode assigns these characters to nothing.
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

// outStyle and errStyle mark up text for standard output and error; where that
// is no terminal they leave it as it is.
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

// eraseLine empties the line of the terminal on which standard error is.
func (c *console) eraseLine() { fmt.Fprint(c.screen, "\r\x1b[K") }

// notef tells a person something that is not the command's result.
func (c *console) notef(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }

// printJSON writes a value as indented JSON. Numbers of a json.RawMessage keep
// every digit; characters that cannot be seen are escaped.
func (c *console) printJSON(v any) error {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := fmt.Fprintf(c.out, "%s\n", visible.Exact(raw.Bytes()))
	return err
}
