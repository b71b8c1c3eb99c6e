package visible

import (
	"io"
	"sync"
	"unicode/utf8"
)

// NewWriter makes a writer on which everything is written as Text has it, except
// for what of the program itself steers the terminal: styles, each a character of
// its own, are replaced by their sequences. A text from elsewhere cannot have
// these characters, since they are hidden ones, unless it was written without
// Text; then it changes colours and no more.
func NewWriter(w io.Writer, styles map[rune]string) io.Writer {
	return &writer{to: w, styles: styles}
}

type writer struct {
	to     io.Writer
	styles map[rune]string

	mu   sync.Mutex
	rest []byte // the beginning of a character that was cut between two writes
}

// Write never keeps back more than a part of a character.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.RuneStart(text[len(text)-n]) {
			if !utf8.FullRune(text[len(text)-n:]) {
				whole = len(text) - n
			}
			break
		}
	}
	w.rest = append([]byte(nil), text[whole:]...)
	_, err := io.WriteString(w.to, w.show(string(text[:whole])))
	return len(p), err
}

func (w *writer) show(text string) string {
	out, from := "", 0
	for i, r := range text {
		if sequence, ok := w.styles[r]; ok {
			out += Text(text[from:i]) + sequence
			from = i + utf8.RuneLen(r)
		}
	}
	return out + Text(text[from:])
}
