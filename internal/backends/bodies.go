package backends

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// body bounds the reading of an answer. Release, of a POST, ends the request.
func (m *meter) body(resp *http.Response, x *exchange, s *session, release context.CancelFunc) io.ReadCloser {
	raw := &drainedBody{ReadCloser: resp.Body, release: release}
	answer := release != nil || x.expected // also one that is resumed by a GET
	var r io.Reader
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices:
		r = &wholeBody{body: raw, limit: min(m.limit, maxChatter)}
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		r = newEventStream(raw, m.limit, s.flow, answer, s.fail)
	default:
		r = &wholeBody{body: raw, limit: m.limit, flow: s.flow}
	}
	if release == nil { // a POST is of our own making
		if err := s.flow.take(costOfStream); err != nil {
			s.fail(err)
		}
	}
	return &notedBody{Reader: r, Closer: raw, x: x}
}

// A notedBody records in the exchange why reading the answer ended.
type notedBody struct {
	io.Reader
	io.Closer
	x *exchange
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		b.x.set(func() { b.x.broke = err })
	}
	return n, err
}

// A wholeBody reads a body as a whole, up to a limit, and checks its message before it is
// decoded.
type wholeBody struct {
	body  io.Reader
	limit int64
	flow  *flow // nil = it need not be a message

	whole *bytes.Reader
	err   error
}

func (b *wholeBody) Read(p []byte) (int, error) {
	if b.whole == nil && b.err == nil {
		b.whole, b.err = b.read()
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.whole.Read(p)
}

func (b *wholeBody) read() (*bytes.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(b.body, b.limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > b.limit:
		return nil, tooLarge(b.limit)
	case b.flow != nil:
		text = utf8Text(text)
		_, _, err = b.flow.admit(text)
	}
	return bytes.NewReader(text), err
}

// drainTime and drainBytes bound the wait for the end of a body whose answer
// has been read.
const (
	drainTime  = 250 * time.Millisecond
	drainBytes = 64 << 10
)

// A drainedBody keeps the connection reusable: a server ends its stream right after the
// answer, but mcp-go closes context and body before that, which would cost a connection
// for every call that is answered by a stream.
type drainedBody struct {
	io.ReadCloser
	release context.CancelFunc // of a POST: ends the request
	closing sync.Once
}

func (b *drainedBody) Close() error {
	if b.release == nil {
		return b.ReadCloser.Close()
	}
	b.closing.Do(func() {
		go func() {
			defer b.release()
			defer time.AfterFunc(drainTime, b.release).Stop()
			_, _ = io.CopyN(io.Discard, b.ReadCloser, drainBytes)
			_ = b.ReadCloser.Close()
		}()
	})
	return nil
}
