package service

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
)

// TestAttackSlots: no more calls are taken once their arguments fill memory, one in any
// case, and more as soon as they have ended.
func TestAttackSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const argument = 5 << 20
		var held atomic.Int64
		g := newMemoryGauge(200 << 20)
		g.used = held.Load
		s := g.slots(1)
		for n := 0; ; n++ {
			if n == maxSlots {
				t.Fatal("all slots are given, with 5 MB each")
			}
			if s.TryReserveSlot(nil) == nil {
				break
			}
			held.Add(argument)
		}
		if held.Load() > 160<<20 {
			t.Errorf("%d MB of arguments are taken where 200 are the limit", held.Load()>>20)
		}
		stopped, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if permit, err := s.ReserveSlot(stopped, nil); permit != nil || err == nil {
			t.Error("a slot is given without memory")
		}
		least, given := g.slots(2), 0
		for given < 4 && least.TryReserveSlot(nil) != nil {
			given++
		}
		if given != 2 {
			t.Errorf("another kind has %d slots, want its least number, 2", given)
		}
		time.AfterFunc(time.Second, func() {
			held.Store(0)
			s.ReleaseSlot(released{permit: &worker.SlotPermit{}})
		})
		if permit, err := s.ReserveSlot(t.Context(), nil); permit == nil || err != nil {
			t.Errorf("no slot where there is memory again: %v", err)
		}
	})
}

// A used slot is one for which a task has come.
type used struct {
	worker.SlotMarkUsedInfo
	permit *worker.SlotPermit
}

func (u used) Permit() *worker.SlotPermit { return u.permit }

// A released slot is one whose task has ended.
type released struct {
	worker.SlotReleaseInfo
	permit *worker.SlotPermit
}

func (r released) Permit() *worker.SlotPermit { return r.permit }

// TestAttackTasksAtOnce: tasks that come at once are counted with what they may take until
// they have decoded their arguments, however long that takes, and again as they encode their
// results.
func TestAttackTasksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMemoryGauge(400 << 20)
		var held atomic.Int64
		g.used = held.Load
		s := g.slots(1)
		burst := func() (tasks []*worker.SlotPermit) {
			for len(tasks) < maxSlots {
				permit := s.TryReserveSlot(nil)
				if permit == nil {
					break
				}
				tasks = append(tasks, permit)
				s.MarkSlotUsed(used{permit: permit})
			}
			return tasks
		}
		first := burst()
		if n := len(first); n < 20 || n > 40 {
			t.Errorf("%d tasks at once where 300 MB may be in use", n)
		}
		for _, permit := range first[:5] {
			s.ReleaseSlot(released{permit: permit})
		}
		if n := len(burst()); n != 5 {
			t.Errorf("%d tasks after 5 have ended", n)
		}
		time.Sleep(time.Minute)
		if n := len(burst()); n != 0 {
			t.Errorf("%d tasks more, though none has decoded its arguments", n)
		}
		var calls sync.WaitGroup
		end := make(chan struct{})
		for range 30 {
			calls.Go(func() { run(t, g, func() { <-end }) })
		}
		synctest.Wait()
		held.Store(200 << 20) // the arguments of all
		if n := len(burst()); n < 2 || n > 15 {
			t.Errorf("%d tasks at once where 60 MB more may be in use", n)
		}
		close(end)
		calls.Wait()
		if n := len(burst()); n != 0 {
			t.Errorf("%d tasks more while all encode their results", n)
		}
	})
}

// run runs the function of a call as a worker with the gauge does.
func run(t *testing.T, g *memoryGauge, function func()) {
	watch := g.interceptors()[0].InterceptActivity(t.Context(), &calledFunction{function: function})
	if _, err := watch.ExecuteActivity(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

type calledFunction struct {
	interceptor.ActivityInboundInterceptorBase
	function func()
}

func (f *calledFunction) ExecuteActivity(context.Context, *interceptor.ExecuteActivityInput) (any, error) {
	f.function()
	return nil, nil
}

// Garbage is no reason to wait, and what is in use is one.
func TestUsed(t *testing.T) {
	held := make([]byte, 64<<20)
	g := newMemoryGauge(64 << 20)
	if !g.full(0) {
		t.Error("64 MB in use are not seen")
	}
	runtime.KeepAlive(held)
	held = nil
	g.swept = time.Time{}
	if g.full(0) {
		t.Error("garbage counts as used")
	}
	if newMemoryGauge(math.MaxInt64) != nil {
		t.Error("without a limit there is no memory")
	}
}
