package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// The progress required of bodies: bodyRate on average, and no pause longer than stall.
const (
	bodyRate = 16 << 10
	stall    = 10 * time.Second
)

// paceBody gives a request whose body is bounded in size and time, the latter also for
// the rest that net/http reads after the handler. It is a copy: net/http looks at the
// body of its own to see whether that rest is too long to be read.
func paceBody(w http.ResponseWriter, r *http.Request, most int64) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	b := &pacedBody{ReadCloser: http.MaxBytesReader(w, r.Body, most), control: http.NewResponseController(w)}
	b.allow(stall)
	paced := r.WithContext(r.Context())
	paced.Body = b
	return paced
}

// A Pace is the progress of a sender. Time between reads does not count. The zero Pace is
// that of one who begins.
type Pace struct {
	debt time.Duration // time that the sender took and did not use
}

// Read reads once. Within gets the time for which the sender may pause now.
func (p *Pace) Read(in io.Reader, b []byte, within func(time.Duration)) (n int, err error) {
	began := time.Now()
	within(stall - p.debt)
	n, err = in.Read(b)
	p.debt = max(0, p.debt+time.Since(began)-time.Duration(n)*time.Second/bodyRate)
	return n, err
}

// TooSlow describes a sender that has not kept the pace.
func TooSlow() string {
	return fmt.Sprintf("comes too slowly: less than %d KB a second, or nothing for %s", bodyRate>>10, stall)
}

// A pacedBody is a body that is cut off if its sender is too slow.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	pace    Pace
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.pace.Read(b.ReadCloser, p, b.allow)
	if err == io.EOF {
		// From here on net/http reads to notice that the client disconnects. After
		// another error it reads the rest, for which the deadline stays.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *pacedBody) allow(d time.Duration) { _ = b.control.SetReadDeadline(time.Now().Add(d)) }

// RefuseBody answers a request whose body was not read.
func RefuseBody(w http.ResponseWriter, err error) {
	code, reason := Refusal(w.Header(), err)
	http.Error(w, reason, code)
}

// Refusal gives status and reason for a request whose body was not read, and adds the
// headers.
func Refusal(h http.Header, err error) (code int, reason string) {
	var tooLarge *http.MaxBytesError
	var dense *DenseError
	var full *FullError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit)
	case errors.As(err, &dense):
		return http.StatusRequestEntityTooLarge, err.Error()
	case errors.As(err, &full):
		h.Set("Retry-After", full.RetryAfter())
		return http.StatusServiceUnavailable, err.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "request body " + TooSlow()
	}
	return http.StatusBadRequest, "request body cannot be read"
}
