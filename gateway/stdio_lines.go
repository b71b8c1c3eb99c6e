package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/web"
)

// A line is what a client has sent, or why there is no more.
type line struct {
	text    []byte
	refused *topLevel // of one that is too long, instead of its text
	err     error
}

func (c *stdioConn) read(ctx context.Context, in io.Reader) error {
	lines := make(chan line)
	go c.scan(ctx, in, lines)
	for {
		select {
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return fmt.Errorf("serving stdio: %w", l.err)
			case l.refused != nil:
				c.refuse(l.refused, &tooLongError{c.at.admission.longest()})
			default:
				c.receive(ctx, l.text)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// scan reads lines; it cannot be stopped while it waits for one.
func (c *stdioConn) scan(ctx context.Context, in io.Reader, lines chan<- line) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l := readLine(r, c.at.admission.longest())
		select {
		case lines <- l:
		case <-ctx.Done():
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads a line of at most so many bytes, and discards the rest of a longer
// one, except for the id to answer.
func readLine(r *bufio.Reader, most int64) (l line) {
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case l.refused != nil:
			l.refused.feed(part)
		case int64(len(l.text)+len(part)) > most+1: // with its end
			l.refused = newTopLevel(l.text)
			l.refused.feed(part)
			l.text = nil
		default:
			l.text = append(l.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(l.text) > 0 || l.refused != nil): // a line without its end
		case err != nil:
			l.err = err
		}
		l.text = bytes.TrimRight(l.text, "\r\n")
		return l
	}
}

// A tooLongError refuses a message of more bytes than one may have.
type tooLongError struct{ most int64 }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("the message is larger than %d bytes; nothing was done", e.most)
}

// refuse answers a request that was not read.
func (c *stdioConn) refuse(of *topLevel, err error) {
	c.at.admission.note(onStdio, err)
	if !of.method || of.id == nil { // an answer, or what expects none
		return
	}
	code := mcp.INVALID_REQUEST
	if full := (*web.FullError)(nil); errors.As(err, &full) {
		code = mcp.INTERNAL_ERROR
	}
	_ = c.write(mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: of.id, Error: &rpcError{Code: code, Message: err.Error()}}))
}

// A topLevel finds, in a message that arrives in pieces and is not kept, the id of the
// request to answer.
type topLevel struct {
	id     json.RawMessage // nil = it has none
	method bool            // it is a request or a notification

	depth         int
	text, escaped bool   // within a string, and behind its \
	name          string // of the member, as it is written
	token         []byte // at the top level since the last , or :
}

func newTopLevel(message []byte) *topLevel {
	t := &topLevel{}
	t.feed(message)
	return t
}

func (t *topLevel) feed(piece []byte) {
	for _, c := range piece {
		switch {
		case t.text:
			t.keep(c)
			t.text = t.escaped || c != '"'
			t.escaped = !t.escaped && c == '\\'
		case c == '"':
			t.keep(c)
			t.text = true
		case c == '{' || c == '[':
			t.depth++
		case c == '}' || c == ']':
			t.member()
			t.depth--
		case c == ',':
			t.member()
		case c == ':' && t.depth == 1:
			t.name, t.token = string(t.token), t.token[:0]
		case c > ' ':
			t.keep(c)
		}
	}
}

// keep keeps a byte of the top level. An id that is longer than one may be is none.
func (t *topLevel) keep(c byte) {
	if t.depth == 1 && len(t.token) <= maxID {
		t.token = append(t.token, c)
	}
}

// member ends a member of the top level.
func (t *topLevel) member() {
	if t.depth != 1 {
		return
	}
	switch {
	case t.name == `"id"` && len(t.token) <= maxID && json.Valid(t.token) && !isNull(t.token):
		t.id = bytes.Clone(t.token)
	case t.name == `"method"`:
		t.method = true
	}
	t.name, t.token = "", t.token[:0]
}
