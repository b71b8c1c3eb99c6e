package backends

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/web"
)

const (
	// ConnectTimeout bounds one try to connect. Package runners may download
	// a server at its first start.
	ConnectTimeout = 2 * time.Minute
	// acquireTimeout is how long a call waits for the next try to connect to a backend
	// that is down, and hungTimeout for one that has not answered a try for that long.
	acquireTimeout = 15 * time.Second
	hungTimeout    = 2 * time.Second
	refreshTimeout = 30 * time.Second

	// Pauses between tries double from minPause up to maxPause; a call shortens the pause
	// to minPause.
	minPause = 200 * time.Millisecond
	maxPause = 30 * time.Second
	// maxAskedPause bounds the pause that a backend asks for before the next try.
	maxAskedPause = 5 * time.Minute
	// healthyAfter is how long a session must have lived so that its end does not count
	// as another failure.
	healthyAfter = 10 * time.Second

	// Tools are listed listDebounce after a change, and after growing pauses if changes
	// continue for changesCalm.
	listDebounce = 100 * time.Millisecond
	maxListPause = 30 * time.Second
	changesCalm  = time.Minute
	defaultTTL   = time.Minute
	minTTL       = 10 * time.Second
	maxTTL       = 5 * time.Minute // or it would not show for longer that a backend is gone

	defaultMaxResultBytes = 64 << 20
)

func (c Config) maxResultBytes() int64 {
	if c.MaxResultBytes > 0 {
		return c.MaxResultBytes
	}
	return defaultMaxResultBytes
}

func (c Config) check() error {
	if c.Name == "" {
		return errors.New("a backend needs a name")
	}
	if err := c.checkTransport(); err != nil {
		return fmt.Errorf("backend %s: %w", c.Name, err)
	}
	if len(c.CACertificates) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CACertificates) {
		return fmt.Errorf("backend %s: the CA bundle has no certificate in PEM", c.Name)
	}
	for _, r := range c.Effects {
		if err := r.check(); err != nil {
			return fmt.Errorf("backend %s: %w", c.Name, err)
		}
	}
	return nil
}

func (c Config) checkTransport() error {
	switch c.Transport {
	case Stdio:
		if c.Command == "" {
			return errors.New("transport stdio needs a command")
		}
		if c.Credentials != nil {
			return errors.New("transport stdio has no headers for credentials; give credentials to the process with env")
		}
		return nil
	case StreamableHTTP, SSE:
	default:
		return fmt.Errorf("transport %q: use streamable-http, sse or stdio", c.Transport)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("url %q is not an http or https address", c.URL)
	}
	return nil
}

// A backend keeps one session with one server alive.
//
// Its supervisor (run) connects, lists the tools, and follows changes until
// the session is lost, then begins again. Calls take the current session, or wait for
// the next try to connect.
type backend struct {
	*dialer
	sessions *sessions
	health   *health
	// published is called by the supervisor after tools has changed.
	published func()
	kick      chan struct{}     // makes the supervisor try, or list, now
	listings  Listings          // nil = none
	listed    chan []listedTool // to be kept

	mu      sync.Mutex
	leftOut map[string]string // tools omitted, with reasons, by name
	rules   effectRules
	tools   []Tool // last known, kept while the backend is down, also from before the start; nil = none
}

func newBackend(cfg Config, answers *web.Bodies, logger *slog.Logger, published func()) *backend {
	cfg.Env = maps.Clone(cfg.Env)
	logger = logger.With("backend", cfg.Name)
	d := &dialer{cfg: cfg, logger: logger, meter: newMeter(newAnswerBudget(cfg, answers), cfg.CACertificates)}
	return &backend{rules: cfg.rules(), dialer: d, sessions: newSessions(d), health: newHealth(logger), published: published, kick: make(chan struct{}, 1), listed: make(chan []listedTool, 1)}
}

// run supervises the backend until ctx ends. After the end of a session it connects again
// at once, then with growing pauses.
func (b *backend) run(ctx context.Context) {
	defer b.stop()
	go b.sessions.sweep(ctx)
	if b.listings != nil {
		go b.keepListings(ctx)
	}
	var pause time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		s, ttl, err := b.connect(ctx)
		if err == nil {
			err = b.serve(ctx, s, ttl)
			b.sessions.drop(s)
		} else if ctx.Err() == nil {
			b.health.noteDown(err)
		}
		if ctx.Err() != nil {
			return
		}
		b.logger.Debug("connecting again", "error", err)
		if time.Since(began) > healthyAfter {
			pause = 0
		}
		b.pause(ctx, askedPause(err), pause)
		pause = min(max(2*pause, minPause), maxPause)
	}
}

// askedPause is the pause that a backend asked for when it turned a connection down.
func askedPause(err error) time.Duration {
	var down *TurnedDownError
	if errors.As(err, &down) {
		return min(down.after, maxAskedPause)
	}
	return 0
}

// pause waits for as long as the backend asked for, and at least about d, or less if a
// call wants the backend.
func (b *backend) pause(ctx context.Context, asked, d time.Duration) {
	d = max(d, asked)
	first := max(min(d, minPause), asked)
	least := time.NewTimer(first)
	defer least.Stop()
	select {
	case <-least.C:
	case <-ctx.Done():
		return
	}
	rest := time.NewTimer(time.Duration(float64(d-first) * (0.5 + rand.Float64())))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-b.kick:
	case <-ctx.Done():
	}
}

// connect makes a session, lists the tools and publishes both. It wakes all that wait for
// the try, also if that failed.
func (b *backend) connect(ctx context.Context) (*session, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	b.health.noteTry()
	stop := time.AfterFunc(recallAfter, func() {
		b.health.noteHung()
		b.recall(ctx)
	})
	s, listed, err := b.begin(ctx, Caller{}, false)
	stop.Stop()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it has not answered within %s", ConnectTimeout)
	}
	b.health.noteTried()
	var ttl time.Duration
	if err == nil {
		ttl = b.publish(listed)
	}
	if err != nil {
		b.recall(ctx)
		b.health.noteError(err)
		b.sessions.endTry(nil)
		return nil, 0, err
	}
	b.sessions.endTry(s)
	b.health.noteUp(s.version, len(b.offered()))
	return s, ttl, nil
}

// serve follows the tool list of a session until the session is unusable, and returns why.
func (b *backend) serve(ctx context.Context, s *session, ttl time.Duration) error {
	timer := time.NewTimer(ttl)
	defer timer.Stop()
	var pace listPace
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.lost:
			return b.lossOf(s)
		case <-s.changed:
			b.settle(ctx, s, pace.next())
		case <-b.kick:
		case <-timer.C:
		}
		next, err := b.refreshWithin(ctx, s)
		if err != nil {
			return err
		}
		timer.Reset(next)
	}
}

// settle waits a moment for more changes. The session may be lost meanwhile.
func (b *backend) settle(ctx context.Context, s *session, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-s.changed:
		case <-timer.C:
			return
		case <-s.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

// refreshWithin lists the tools again. A server busy with calls keeps its session even if
// it does not answer in time.
func (b *backend) refreshWithin(ctx context.Context, s *session) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	ttl, err := b.refresh(ctx, s)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && b.sessions.busy(s) {
		return defaultTTL, nil
	}
	return ttl, err
}

func (b *backend) refresh(ctx context.Context, s *session) (ttl time.Duration, err error) {
	headers, err := b.headersFor(ctx, Caller{}, nil)
	if err != nil {
		return 0, err
	}
	s.headers.Store(&headers)
	listed, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	return b.publish(listed), nil
}

// publish takes over the server's list of tools, and returns how long it is valid.
func (b *backend) publish(listed *listing) (ttl time.Duration) {
	tools, leftOut := b.cfg.toolsOf(listed.tools)
	b.mu.Lock()
	known := b.leftOut
	b.tools, b.leftOut = b.rules.classify(tools), leftOut
	b.mu.Unlock()
	if len(leftOut) > 0 && !maps.Equal(known, leftOut) {
		names := slices.Sorted(maps.Keys(leftOut))
		b.logger.Warn("ignoring tools of the backend", "tools", len(names), "first", names[0], "reason", leftOut[names[0]])
	}
	b.published()
	b.keep(listed.tools)
	return bounded(listed.ttl)
}

// bounded is how long a list is valid; ttl is what its server says, 0 = nothing.
func bounded(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return defaultTTL
	}
	return min(max(ttl, minTTL), maxTTL)
}

// reclassify takes other rules over, and gives the known tools their classes.
func (b *backend) reclassify(rules []EffectRule, trusted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = effectRules{rules, trusted}
	if b.tools != nil {
		b.tools = b.rules.classify(b.tools)
	}
}

func (b *backend) lossOf(s *session) error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	if c, ok := s.wire.(*child); ok {
		return c.failure()
	}
	return errors.New("the session was lost")
}

func (b *backend) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// offered are the known tools of the server; nil = it has not answered yet, and what it
// listed before is not known.
func (b *backend) offered() []Tool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tools
}

func (b *backend) status() Status {
	b.mu.Lock()
	tools, leftOut := len(b.tools), b.leftOut
	b.mu.Unlock()
	st := b.health.status(b.cfg.Name, tools)
	st.LeftOut = leftOut
	return st
}

// stop ends all sessions and with them the calls under way.
func (b *backend) stop() {
	b.sessions.stop()
	b.meter.base.CloseIdleConnections()
}
