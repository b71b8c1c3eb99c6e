package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/devserver"
)

// bare runs workflows of the same shapes. Their activities do nothing, or call the tools
// that perdure's steps call.
type bare struct {
	server *devserver.Server
	client client.Client
	worker worker.Worker
	runs   atomic.Int64
	hops   *hops
	gates  sync.Map // of runs that call tools, by ID: a chan struct{}, closed when the run is at its gate
}

// A manner is how a bare workflow makes its calls.
type manner struct {
	Local bool // activities are local ones
	Calls bool // they call tools of the backend
}

const bareQueue = "bare"

func newBare(ctx context.Context, dir, backend string) (*bare, error) {
	debug.SetGCPercent(200) // as dev has it
	quiet := slog.New(slog.DiscardHandler)
	server, err := devserver.Start(ctx, devserver.Options{Dir: filepath.Join(dir, "bare"), Listen: "127.0.0.1:0", Logger: quiet})
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(client.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(quiet),
		ConnectionOptions: client.ConnectionOptions{TLS: server.TLS()}})
	if err != nil {
		server.Stop()
		return nil, err
	}
	w := worker.New(c, bareQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(bareWorkflow, workflow.RegisterOptions{Name: "Bare"})
	w.RegisterActivityWithOptions(nothing, activity.RegisterOptions{Name: "Nothing"})
	b := &bare{server: server, client: c, worker: w}
	w.RegisterActivityWithOptions(b.atGate, activity.RegisterOptions{Name: "AtGate"})
	if b.hops, err = newHops(ctx, b, backend); err == nil {
		w.RegisterActivityWithOptions(b.hops.call, activity.RegisterOptions{Name: "Call"})
		err = w.Start()
	}
	if err != nil {
		c.Close()
		server.Stop()
		return nil, err
	}
	return b, nil
}

func (b *bare) close() {
	b.hops.close()
	b.worker.Stop()
	b.client.Close()
	b.server.Stop()
}

func nothing(context.Context, int) (int, error) { return 0, nil }

// atGate tells who waits for it that a run is at its gate, which is the cheapest way: in
// the process.
func (b *bare) atGate(ctx context.Context) error {
	if at, ok := b.gates.LoadAndDelete(activity.GetInfo(ctx).WorkflowExecution.ID); ok {
		close(at.(chan struct{}))
	}
	return nil
}

// bareWorkflow has the shape that it is told to have.
func bareWorkflow(ctx workflow.Context, shape string, m manner) error {
	call := func(tool string, arguments map[string]any) func(workflow.Context) workflow.Future {
		return func(ctx workflow.Context) workflow.Future { return m.execute(ctx, tool, arguments) }
	}
	echo := call("echo", map[string]any{"message": "hi"})
	switch shape {
	case "one_step":
		return inParallel(ctx, 1, 1, echo)
	case "three_parallel":
		return inParallel(ctx, 3, 3, echo)
	case "chain_of_5":
		return inParallel(ctx, 5, 1, echo)
	case "foreach_50":
		if err := inParallel(ctx, 1, 1, call("list", map[string]any{"n": 50})); err != nil {
			return err
		}
		return inParallel(ctx, 50, 10, echo)
	case "approval":
		if err := inParallel(ctx, 1, 1, echo); err != nil {
			return err
		}
		if m.Calls {
			m.Local = false // the write is unsafe
			ask := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
			if err := workflow.ExecuteLocalActivity(ask, "AtGate").Get(ctx, nil); err != nil {
				return err
			}
		}
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
		return inParallel(ctx, 1, 1, call("count", map[string]any{"key": "k"}))
	}
	return fmt.Errorf("unknown shape %q", shape)
}

func (m manner) execute(ctx workflow.Context, tool string, arguments map[string]any) workflow.Future {
	name, input := "Nothing", []any{1}
	if m.Calls {
		name, input = "Call", []any{tool, arguments}
	}
	if m.Local {
		return workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx,
			workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute}), name, input...)
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx,
		workflow.ActivityOptions{StartToCloseTimeout: time.Minute}), name, input...)
}

// inParallel makes n calls, at most width at a time.
func inParallel(ctx workflow.Context, n, width int, call func(workflow.Context) workflow.Future) error {
	turns := workflow.NewSemaphore(ctx, int64(width))
	done := workflow.NewWaitGroup(ctx)
	var first error
	for range n {
		if err := turns.Acquire(ctx, 1); err != nil {
			return err
		}
		done.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer done.Done()
			defer turns.Release(1)
			if err := call(ctx).Get(ctx, nil); err != nil && first == nil {
				first = err
			}
		})
	}
	done.Wait(ctx)
	return first
}

// measure returns the measurement of bare workflows whose activities do nothing.
func (b *bare) measure(local bool) func(context.Context, shape, int, time.Duration) (figure, figure, error) {
	m := manner{Local: local}
	return func(ctx context.Context, s shape, callers int, d time.Duration) (seq, con figure, err error) {
		for range 10 {
			if err := b.run(ctx, s.name, m, proceed); err != nil {
				return seq, con, err
			}
		}
		var times []time.Duration
		for range s.calls {
			start := time.Now()
			if err := b.run(ctx, s.name, m, proceed); err != nil {
				return seq, con, err
			}
			times = append(times, time.Since(start))
		}
		seq = figure{P50: percentile(times, .5), P99: percentile(times, .99)}
		con.PerSecond, err = b.throughput(ctx, s.name, m, callers, d)
		return seq, con, err
	}
}

func (b *bare) throughput(ctx context.Context, name string, m manner, callers int, d time.Duration) (float64, error) {
	var wg sync.WaitGroup
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(start) < d && ctx.Err() == nil {
				if err := b.run(ctx, name, m, proceed); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(calls.Load()) / time.Since(start).Seconds(), nil
}

// proceed answers at once.
func proceed(context.Context) error { return nil }

// run starts one workflow and waits for its result. An approval goes on after decide, which
// is called when the run is at its gate, or at once where its activities do nothing.
func (b *bare) run(ctx context.Context, name string, m manner, decide func(context.Context) error) error {
	id := fmt.Sprintf("bare-%d", b.runs.Add(1))
	at := make(chan struct{})
	if name == "approval" && m.Calls {
		b.gates.Store(id, at)
	} else {
		close(at)
	}
	run, err := b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue, EnableEagerStart: true}, "Bare", name, m)
	if err != nil {
		return err
	}
	if name == "approval" {
		select {
		case <-at:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := decide(ctx); err != nil {
			return err
		}
		if err := b.client.SignalWorkflow(ctx, id, "", "go", nil); err != nil {
			return err
		}
	}
	return await(ctx, run)
}

// missed is after how long the wait for a result begins again: where events follow each
// other closely, Temporal's poll for the end of a workflow may miss it, and returns after
// 20 s then.
const missed = 500 * time.Millisecond

func await(ctx context.Context, run client.WorkflowRun) error {
	for {
		wait, cancel := context.WithCancel(ctx) // a deadline would make Temporal answer early
		timer := time.AfterFunc(missed, cancel)
		err := run.Get(wait, nil)
		timer.Stop()
		again := err != nil && wait.Err() != nil && ctx.Err() == nil
		cancel()
		if !again {
			return err
		}
	}
}

func percentile(times []time.Duration, p float64) float64 {
	slices.Sort(times)
	return float64(times[max(0, int(math.Ceil(p*float64(len(times))))-1)].Microseconds()) / 1000
}
