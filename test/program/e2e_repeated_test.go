package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRepeatedAtReplicas has clients repeat, correct and cancel calls at other
// replicas than those that handle them.
func TestRepeatedAtReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "repeated")
	for _, version := range []string{legacy, modern} {
		t.Run("wrong answers/"+version, func(t *testing.T) { r.wrongAnswers(t, version) })
		t.Run("at once/"+version, func(t *testing.T) { r.calledAtOnce(t, version) })
	}
	t.Run("cancelled elsewhere", r.cancelledElsewhere)
}

// wrongAnswers gives two answers that do not fit before one that does.
func (r *replicas) wrongAnswers(t *testing.T, version string) {
	t.Parallel()
	b := r.balancer(t)
	key := "wrong-" + version
	var asked atomic.Int64
	learns := answerer(func(_ context.Context, question string) (string, any, error) {
		if n := asked.Add(1); n < 3 {
			return "accept", map[string]any{"verdict": n}, nil
		}
		if !strings.Contains(question, "was not taken") {
			t.Errorf("asked again without a reason: %s", question)
		}
		return "accept", map[string]any{"verdict": "ok"}, nil
	})
	r.completed(t, "review", key, keyed("review", key).must(t, dial(t, b.url(), version, learns)))
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times", n)
	}
}

// calledAtOnce makes one call with a key several times at the same time: it is one
// run, and writes once.
func (r *replicas) calledAtOnce(t *testing.T, version string) {
	t.Parallel()
	const callers = 6
	b := r.balancer(t)
	key := "once-" + version
	results := make(chan string, callers)
	for range callers {
		c := dial(t, b.url(), version, approves)
		go func() {
			call := keyed("review", key)
			call.key = key
			result, err := call.by(t.Context(), c)
			if err != nil {
				t.Error(err)
			}
			results <- asJSON(t, result)
		}()
	}
	attached := 0
	for range callers {
		if strings.Contains(<-results, `"attached":true`) {
			attached++
		}
	}
	if attached != callers-1 {
		t.Errorf("%d of %d calls joined a run", attached, callers)
	}
	r.wrote(t, key, key+":ok")
	b.spread(t, "POST tools/call")
}

// cancelledElsewhere cancels calls at the replica that does not handle them: one
// with a key, and one that has joined its run.
func (r *replicas) cancelledElsewhere(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{1, 2} {
		key := fmt.Sprintf("cancelled-%d", calls)
		c := newResumer(t, "http://"+r.gateways[0].address+endpoint, func(ctx context.Context, _ string) (string, any, error) {
			<-ctx.Done()
			return "", nil, ctx.Err()
		})
		ended := make(chan json.RawMessage, calls)
		for id := 1; id <= calls; id++ {
			go func() {
				raw, err := c.Request(t.Context(), id, "tools/call", fmt.Sprintf(
					`{"name":"review","arguments":{"key":%q},"_meta":{"perdure/idempotency-key":%q}}`, key, key))
				if err != nil {
					t.Error(err)
				}
				ended <- raw
			}()
			r.gates(t, key, 1)
		}
		elsewhere := c.Session
		elsewhere.URL = "http://" + r.gateways[1].address + endpoint
		until(t, "the run to end", func() bool {
			if err := elsewhere.Notify(t.Context(), "notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, calls)); err != nil {
				t.Fatal(err)
			}
			return len(ended) == calls
		})
		if raw := <-ended; !strings.Contains(string(raw), "cancelled") {
			t.Errorf("the call ended with %s", raw)
		}
		r.wrote(t, key)
	}
}
