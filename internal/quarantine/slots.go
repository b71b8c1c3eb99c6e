package quarantine

import (
	"context"
	"sync"

	"go.temporal.io/sdk/worker"
)

// slotsOfEach is how many tasks of each kind a worker executes at a time: the default of
// the SDK.
const slotsOfEach = 1000

// Tuner reports to the guard when the worker executes a workflow task. It is for one
// worker, whose connection has the guard's DialOption. Calls and reads take the slots of
// activities and localActivities.
func (g *Guard) Tuner(activities, localActivities worker.SlotSupplier) (worker.WorkerTuner, error) {
	suppliers := make([]worker.SlotSupplier, 3)
	for i := range suppliers {
		var err error
		if suppliers[i], err = worker.NewFixedSizeSlotSupplier(slotsOfEach); err != nil {
			return nil, err
		}
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier:        &slots{SlotSupplier: suppliers[0], gate: &g.gate, let: map[*worker.SlotPermit]admission{}},
		ActivitySlotSupplier:        activities,
		LocalActivitySlotSupplier:   localActivities,
		NexusSlotSupplier:           suppliers[1],
		SessionActivitySlotSupplier: suppliers[2],
	})
}

// slots are those of workflow tasks. The interceptor admits polled tasks; a task that
// comes with the start of its run is admitted when its slot is reserved.
type slots struct {
	worker.SlotSupplier
	gate *gate

	mu  sync.Mutex
	let map[*worker.SlotPermit]admission // slots with an admitted task
}

type admission struct {
	begun bool
	bytes int64 // of a task that has begun
}

// TryReserveSlot takes a slot for a task that may come with the start of its run.
func (s *slots) TryReserveSlot(info worker.SlotReservationInfo) *worker.SlotPermit {
	if !s.gate.tryEnter() {
		return nil
	}
	permit := s.SlotSupplier.TryReserveSlot(info)
	if permit == nil {
		s.gate.withdraw()
		return nil
	}
	s.note(permit, admission{})
	return permit
}

// ReserveSlot takes a slot for a task that is polled for.
func (s *slots) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	return s.SlotSupplier.ReserveSlot(ctx, info)
}

// MarkSlotUsed begins a task.
func (s *slots) MarkSlotUsed(info worker.SlotMarkUsedInfo) {
	s.note(info.Permit(), admission{begun: true, bytes: s.gate.begin()})
	s.SlotSupplier.MarkSlotUsed(info)
}

// ReleaseSlot ends a task, if there was one.
func (s *slots) ReleaseSlot(info worker.SlotReleaseInfo) {
	s.mu.Lock()
	task, let := s.let[info.Permit()]
	delete(s.let, info.Permit())
	s.mu.Unlock()
	switch {
	case task.begun:
		s.gate.end(task.bytes)
	case let:
		s.gate.withdraw()
	}
	s.SlotSupplier.ReleaseSlot(info)
}

func (s *slots) note(permit *worker.SlotPermit, task admission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.let[permit] = task
}
