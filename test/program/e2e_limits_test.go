package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// limitedDefinitions call a backend often, or once.
const limitedDefinitions = `
compositeTools:
  - name: many
    description: Calls for each item.
    parameters: {type: object, properties: {items: {type: array}}, required: [items]}
    timeout: 10m
    steps:
      - {id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 20, timeout: 9m,
         step: {tool: be_work, arguments: {item: "{{.forEach.item}}"}, onError: {action: continue}}}
  - name: one
    description: Calls once.
    parameters: {type: object, properties: {item: {type: string}}}
    timeout: 10m
    steps:
      - {id: work, tool: be_work, timeout: 5s, arguments: {item: "{{.params.item}}"}}
      - {id: after, tool: be_work, timeout: 5s, dependsOn: [work], arguments: {item: "after {{.params.item}}"}}
`

// A limitedBackend is one with limits, which counts what it is asked to do.
type limitedBackend struct {
	*replicas
	metrics  string        // address of those of a gateway
	takes    time.Duration // a call
	down     atomic.Bool   // it answers nothing but 503
	underWay atomic.Int64
	most     atomic.Int64 // that were under way at once

	mu sync.Mutex
	at []time.Time // when calls came
}

// newLimited starts two gateways and two workers before a backend with limits.
func newLimited(t *testing.T, temporal *temporalServer, namespace, effect, limits string, takes time.Duration) *limitedBackend {
	t.Helper()
	l := &limitedBackend{takes: takes, replicas: &replicas{t: t, temporal: temporal, namespace: namespace, dir: t.TempDir()}}
	l.backend = serveFakes(t, map[string]fakeTool{"be_work": l.work})
	target, err := url.Parse(l.backend.web.URL)
	if err != nil {
		t.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(target)
	through.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	through.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	putFile(t, filepath.Join(l.dir, "perdure.yaml"), fmt.Sprintf("backends:\n  - {name: be, transport: streamable-http, url: %q, effects: [{tool: \"*\", class: %s}], limits: %s}\n%s",
		front.URL+"/be/mcp", effect, limits, limitedDefinitions))
	putFile(t, filepath.Join(l.dir, "key"), strings.Repeat("0123456789abcdef", 4)+"\n")
	if l.metrics, err = pgtest.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		l.gateways[i] = l.process("gateway", "--listen", "--call-patience", "0s", "--key-file", "key")
		if i == 0 {
			l.gateways[i].args = append(l.gateways[i].args, "--metrics-listen", l.metrics)
		}
		l.workers[i] = l.process("worker", "--health-listen", "--key-file", "key")
	}
	for _, p := range slices.Concat(l.gateways[:], l.workers[:]) {
		p.launch()
	}
	for _, p := range slices.Concat(l.gateways[:], l.workers[:]) {
		p.awaitReady()
	}
	return l
}

func (l *limitedBackend) work(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	l.mu.Lock()
	l.at = append(l.at, time.Now())
	n := l.underWay.Add(1)
	l.most.Store(max(l.most.Load(), n))
	l.mu.Unlock()
	defer l.underWay.Add(-1)
	select {
	case <-time.After(l.takes):
	case <-ctx.Done():
	}
	return structured(map[string]any{"item": arguments["item"]}), nil
}

// calls are when calls came.
func (l *limitedBackend) calls() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.at)
}

// hosts says how often each worker has begun to keep the limits.
func (l *limitedBackend) hosts() (n [2]int) {
	for i, w := range l.workers {
		n[i] = strings.Count(w.output.String(), "msg=\"enforcing the limits")
	}
	return n
}

// awaitHost waits until a worker keeps the limits that has not before, and says
// which.
func (l *limitedBackend) awaitHost(before [2]int) (host int) {
	l.t.Helper()
	until(l.t, "a worker to keep the limits", func() bool {
		now := l.hosts()
		for i := range now {
			if now[i] > before[i] {
				host = i
				return true
			}
		}
		return false
	})
	return host
}

// waitingFor gives the runs that wait for something.
func (l *limitedBackend) waitingFor(t *testing.T, what string) (ids []string) {
	t.Helper()
	out, err := l.perdure(t, "runs", "list", "--waiting", what, "-o", "json")
	var list []struct{ ID, WaitingFor string }
	if err != nil || json.Unmarshal([]byte(out), &list) != nil {
		return nil
	}
	for _, run := range list {
		if run.WaitingFor != what {
			t.Errorf("run %s waits for %q", run.ID, run.WaitingFor)
		}
		ids = append(ids, run.ID)
	}
	return ids
}

func items(prefix string, n int) map[string]any {
	var list []any
	for i := range n {
		list = append(list, fmt.Sprintf("%s-%d", prefix, i))
	}
	return map[string]any{"items": list}
}

// TestBackendLimits has limits of a backend hold whichever processes call it.
func TestBackendLimits(t *testing.T) {
	t.Parallel()
	temporal := newTemporal(t)
	t.Run("concurrency", func(t *testing.T) {
		t.Parallel()
		limitedConcurrency(t, temporal)
	})
	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		limitedRate(t, temporal)
	})
	t.Run("breaker", func(t *testing.T) {
		t.Parallel()
		breakerOfABackend(t, temporal)
	})
}

// limitedConcurrency has runs and direct calls come by both gateways, while the
// worker that keeps the limits is killed, frozen and stopped.
func limitedConcurrency(t *testing.T, temporal *temporalServer) {
	l := newLimited(t, temporal, "concurrency", "unsafe", "{concurrency: 3}", 300*time.Millisecond)
	host := l.awaitHost([2]int{})
	round := func(name string, disturb func()) {
		t.Helper()
		var calls []pending
		for i := range 2 {
			c := dial(t, "http://"+l.gateways[i].address+endpoint, modern, nil)
			calls = append(calls, begin(t, c, toolCall{name: "many", arguments: items(fmt.Sprintf("%s-%d", name, i), 15)}))
			for j := range 4 {
				calls = append(calls, begin(t, c, toolCall{name: "be_work", arguments: map[string]any{"item": fmt.Sprintf("%s-direct-%d-%d", name, i, j)}}))
			}
		}
		until(t, "calls to be under way", func() bool { return l.backend.count("be_work", name+"-") > 5 })
		disturb()
		for i, c := range calls {
			if i%5 == 0 { // a run; a direct call of an unsafe tool may have been lost with nobody but its host
				sent(t, receive(t, c.result, "the result of a run"))
			} else {
				receive(t, c.result, "the result of a direct call")
			}
		}
		seen := map[string]int{}
		for _, call := range l.backend.seen() {
			if seen[call.Arguments]++; seen[call.Arguments] > 1 {
				t.Errorf("%s: %s was called %d times", name, call.Arguments, seen[call.Arguments])
			}
		}
		if most := l.most.Load(); most != 3 {
			t.Errorf("%s: %d calls were under way at once, want 3", name, most)
		}
		l.most.Store(0)
		// A call that was under way has an unknown outcome; any other is made by another host.
		made := l.backend.count("be_work", name+"-")
		t.Logf("%s: %d of 38 calls were executed", name, made)
		if made < 38-3 {
			t.Errorf("%s: %d of 38 calls were executed", name, made)
		}
	}
	round("calm", func() {})
	if n := l.backend.count("be_work", "calm-"); n != 38 {
		t.Errorf("%d of 38 calls were made", n)
	}
	before := l.hosts()
	round("killed", func() {
		l.workers[host].kill()
		other := l.awaitHost(before)
		if other == host {
			t.Errorf("the worker that was killed keeps the limits")
		}
		l.workers[host].start()
		host = other
	})
	before = l.hosts()
	round("frozen", func() {
		frozen := l.workers[host].serving
		perduretest.NoError(t, frozen.Signal(syscall.SIGSTOP))
		before[host] = 100 // which says nothing now
		next := l.awaitHost(before)
		perduretest.NoError(t, frozen.Signal(syscall.SIGCONT))
		until(t, "the worker that was frozen to learn that it is not the host", func() bool {
			return strings.Contains(l.workers[host].output.String(), "no longer enforcing the limits")
		})
		host = next
	})
	before = l.hosts()
	round("stopped", func() {
		perduretest.NoError(t, l.workers[host].serving.Signal(syscall.SIGTERM))
		host = l.awaitHost(before)
	})
	if n := l.backend.count("be_work", "stopped-"); n != 38 {
		t.Errorf("%d of 38 calls were made while a worker stopped", n)
	}
}

// limitedRate has runs wait for a rate, which they tell.
func limitedRate(t *testing.T, temporal *temporalServer) {
	const pause = 4 * time.Second
	l := newLimited(t, temporal, "rate", "unsafe", "{rate: 15/m}", 0)
	l.awaitHost([2]int{})
	var runs []pending
	for i := range 2 {
		c := dial(t, "http://"+l.gateways[i].address+endpoint, modern, nil)
		runs = append(runs, begin(t, c, toolCall{name: "one", arguments: map[string]any{"item": fmt.Sprint("x", i)}}))
	}
	var waits []string
	until(t, "a run to wait for the rate", func() bool {
		waits = l.waitingFor(t, "rate")
		return len(waits) > 0
	})
	shown, err := l.perdure(t, "runs", "show", waits[0])
	if err != nil || !strings.Contains(shown, "rate limit of a backend") {
		t.Errorf("shown is %s, %v", shown, err)
	}
	c := dial(t, "http://"+l.gateways[0].address+endpoint, modern, nil)
	direct := begin(t, c, toolCall{name: "be_work", arguments: map[string]any{"item": "direct"}})
	for _, run := range runs {
		sent(t, receive(t, run.result, "the result of a run"))
	}
	sent(t, receive(t, direct.result, "the result of a direct call"))
	at := l.calls()
	for i := range at[1:] {
		// What is on its way to the backend may take longer than what follows.
		if between := at[i+1].Sub(at[i]); between < pause/2 {
			t.Errorf("a call followed the one before after %s; the rate is one in %s", between, pause)
		}
	}
	if len(at) != 5 {
		t.Errorf("%d calls were made, want 5", len(at))
	}
	until(t, "no run to wait", func() bool { return len(l.waitingFor(t, "rate")) == 0 })
}

// breakerOfABackend has a backend be down for longer than any step may take.
func breakerOfABackend(t *testing.T, temporal *temporalServer) {
	l := newLimited(t, temporal, "breaker", "idempotent", "{breaker: {failures: 2, open: 4s}}", 0)
	l.awaitHost([2]int{})
	l.down.Store(true)
	c := dial(t, "http://"+l.gateways[0].address+endpoint, modern, nil)
	first := begin(t, c, toolCall{name: "one", arguments: map[string]any{"item": "first"}})
	until(t, "a run to wait for the breaker", func() bool { return len(l.waitingFor(t, "breaker")) == 1 })
	second := begin(t, c, toolCall{name: "one", arguments: map[string]any{"item": "second"}})
	until(t, "both runs to wait for the breaker", func() bool { return len(l.waitingFor(t, "breaker")) == 2 })
	until(t, "a direct call to be refused", func() bool {
		result, err := toolCall{name: "be_work", arguments: map[string]any{"item": "direct"}}.by(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		text := asJSON(t, result)
		return result.IsError && strings.Contains(text, "circuit breaker of the backend is open") && strings.Contains(text, "it was not executed")
	})
	until(t, "the breaker to be told with the metrics", func() bool {
		response, err := http.Get("http://" + l.metrics + metricsPath)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(page), `perdure_backend_breaker{perdure_backend="be",perdure_state="closed"} 0`) &&
			strings.Contains(string(page), `perdure_backend_limits_kept{perdure_backend="be"} 1`)
	})
	until(t, "the breaker to be shown as open", func() bool {
		out, err := program(t, l.dir, "tools", "--effects", "--url", "http://"+l.gateways[1].address+endpoint).CombinedOutput()
		return err == nil && strings.Contains(string(out), "limits of be: breaker opens after 2 failures in a row, for 4s") &&
			(strings.Contains(string(out), "breaker open until") || strings.Contains(string(out), "breaker half-open")) && strings.Contains(string(out), "; enforced by ")
	})
	l.down.Store(false)
	sent(t, receive(t, first.result, "the result of the first run"))
	sent(t, receive(t, second.result, "the result of the second run"))
	if at := l.calls(); len(at) != 4 {
		t.Errorf("the backend was asked %d times once it was back, want 4", len(at))
	}
	until(t, "no run to wait", func() bool { return len(l.waitingFor(t, "breaker")) == 0 })
}
