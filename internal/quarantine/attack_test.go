package quarantine_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/web"
)

const queue = "quarantine-test"

// operators sign what becomes of quarantined runs.
var operators = keysOf("an operator's")

func keysOf(secret string) *secrets.Keys {
	keys, err := secrets.NewKeys(secrets.FixedKeys([]byte(secret)))
	if err != nil {
		panic(err)
	}
	return keys
}

// TestMain runs the tests, or, where a test has started the program again, a
// worker, which the workflows below can kill.
func TestMain(m *testing.M) {
	if address := os.Getenv("QUARANTINE_WORKER"); address != "" {
		if err := work(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Tests wait for Temporal's timeouts more than they compute.
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// work is the worker, until its standard input ends.
func work(address string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	computing := 2 * time.Minute // of a busy machine, too
	if os.Getenv("QUARANTINE_IMPATIENT") != "" {
		computing = time.Second
	}
	g := quarantine.New(quarantine.Options{TaskQueue: queue, Computing: computing, Keys: operators, Logger: log})
	options := []grpc.DialOption{g.DialOption()}
	if os.Getenv("QUARANTINE_CANNOT_PAUSE") != "" {
		options = append(options, grpc.WithChainUnaryInterceptor(cannotPause))
	}
	pair, err := web.LoadPair(os.Getenv("QUARANTINE_PAIR"))
	if err != nil {
		return err
	}
	c, err := client.Dial(client.Options{
		HostPort: address, Logger: g.Logger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))),
		ConnectionOptions: client.ConnectionOptions{TLS: pair.Client(), DialOptions: options},
	})
	if err != nil {
		return err
	}
	slots, err := worker.NewFixedSizeSlotSupplier(1000)
	if err != nil {
		return err
	}
	tuner, err := g.Tuner(slots, slots)
	if err != nil {
		return err
	}
	w := worker.New(c, queue, worker.Options{Tuner: tuner, DeadlockDetectionTimeout: computing})
	for name, f := range workflowsByName {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	w.Stop()
	return nil
}

// cannotPause is a Temporal that cannot pause workflows.
func cannotPause(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, pauses := req.(*workflowservice.PauseWorkflowExecutionRequest); pauses {
		return grpcstatus.Error(codes.Unimplemented, "workflow pause is not enabled")
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

var workflowsByName = map[string]any{
	// exits takes its worker down after it has been told how often to wait.
	"exits": func(ctx workflow.Context, waits int) error {
		for range waits {
			workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
		}
		kill(func() { os.Exit(137) })
		return nil
	},
	"allocates": func(workflow.Context, int) error {
		kill(func() {
			most := addresses() + 128<<20
			_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most})
			for all := [][]byte{}; ; {
				all = append(all, bytes.Repeat([]byte{1}, 16<<20))
			}
		})
		return nil
	},
	"overflows": func(workflow.Context, int) error {
		kill(func() { debug.SetMaxStack(64 << 20); fmt.Println(overflow(0)) })
		return nil
	},
	// computes never ends, and takes memory while it does not.
	"computes": func(workflow.Context, int) error {
		kill(func() {
			for i := 0; ; i++ {
				if i%1_000_000_000 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
		return nil
	},
	"panics": func(workflow.Context, int) error {
		kill(func() { panic("no") })
		return nil
	},
	// slow takes longer than its workflow tasks may, five times in each worker.
	"slow": func(workflow.Context, int) error {
		if slowness.Add(1) <= 5 {
			time.Sleep(3 * time.Second)
		}
		return nil
	},
	// replays does, too, but yields, and then fails, as a task does that Temporal has
	// given out again meanwhile.
	"replays": func(ctx workflow.Context, _ int) error {
		if slowness.Add(1) > 5 {
			return nil
		}
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			other := workflow.NewChannel(ctx)
			workflow.Go(ctx, func(ctx workflow.Context) { other.Close() })
			other.Receive(ctx, nil)
		}
		panic("the history goes on")
	},
	// waits is a run that does no harm.
	"waits": func(ctx workflow.Context, times int) error {
		for range times {
			workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
		}
		return nil
	},
}

var slowness atomic.Int32

// kill does harm, unless the test has mended the program.
func kill(harm func()) {
	if os.Getenv("QUARANTINE_MENDED") == "" {
		harm()
	}
}

// addresses gives the bytes of addresses that this process has.
func addresses() uint64 {
	var pages uint64
	if b, err := os.ReadFile("/proc/self/statm"); err != nil {
		panic(err)
	} else if _, err := fmt.Sscan(string(b), &pages); err != nil {
		panic(err)
	}
	return pages * uint64(os.Getpagesize())
}

// overflow recurses until the stack is too large.
func overflow(n int) int {
	if n < 0 {
		return 0
	}
	return 1 + overflow(n+1)
}

// A bench is a Temporal with a worker that is started again when it is gone.
type bench struct {
	t      *testing.T
	client client.Client
	addr   string

	mu     sync.Mutex
	env    []string
	deaths int
	worker *exec.Cmd
	ready  bool // that worker
	stdin  io.Closer
	output bytes.Buffer
	done   chan struct{} // no worker is started any more
	stop   bool
}

func newBench(t *testing.T, env ...string) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Temporal server")
	}
	dir := t.TempDir()
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	c, err := client.Dial(client.Options{
		HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{TLS: server.TLS()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &bench{t: t, client: c, addr: server.Address(), env: append(env, "QUARANTINE_PAIR="+devserver.KeyFile(dir)), done: make(chan struct{})}
	started := make(chan struct{})
	go b.supervise(started)
	<-started
	t.Cleanup(b.end)
	return b
}

// supervise keeps a worker running.
func (b *bench) supervise(started chan struct{}) {
	defer close(b.done)
	for first := true; ; first = false {
		b.mu.Lock()
		if b.stop {
			b.mu.Unlock()
			return
		}
		b.worker = exec.Command(os.Args[0])
		b.worker.Env = append(append(os.Environ(), "QUARANTINE_WORKER="+b.addr, "GOTRACEBACK=none"), b.env...)
		b.worker.Stderr = &locked{b: b}
		stdin, _ := b.worker.StdinPipe()
		stdout, _ := b.worker.StdoutPipe()
		b.stdin, b.ready = stdin, false
		err := b.worker.Start()
		b.mu.Unlock()
		if err != nil {
			b.t.Error(err)
			return
		}
		_, _ = io.ReadFull(stdout, make([]byte, len("ready\n")))
		b.mu.Lock()
		b.ready = true
		b.mu.Unlock()
		if first {
			close(started)
		}
		err = b.worker.Wait()
		b.mu.Lock()
		if err != nil && !b.stop {
			b.deaths++
		}
		b.mu.Unlock()
	}
}

type locked struct{ b *bench }

func (l *locked) Write(p []byte) (int, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		if strings.HasPrefix(line, "time=") || strings.HasPrefix(line, "fatal") || strings.HasPrefix(line, "runtime:") { // and no stacks
			l.b.output.WriteString(line)
		}
	}
	return len(p), nil
}

// mend has the next worker do no harm, and waits until it is there.
func (b *bench) mend() {
	b.t.Helper()
	b.mu.Lock()
	b.env = append(b.env, "QUARANTINE_MENDED=1")
	b.stdin.Close()
	b.mu.Unlock()
	b.await("a mended worker", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.ready && slices.Contains(b.worker.Env, "QUARANTINE_MENDED=1")
	})
}

func (b *bench) end() {
	b.mu.Lock()
	b.stop = true
	b.stdin.Close()
	b.mu.Unlock()
	<-b.done
	if b.t.Failed() {
		b.t.Logf("the workers said:\n%s", b.output.String())
	}
}

func (b *bench) died() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deaths
}

// start starts a run of a workflow.
func (b *bench) start(name, id string, n int) {
	b.t.Helper()
	_, err := b.client.ExecuteWorkflow(b.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue, WorkflowTaskTimeout: 2 * time.Second}, name, n)
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) tell(id string) {
	b.t.Helper()
	if err := b.client.SignalWorkflow(b.t.Context(), id, "", "go", nil); err != nil {
		b.t.Fatal(err)
	}
}

// await waits until something is so.
func (b *bench) await(what string, so func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("in five minutes: not %s", what)
		}
	}
}

func (b *bench) status(id string) enumspb.WorkflowExecutionStatus {
	b.t.Helper()
	d, err := b.client.DescribeWorkflowExecution(b.t.Context(), id, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return d.WorkflowExecutionInfo.Status
}

func (b *bench) awaitStatus(id string, want enumspb.WorkflowExecutionStatus) {
	b.t.Helper()
	b.await(id+" is "+want.String(), func() bool { return b.status(id) == want })
}

func (b *bench) history(id string) []*historypb.HistoryEvent {
	b.t.Helper()
	var all []*historypb.HistoryEvent
	for events := b.client.GetWorkflowHistory(b.t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e, err := events.Next()
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func (b *bench) signals(id, name string) int {
	n := 0
	for _, e := range b.history(id) {
		if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == name {
			n++
		}
	}
	return n
}

func (b *bench) unpause(id string) {
	b.t.Helper()
	_, err := b.client.WorkflowService().UnpauseWorkflowExecution(b.t.Context(), &workflowservice.UnpauseWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowId: id, Reason: "again",
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

const (
	paused    = enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
	completed = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	running   = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
)

// TestAttackWorkerKiller has runs take their workers down in each way that a
// process can end. Each costs three workers and is then left alone, while the runs
// beside it go on.
func TestAttackWorkerKiller(t *testing.T) {
	for _, how := range []string{"exits", "allocates", "overflows"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for i := range 5 {
				b.start("waits", fmt.Sprintf("before-%d", i), 1)
			}
			b.start(how, "killer", 0)
			b.awaitStatus("killer", paused)
			b.await("three workers die", func() bool { return b.died() == 3 })
			for i := range 5 {
				b.start("waits", fmt.Sprintf("after-%d", i), 1)
				b.tell(fmt.Sprintf("after-%d", i))
				b.tell(fmt.Sprintf("before-%d", i))
			}
			for i := range 5 {
				b.awaitStatus(fmt.Sprintf("after-%d", i), completed)
				b.awaitStatus(fmt.Sprintf("before-%d", i), completed)
			}
			record := quarantine.NewRecord(b.execution("killer"), nil)
			for _, e := range b.history("killer") {
				record.Add(e)
			}
			// Temporal may hand a task to the poll of a worker that has just died, which
			// is one loss more.
			alone := slices.DeleteFunc(slices.Clone(record.Losses), func(l quarantine.Loss) bool { return !l.Alone })
			if record.Since.IsZero() || record.Losses[0].Alone || len(alone) != 2 || !strings.Contains(record.Why(), "nothing else") {
				t.Errorf("the record is %+v: %s", record, record.Why())
			}

			// Released, it costs two more workers; mended, it goes on.
			b.unpause("killer")
			b.await("two more workers die", func() bool { return b.died() == 5 })
			b.awaitStatus("killer", paused)
			b.mend()
			b.unpause("killer")
			b.awaitStatus("killer", completed)
			if n := b.died(); n != 5 {
				t.Errorf("%d workers died, not 5", n)
			}
		})
	}
}

func (b *bench) execution(id string) string {
	d, err := b.client.DescribeWorkflowExecution(b.t.Context(), id, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return d.WorkflowExecutionInfo.Execution.RunId
}

// TestAttackKillersTogether has several killers under way at once, beside many
// runs that do no harm and are lost with each worker.
func TestAttackKillersTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	killers := []string{"killer-a", "killer-b", "killer-c"}
	for _, id := range killers {
		b.start("exits", id, 1)
	}
	const innocent = 30
	for i := range innocent {
		b.start("waits", fmt.Sprintf("innocent-%d", i), 2)
	}
	for _, id := range killers {
		b.tell(id)
		for i := range innocent {
			if i%len(killers) == slices.Index(killers, id) {
				b.tell(fmt.Sprintf("innocent-%d", i))
			}
		}
	}
	for _, id := range killers {
		b.awaitStatus(id, paused)
	}
	for i := range innocent {
		b.tell(fmt.Sprintf("innocent-%d", i))
	}
	for i := range innocent {
		b.awaitStatus(fmt.Sprintf("innocent-%d", i), completed)
	}
	if n := b.died(); n > 3*len(killers) {
		t.Errorf("%d workers died of %d killers", n, len(killers))
	}
}

// TestAttackKillerWithALongHistory has a run kill its worker when its history no
// longer comes with the task at once.
func TestAttackKillerWithALongHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const waits = 400
	b.start("exits", "killer", waits)
	for range waits {
		b.tell("killer")
	}
	b.awaitStatus("killer", paused)
	if n := b.died(); n != 3 {
		t.Errorf("%d workers died, not 3", n)
	}
}

// TestAttackEndlessComputing gives a run that the worker cannot stop.
func TestAttackEndlessComputing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "QUARANTINE_IMPATIENT=1")
	b.start("computes", "busy", 0)
	b.awaitStatus("busy", paused)
	b.start("waits", "w", 0)
	b.awaitStatus("w", completed)
}

// TestFailingIsNoLoss shows that a run whose task fails again and again is not
// quarantined, and that its history does not grow with marks.
func TestFailingIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start("panics", "sick", 0)
	b.await("many attempts", func() bool {
		d, err := b.client.DescribeWorkflowExecution(t.Context(), "sick", "")
		return err == nil && d.GetPendingWorkflowTask().GetAttempt() >= 4
	})
	if n := b.signals("sick", quarantine.BegunSignal); n != 1 || b.signals("sick", quarantine.SurvivedSignal) != n || b.status("sick") != running {
		t.Errorf("it was executed alone %d times and survived %d, and is %s", n, b.signals("sick", quarantine.SurvivedSignal), b.status("sick"))
	}
	b.mend()
	b.awaitStatus("sick", completed)
	if n := b.died(); n != 0 {
		t.Errorf("%d workers died", n)
	}
}

// TestKillerWhereTemporalCannotPause shows that a run is not executed any more
// also where Temporal cannot pause it.
func TestKillerWhereTemporalCannotPause(t *testing.T) {
	t.Parallel()
	b := newBench(t, "QUARANTINE_CANNOT_PAUSE=1")
	b.start("exits", "killer", 0)
	b.awaitEvent("killer", func(e *historypb.HistoryEvent) bool {
		return strings.Contains(e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage(), quarantine.Reason)
	})
	b.tell("killer") // a signal has it handed out once more
	b.start("waits", "w", 0)
	b.awaitStatus("w", completed)
	b.await("another attempt", func() bool {
		d, err := b.client.DescribeWorkflowExecution(t.Context(), "killer", "")
		return err == nil && d.GetPendingWorkflowTask().GetAttempt() >= 3
	})
	if n := b.died(); n != 3 || b.status("killer") != running {
		t.Errorf("%d workers died, and it is %s", n, b.status("killer"))
	}
	b.mend()
	b.decide("killer", quarantine.ReleaseSignal, operators)
	b.awaitStatus("killer", completed)
}

// TestQueryOfAKiller shows that a query of a run that was quarantined and then
// terminated does not do what killed its workers.
func TestQueryOfAKiller(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start("exits", "killer", 1)
	b.awaitEvent("killer", func(e *historypb.HistoryEvent) bool { return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED })
	b.tell("killer")
	b.awaitStatus("killer", paused)
	query, err := b.client.QueryWorkflowWithOptions(t.Context(), &client.QueryWorkflowWithOptionsRequest{WorkflowID: "killer", QueryType: client.QueryTypeStackTrace})
	if err != nil || query.QueryRejected == nil {
		t.Errorf("a query while it is paused: %v, %v", query, err)
	}
	perduretest.NoError(t, b.client.TerminateWorkflow(t.Context(), "killer", "", "enough"))
	b.queried("killer")
	if n := b.died(); n != 3 {
		t.Errorf("%d workers died, not 3", n)
	}
}

// TestFailAKiller has a quarantined run fail without being executed. What is asked
// of it afterwards does not execute it either.
func TestFailAKiller(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{nil, {"QUARANTINE_CANNOT_PAUSE=1"}} {
		b := newBench(t, env...)
		b.start("exits", "killer", 1)
		b.start("waits", "healthy", 1)
		for _, id := range []string{"killer", "healthy"} {
			b.awaitEvent(id, func(e *historypb.HistoryEvent) bool { return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED })
		}
		b.tell("killer")
		b.awaitEvent("killer", func(e *historypb.HistoryEvent) bool {
			return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_PAUSED || strings.Contains(e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage(), quarantine.Reason)
		})
		for _, id := range []string{"killer", "healthy"} {
			b.decide(id, quarantine.FailSignal, operators)
		}
		if env == nil {
			b.unpause("killer")
		}
		b.awaitStatus("killer", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)
		var app *temporal.ApplicationError
		var details string
		if err := b.client.GetWorkflow(t.Context(), "killer", "").Get(t.Context(), nil); !errors.As(err, &app) || app.Type() != "quarantined" || app.Details(&details) != nil || details != "details" {
			t.Errorf("it failed with %v, %q", err, details)
		}
		b.queried("killer")
		b.failAtOnce(env == nil)
		b.tell("healthy") // which the signal did not mean
		b.awaitStatus("healthy", completed)
		if n := b.died(); n != 6 {
			t.Errorf("%d workers died, not 6", n)
		}
	}
}

// failAtOnce has a run fail that has killed its workers before it had done
// anything. Nothing can be asked of it.
func (b *bench) failAtOnce(pauses bool) {
	b.t.Helper()
	b.start("exits", "first", 0)
	b.awaitEvent("first", func(e *historypb.HistoryEvent) bool {
		return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_PAUSED || strings.Contains(e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage(), quarantine.Reason)
	})
	b.decide("first", quarantine.FailSignal, operators)
	if pauses {
		b.unpause("first")
	}
	b.awaitStatus("first", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)
	if _, err := b.client.QueryWorkflow(b.t.Context(), "first", "", client.QueryTypeStackTrace); err == nil || !strings.Contains(err.Error(), "before it had done anything") {
		b.t.Errorf("a query ended with %v", err)
	}
}

// queried asks a run that waited, and then killed its workers, where it stands.
func (b *bench) queried(id string) {
	b.t.Helper()
	for range 3 {
		value, err := b.client.QueryWorkflow(b.t.Context(), id, "", client.QueryTypeStackTrace)
		var stack string
		if err != nil || value.Get(&stack) != nil || !strings.Contains(stack, "Receive") {
			b.t.Errorf("a query of %s after its end: %q, %v", id, stack, err)
		}
	}
}

func (b *bench) awaitEvent(id string, is func(*historypb.HistoryEvent) bool) {
	b.t.Helper()
	b.await("an event of "+id, func() bool { return slices.ContainsFunc(b.history(id), is) })
}
