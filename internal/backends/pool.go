package backends

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errClosed is in the chain of errors of calls after Pool.Close.
var errClosed = errors.New("the backends are closed")

// A Pool holds one long-lived session with each backend, which all calls
// share. It is safe for concurrent use.
type Pool struct {
	agg      atomic.Pointer[Aggregation]
	logger   *slog.Logger
	backends []*backend // as configured
	byName   map[string]*backend

	catalogue atomic.Pointer[catalogue]

	publishing sync.Mutex // one catalogue after the other
	clashes    []string   // as logged last

	mu       sync.Mutex
	onChange []func()

	cancel context.CancelFunc
	ctx    context.Context
	runs   sync.WaitGroup
}

// A Status is that of one backend.
type Status struct {
	Name            string
	Up              bool
	Tried           bool              // the first try to connect has ended
	Error           string            // why it is down; "" when up
	Err             error             // the same; nil when up
	Tools           int               // how many it listed last, without those left out
	LeftOut         map[string]string // why, by name
	Since           time.Time         // when it went up or down
	ProtocolVersion string            // negotiated last; "" if it never was up
}

// New checks the configuration and makes a pool for Start. An error names the backend and
// the mistake. A nil logger discards.
func New(configs []Config, agg Aggregation, logger *slog.Logger) (*Pool, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{logger: logger, byName: map[string]*backend{}}
	p.agg.Store(&agg)
	answers := newAnswers()
	for _, cfg := range configs {
		if err := cfg.check(); err != nil {
			return nil, err
		}
		if p.byName[cfg.Name] != nil {
			return nil, fmt.Errorf("backend %s is configured twice", cfg.Name)
		}
		b := newBackend(cfg, answers, logger, p.publish)
		p.byName[cfg.Name] = b
		p.backends = append(p.backends, b)
	}
	if err := agg.check(); err != nil {
		return nil, err
	}
	p.catalogue.Store(&catalogue{unseen: p.unseen()})
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Keep has what backends list kept, and what they listed last taken over while they do not
// answer. It is called before Start.
func (p *Pool) Keep(listings Listings) {
	for _, b := range p.backends {
		b.listings = listings
	}
}

// Start connects all backends in the background and keeps them connected until Close. It
// uses only the values of ctx, so that calls under way can end after it has.
func (p *Pool) Start(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(p.ctx, cancel)
	for _, b := range p.backends {
		p.runs.Go(func() { b.run(ctx) })
	}
}

// Close ends all sessions and child processes. Calls under way fail.
func (p *Pool) Close() {
	p.cancel()
	p.runs.Wait()
}

// WaitReady waits until every backend was up once, but no longer than d or ctx,
// and reports whether all were.
func (p *Pool) WaitReady(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, b := range p.backends {
		select {
		case <-b.health.wasUp:
		case <-ctx.Done():
			return false
		case <-p.ctx.Done():
			return false
		}
	}
	return true
}

var errNotConfigured = errors.New("the process that took the call up has no such backend in its configuration; restart it with the configuration of the others")

// Call calls a backend's tool and returns its answer, isError or not. A call without an
// answer is a *CallError with its outcome. Only ctx and the backend's Timeout bound the
// call, also where a large answer waits for memory among others. If it ends early, the
// backend gets a cancellation.
func (p *Pool) Call(ctx context.Context, c Call) (*Result, error) {
	refuse := func(err error) (*Result, error) {
		return nil, &CallError{Backend: c.Backend, Tool: c.Tool, Outcome: Refused, Err: err}
	}
	b := p.byName[c.Backend]
	if b == nil { // another process may have it
		return nil, &CallError{Backend: c.Backend, Tool: c.Tool, Outcome: NotSent, Err: errNotConfigured}
	}
	args, err := withKey(c.Arguments, c.KeyArgument, c.IdempotencyKey)
	if err != nil {
		return refuse(err)
	}
	c.Arguments = args
	if b.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
	}
	return b.call(ctx, c)
}

// withKey checks that the arguments are an object and puts the idempotency
// key into the argument that takes it. No other value is touched.
func withKey(args json.RawMessage, argument, key string) (json.RawMessage, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage(`{}`)
	}
	if (argument == "" || key == "") && json.Valid(args) && bytes.TrimSpace(args)[0] == '{' {
		return args, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(args, &object); err != nil || object == nil {
		return nil, errors.New("the arguments are not a JSON object")
	}
	quoted, err := json.Marshal(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the idempotency key: %w", err)
	}
	object[argument] = quoted
	return json.Marshal(object)
}

// Tools returns the catalogue, hidden tools included, sorted by name. One that lost its
// name to another is hidden, under backend.originalName. Tools of a backend that went
// down stay in it as they were known last. The slice is the caller's.
func (p *Pool) Tools() []Tool { return slices.Clone(p.catalogue.Load().tools) }

// Find looks a tool up by its exposed name, else as backend.originalName.
// Hidden tools are found, too.
func (p *Pool) Find(name string) (Tool, bool) { return p.catalogue.Load().find(name) }

// Unseen gives a backend that may offer a tool of this name which Find does not find: one
// that has not answered since the start, and whose last list is not kept. ok is false if
// there is none.
func (p *Pool) Unseen(name string) (backend string, ok bool) {
	c := p.catalogue.Load()
	if _, known := c.find(name); known {
		return "", false
	}
	i := slices.IndexFunc(c.unseen, func(backend string) bool { return p.agg.Load().mayName(backend, name) })
	if i < 0 {
		return "", false
	}
	return c.unseen[i], true
}

// Await tries a backend that has not answered since the start with the current credentials,
// and reports whether its tools are known. It waits at most 15 s, like calls of a backend
// that is down, or until ctx ends.
func (p *Pool) Await(ctx context.Context, backend string) bool {
	b := p.byName[backend]
	return b != nil && b.awaitTools(ctx)
}

// unseen are the backends whose tools are not known.
func (p *Pool) unseen() (names []string) {
	for _, b := range p.backends {
		if b.offered() == nil {
			names = append(names, b.cfg.Name)
		}
	}
	return names
}

// OnChange calls f after every change of the catalogue or of Unseen. f may call the pool; it
// should not block.
func (p *Pool) OnChange(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onChange = append(p.onChange, f)
}

// Reconfigure takes other effect rules over, of backends by their names, and another
// aggregation; the sessions stay. Calls and runs under way keep the classes that they
// have begun with. An error changes nothing.
func (p *Pool) Reconfigure(configs []Config, agg Aggregation) error {
	if err := agg.check(); err != nil {
		return err
	}
	for _, cfg := range configs {
		if err := cfg.check(); err != nil {
			return err
		}
	}
	p.agg.Store(&agg)
	for _, cfg := range configs {
		if b := p.byName[cfg.Name]; b != nil {
			b.reclassify(cfg.Effects, cfg.TrustAnnotations)
		}
	}
	p.publish()
	return nil
}

// Wake tries a backend that is down now, because something has changed.
func (p *Pool) Wake(backend string) {
	if b := p.byName[backend]; b != nil {
		b.wake()
	}
}

// Status gives the status of the backends, in the order of the configuration.
func (p *Pool) Status() []Status {
	all := make([]Status, len(p.backends))
	for i, b := range p.backends {
		all[i] = b.status()
	}
	return all
}

// publish makes a new catalogue of what the backends list now.
func (p *Pool) publish() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	unseen := p.unseen() // before the tools are read, so that no backend is in neither
	var listed []Tool
	var names []string
	for _, b := range p.backends {
		names = append(names, b.cfg.Name)
		listed = append(listed, b.offered()...)
	}
	next, clashes := resolve(*p.agg.Load(), names, listed)
	next.unseen = unseen
	if len(clashes) > 0 && !slices.Equal(clashes, p.clashes) {
		p.logger.Error("ignoring tools with the same name; rename them with overrides", "clashes", clashes)
	}
	p.clashes = clashes
	if reflect.DeepEqual(next, p.catalogue.Swap(next)) {
		return
	}
	p.mu.Lock()
	changed := slices.Clone(p.onChange)
	p.mu.Unlock()
	for _, f := range changed {
		f()
	}
}
