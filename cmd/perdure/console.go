package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// A console is where a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer

	inTerminal  bool // a person can be asked
	outTerminal bool
	errTerminal bool
	colour      bool // on what is a terminal
}

func systemConsole() *console {
	return &console{
		in:          os.Stdin,
		out:         os.Stdout,
		err:         os.Stderr,
		inTerminal:  isTerminal(os.Stdin),
		outTerminal: isTerminal(os.Stdout),
		errTerminal: isTerminal(os.Stderr),
		colour:      os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// A style is how a word looks on a terminal.
type style string

// The styles, as ANSI sequences.
const (
	bold   style = "\x1b[1m"
	faint  style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
)

// outStyle and errStyle mark up text for standard output and error; where that
// is no terminal they leave it as it is.
func (c *console) outStyle(s style, text string) string {
	return s.mark(text, c.colour && c.outTerminal)
}
func (c *console) errStyle(s style, text string) string {
	return s.mark(text, c.colour && c.errTerminal)
}

func (s style) mark(text string, on bool) string {
	if !on || s == "" {
		return text
	}
	return string(s) + text + "\x1b[0m"
}

// plain takes out of a text from elsewhere what would steer the terminal, or turn
// the order of its letters round.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, text)
}

// notef tells a person something that is not the command's result.
func (c *console) notef(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }

// printJSON writes a value as indented JSON. Numbers of a json.RawMessage keep
// every digit.
func (c *console) printJSON(v any) error {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := out.WriteTo(c.out)
	return err
}
