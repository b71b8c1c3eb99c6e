package gateway_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// A caller starts runs while Temporal takes long to take them: those on their way
// count, however long it takes and however often the index is asked meanwhile.
func TestAttackQuotaBySlowStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newFakeRuns(t, map[string]func(*play){"gated": gated})
		var started atomic.Int64
		all.startErr = func() error {
			time.Sleep(25 * time.Second)
			started.Add(1)
			return nil
		}
		limited := gateway.NewQuotaRuns(all, gateway.Quotas{WaitingRuns: 5})
		req := runs.StartRequest{Definition: define(t, asking)[0], Caller: runs.Caller{Subject: "guest"}}
		var flood sync.WaitGroup
		for i := range 20 {
			flood.Go(func() {
				for range 15 {
					var refused *gateway.QuotaError
					if _, err := limited.Start(t.Context(), req); err != nil && !errors.As(err, &refused) {
						t.Error(err)
					}
					time.Sleep(time.Second + time.Duration(i)*time.Millisecond)
				}
			})
		}
		flood.Wait()
		if n := started.Load(); n > 5 {
			t.Errorf("%d runs of one caller were started, 5 may wait", n)
		}
	})
}

// A slowIndex lists nothing before its context has ended.
type slowIndex struct {
	gateway.Runs
	lists atomic.Int64
}

func (r *slowIndex) List(ctx context.Context, _ runs.Filter) ([]runs.Run, error) {
	r.lists.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A client sends a flood of cancellations for unknown requests. At most ten are looked for at
// a time.
func TestAttackCancelFlood(t *testing.T) {
	t.Parallel()
	index := &slowIndex{}
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) {
		index.Runs = o.Runs
		o.Runs = index
	})
	guest := connect(t, w.url, "guest", "2025-11-25", `{}`)
	const flood = 30
	for i := range flood {
		guest.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 1000+i))
	}
	if n := index.lists.Load(); n == 0 || n > 10 {
		t.Errorf("%d cancellations ask the index %d times at a time", flood, n)
	}
}

// taking starts runs at once and never hears of them again.
type taking struct {
	gateway.Runs
	serial int
	held   runs.Held // by each caller
}

func (r *taking) Start(context.Context, runs.StartRequest) (runs.Started, error) {
	r.serial++
	return runs.Started{ID: runs.RunID(fmt.Sprint("asking/", r.serial))}, nil
}

func (r *taking) Held(context.Context, string) (runs.Held, error) { return r.held, nil }

// New callers start one run each, and no client here follows its end. The quota forgets
// the runs that the index knows.
func TestAttackQuotaByManyCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := gateway.NewQuotaRuns(&taking{}, gateway.Quotas{})
		d := define(t, asking)[0]
		for range 3 {
			for range 5_000 {
				req := runs.StartRequest{Definition: d, Caller: runs.Caller{Subject: rand.Text()}}
				if _, err := limited.Start(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
		}
		if starts, callers := gateway.QuotaStarts(limited); starts > 10_000 || callers > 10_000 {
			t.Errorf("after a minute, %d starts of %d callers are remembered", starts, callers)
		}
	})
}

// A caller whose runs wait, as many as may, starts none that may wait for a person or for the
// caller's credentials. What cannot wait for either, but sleeps or only reads, is started.
func TestAttackQuotaByWhatMayWait(t *testing.T) {
	t.Parallel()
	const script = "{name: t, description: d, steps: [{id: a, type: script, script: \"return call_tool('be_get', {})\"}]}"
	for name, tc := range map[string]struct {
		source, backend string
		effect          definitions.Effect
		refused         bool
	}{
		"its credentials":              {"{name: t, description: d, steps: [{id: a, tool: be_get}]}", "crm", definitions.Read, true},
		"those of perdure":             {"{name: t, description: d, steps: [{id: a, tool: be_get}]}", "be", definitions.Unsafe, false},
		"a call that cannot be undone": {"{name: t, description: d, steps: [{id: a, tool: be_get, compensate: {tool: be_get}}]}", "be", definitions.Unsafe, true},
		"sleep":                        {"{name: t, description: d, steps: [{id: a, type: wait, for: 1h}]}", "be", definitions.Read, false},
		"a script that reads":          {script, "be", definitions.Read, false},
		"a script that writes":         {script, "be", definitions.Unsafe, true},
		"a script, its credentials":    {script, "crm", definitions.Read, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limited := gateway.NewQuotaRuns(&taking{held: runs.Held{Open: 5, Waiting: 5}}, gateway.Quotas{WaitingRuns: 5})
			_, err := limited.Start(t.Context(), runs.StartRequest{Definition: define(t, tc.source)[0], Caller: runs.Caller{Subject: "guest"},
				Tools: map[string]definitions.Tool{"be_get": {Name: "be_get", Backend: tc.backend, Original: "get", Effect: tc.effect}}})
			var refused *gateway.QuotaError
			if errors.As(err, &refused) != tc.refused || err != nil && !tc.refused {
				t.Errorf("refused with %v", err)
			}
		})
	}
}
