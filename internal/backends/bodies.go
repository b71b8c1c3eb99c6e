package backends

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/web"
)

// body bounds the reading of an answer. Release, of a POST, ends the request.
func (m *meter) body(resp *http.Response, x *exchange, s *session, release context.CancelFunc) io.ReadCloser {
	paced := &pacedAnswer{ReadCloser: resp.Body}
	raw := &drainedBody{ReadCloser: paced, rest: resp.Body, release: release}
	c := &claims{budget: m.budget, ctx: x.caller, held: x.held, holders: &s.holders}
	answer := release != nil || x.expected // also one that is resumed by a GET
	var r io.Reader
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices:
		r = &wholeBody{body: raw, limit: min(m.budget.limit, maxChatter)}
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		r = newEventStream(raw, paced, c, s.flow, answer, s.fail)
	default:
		r = &wholeBody{body: raw, limit: m.budget.limit, length: resp.ContentLength, claims: c, flow: s.flow}
	}
	if release == nil { // a POST is of our own making
		if err := s.flow.take(costOfStream); err != nil {
			s.fail(err)
		}
	}
	return &notedBody{Reader: r, Closer: raw, x: x, claims: c}
}

// A notedBody records in the exchange why reading the answer ended.
type notedBody struct {
	io.Reader
	io.Closer
	x      *exchange
	claims *claims
}

func (b *notedBody) Close() error {
	b.claims.passing.end()
	return b.Closer.Close()
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
	body   io.Reader
	limit  int64
	length int64   // as announced; below 0 = it is not
	claims *claims // nil = it is too small for that
	flow   *flow   // nil = it need not be a message

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
	in := &boundedReader{b.body, b.limit, b.limit}
	if b.flow == nil {
		text, err := io.ReadAll(in)
		return bytes.NewReader(text), err
	}
	text, err := b.claims.readFrom(in, b.length)
	if err != nil {
		return nil, err
	}
	text = utf8Text(text)
	_, _, err = b.flow.admit(text)
	return bytes.NewReader(text), err
}

// A boundedReader gives an error where there is more than the limit.
type boundedReader struct {
	io.Reader
	limit, left int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, tooLarge(r.limit)
	}
	return n, err
}

// errSlow is in the chain of errors of answers that come too slowly.
var errSlow = errors.New("a large answer " + web.TooSlow())

// A pacedAnswer is cut off if a message comes too slowly once it takes memory. Before that,
// a backend may be silent for as long as a call takes.
type pacedAnswer struct {
	io.ReadCloser
	pace web.Pace
	size int64 // of the message that is coming
	slow atomic.Bool
}

// begins notes that a message begins, and how many of its bytes have been read.
func (a *pacedAnswer) begins(size int) { a.pace, a.size = web.Pace{}, int64(size) }

func (a *pacedAnswer) Read(p []byte) (n int, err error) {
	if a.size < web.SmallBody {
		n, err = a.ReadCloser.Read(p)
	} else {
		var cut *time.Timer
		n, err = a.pace.Read(a.ReadCloser, p, func(within time.Duration) {
			cut = time.AfterFunc(within, func() {
				a.slow.Store(true)
				_ = a.ReadCloser.Close()
			})
		})
		cut.Stop()
	}
	if a.size += int64(n); err != nil && a.slow.Load() {
		err = errSlow
	}
	return n, err
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
	rest    io.Reader          // what is not read yet; safe for a reader that has not stopped
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
			_, _ = io.CopyN(io.Discard, b.rest, drainBytes)
			_ = b.ReadCloser.Close()
		}()
	})
	return nil
}
