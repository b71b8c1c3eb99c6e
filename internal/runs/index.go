package runs

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Temporal limits how often a namespace's index is asked: by default 10 times a
// second, by all processes together (frontend.namespaceRPS.visibility). A process
// begins with half of that, asks less often while it is refused, and more often
// while it is not.
const (
	indexRate        = 5 // a second
	indexBurst       = 10
	leastRate        = 1
	mostRate         = 1000
	rateGrows        = 1.1
	rateShrinks      = 0.5
	refusedPause     = 250 * time.Millisecond // before a refused question is put again; twice as long each time
	refusedPauseMost = 2 * time.Second

	// indexPatience is how long a question waits for its turn, refusals included.
	indexPatience = 15 * time.Second
	// sayBusy is how often the log has it that the index is asked too often.
	sayBusy = 5 * time.Minute
	// maxKnown bounds the counts that are kept.
	maxKnown = 1000
)

// An index asks Temporal's index of runs for all of a process. The same question at
// the same time is put once; questions wait for their turn.
type index struct {
	ask asker
	log *slog.Logger
	of  func(context.Context) string // for whom a question is put; nil = for all the same

	turns *rate.Limiter
	line  Turns // of those for whom questions wait: one each

	mu      sync.Mutex
	asking  map[string]*question // by kind and text
	known   map[string]knownCount
	refused time.Time // when a refusal has slowed the process down last
	said    time.Time // when the log had it last
}

// An asker asks Temporal; its WorkflowService is one.
type asker interface {
	ListWorkflowExecutions(context.Context, *workflowservice.ListWorkflowExecutionsRequest, ...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error)
	CountWorkflowExecutions(context.Context, *workflowservice.CountWorkflowExecutionsRequest, ...grpc.CallOption) (*workflowservice.CountWorkflowExecutionsResponse, error)
}

// A question is one that is being put.
type question struct {
	done   chan struct{}
	answer proto.Message
	err    error
}

type knownCount struct {
	at    time.Time
	count *workflowservice.CountWorkflowExecutionsResponse
}

func newIndex(ask asker, of func(context.Context) string, log *slog.Logger) *index {
	return &index{ask: ask, of: of, log: log, turns: rate.NewLimiter(indexRate, indexBurst), asking: map[string]*question{}, known: map[string]knownCount{}}
}

// list lists executions.
func (x *index) list(ctx context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	answer, err := x.share(ctx, "list", r, func(ctx context.Context) (proto.Message, error) { return x.ask.ListWorkflowExecutions(ctx, r) })
	list, _ := answer.(*workflowservice.ListWorkflowExecutionsResponse)
	return list, err
}

// count counts executions. An answer of at most that age will do; 0 = only one that
// is given from now on.
func (x *index) count(ctx context.Context, r *workflowservice.CountWorkflowExecutionsRequest, age time.Duration) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	x.mu.Lock()
	was, ok := x.known[r.Query]
	x.mu.Unlock()
	if ok && time.Since(was.at) < age {
		return was.count, nil
	}
	answer, err := x.share(ctx, "count", r, func(ctx context.Context) (proto.Message, error) { return x.ask.CountWorkflowExecutions(ctx, r) })
	count, _ := answer.(*workflowservice.CountWorkflowExecutionsResponse)
	if err == nil && age > 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.known) >= maxKnown {
			clear(x.known)
		}
		x.known[r.Query] = knownCount{time.Now(), count}
	}
	return count, err
}

// share puts a question, or waits for the answer to the same one that waits for its
// turn. One that has its turn already may be answered by what was before.
func (x *index) share(ctx context.Context, kind string, r proto.Message, put func(context.Context) (proto.Message, error)) (proto.Message, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, err
	}
	key := kind + string(text)
	x.mu.Lock()
	q := x.asking[key]
	if q == nil {
		q = &question{done: make(chan struct{})}
		x.asking[key] = q
		go x.put(context.WithoutCancel(ctx), key, q, put)
	}
	x.mu.Unlock()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put puts a question when it is its turn, and again while it is refused.
func (x *index) put(ctx context.Context, key string, q *question, put func(context.Context) (proto.Message, error)) {
	defer close(q.done)
	ctx, cancel := context.WithTimeout(ctx, indexPatience)
	defer cancel()
	waited := x.inLine(ctx, func() error { return x.turns.Wait(ctx) })
	x.leave(key, q)
	if waited != nil { // its turn would come too late
		q.err = errBusy
		return
	}
	for pause := refusedPause; ; pause = min(2*pause, refusedPauseMost) {
		if q.answer, q.err = put(ctx); !refusedForNow(q.err) {
			x.grow(q.err)
			return
		}
		x.shrink()
		if waited := x.inLine(ctx, func() error { return sleep(ctx, pause/2+rand.N(pause)) }); waited != nil {
			q.err = errors.Join(errBusy, q.err)
			return
		}
	}
}

// inLine waits for a question. Of those for whom questions are put, each has one that
// waits at a time: who puts many has the own ones wait, and not those of others.
func (x *index) inLine(ctx context.Context, wait func() error) error {
	if x.of == nil {
		return wait()
	}
	next, err := x.line.Take(ctx, x.of(ctx))
	if err != nil {
		return err
	}
	defer next()
	return wait()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errBusy reports what is to be done about an index that is asked too often.
var errBusy = errors.New("the index of runs in Temporal is queried more often than it allows; try again, or raise frontend.namespaceRPS.visibility")

// probeIndex reports whether the index answers; one that is asked too often does.
func probeIndex(ctx context.Context, ask asker, namespace string) error {
	_, err := ask.CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: "WorkflowId = " + quote(probeID)})
	if err == nil || refusedForNow(err) || refused(err) {
		return nil
	}
	return failure(ctx, "probing the index of", "", err)
}

// leave has the next who puts the same question put it anew.
func (x *index) leave(key string, q *question) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asking[key] == q {
		delete(x.asking, key)
	}
}

// refusedForNow reports whether Temporal has refused to be asked as often.
func refusedForNow(err error) bool {
	var exhausted *serviceerror.ResourceExhausted
	return errors.As(err, &exhausted)
}

// grow has the process ask more often where questions wait for their turn and are
// not refused.
func (x *index) grow(err error) {
	if err == nil && x.turns.Tokens() < 1 {
		x.turns.SetLimit(min(x.turns.Limit()*rateGrows, mostRate))
	}
}

// shrink slows the process down, once for refusals of one moment.
func (x *index) shrink() {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if now.Sub(x.refused) > refusedPause {
		x.refused = now
		x.turns.SetLimit(max(min(x.turns.Limit(), 2*indexRate)*rateShrinks, leastRate))
	}
	if now.Sub(x.said) > sayBusy {
		x.said = now
		x.log.Warn("Temporal's index of runs is queried more often than it allows, so lists and metrics are delayed; raise frontend.namespaceRPS.visibility")
	}
}
