package backends

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A health is whether a backend is up, and if not, why.
type health struct {
	logger *slog.Logger
	wasUp  chan struct{} // closed when the backend is up for the first time

	mu         sync.Mutex
	up         bool
	downLogged bool
	since      time.Time // of up's last change
	err        error     // why it is down
	try        time.Time // when the try to connect began that is under way; zero = none is
	hung       bool      // the last try that ended took longer than a call waits
	version    string    // negotiated protocol version
}

func newHealth(logger *slog.Logger) *health {
	return &health{logger: logger, wasUp: make(chan struct{}), since: time.Now(), err: errUntried}
}

// errUntried is why a backend is down before the first try has ended.
var errUntried = errors.New("not connected yet")

func (h *health) noteUp(version string, tools int) {
	h.mu.Lock()
	change := !h.up
	if change {
		h.up, h.since = true, time.Now()
	}
	h.downLogged, h.err, h.version = false, nil, version
	h.mu.Unlock()
	if change {
		h.logger.Info("backend is up", "tools", tools, "protocol", version)
	}
	select {
	case <-h.wasUp:
	default:
		close(h.wasUp)
	}
}

// noteTry notes that a try to connect begins, and noteTried that it has ended.
func (h *health) noteTry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.try = time.Now()
}

func (h *health) noteTried() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hung, h.try = time.Since(h.try) > acquireTimeout, time.Time{}
}

// patience is how long a call waits for the end of a try. A backend that does not
// answer at all is not waited for by every call anew.
func (h *health) patience() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.hung:
		return hungTimeout
	case h.try.IsZero():
		return acquireTimeout
	}
	return max(acquireTimeout-time.Since(h.try), hungTimeout)
}

// noteError records why the last try to connect has failed.
func (h *health) noteError(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// noteHung notes that a try to connect takes long. A backend that is down already, or
// starts for the first time, keeps what is known of it.
func (h *health) noteHung() {
	h.mu.Lock()
	up := h.up
	h.mu.Unlock()
	if up {
		h.noteDown(fmt.Errorf("it has not answered a new connection within %s", recallAfter))
	}
}

// noteDown logs the first failure only, until the backend is up again.
func (h *health) noteDown(err error) {
	h.mu.Lock()
	if h.up {
		h.up, h.since = false, time.Now()
	}
	h.err = err
	known := h.downLogged
	h.downLogged = true
	h.mu.Unlock()
	if !known {
		h.logger.Warn("backend is down; trying again", "error", err)
	}
}

// reason is why a backend without a session cannot be called.
func (h *health) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return errors.New("backend is down")
	}
	return fmt.Errorf("backend is down: %w", h.err)
}

func (h *health) status(name string, tools int) Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := Status{Name: name, Up: h.up, Tools: tools, Since: h.since, ProtocolVersion: h.version}
	st.Tried = h.up || h.err != errUntried
	if !h.up && h.err != nil {
		st.Err, st.Error = h.err, h.err.Error()
	}
	if !st.Tried && !h.try.IsZero() {
		st.Error += ", after " + time.Since(h.try).Round(time.Second).String()
	}
	return st
}
