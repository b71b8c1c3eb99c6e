package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// The keys of attributes that no convention names.
const (
	toolKey    = attribute.Key("perdure.tool") // a composite tool
	backendKey = attribute.Key("perdure.backend")
	statusKey  = attribute.Key("perdure.status")  // of a run, or of a step
	waitingKey = attribute.Key("perdure.waiting") // what a run waits for
	kindKey    = attribute.Key("perdure.kind")    // of a gate
	queueKey   = attribute.Key("perdure.queue")
	stateKey   = attribute.Key("perdure.state") // of a breaker
	effectKey  = attribute.Key("perdure.effect")
	runKey     = attribute.Key("perdure.run.id")
	stepKey    = attribute.Key("perdure.step.path")
)

// seconds gives every histogram of durations, those of Temporal's client
// included, buckets from a call that is local to one that takes minutes.
var seconds = sdkmetric.NewView(
	sdkmetric.Instrument{Name: "*", Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
	sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{
		Boundaries: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300},
	}},
)

// instruments count and measure events.
type instruments struct {
	served  metric.Float64Histogram // requests of clients
	called  metric.Float64Histogram // requests to backends
	started metric.Int64Counter     // runs
	ended   metric.Int64Counter     // runs
	step    metric.Float64Histogram // attempts of tool steps
	retries metric.Int64Counter
	unknown metric.Int64Counter
	alone   metric.Int64Counter // workflow tasks
	stopped metric.Int64Counter // runs that are quarantined
	lost    metric.Int64Counter // times that the database of Temporal went back
}

func (i *instruments) make(m metric.Meter) error {
	var errs [10]error
	i.served, errs[0] = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"), metric.WithDescription("How long requests of clients took"))
	i.called, errs[1] = m.Float64Histogram("mcp.client.operation.duration", metric.WithUnit("s"), metric.WithDescription("How long calls of backend tools took"))
	i.started, errs[2] = m.Int64Counter("perdure.runs.started", metric.WithDescription("Runs that this process started"))
	i.ended, errs[3] = m.Int64Counter("perdure.runs.ended", metric.WithDescription("Runs that this process saw end, by status"))
	i.step, errs[4] = m.Float64Histogram("perdure.step.duration", metric.WithUnit("s"), metric.WithDescription("How long attempts of tool steps took, by status"))
	i.retries, errs[5] = m.Int64Counter("perdure.step.retries", metric.WithDescription("Attempts of tool steps after the first"))
	i.unknown, errs[6] = m.Int64Counter("perdure.step.unknown_outcomes") // runs count by this name as well, and cannot describe it
	i.alone, errs[7] = m.Int64Counter("perdure.runs.executed_alone", metric.WithDescription("Workflow tasks that this worker executed beside no other, as a worker may have been lost with them"))
	i.stopped, errs[8] = m.Int64Counter("perdure.runs.quarantined", metric.WithDescription("Runs that this worker has quarantined, as they take their workers down"))
	i.lost, errs[9] = m.Int64Counter("perdure.history.lost", metric.WithDescription("Times that Temporal's database lacked what Temporal had said to this process that it keeps"))
	if errs[9] == nil {
		i.lost.Add(context.Background(), 0) // so that the first time is an increase
	}
	return errors.Join(errs[:]...)
}

// RunStarted counts a run of a composite tool, and adds it to the span of ctx.
func (t *Telemetry) RunStarted(ctx context.Context, tool, id string) {
	if t == nil {
		return
	}
	t.SetRun(ctx, id)
	t.instruments.started.Add(ctx, 1, metric.WithAttributes(toolKey.String(tool)))
}

// RunEnded counts a run that ended. Workflow code may call it.
func (t *Telemetry) RunEnded(tool, status string) {
	if t != nil {
		t.instruments.ended.Add(context.Background(), 1, metric.WithAttributes(toolKey.String(tool), statusKey.String(status)))
	}
}

// RunExecutedAlone counts a workflow task that is executed beside no other.
func (t *Telemetry) RunExecutedAlone() {
	if t != nil {
		t.instruments.alone.Add(context.Background(), 1)
	}
}

// RunQuarantined counts a run that was quarantined.
func (t *Telemetry) RunQuarantined() {
	if t != nil {
		t.instruments.stopped.Add(context.Background(), 1)
	}
}

// HistoryLost counts that Temporal's database lacks what Temporal had written to it.
func (t *Telemetry) HistoryLost() {
	if t != nil {
		t.instruments.lost.Add(context.Background(), 1)
	}
}

// A Step is one attempt of a tool step.
type Step struct {
	Composite string // the composite tool
	Tool      string // that was called
	Backend   string
	Effect    string // class of the tool
	Attempt   int    // 1 = first
	Status    string // completed, or the category of its error
	Unknown   bool   // the outcome is unknown
	Took      time.Duration
}

// StepEnded measures an attempt of a tool step.
func (t *Telemetry) StepEnded(ctx context.Context, s Step) {
	if t == nil {
		return
	}
	which := []attribute.KeyValue{toolKey.String(s.Composite), attribute.String("gen_ai.tool.name", s.Tool), backendKey.String(s.Backend)}
	t.instruments.step.Record(ctx, s.Took.Seconds(), metric.WithAttributes(append(which[:3:3], statusKey.String(s.Status))...))
	if s.Attempt > 1 {
		t.instruments.retries.Add(ctx, 1, metric.WithAttributes(which...))
	}
	if s.Unknown {
		t.instruments.unknown.Add(ctx, 1, metric.WithAttributes(append(which[:3:3], effectKey.String(s.Effect))...))
	}
}

// A Snapshot is the state of all runs of all processes at one time.
type Snapshot struct {
	Runs       map[string]int64         // by status; ended ones until their retention is over
	Waiting    map[string]int64         // runs by what they wait for
	Gates      map[string]int64         // open elicitations by kind
	OldestGate map[string]time.Duration // age of the oldest open one, by kind; none where it is not known
	Backlog    map[string]Backlog       // by task queue
	Limits     map[string]Limits        // by backend that has some
}

// Limits are the state of a backend's limits.
type Limits struct {
	Kept     bool   // a worker hosts them; else the backend is not called
	Breaker  string // closed, open, half-open; "" = none
	UnderWay int64  // calls
	Waiting  int64  // calls in the line
}

// A Backlog is the tasks that no worker has taken yet.
type Backlog struct {
	Tasks int64
	Age   time.Duration // of the oldest one
}

// snapshotAge is how old a snapshot may be when it is given: several requests for
// metrics cost no more than one.
const snapshotAge = 10 * time.Second

const (
	// snapshotLimit bounds taking one, which waits for the rate limit of Temporal's index.
	snapshotLimit = 30 * time.Second
	// snapshotKept is how long the last one is exported while none can be taken.
	snapshotKept = time.Minute
	// snapshotWait is how long a reader of metrics waits for it; a later one is for the
	// next reader.
	snapshotWait = 3 * time.Second
)

// WatchRuns exports the state of all runs with the metrics. take is called when metrics
// are read, at most every 10 s, and once at a time; while it fails, the last snapshot is
// exported for a minute, and then none.
func (t *Telemetry) WatchRuns(take func(context.Context) (Snapshot, error)) error {
	if t == nil || !t.metering {
		return nil
	}
	gauge := func(name, help string) metric.Int64ObservableGauge {
		g, _ := t.meter.Int64ObservableGauge(name, metric.WithDescription(help)) // the names are good
		return g
	}
	age := func(name, help string) metric.Float64ObservableGauge {
		g, _ := t.meter.Float64ObservableGauge(name, metric.WithDescription(help), metric.WithUnit("s"))
		return g
	}
	runs := gauge("perdure.runs", "Runs that are kept, by status")
	waiting := gauge("perdure.runs.waiting", "Runs that wait, by what for")
	gates := gauge("perdure.gates.open", "Elicitations that are open, by kind")
	oldest := age("perdure.gates.oldest.age", "Age of the oldest open elicitation, by kind")
	backlog := gauge("perdure.queue.backlog", "Tasks that no worker has taken up, by task queue")
	lag := age("perdure.queue.lag", "Age of the oldest task that no worker has taken up, by task queue")
	kept := gauge("perdure.backend.limits.kept", "Whether a worker keeps the limits of the backend: 1 or 0")
	breaker := gauge("perdure.backend.breaker", "State of the circuit breaker of the backend: 1 for the one it is in")
	underWay := gauge("perdure.backend.calls.under_way", "Calls of a backend with limits that are under way")
	inLine := gauge("perdure.backend.calls.waiting", "Calls of a backend with limits that have a place in the line")
	c := &cachedSnapshot{take: take, ended: &t.stopped}
	_, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		s, err := c.get(ctx)
		if err != nil { // returning it would prevent the export of all other metrics
			if c.begins() {
				otel.Handle(fmt.Errorf("the state of runs is not exported until it can be read again: %w", err))
			}
			return nil
		}
		observe(o, runs, statusKey, s.Runs)
		observe(o, waiting, waitingKey, s.Waiting)
		observe(o, gates, kindKey, s.Gates)
		for kind, age := range s.OldestGate {
			o.ObserveFloat64(oldest, age.Seconds(), metric.WithAttributes(kindKey.String(kind)))
		}
		for queue, b := range s.Backlog {
			o.ObserveInt64(backlog, b.Tasks, metric.WithAttributes(queueKey.String(queue)))
			o.ObserveFloat64(lag, b.Age.Seconds(), metric.WithAttributes(queueKey.String(queue)))
		}
		for backend, l := range s.Limits {
			which := metric.WithAttributes(backendKey.String(backend))
			o.ObserveInt64(kept, number(l.Kept), which)
			o.ObserveInt64(underWay, l.UnderWay, which)
			o.ObserveInt64(inLine, l.Waiting, which)
			for _, state := range []string{"closed", "half-open", "open"} {
				if l.Breaker != "" {
					o.ObserveInt64(breaker, number(l.Breaker == state), metric.WithAttributes(backendKey.String(backend), stateKey.String(state)))
				}
			}
		}
		return nil
	}, runs, waiting, gates, oldest, backlog, lag, kept, breaker, underWay, inLine)
	return err
}

func observe(o metric.Observer, g metric.Int64ObservableGauge, key attribute.Key, values map[string]int64) {
	for name, n := range values {
		o.ObserveInt64(g, n, metric.WithAttributes(key.String(name)))
	}
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// A cachedSnapshot is taken in a goroutine besides the collection of metrics, which waits
// for it: a request to Temporal may create an instrument, and none can be created during
// collection.
type cachedSnapshot struct {
	take  func(context.Context) (Snapshot, error)
	ended *atomic.Bool // no more requests

	mu       sync.Mutex
	taking   chan struct{} // closed when the current one is taken; nil = none under way
	taken    time.Time     // when the last attempt ended
	good     time.Time     // when snapshot was taken
	snapshot Snapshot      // the last one
	err      error         // of the last attempt
	away     bool          // an outage has begun, and was reported
}

// begins is true once for each outage in which there is no snapshot.
func (c *cachedSnapshot) begins() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	begins := !c.away
	c.away = true
	return begins
}

func (c *cachedSnapshot) get(ctx context.Context) (Snapshot, error) {
	c.mu.Lock()
	if c.taking == nil && time.Since(c.taken) >= snapshotAge && !c.ended.Load() {
		c.taking = make(chan struct{})
		go c.refresh(context.WithoutCancel(ctx), c.taking)
	}
	taking := c.taking
	c.mu.Unlock()
	if taking != nil && !c.ended.Load() {
		select {
		case <-taking:
		case <-time.After(snapshotWait):
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.good) > snapshotKept {
		return Snapshot{}, c.err
	}
	return c.snapshot, nil
}

func (c *cachedSnapshot) refresh(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	snapshot, err := c.take(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken, c.taking, c.err = time.Now(), nil, err
	if err == nil {
		c.good, c.snapshot, c.away = c.taken, snapshot, false
	}
	close(done)
}

// WatchClock exports with the metrics how far the clock of the process is ahead of
// Temporal's; nil = not known.
func (t *Telemetry) WatchClock(ahead func() *time.Duration) error {
	if t == nil || !t.metering {
		return nil
	}
	gauge, err := t.meter.Float64ObservableGauge("perdure.clock.ahead", metric.WithUnit("s"), metric.WithDescription("How far the clock of the process is ahead of Temporal's"))
	if err != nil {
		return err
	}
	_, err = t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if d := ahead(); d != nil {
			o.ObserveFloat64(gauge, d.Seconds())
		}
		return nil
	}, gauge)
	return err
}

// What a process can use, for WatchUp.
const (
	Backends = "backend"
	Needs    = "need" // without it the process takes no calls
	Tools    = "tool" // composite tools
)

// WatchUp exports with the metrics which of a kind are up, by their names.
func (t *Telemetry) WatchUp(kind string, up func() map[string]bool) error {
	if t == nil || !t.metering {
		return nil
	}
	gauge, err := t.meter.Int64ObservableGauge("perdure."+kind+".up", metric.WithDescription("Whether the process can use the "+kind+": 1 or 0"))
	if err != nil {
		return err
	}
	key := attribute.Key("perdure." + kind)
	_, err = t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, is := range up() {
			o.ObserveInt64(gauge, number(is), metric.WithAttributes(key.String(name)))
		}
		return nil
	}, gauge)
	return err
}
