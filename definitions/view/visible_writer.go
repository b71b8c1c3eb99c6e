package view

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// NewWriter makes a writer that writes everything as Text does, except styles of the
// program: each is a character that is replaced by its terminal sequence. Text from
// outside cannot contain these characters, since they are hidden; if it was printed
// without Text, it can change colours and no more.
func NewWriter(w io.Writer, styles map[rune]string) io.Writer {
	return &writer{to: w, styles: styles}
}

type writer struct {
	to     io.Writer
	styles map[rune]string

	mu   sync.Mutex
	rest []byte // the beginning of a character that was split between two writes
}

// Write buffers at most a part of a character.
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
	var out strings.Builder
	from := 0
	for i, r := range text {
		if sequence, ok := w.styles[r]; ok {
			out.WriteString(Text(text[from:i]))
			out.WriteString(sequence)
			from = i + utf8.RuneLen(r)
		}
	}
	out.WriteString(Text(text[from:]))
	return out.String()
}
