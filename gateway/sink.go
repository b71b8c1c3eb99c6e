package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/web"
)

// An outlet takes the messages that answer one request, in order. It is safe
// for concurrent use. What cannot be delivered is dropped: the writer learns from the
// context of the request that the client is gone.
type outlet interface {
	// header adds a header, where there are some and nothing was sent yet.
	header(name, value string)
	// event sends a message before the answer. id names the place in the
	// stream; "" = none.
	event(id string, message []byte)
	// prime sends a place in the stream without a message, and how long the client
	// waits before it comes back when the stream breaks.
	prime(id string, retry time.Duration)
	// comment shows the client, and proxies between, that the stream is alive.
	comment()
	// answer sends the response, and is called last. It reports whether the whole
	// response has left this process, as far as that can be known.
	answer(id string, status int, message []byte) bool
	// cut ends the stream without a response.
	cut()
}

// A sink is the outlet of an HTTP request. The first event makes the response
// an SSE stream; without events the answer is plain JSON.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	streams bool            // the client takes SSE
	gone    context.Context // ends when the client is gone

	mu       sync.Mutex
	upgraded bool
	finished bool
}

func newSink(w http.ResponseWriter, r *http.Request, streams bool) *sink {
	return &sink{w: w, gone: r.Context(), control: http.NewResponseController(w), streams: streams}
}

func (s *sink) header(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.Header().Set(name, value)
}

func (s *sink) event(id string, message []byte) {
	s.write(func() { _ = s.writeEvent(id, message) })
}

func (s *sink) prime(id string, retry time.Duration) {
	s.write(func() { fmt.Fprintf(s.w, "id: %s\nretry: %d\ndata: \n\n", id, retry.Milliseconds()) })
}

func (s *sink) comment() {
	s.write(func() { fmt.Fprint(s.w, ":\n\n") })
}

func (s *sink) write(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished || !s.streams {
		return
	}
	s.upgrade()
	f()
	_ = s.control.Flush()
}

func (s *sink) answer(id string, status int, message []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	s.finished = true
	there := !web.Left(s.gone) // before: who has read the response may go at once
	var err error
	if s.upgraded {
		err = s.writeEvent(id, message)
	} else {
		message = append(message, '\n')
		h := s.w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(message))) // so that it is whole when it is flushed
		s.w.WriteHeader(status)
		_, err = s.w.Write(message)
	}
	return errors.Join(err, s.control.Flush()) == nil && there
}

func (s *sink) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
}

func (s *sink) upgrade() {
	if s.upgraded {
		return
	}
	s.upgraded = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
}

func (s *sink) writeEvent(id string, message []byte) error {
	if id != "" {
		fmt.Fprintf(s.w, "id: %s\n", id)
	}
	_, err := fmt.Fprintf(s.w, "event: message\ndata: %s\n\n", message)
	return err
}

// A live is an http.ResponseWriter for streams that mcp-go writes itself; it
// puts comments between, as mcp-go does not.
type live struct {
	http.ResponseWriter
	control *http.ResponseController
	mu      sync.Mutex
	begun   bool
}

// keepLive serves a request with comments at least once per interval, from
// its first write to its end.
func keepLive(ctx context.Context, w http.ResponseWriter, interval time.Duration, serve func(http.ResponseWriter)) {
	l := &live{ResponseWriter: w, control: http.NewResponseController(w)}
	l.Header().Set("X-Accel-Buffering", "no")
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.comment()
			case <-stop:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	serve(l)
	close(stop)
	ticking.Wait()
}

func (l *live) comment() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun {
		_, _ = l.ResponseWriter.Write([]byte(":\n\n"))
		_ = l.control.Flush()
	}
}

func (l *live) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = l.Header().Get("Content-Type") == "text/event-stream"
	return l.ResponseWriter.Write(b)
}

// Flush implements http.Flusher, without which mcp-go does not stream.
func (l *live) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.control.Flush()
}

// Unwrap is for http.ResponseController.
func (l *live) Unwrap() http.ResponseWriter { return l.ResponseWriter }
