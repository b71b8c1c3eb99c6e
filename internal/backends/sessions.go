package backends

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// sessions are those with one server: a shared one, and one for each identity with
// credentials of its own.
type sessions struct {
	dialer *dialer
	ctx    context.Context // ends with stop
	cancel context.CancelFunc

	mu       sync.Mutex
	shared   *session            // nil = none at present
	live     map[*session]bool   // not closed yet: the shared one, those of visitors and those that end
	visitors map[string]*visitor // by identity
	tried    chan struct{}       // closed at the end of the try under way, or next
	stopped  bool
	burials  sync.WaitGroup
}

func newSessions(d *dialer) *sessions {
	ctx, cancel := context.WithCancel(context.Background())
	return &sessions{dialer: d, ctx: ctx, cancel: cancel, live: map[*session]bool{}, visitors: map[string]*visitor{}, tried: make(chan struct{})}
}

// endTry ends a try to connect with its session; nil = it failed.
func (k *sessions) endTry(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s != nil {
		k.shared, k.live[s] = s, true
	}
	close(k.tried)
	k.tried = make(chan struct{})
}

func (k *sessions) busy(s *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.uses > 0
}

// drop takes a session out of use. It ends when the calls under way have.
func (k *sessions) drop(s *session) {
	s.lose()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shared == s {
		k.shared = nil
	}
	s.retired = true
	k.bury(s)
}

// bury closes a session that is out of use. mu is held.
func (k *sessions) bury(s *session) {
	if !s.retired || s.uses > 0 || k.stopped || !k.live[s] {
		return
	}
	delete(k.live, s)
	k.burials.Go(s.close)
}

func (k *sessions) take() (s *session, tried <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shared == nil || k.shared.isLost() { // the supervisor is about to see it
		return nil, k.tried
	}
	k.shared.uses++
	return k.shared, k.tried
}

// trying is closed at the end of the try to connect that is under way, or next.
func (k *sessions) trying() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tried
}

func (k *sessions) release(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.uses--
	k.bury(s)
}

func (k *sessions) isStopped() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopped
}

// stop ends all sessions and with them the calls under way.
func (k *sessions) stop() {
	k.cancel()
	k.mu.Lock()
	k.stopped, k.shared = true, nil
	live := slices.Collect(maps.Keys(k.live))
	close(k.tried) // there are no more tries
	k.mu.Unlock()
	for _, s := range live {
		k.burials.Go(s.close)
	}
	k.burials.Wait()
}
