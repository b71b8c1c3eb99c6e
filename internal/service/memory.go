package service

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/workflows"
)

const (
	maxSlots   = 1000                  // of each kind, the default of the SDK
	lookEvery  = 50 * time.Millisecond // while there is no memory
	sweepEvery = time.Second           // at most, while there seems to be none
	inUse      = "/memory/classes/heap/objects:bytes"

	// callMemory is what a call may still take while its function does not run, as its
	// arguments are decoded and its result is encoded: a few copies of the largest value
	// that history has.
	callMemory = 6 * workflows.MaxResultSize

	// valueCopies is what a workflow task takes for a byte of its values: as it is
	// fetched, in its message, decoded, and encoded again for the next call.
	valueCopies = 8
)

// memoryLimit is Go's memory limit in bytes; math.MaxInt64 = none.
func memoryLimit() int64 { return debug.SetMemoryLimit(-1) }

// A memoryGauge reports whether a process has memory for more tasks: until two thirds of its
// limit are in use, or promised to calls. Above half of the limit, workers drop the runs
// that they keep. It is safe for concurrent use; nil = there is always memory.
type memoryGauge struct {
	most     int64 // bytes
	used     func() int64
	promised atomic.Int64 // bytes

	mu    sync.Mutex
	swept time.Time
}

// processMemory is the gauge of this process, of its calls and its workflow tasks.
var processMemory = sync.OnceValue(func() *memoryGauge { return newMemoryGauge(memoryLimit()) })

// newMemoryGauge makes a gauge for a limit in bytes; math.MaxInt64 = none.
func newMemoryGauge(limit int64) *memoryGauge {
	if limit == math.MaxInt64 {
		return nil
	}
	return &memoryGauge{most: limit / 3 * 2, used: usedMemory}
}

// usedMemory is what objects take that live, or died since the last collection.
func usedMemory() int64 {
	sample := []metrics.Sample{{Name: inUse}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// limits reports whether there is no memory for workflow tasks with values of so many
// bytes; nil = there always is.
func (g *memoryGauge) limits() func(bytes int64) bool {
	if g == nil {
		return nil
	}
	return func(bytes int64) bool { return g.full(bytes * valueCopies) }
}

// full reports whether there is no memory for so many bytes more. Garbage does not count:
// a process that waits makes none, so it would not be collected for minutes.
func (g *memoryGauge) full(more int64) bool {
	if g.expected()+more <= g.most {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.swept) >= sweepEvery {
		runtime.GC()
		g.swept = time.Now()
	}
	return g.expected()+more > g.most
}

func (g *memoryGauge) expected() int64 { return g.used() + g.promised.Load() }

// slots gives slots of one kind to one worker while there is memory, and least of them in
// any case, so that what is under way can end. Its worker has the gauge's interceptors.
func (g *memoryGauge) slots(least int) worker.SlotSupplier {
	fixed, err := worker.NewFixedSizeSlotSupplier(maxSlots)
	if err != nil {
		panic(err) // maxSlots is positive
	}
	if g == nil {
		return fixed
	}
	return &slotSupplier{SlotSupplier: fixed, gauge: g, least: least}
}

// tuner is for a worker that takes calls only.
func (g *memoryGauge) tuner() (worker.WorkerTuner, error) {
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: g.slots(1), ActivitySlotSupplier: g.slots(1), LocalActivitySlotSupplier: g.slots(1),
		NexusSlotSupplier: g.slots(1), SessionActivitySlotSupplier: g.slots(1),
	})
}

// interceptors see when the functions of calls begin and end.
func (g *memoryGauge) interceptors() []interceptor.WorkerInterceptor {
	if g == nil {
		return nil
	}
	return []interceptor.WorkerInterceptor{&callWatch{gauge: g}}
}

type callWatch struct {
	interceptor.WorkerInterceptorBase
	gauge *memoryGauge
}

// InterceptActivity has what a call takes counted as in use while its function runs.
func (w *callWatch) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &watchedCall{interceptor.ActivityInboundInterceptorBase{Next: next}, w.gauge}
}

type watchedCall struct {
	interceptor.ActivityInboundInterceptorBase
	gauge *memoryGauge
}

// ExecuteActivity runs the function of a call.
func (c *watchedCall) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	c.gauge.promised.Add(-callMemory)
	defer c.gauge.promised.Add(callMemory)
	return c.Next.ExecuteActivity(ctx, in)
}

// A promise is memory in bytes that the task of a slot may take.
type promise int64

// A slotSupplier gives slots, and promises memory to the tasks that come for them.
type slotSupplier struct {
	worker.SlotSupplier // bounds their number
	gauge               *memoryGauge
	least               int

	mu    sync.Mutex
	given int
}

// ReserveSlot waits until there is a slot, and memory for its task.
func (s *slotSupplier) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
	if err != nil {
		return nil, err
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !s.give() {
		select {
		case <-look.C:
		case <-ctx.Done():
			s.SlotSupplier.ReleaseSlot(nil)
			return nil, ctx.Err()
		}
	}
	return permit, nil
}

// TryReserveSlot takes a slot if there is one, and memory for its task.
func (s *slotSupplier) TryReserveSlot(info worker.SlotReservationInfo) *worker.SlotPermit {
	permit := s.SlotSupplier.TryReserveSlot(info)
	if permit != nil && !s.give() {
		s.SlotSupplier.ReleaseSlot(nil)
		return nil
	}
	return permit
}

// MarkSlotUsed notes that a task has come for a slot.
func (s *slotSupplier) MarkSlotUsed(info worker.SlotMarkUsedInfo) {
	info.Permit().UserData = promise(callMemory)
	s.gauge.promised.Add(callMemory)
}

// ReleaseSlot takes a slot back.
func (s *slotSupplier) ReleaseSlot(info worker.SlotReleaseInfo) {
	if p, ok := info.Permit().UserData.(promise); ok { // else no task has come
		s.gauge.promised.Add(-int64(p))
	}
	s.mu.Lock()
	s.given--
	s.mu.Unlock()
	s.SlotSupplier.ReleaseSlot(info)
}

// give counts one more slot, if it may be given.
func (s *slotSupplier) give() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given >= s.least && s.gauge.full(0) {
		return false
	}
	s.given++
	return true
}
