package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// fakeRuns keeps runs in memory. What a run does is a play: a function by the
// name of its tool.
type fakeRuns struct {
	plays map[string]func(*play)

	startErr func() error // before every Start
	getErr   func() error // before every Get

	answerErr func() error // before every Answer
	late      bool         // List knows of nothing yet
	away      bool         // the index is
	ctx       context.Context

	mu     sync.Mutex
	news   chan struct{} // closed at the next change
	runs   map[runs.RunID]*fakeRun
	starts int
	counts int // how often Held was asked
	serial int
	looks  map[runs.RunID]int // for progress
	shown  map[runs.RunID]int // how often Show has read it
	answer []runs.Answer      // all that came
	idle   bool               // no worker takes an answer
	busy   time.Duration      // after which what is signalled is in a history

	delivered []delivery
	onDeliver func() error // before every Deliver
}

type fakeRun struct {
	run     runs.Run
	req     runs.StartRequest
	events  []runs.Event
	reason  string // why it was cancelled
	stopped bool
	// what the backends of steps under way tell
	progress []runs.StepProgress
	won      int // answers that were taken

	forwarded string // the name under which what the request forwards is kept
}

// play is the inside of one run.
type play struct {
	f     *fakeRuns
	id    runs.RunID
	total int
	done  int
}

func newFakeRuns(t *testing.T, plays map[string]func(*play)) *fakeRuns {
	return &fakeRuns{plays: plays, ctx: t.Context(), news: make(chan struct{}), runs: map[runs.RunID]*fakeRun{}, looks: map[runs.RunID]int{}, shown: map[runs.RunID]int{}}
}

// change runs f and wakes all that wait for news.
func (f *fakeRuns) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.news)
	f.news = make(chan struct{})
}

// wait waits until ok says so.
func (f *fakeRuns) wait(ctx context.Context, ok func() bool) bool {
	for {
		f.mu.Lock()
		news, holds := f.news, ok()
		f.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

func (f *fakeRuns) Start(ctx context.Context, req runs.StartRequest) (runs.Started, error) {
	if f.startErr != nil {
		if err := f.startErr(); err != nil {
			return runs.Started{}, err
		}
	}
	started := runs.Started{ID: req.ID}
	var lacks error
	f.change(func() {
		f.starts++
		if started.ID == "" {
			f.serial++
			started.ID = runs.RunID(fmt.Sprintf("%s/new%d", req.Definition.Name, f.serial))
		}
		if f.runs[started.ID] != nil {
			started.Attached = true
			return
		}
		if lacks = req.Lacks; lacks != nil {
			return
		}
		f.runs[started.ID] = &fakeRun{req: req, run: runs.Run{ID: started.ID, Tool: req.Definition.Name,
			Status: "running", Caller: req.Caller.Subject, Started: time.Now(), Request: req.Request}}
		p := &play{f: f, id: started.ID, total: len(req.Definition.Steps)}
		go f.plays[req.Definition.Name](p)
	})
	if lacks != nil {
		return runs.Started{}, lacks
	}
	if req.Keep != nil {
		as, _, err := req.Keep(ctx, started.ID)
		if !started.Attached {
			f.change(func() { f.runs[started.ID].forwarded = as })
		}
		return started, err
	}
	return started, nil
}

func (f *fakeRuns) Held(_ context.Context, caller string) (held runs.Held, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts++
	if f.away {
		return runs.Held{}, runs.ErrIndexAway
	}
	for _, r := range f.runs {
		if f.late || r.run.Caller != caller || r.run.Closed != nil {
			continue
		}
		held.Open++
		if len(r.run.Open()) > 0 {
			held.Waiting++
		}
	}
	return held, nil
}

func (f *fakeRuns) Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error] {
	return func(yield func(runs.Event, error) bool) {
		f.mu.Lock()
		r := f.runs[id]
		f.mu.Unlock()
		if r == nil {
			yield(runs.Event{}, runs.ErrNotFound)
			return
		}
		for next := int(after); f.wait(ctx, func() bool { return next < len(r.events) }); next++ {
			f.mu.Lock()
			e := r.events[next]
			f.mu.Unlock()
			if !yield(e, nil) || e.Kind == runs.EventDone {
				return
			}
		}
	}
}

func (f *fakeRuns) Get(_ context.Context, id runs.RunID) (*runs.Run, error) {
	if f.getErr != nil {
		if err := f.getErr(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r == nil {
		return nil, runs.ErrNotFound
	}
	run := r.run
	run.Elicitations = slices.Clone(run.Elicitations)
	return &run, nil
}

func (f *fakeRuns) Progress(_ context.Context, id runs.RunID) ([]runs.StepProgress, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks[id]++
	return slices.Clone(f.runs[id].progress), nil
}

func (f *fakeRuns) Show(ctx context.Context, id runs.RunID) (*runs.Detail, error) {
	run, err := f.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	f.change(func() { f.shown[id]++ })
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runs.Detail{Run: *run, Digest: f.runs[id].req.Definition.Digest(), Arguments: f.runs[id].req.Arguments, Forwarded: f.runs[id].forwarded,
		OnDisconnect: f.runs[id].req.Definition.OnDisconnect}, nil
}

func (f *fakeRuns) Answer(_ context.Context, id runs.RunID, a runs.Answer) (runs.Decision, error) {
	var decision runs.Decision
	var err error
	if f.answerErr != nil {
		if err := f.answerErr(); err != nil {
			return decision, err
		}
	}
	f.change(func() {
		f.answer = append(f.answer, a)
		if f.idle {
			err = fmt.Errorf("answering: %w: %w", runs.ErrUntaken, context.DeadlineExceeded)
			return
		}
		r := f.runs[id]
		if r == nil {
			err = runs.ErrNotFound
			return
		}
		i := slices.IndexFunc(r.run.Elicitations, func(e runs.Elicitation) bool { return e.ID == a.ElicitationID })
		if i < 0 {
			err = runs.ErrNoSuchGate
			return
		}
		e := &r.run.Elicitations[i]
		if e.State != "open" {
			decision = runs.Decision{Action: e.Action, By: e.By}
			return
		}
		if a.Question != "" && a.Question != e.Digest {
			err = &runs.InvalidAnswerError{Reason: "something else is asked now"}
			return
		}
		if a.Via != runs.ViaPage && e.Mode == definitions.URLMode || a.Allowed != nil && !a.Allowed(*e) {
			err = runs.ErrNotPermitted
			return
		}
		if a.Action == "accept" {
			if bad := definitions.CheckAnswer(e.Schema, a.Content); bad != nil {
				err = &runs.InvalidAnswerError{Reason: bad.Error()}
				return
			}
		}
		decision = runs.Decision{Won: true, Action: a.Action, By: a.By}
		e.State, e.Action, e.By, e.AnswerID = "answered", a.Action, a.By, a.QuestionName+"1"
		r.won++
		r.add(runs.Event{Kind: runs.EventClosed, Elicitation: ptr(*e)})
	})
	return decision, err
}

func (f *fakeRuns) ReportQuestion(_ context.Context, id runs.RunID, elicitation string, a runs.Question) error {
	f.change(func() {
		r := f.runs[id]
		for i := range r.run.Elicitations {
			e := &r.run.Elicitations[i]
			known := slices.ContainsFunc(e.Questions, func(k runs.Question) bool { return k.Name == a.Name })
			if e.ID == elicitation && e.State == "open" && !known {
				e.Questions = append(slices.Clone(e.Questions), a)
				r.add(runs.Event{Kind: runs.EventQuestion, Elicitation: ptr(*e), Question: &a})
			}
		}
	})
	return nil
}

func (f *fakeRuns) Cancel(_ context.Context, id runs.RunID, reason string) error {
	err := runs.ErrNotFound
	f.change(func() {
		if r := f.runs[id]; r != nil && !r.stopped {
			err = nil
			r.reason = reason
			r.run.Cancelling = true
			r.end("cancelled", runs.Outcome{Failure: &runs.Failure{Error: runs.Error{Code: "cancelled", Category: "cancelled", Message: reason}}})
		}
	})
	return err
}

func (f *fakeRuns) List(_ context.Context, filter runs.Filter) ([]runs.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []runs.Run
	for _, r := range f.runs {
		if r.matches(filter) && !f.late {
			run := r.run
			run.Elicitations = slices.Clone(run.Elicitations)
			found = append(found, run)
		}
	}
	slices.SortFunc(found, func(a, b runs.Run) int { return b.Started.Compare(a.Started) })
	return found, nil
}

func (r *fakeRun) matches(f runs.Filter) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(f.Caller, r.run.Caller) && is(f.Tool, r.run.Tool) && is(f.Request, r.run.Request)
}

func (f *fakeRuns) Attach(ctx context.Context, id runs.RunID, a runs.Attended) (noted bool, err error) {
	if f.busy > 0 {
		time.AfterFunc(f.busy, func() { _, _ = f.attach(id, a) })
		_, err := f.Get(ctx, id)
		return err == nil, err
	}
	return f.attach(id, a)
}

func (f *fakeRuns) attach(id runs.RunID, a runs.Attended) (noted bool, err error) {
	f.change(func() {
		r := f.runs[id]
		if r == nil {
			err = runs.ErrNotFound
			return
		}
		if noted = !r.stopped; !noted {
			return
		}
		if a.Says == runs.Named {
			r.run.Request = a.Request
		}
		r.add(runs.Event{Kind: runs.EventAttended, Attended: &a, At: time.Now()})
	})
	return noted, err
}

func (f *fakeRuns) Deliver(_ context.Context, caller string, all []runs.RunID) error {
	if f.onDeliver != nil {
		if err := f.onDeliver(); err != nil {
			return err
		}
	}
	f.change(func() {
		for _, run := range all {
			f.delivered = append(f.delivered, delivery{caller, run})
		}
	})
	return nil
}

func (f *fakeRuns) Delivered(_ context.Context, caller string, id runs.RunID, _ time.Time) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.delivered, delivery{caller, id}), nil
}

// says reports, with the lock held, whether a run was told something by a request.
func (f *fakeRuns) says(id runs.RunID, what runs.Attendance) bool {
	return slices.ContainsFunc(f.runs[id].events, func(e runs.Event) bool {
		return e.Kind == runs.EventAttended && e.Attended.Says == what
	})
}

type delivery struct {
	caller string
	run    runs.RunID
}

func (f *fakeRuns) Result(_ context.Context, id runs.RunID) (*runs.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r == nil {
		return nil, runs.ErrNotFound
	}
	if last := len(r.events) - 1; last >= 0 && r.events[last].Outcome != nil {
		return r.events[last].Outcome, nil
	}
	return nil, runs.ErrNotFinished
}

// ListPage gives two runs at a time.
func (f *fakeRuns) ListPage(ctx context.Context, filter runs.Filter, from string) (page []runs.Run, next string, err error) {
	all, err := f.List(ctx, filter)
	begin, _ := strconv.Atoi(from)
	if begin+2 < len(all) {
		next = strconv.Itoa(begin + 2)
	}
	return all[begin:min(begin+2, len(all))], next, err
}

// only waits for the one run that there is.
func (f *fakeRuns) only(t *testing.T) runs.RunID {
	t.Helper()
	var id runs.RunID
	f.wait(t.Context(), func() bool {
		for id = range f.runs {
		}
		return len(f.runs) > 0
	})
	if len(f.runs) > 1 {
		t.Fatalf("there are %d runs, want 1", len(f.runs))
	}
	return id
}

// begins finds a run by the beginning of its ID.
func (f *fakeRuns) begins(t *testing.T, with string) runs.RunID {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.runs {
		if strings.HasPrefix(string(id), with) {
			return id
		}
	}
	t.Fatalf("run %s not found…", with)
	return ""
}

func (f *fakeRuns) snapshot(id runs.RunID) fakeRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.runs[id]
}

func (f *fakeRuns) answers() []runs.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.answer)
}

// add and end are called with the lock held.
func (r *fakeRun) add(e runs.Event) {
	e.Seq = int64(len(r.events) + 1)
	r.events = append(r.events, e)
}

func (r *fakeRun) end(status runs.Status, o runs.Outcome) {
	if r.stopped {
		return
	}
	r.stopped = true
	o.Status = status
	now := time.Now()
	r.run.Status, r.run.Closed = status, &now
	for i := range r.run.Elicitations {
		if e := &r.run.Elicitations[i]; e.State == "open" {
			e.State = "dropped"
			r.add(runs.Event{Kind: runs.EventClosed, Elicitation: ptr(*e)})
		}
	}
	r.add(runs.Event{Kind: runs.EventDone, Outcome: &o})
}

func (p *play) run() *fakeRun { return p.f.runs[p.id] }

func (p *play) begin(path, what string) {
	p.f.change(func() {
		p.run().add(runs.Event{Kind: runs.EventStep, StepID: path, StepPath: runs.StepPath(path), What: what, Done: float64(p.done), Total: float64(p.total)})
	})
}

func (p *play) finish(path string) {
	p.f.change(func() {
		p.done++
		p.run().add(runs.Event{Kind: runs.EventStep, StepID: path, StepPath: runs.StepPath(path), StepEnded: true, StepStatus: "completed", Done: float64(p.done), Total: float64(p.total)})
	})
}

func (p *play) step(path string) { p.begin(path, "be_"+path); p.finish(path) }

// open opens elicitations at once.
func (p *play) open(gates ...runs.Elicitation) {
	p.f.change(func() {
		r := p.run()
		for _, e := range gates {
			e.StepPath, e.State, e.Opened = cmp.Or(e.StepPath, runs.StepPath(e.StepID)), "open", time.Now()
			if e.ID == "" {
				e.ID = e.StepID + "#1"
			}
			r.run.Elicitations = append(r.run.Elicitations, e)
		}
		for _, e := range r.run.Elicitations[len(r.run.Elicitations)-len(gates):] {
			r.add(runs.Event{Kind: runs.EventOpened, Elicitation: ptr(e), Beside: slices.Clone(r.run.Elicitations), Done: float64(p.done), Total: float64(p.total)})
		}
	})
}

// answered waits until an elicitation is not open any more.
func (p *play) answered(id string) runs.Elicitation {
	var found runs.Elicitation
	p.f.wait(p.f.ctx, func() bool {
		for _, e := range p.run().run.Elicitations {
			if e.ID == id {
				found = e
			}
		}
		return found.State != "open" || p.run().stopped
	})
	return found
}

// expire closes an elicitation that has no answer.
func (p *play) expire(id string) {
	p.f.change(func() {
		r := p.run()
		for i := range r.run.Elicitations {
			if e := &r.run.Elicitations[i]; e.ID == id {
				e.State = "expired"
				r.add(runs.Event{Kind: runs.EventClosed, Elicitation: ptr(*e)})
			}
		}
	})
}

func (p *play) complete(output string) {
	p.f.change(func() { p.run().end("completed", runs.Outcome{Output: json.RawMessage(output)}) })
}

func (p *play) fail(f runs.Failure) {
	p.f.change(func() { p.run().end("failed", runs.Outcome{Failure: &f}) })
}

// arguments of the call.
func (p *play) arguments() string {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	return string(p.run().req.Arguments)
}

func ptr[T any](v T) *T { return &v }

// fakeCatalogue is a catalogue whose tools and calls a test sets.
type fakeCatalogue struct {
	mu       sync.Mutex
	tools    []backends.Tool
	onChange []func()
	call     func(context.Context, backends.Call) (*backends.Result, error)
	unseen   string // backend that has not answered yet; "" = none
	comes    func() // when it is waited for; nil = it does not
}

func (c *fakeCatalogue) Await(context.Context, string) bool {
	if c.comes == nil {
		return false
	}
	c.comes()
	return true
}

func (c *fakeCatalogue) Unseen(name string) (string, bool) {
	_, known := c.Find(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unseen, !known && c.unseen != "" && strings.HasPrefix(name, c.unseen+"_")
}

func (c *fakeCatalogue) Tools() []backends.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

func (c *fakeCatalogue) Find(name string) (backends.Tool, bool) {
	for _, t := range c.Tools() {
		if t.Name == name || t.Backend+"."+t.Original == name {
			return t, true
		}
	}
	return backends.Tool{}, false
}

func (c *fakeCatalogue) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	if c.call == nil {
		return nil, errors.New("no call expected")
	}
	return c.call(ctx, call)
}

func (c *fakeCatalogue) OnChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onChange = append(c.onChange, f)
}

func (c *fakeCatalogue) set(tools ...backends.Tool) {
	c.mu.Lock()
	c.tools = tools
	changed := slices.Clone(c.onChange)
	c.mu.Unlock()
	for _, f := range changed {
		f()
	}
}

func tool(name string) backends.Tool {
	return backends.Tool{Name: "be_" + name, Backend: "be", Original: name, Effect: "unsafe",
		Description: "tool " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}
}

// define parses definitions; each line of yaml represents itself.
func define(t *testing.T, yaml string) []*definitions.Definition {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(yaml))
	perduretest.NoError(t, diags.Err())
	return defs
}

// simple is a definition with parameters, one tool step and a gate.
func simple(name string) string {
	return fmt.Sprintf(`
name: %s
description: does %[1]s
parameters: {type: object, properties: {message: {type: string}, n: {type: integer, default: 1}}}
steps:
  - {id: a, tool: be_echo, arguments: {message: "{{.params.message}}"}}
  - {id: b, tool: be_echo, dependsOn: [a]}
`, name)
}

// world is a gateway with everything around it.
type world struct {
	*testing.T
	runs      *fakeRuns
	catalogue *fakeCatalogue
	gateway   *gateway.Gateway
	url       string
	opts      gateway.Options
}

var testKey = []byte("a key that all replicas share")

// newWorld starts a gateway with a composite tool for each play. Callers are
// named by a header, so that there can be several.
func newWorld(t *testing.T, plays map[string]func(*play), change ...func(*gateway.Options)) *world {
	t.Helper()
	w := &world{T: t, runs: newFakeRuns(t, plays), catalogue: &fakeCatalogue{tools: []backends.Tool{tool("echo")}}}
	w.opts = gateway.Options{
		Runs: w.runs, Catalogue: w.catalogue,
		Keys:   gateway.Keys{Key: testKey},
		Timing: gateway.Timing{Patience: -1, KeepAlive: time.Minute},
		Access: gateway.Access{Authenticate: func(r *http.Request) (auth.Identity, error) {
			name := r.Header.Get("X-Caller")
			if name == "nobody" {
				return auth.Identity{}, errors.New("unknown caller")
			}
			return auth.Identity{Subject: "user-" + name}, nil
		}},
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&w.opts)
	}
	w.gateway, w.url = w.replica()
	return w
}

// replica starts another gateway over the same runs.
func (w *world) replica() (*gateway.Gateway, string) {
	w.Helper()
	g, err := gateway.New(w.opts)
	if err != nil {
		w.Fatal(err)
	}
	var defs []*definitions.Definition
	for name := range w.runs.plays {
		defs = append(defs, define(w.T, simple(name))...)
	}
	g.SetDefinitions(defs)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	server := web.New(web.Options{
		Handler: g.Handler(), MaxBody: 64 << 20, Origins: web.OriginPolicy{Origins: []string{"https://chat.example"}}, Logger: w.opts.Logger,
	})
	go func() { _ = server.Serve(l) }() // until it is ended
	w.Cleanup(func() { server.End(0) })
	return g, "http://" + l.Addr().String() + "/mcp"
}

var requestSerial atomic.Int64

func hasAll(s string, parts ...string) error {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return fmt.Errorf("%q lacks %q", s, p)
		}
	}
	return nil
}
