package backends

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// enter lets a call through, coming again as often as it is told to, and says
// how often it was held and by what.
func enter(t *testing.T, l *Line, id string) (pass *Pass, holds []string) {
	t.Helper()
	for {
		pass, held, err := l.Enter(t.Context(), "", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if pass != nil {
			return pass, holds
		}
		holds = append(holds, held.Why)
		time.Sleep(held.After)
	}
}

// However many calls come, no more are under way than may be, each has its turn,
// and none comes often to ask for it.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Concurrency: 5}, nil, time.Time{})
		var underWay, most atomic.Int64
		began := time.Now()
		asked := make(chan int, 500)
		for i := range 500 {
			go func() {
				pass, holds := enter(t, l, fmt.Sprint(i))
				most.Store(max(most.Load(), underWay.Add(1)))
				time.Sleep(20 * time.Second)
				underWay.Add(-1)
				pass.End(Answered)
				asked <- len(holds)
			}()
			synctest.Wait()
		}
		total, worst := 0, 0
		for range 500 {
			n := <-asked
			total, worst = total+n, max(worst, n)
		}
		if most.Load() != 5 {
			t.Errorf("%d calls were under way at once", most.Load())
		}
		took, least := time.Since(began), 500/5*20*time.Second
		t.Logf("500 calls of 20 s took %s, of %s at least; asked %.1f times on average, %d at most", took, least, float64(total)/500, worst)
		if took > least*5/4 {
			t.Errorf("took %s, %s would do", took, least)
		}
		if worst > 200 || total > 500*15 { // one that asked at each leastHold would ask 1,000 times
			t.Errorf("asked %d times in all, and one call %d times", total, worst)
		}
	})
}

// Calls begin no faster than they may, in their order, and know when to come.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Rate: Rate{Calls: 10, Per: time.Second, Burst: 3}}, nil, time.Time{})
		time.Sleep(time.Hour) // saves no more than the burst
		began := time.Now()
		type turn struct {
			at    time.Duration
			holds int
		}
		turns := make(chan turn, 200)
		for i := range 200 {
			go func() {
				pass, holds := enter(t, l, fmt.Sprint(i))
				turns <- turn{time.Since(began), len(holds)}
				pass.End(Answered)
			}()
			synctest.Wait()
		}
		for i := range 200 {
			got := <-turns
			want := time.Duration(max(i-2, 0)) * 100 * time.Millisecond
			if got.at < want || got.at > want+5*time.Millisecond {
				t.Errorf("call %d began after %s, not after %s", i, got.at, want)
			}
			if got.holds > 1 {
				t.Errorf("call %d was held %d times", i, got.holds)
			}
		}
	})
}

// A backend that fails is left alone; then one call tries it, and the others
// follow when that is answered.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Breaker: Breaker{Failures: 3, Open: 30 * time.Second}}, nil, time.Time{})
		for i := range 3 {
			pass, _ := enter(t, l, fmt.Sprint("failing", i))
			pass.End(Failed)
		}
		if s := l.State(); s.Breaker != "open" || time.Until(s.Until) != 30*time.Second {
			t.Fatalf("%+v", s)
		}
		_, held, err := l.Enter(t.Context(), "", "a", nil)
		if err != nil || held.Why != HeldByBreaker || held.After != 30*time.Second {
			t.Fatalf("%+v, %v", held, err)
		}
		time.Sleep(30*time.Second + time.Millisecond)
		probe, _ := enter(t, l, "a")
		if s := l.State(); s.Breaker != "half-open" || s.UnderWay != 1 {
			t.Errorf("%+v", s)
		}
		let := make(chan []string)
		for i := range 2 {
			go func() {
				pass, holds := enter(t, l, fmt.Sprint("b", i))
				pass.End(Answered)
				let <- holds
			}()
		}
		time.Sleep(time.Second)
		probe.End(NoVerdict) // was cancelled: another tries
		if _, again := probe.NotSent(); !again {
			t.Error("the call that finds out is not held when it cannot be sent")
		}
		for range 2 {
			if holds := <-let; len(holds) > 0 {
				t.Errorf("held by %v after the probe", holds)
			}
		}
		if s := l.State(); s.Breaker != "closed" || s.UnderWay != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// What says nothing about a backend opens no breaker; what fails seldom enough
// does not either.
func TestBreakerWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Breaker: Breaker{Failures: 3, Window: time.Minute, Open: time.Hour}}, nil, time.Time{})
		for range 10 {
			for _, o := range []Verdict{Failed, NoVerdict, Answered} {
				pass, _ := enter(t, l, "x")
				pass.End(o)
			}
			time.Sleep(35 * time.Second)
		}
		if s := l.State(); s.Breaker != "closed" {
			t.Errorf("%+v", s)
		}
		for range 3 {
			for _, o := range []Verdict{Failed, Answered} {
				if pass, _, _ := l.Enter(t.Context(), "", "y", nil); pass != nil {
					pass.End(o)
				}
			}
		}
		if s := l.State(); s.Breaker != "open" {
			t.Errorf("%+v", s)
		}
	})
}

// A line lets nothing through that its process may no longer let through.
func TestClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		l := NewLine(Limits{Concurrency: 1}, func() bool { return !lost.Load() }, time.Time{})
		pass, _ := enter(t, l, "first")
		waits := make(chan HeldBack)
		go func() {
			_, held, _ := l.Enter(t.Context(), "", "second", nil)
			waits <- held
		}()
		synctest.Wait()
		lost.Store(true)
		pass.End(Answered)
		if held := <-waits; held.Why != "" || held.After == 0 {
			t.Errorf("%+v", held)
		}
		lost.Store(false)
		l.Close()
		began := time.Now()
		if pass, held, _ := l.Enter(t.Context(), "", "third", nil); pass != nil || held.Why != "" || time.Since(began) > 0 {
			t.Errorf("%v, %+v after %s", pass, held, time.Since(began))
		}
	})
}

// A pass that was lent counts until it comes back, or is forgotten.
func TestLend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Concurrency: 1}, nil, time.Time{})
		if held, err := l.Lend(t.Context(), "", "a", time.Minute, nil); held != nil || err != nil {
			t.Fatalf("%+v, %v", held, err)
		}
		time.Sleep(50 * time.Second)
		l.Renew("a", time.Minute)
		time.Sleep(50 * time.Second)
		if held, _ := l.Lend(t.Context(), "", "b", time.Minute, nil); held == nil || held.Why != HeldByConcurrency {
			t.Errorf("%+v", held)
		}
		l.Return("a", Answered)
		l.Return("a", Answered) // twice
		if held, _ := l.Lend(t.Context(), "", "b", time.Minute, nil); held != nil {
			t.Errorf("%+v", held)
		}
		time.Sleep(61 * time.Second)
		l.Renew("of the process before", time.Minute)
		if s := l.State(); s.UnderWay != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A call that ends while it waits gives its place up.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Concurrency: 1}, nil, time.Time{})
		pass, _ := enter(t, l, "a")
		defer pass.End(Answered)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		if _, _, err := l.Enter(ctx, "", "b", nil); err == nil {
			t.Error("no error")
		}
		if s := l.State(); s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"10/s": "10/s", " 600 / m": "600/m", "1/h": "1/h", "10": "", "0/s": "", "-1/s": "", "x/s": "", "1/d": "", "": ""} {
		rate, err := ParseRate(text)
		if (err != nil) != (want == "") || err == nil && rate.String() != want {
			t.Errorf("%q: %s, %v", text, rate, err)
		}
	}
}

// A line goes on with the rate of the process before, and begins with all there
// may be where there was none.
func TestRateGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := Limits{Rate: Rate{Calls: 60, Per: time.Hour, Burst: 3}}
		time.Sleep(time.Hour)
		first := NewLine(cfg, nil, time.Time{})
		for range 2 {
			if _, holds := enter(t, first, "x"); len(holds) > 0 {
				t.Errorf("held by %v", holds)
			}
		}
		time.Sleep(30 * time.Second)
		second := NewLine(cfg, nil, first.State().Spent) // one and a half are left
		if _, holds := enter(t, second, "x"); len(holds) > 0 {
			t.Errorf("held by %v", holds)
		}
		began := time.Now()
		if _, holds := enter(t, second, "x"); len(holds) != 1 || time.Since(began).Round(time.Second) != 30*time.Second {
			t.Errorf("held by %v, for %s", holds, time.Since(began))
		}
		third := NewLine(cfg, nil, time.Now()) // the one before has died
		began = time.Now()
		enter(t, third, "x")
		if took := time.Since(began); took.Round(time.Second) != time.Minute {
			t.Errorf("the first call began after %s", took)
		}
	})
}

// A caller with many calls in line keeps no other waiting for more than a call of its own,
// also where theirs have a place in the line and come again.
func TestAttackFloodOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Limits{Concurrency: 2}, nil, time.Time{})
		turn := func(caller, id string) {
			for {
				pass, held, err := l.Enter(t.Context(), caller, id, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if pass != nil {
					time.Sleep(500 * time.Millisecond)
					pass.End(Answered)
					return
				}
				time.Sleep(held.After)
			}
		}
		var all sync.WaitGroup
		serial := 0
		flood := func(calls int) {
			for range calls {
				serial++
				id := fmt.Sprint(serial)
				all.Go(func() { turn("ivy", id) })
				synctest.Wait()
			}
		}
		flood(300)
		time.Sleep(5 * time.Second) // most are held by now
		for i := range 3 {
			flood(20)
			time.Sleep(time.Second)
			began := time.Now()
			turn("hal", fmt.Sprint(i))
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the call of another caller took %s", took)
			}
		}
		all.Wait()
		if len(l.waiting) != 0 {
			t.Errorf("%d calls are left", len(l.waiting))
		}
	})
}
