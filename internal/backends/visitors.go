package backends

import (
	"context"
	"fmt"
	"time"
)

const (
	// Sessions of identities without a call for visitorIdle are closed; beyond maxVisitors
	// those that were idle longest.
	visitorIdle = 5 * time.Minute
	maxVisitors = 500
)

// A visitor is the session of one identity, or the try to open it. Its fields
// are guarded by the mu of sessions.
type visitor struct {
	tried   chan struct{} // closed when there is a session or an error
	session *session
	err     error
	used    time.Time // last
}

func (v *visitor) idle() bool { return v.session != nil && v.session.uses == 0 }

// visit takes the session of an identity, which it opens if there is none.
func (k *sessions) visit(ctx context.Context, identity string, who Caller) (*session, error) {
	for {
		v, err := k.visitorOf(identity, who)
		if err != nil {
			return nil, err
		}
		select {
		case <-v.tried:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		k.mu.Lock()
		switch {
		case v.err != nil:
			if k.visitors[identity] == v {
				delete(k.visitors, identity)
			}
			k.mu.Unlock()
			return nil, v.err
		case !v.session.retired && !v.session.isLost():
			v.session.uses++
			k.mu.Unlock()
			return v.session, nil
		}
		k.mu.Unlock() // lost or closed meanwhile
	}
}

// visitorOf is the visitor of an identity; a new one if the session of the last one is
// unusable.
func (k *sessions) visitorOf(identity string, who Caller) (*visitor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil, errClosed
	}
	v := k.visitors[identity]
	if v == nil || v.session != nil && (v.session.retired || v.session.isLost()) {
		k.closeIdlest()
		v = &visitor{tried: make(chan struct{})}
		k.visitors[identity] = v
		k.burials.Go(func() { k.receive(v, who) })
	}
	v.used = time.Now()
	return v, nil
}

// receive opens the session of a visitor.
func (k *sessions) receive(v *visitor, who Caller) {
	ctx, cancel := context.WithTimeout(k.ctx, ConnectTimeout)
	defer cancel()
	// The tools are known; but mcp-go's client must have listed them, since it puts
	// parameters into headers if a tool asks for that.
	s, _, err := k.dialer.begin(ctx, who, true)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(v.tried)
	switch {
	case err != nil:
		v.err = fmt.Errorf("connecting to the backend: %w", err)
	case k.stopped:
		v.err = errClosed
		k.burials.Go(s.close)
	default:
		v.session, k.live[s] = s, true
	}
}

// sweep closes sessions of visitors that were idle for long, until ctx ends.
func (k *sessions) sweep(ctx context.Context) {
	tick := time.NewTicker(visitorIdle / 5)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.mu.Lock()
			for identity, v := range k.visitors {
				if time.Since(v.used) > visitorIdle {
					k.dismiss(identity, v)
				}
			}
			k.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// closeIdlest closes the session that was idle longest if there are too many.
// mu is held.
func (k *sessions) closeIdlest() {
	if len(k.visitors) < maxVisitors {
		return
	}
	oldest := ""
	for identity, v := range k.visitors {
		if v.idle() && (oldest == "" || v.used.Before(k.visitors[oldest].used)) {
			oldest = identity
		}
	}
	if oldest != "" {
		k.dismiss(oldest, k.visitors[oldest])
	}
}

// dismiss closes the session of a visitor unless it is in use. mu is held.
func (k *sessions) dismiss(identity string, v *visitor) {
	if v.session == nil || v.session.uses > 0 {
		return
	}
	delete(k.visitors, identity)
	v.session.retired = true
	k.bury(v.session)
}
