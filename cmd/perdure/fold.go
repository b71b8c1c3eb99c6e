package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions/view"
)

// How much of a value a terminal shows.
const (
	mostItems = 20   // of a list
	mostKeys  = 60   // of an object
	mostText  = 2000 // characters of a text
	mostLines = 30   // of a text
)

// printFolded prints a JSON value for a person: text with several lines as such, and of
// what is large the beginning. all says how the rest is printed.
func (c *console) printFolded(raw json.RawMessage, all string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	f := &folder{tokens: d}
	f.value("")
	if f.err != nil {
		return c.printJSON(raw)
	}
	if f.folded {
		f.b.WriteString("\n" + c.outStyle(faint, "… stands for more: "+view.Line(all)))
	}
	_, err := fmt.Fprintln(c.out, strings.ReplaceAll(f.b.String(), ": \n", ":\n"))
	return err
}

// A folder writes JSON as it reads it, since objects are to keep their order.
type folder struct {
	tokens *json.Decoder
	b      strings.Builder
	folded bool
	block  bool // what was written last is text on lines of its own
	err    error
}

func (f *folder) next() json.Token {
	if f.err != nil {
		return nil
	}
	t, err := f.tokens.Token()
	f.err = err
	return t
}

func (f *folder) value(indent string) {
	switch t := f.next().(type) {
	case json.Delim:
		most := mostItems
		if t == '{' {
			most = mostKeys
		}
		f.members(t, most, indent)
	case string:
		f.text(t, indent)
	default:
		raw, err := json.Marshal(t)
		if f.err == nil {
			f.err = err
		}
		f.b.Write(raw)
	}
}

// members writes an object or a list whose beginning was read.
func (f *folder) members(open json.Delim, most int, indent string) {
	within, n := indent+"  ", 0
	f.b.WriteString(open.String())
	for ; f.err == nil && f.tokens.More(); n++ {
		if n == most {
			break
		}
		f.comma(n > 0)
		f.b.WriteString("\n" + within)
		if open == '{' {
			name, _ := f.next().(string)
			f.b.WriteString(quoted(name) + ": ")
		}
		f.value(within)
	}
	if more := f.skip(open); more > 0 {
		f.comma(true)
		fmt.Fprintf(&f.b, "\n%s… %d more", within, more)
		f.folded = true
	}
	f.block = false
	if n > 0 {
		f.b.WriteString("\n" + indent)
	}
	f.b.WriteString(map[json.Delim]string{'{': "}", '[': "]"}[open])
}

// comma ends the member before; text on lines of its own has none.
func (f *folder) comma(follows bool) {
	if follows && !f.block {
		f.b.WriteString(",")
	}
	f.block = false
}

// skip reads to the end of an object or a list, and counts what it skips.
func (f *folder) skip(open json.Delim) (n int) {
	for ; f.err == nil && f.tokens.More(); n++ {
		var ignored json.RawMessage
		if open == '{' {
			f.next()
		}
		if f.err == nil {
			f.err = f.tokens.Decode(&ignored)
		}
	}
	f.next()
	return n
}

// text writes a text: on its line, or on lines of its own if it has several.
func (f *folder) text(text, indent string) {
	shown := text
	if letters := []rune(text); len(letters) > mostText {
		shown = string(letters[:mostText])
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(shown, "\r\n", "\n"), "\n"), "\n")
	if len(lines) == 1 && shown == text {
		f.b.WriteString(quoted(text))
		return
	}
	f.block = true
	more := len(lines) - mostLines
	if more > 0 {
		lines = lines[:mostLines]
	}
	for _, line := range lines {
		f.b.WriteString("\n" + indent + "  │ " + view.Text(line))
	}
	if more > 0 || shown != text {
		fmt.Fprintf(&f.b, "\n%s  │ … %d characters in all", indent, len([]rune(text)))
		f.folded = true
	}
}

func quoted(text string) string {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return string(view.Exact(bytes.TrimSpace(raw.Bytes())))
}
