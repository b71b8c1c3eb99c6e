package backends

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Calls that were held and never come again, as those of a cancelled run, keep no call behind
// them waiting for the time that they would have taken.
func TestAttackCallsThatNeverComeAgain(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Limits{
		"concurrency": {Concurrency: 1},
		"rate":        {Rate: Rate{Calls: 10, Per: time.Minute, Burst: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := NewLine(limits, nil, time.Time{})
				pass, _ := enter(t, l, "under way")
				for i := range 500 {
					go func() { _, _, _ = l.Enter(t.Context(), "", fmt.Sprint(i), nil) }()
					synctest.Wait()
				}
				time.Sleep(3 * time.Second) // all are held by now
				go func() {
					time.Sleep(5 * time.Second)
					pass.End(Answered)
				}()
				began := time.Now()
				last, holds := enter(t, l, "behind them")
				last.End(Answered)
				if took := time.Since(began); took > leastTrust+10*time.Second {
					t.Errorf("a call waited %s with nothing under way, held by %v", took, holds)
				}
				time.Sleep(time.Hour)
				if s := l.State(); s.Waiting != 0 {
					t.Errorf("%d places are kept for good", s.Waiting)
				}
			})
		})
	}
}

// A pass that is asked for twice at once, as when an answer is late, or whose call is given up
// while it waits for it, takes no place that nobody gives back.
func TestAttackPassesOfNobody(t *testing.T) {
	t.Parallel()
	giveBack := func(l *Line) { l.Return("a", NoVerdict) }
	for name, step := range map[string]struct{ meanwhile, after func(l *Line) }{
		"asked for twice": {func(l *Line) { _, _ = l.Lend(context.Background(), "", "a", time.Minute, nil) }, giveBack},
		"given up":        {giveBack, func(*Line) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := NewLine(Limits{Concurrency: 3}, nil, time.Time{})
				var passes []*Pass
				for i := range 3 {
					pass, _ := enter(t, l, fmt.Sprint(i))
					passes = append(passes, pass)
				}
				go func() { _, _ = l.Lend(t.Context(), "", "a", time.Minute, nil) }()
				go step.meanwhile(l)
				synctest.Wait()
				for _, pass := range passes {
					pass.End(Answered)
				}
				synctest.Wait()
				step.after(l)
				if s := l.State(); s.UnderWay != 0 {
					t.Errorf("%d places are taken, and no call is under way", s.UnderWay)
				}
			})
		})
	}
}
