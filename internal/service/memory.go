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

	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/workflows"
)

const (
	maxSlots   = 1000                  // of each kind, the default of the SDK
	lookEvery  = 50 * time.Millisecond // while there is no memory
	sweepEvery = time.Second           // at most, while there seems to be none
	inUse      = "/memory/classes/heap/objects:bytes"

	// taskMemory is what a task counts for while it may not have decoded its arguments: a
	// few copies of the largest that history has.
	taskMemory = 6 * workflows.MaxResultSize
	decodeTime = 100 * time.Millisecond

	// valueCopies is what a workflow task takes for a byte of its values: as it is
	// fetched, in its message, decoded, and encoded again for the next call.
	valueCopies = 8
)

// memoryLimit is Go's memory limit in bytes; math.MaxInt64 = none.
func memoryLimit() int64 { return debug.SetMemoryLimit(-1) }

// A memoryGauge reports whether a process has memory for more tasks: until two thirds of its
// limit are in use. Above half of it, workers drop the runs that they keep. It is safe for
// concurrent use.
type memoryGauge struct {
	most  uint64 // bytes; math.MaxUint64 = there is always memory
	used  func() uint64
	begun atomic.Int64 // calls that may not have decoded their arguments

	mu    sync.Mutex
	swept time.Time
}

// processMemory is the gauge of this process, of its calls and its workflow tasks.
var processMemory = sync.OnceValue(func() *memoryGauge { return newMemoryGauge(memoryLimit()) })

// newMemoryGauge makes a gauge for a limit in bytes; math.MaxInt64 = there is always memory.
func newMemoryGauge(limit int64) *memoryGauge {
	if limit == math.MaxInt64 {
		return &memoryGauge{most: math.MaxUint64, used: usedMemory}
	}
	return &memoryGauge{most: uint64(limit / 3 * 2), used: usedMemory}
}

// usedMemory is what objects take that live, or died since the last collection.
func usedMemory() uint64 {
	sample := []metrics.Sample{{Name: inUse}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// full reports whether there is no memory for another call.
func (g *memoryGauge) full() bool {
	return g.fullWith(func() uint64 { return uint64(g.begun.Load()) * taskMemory })
}

// limits is fullOfValues; nil = there is always memory.
func (g *memoryGauge) limits() func(bytes int64) bool {
	if g.most == math.MaxUint64 {
		return nil
	}
	return g.fullOfValues
}

// fullOfValues reports whether there is no memory for workflow tasks with values of so many
// bytes.
func (g *memoryGauge) fullOfValues(bytes int64) bool {
	return g.fullWith(func() uint64 { return uint64(bytes) * valueCopies })
}

// fullWith reports whether too much is in use beside what is expected. Garbage does not
// count: a process that waits makes none, so it would not be collected for minutes.
func (g *memoryGauge) fullWith(expected func() uint64) bool {
	if g.most == math.MaxUint64 || g.used()+expected() <= g.most {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.swept) >= sweepEvery {
		runtime.GC()
		g.swept = time.Now()
	}
	return g.used()+expected() > g.most
}

// begins notes that a task begins to decode its arguments; ends = it has ended.
func (g *memoryGauge) begins() (ends func()) {
	g.begun.Add(1)
	ends = sync.OnceFunc(func() { g.begun.Add(-1) })
	time.AfterFunc(decodeTime, ends)
	return ends
}

// slots gives slots of one kind to one worker while there is memory, and least of them in
// any case, so that what is under way can end.
func (g *memoryGauge) slots(least int) worker.SlotSupplier {
	fixed, err := worker.NewFixedSizeSlotSupplier(maxSlots)
	if err != nil {
		panic(err) // maxSlots is positive
	}
	return &slotSupplier{SlotSupplier: fixed, gauge: g, least: least, tasks: map[*worker.SlotPermit]func(){}}
}

// tuner is for a worker that takes calls only.
func (g *memoryGauge) tuner() (worker.WorkerTuner, error) {
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: g.slots(1), ActivitySlotSupplier: g.slots(1), LocalActivitySlotSupplier: g.slots(1),
		NexusSlotSupplier: g.slots(1), SessionActivitySlotSupplier: g.slots(1),
	})
}

// A slotSupplier counts the slots that are given.
type slotSupplier struct {
	worker.SlotSupplier // bounds their number
	gauge               *memoryGauge
	least               int

	mu    sync.Mutex
	given int
	tasks map[*worker.SlotPermit]func() // under way; called at the end of each
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[info.Permit()] = s.gauge.begins()
}

// ReleaseSlot takes a slot back.
func (s *slotSupplier) ReleaseSlot(info worker.SlotReleaseInfo) {
	s.mu.Lock()
	s.given--
	if ends, ok := s.tasks[info.Permit()]; ok { // else no task has come
		ends()
		delete(s.tasks, info.Permit())
	}
	s.mu.Unlock()
	s.SlotSupplier.ReleaseSlot(info)
}

// give counts one more slot, if it may be given.
func (s *slotSupplier) give() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given >= s.least && s.gauge.full() {
		return false
	}
	s.given++
	return true
}
