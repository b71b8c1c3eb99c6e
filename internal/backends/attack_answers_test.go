package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// peakOf is the most memory that the heap has meanwhile, in bytes.
func peakOf(do func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // little of it is garbage
	ended, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	do()
	close(ended)
	<-sampled
	return peak
}

const largeAnswer = 20 << 20 // two are more than half of the budget

// TestAttackManyLargeAnswers: large and dense answers that come at once, on every
// transport, are decoded one after the other. No call loses its outcome for that, and
// the memory that they take all together is bounded.
func TestAttackManyLargeAnswers(t *testing.T) {
	large := strings.Repeat("x", largeAnswer-3*400_000)
	result := []byte(`{"content":[{"type":"text","text":"` + large + `"}],"structuredContent":{"a":[` + strings.Repeat("[],", 400_000) + `0]}}`)
	calls := map[string]int{"HTTP": 8, "stream": 8, "SSE": 4, "stdio": 4} // the servers of the last hold all of it
	overHTTP := func(before, after string) func(t *testing.T) Config {
		return func(t *testing.T) Config {
			h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				if before != "" {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":`, before, id)
				w.Write(result)
				io.WriteString(w, "}"+after)
			}}
			return httpConfig(serve(t, h).URL)
		}
	}
	for name, config := range map[string]func(t *testing.T) Config{
		"HTTP":   overHTTP("", ""),
		"stream": overHTTP("data: ", "\n\n"),
		"SSE": func(t *testing.T) Config {
			s := newTestServer()
			s.add("go", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText(large), nil
			})
			ts := serveSSE(s)
			t.Cleanup(ts.Close)
			return Config{Name: "be", Transport: SSE, URL: ts.URL + "/sse"}
		},
		"stdio": func(*testing.T) Config {
			return childConfig("server")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, config(t))
			var mu sync.Mutex
			held, most := 0, 0
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				held += n
				most = max(most, held)
			}
			peak := peakOf(func() {
				var all sync.WaitGroup
				for range calls[name] {
					all.Go(func() {
						ctx, release := Hold(t.Context())
						defer release()
						result, err := p.Call(ctx, Call{Backend: "be", Tool: "go"})
						if err != nil || len(result.Content[0].Text) < len(large) {
							t.Errorf("a call: %v", err)
							return
						}
						count(1)
						defer count(-1)
						time.Sleep(10 * time.Millisecond) // others would come meanwhile
					})
				}
				all.Wait()
			})
			t.Logf("%d MB at the most, %d results at a time", peak>>20, most)
			if most > 1 {
				t.Errorf("%d results were held at a time", most)
			}
			if name != "SSE" && peak > 500<<20 { // there, the server takes its own part of it
				t.Errorf("the heap had %d MB", peak>>20)
			}
			for _, budget := range []string{"first", "again"} { // all of it was given back
				free := perduretest.Must(p.byName["be"].meter.budget.answers.Work(t.Context(), budget, 34<<20))(t)
				defer free()
			}
		})
	}
}

// TestAttackAnswersWaitWithTheirCall: an answer that waits for room does so for as long
// as its call has time; then what is known of the call is what it is after a timeout.
func TestAttackAnswersWaitWithTheirCall(t *testing.T) {
	h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, strings.Repeat("x", 1<<20))
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	var full []func()
	for _, other := range []string{"one", "two"} {
		free := perduretest.Must(p.byName["be"].meter.budget.answers.Work(t.Context(), other, 34<<20))(t)
		full = append(full, free)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, Call{Backend: "be", Tool: "go"})
	if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, outcome %d", err, ce.Outcome)
	}
	time.AfterFunc(50*time.Millisecond, func() {
		for _, free := range full {
			free()
		}
	})
	if _, err := callGo(t, p, Call{}); err != nil {
		t.Errorf("a call that waits: %v", err)
	}
}

// TestAttackChildAnswerDense: an answer of too many values ends its own call, and not the
// child process.
func TestAttackChildAnswerDense(t *testing.T) {
	t.Parallel()
	p := open(t, childConfig("server"))
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "dense"})
	if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "891289 JSON values") {
		t.Errorf("%v, outcome %d", err, ce.Outcome)
	}
	pid := text(t, p, "pid")
	_, _ = p.Call(t.Context(), Call{Backend: "be", Tool: "dense"})
	if again := text(t, p, "pid"); again != pid {
		t.Errorf("the child %s was replaced by %s", pid, again)
	}
}

// TestAttackAnswersOfASlowReader: a client that reads none of the large results of its
// calls holds up neither those of other clients nor those of runs.
func TestAttackAnswersOfASlowReader(t *testing.T) {
	t.Parallel()
	h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, strings.Repeat("x", 7<<20))
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	bodies := web.NewBodies(web.Work(), math.MaxInt64)
	slow, hangUp := context.WithCancel(bodies.Within(t.Context(), "slow"))
	var calls sync.WaitGroup
	defer calls.Wait()
	defer hangUp()
	var results atomic.Int32
	for range 10 {
		held, release := Hold(slow)
		defer release()
		calls.Go(func() {
			if _, err := p.Call(held, Call{Backend: "be", Tool: "go"}); err == nil {
				results.Add(1)
			}
		})
	}
	for results.Load() < 4 { // of its share, which has no room for more
		time.Sleep(time.Millisecond)
	}
	for whose, ctx := range map[string]context.Context{"another client": bodies.Within(t.Context(), "quick"), "a run": t.Context()} {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := p.Call(ctx, Call{Backend: "be", Tool: "go"}); err != nil {
			t.Errorf("%s: %v", whose, err)
		}
	}
}

// TestAttackAnswersNobodyWaitsFor: an answer for which there is no room, and whose call was
// given up, keeps none of those behind it waiting.
func TestAttackAnswersNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.add("large", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", 1<<20)), nil
	})
	s.add("pid", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("7"), nil
	})
	ts := serveSSE(s)
	t.Cleanup(ts.Close)
	for name, config := range map[string]Config{"stdio": childConfig("server"), "SSE": {Name: "be", Transport: SSE, URL: ts.URL + "/sse"}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, config)
			for _, other := range []string{"one", "two"} {
				free := perduretest.Must(p.byName["be"].meter.budget.answers.Work(t.Context(), other, 34<<20))(t)
				defer free()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := p.Call(ctx, Call{Backend: "be", Tool: "large"}); err == nil {
				t.Fatal("there was room")
			}
			ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := p.Call(ctx, Call{Backend: "be", Tool: "pid"}); err != nil {
				t.Errorf("the call behind it: %v", err)
			}
		})
	}
}

// TestAttackStreamAnswerDense: so does one on a stream that has the answers of others.
func TestAttackStreamAnswerDense(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	asked, end := make(chan struct{}), make(chan struct{})
	s.add("other", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(asked)
		<-end
		return mcp.NewToolResultText("done"), nil
	})
	s.add("dense", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: map[string]any{"a": make([]bool, 900_000)}}, nil
	})
	ts := serveSSE(s)
	t.Cleanup(ts.Close)
	p := open(t, Config{Name: "be", Transport: SSE, URL: ts.URL + "/sse"})
	other := make(chan error)
	go func() {
		_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "other"})
		other <- err
	}()
	<-asked
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "dense"})
	if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, outcome %d", err, ce.Outcome)
	}
	close(end)
	if err := <-other; err != nil {
		t.Errorf("the call beside it: %v", err)
	}
}

// TestAttackAnswersThatDrip: a large answer whose rest comes byte by byte ends its call
// soon. One that comes slowly enough arrives, and so does one that its
// stream has after a long silence.
func TestAttackAnswersThatDrip(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"application/json", "text/event-stream"} {
		for name, tc := range map[string]struct {
			silence time.Duration
			size    int // bytes every tenth of a second
			fails   bool
		}{"drips": {0, 1, true}, "is slow": {0, 3 << 10, false}, "is late": {12 * time.Second, 400 << 10, false}} {
			t.Run(name+" as "+header, func(t *testing.T) {
				t.Parallel()
				h := &hostile{call: func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					before, after := "", ""
					if w.Header().Set("Content-Type", header); header != "application/json" {
						before, after = "data: ", "\n\n"
						io.WriteString(w, ": begins\n\n")
					}
					w.(http.Flusher).Flush()
					time.Sleep(tc.silence)
					fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s`, before, id, strings.Repeat("x", 100<<10))
					for rest := 400 << 10; rest > 0 && r.Context().Err() == nil; rest -= tc.size {
						io.WriteString(w, strings.Repeat("x", tc.size))
						w.(http.Flusher).Flush()
						time.Sleep(100 * time.Millisecond)
					}
					io.WriteString(w, `"}]}}`+after)
				}}
				p := open(t, httpConfig(serve(t, h).URL))
				_, err := callGo(t, p, Call{})
				if !tc.fails {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, errSlow) {
					t.Errorf("%v, outcome %d", err, ce.Outcome)
				}
			})
		}
	}
}

// TestAttackAnswersThatStopComing: answers that stop in their midst, of two backends, keep
// no large answer of another one waiting, nor another one of the same.
func TestAttackAnswersThatStopComing(t *testing.T) {
	for name, header := range map[string]string{"HTTP": "application/json", "stream": "text/event-stream"} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 10)
			var stops atomic.Bool
			stops.Store(true)
			var configs []Config
			for _, backend := range []string{"one", "two", "three"} {
				h := &hostile{call: func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					before, after := "", ""
					if w.Header().Set("Content-Type", header); header != "application/json" {
						before, after = "data: ", "\n\n"
					}
					fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s`, before, id, strings.Repeat("x", 200<<10))
					if stops.Load() {
						w.(http.Flusher).Flush()
						begun <- struct{}{}
						<-r.Context().Done()
						return
					}
					io.WriteString(w, `"}]}}`+after)
				}}
				cfg := httpConfig(serve(t, h).URL)
				cfg.Name = backend
				configs = append(configs, cfg)
			}
			p := open(t, configs...)
			ctx, stop := context.WithCancel(t.Context())
			var stopped sync.WaitGroup
			for _, backend := range []string{"one", "two", "one", "two"} {
				stopped.Go(func() {
					if _, err := p.Call(ctx, Call{Backend: backend, Tool: "go"}); err == nil {
						t.Error("an answer came that stops")
					}
				})
				<-begun
			}
			time.Sleep(100 * time.Millisecond) // until what was written is read
			stops.Store(false)
			for _, backend := range []string{"three", "one"} {
				soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if _, err := p.Call(soon, Call{Backend: backend, Tool: "go"}); err != nil {
					t.Errorf("a call of %s: %v", backend, err)
				}
				cancel()
			}
			stop()
			stopped.Wait()
		})
	}
}

// An answer that is too large ends the stream that has the answers of others: it is not
// known which of them it was.
func TestStreamAnswerTooLarge(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	asked, end := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(end) })
	s.add("other", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(asked)
		<-end
		return mcp.NewToolResultText("done"), nil
	})
	s.add("large", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", 1<<20)), nil
	})
	ts := serveSSE(s)
	t.Cleanup(ts.Close)
	p := open(t, Config{Name: "be", Transport: SSE, URL: ts.URL + "/sse", MaxResultBytes: 1 << 16})
	other := make(chan error)
	go func() {
		_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "other"})
		other <- err
	}()
	<-asked
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "large"})
	for _, err := range []error{err, <-other} {
		if ce := callError(t, err); ce.Outcome != Unknown || errors.Is(err, ErrTooLarge) {
			t.Errorf("outcome %d, error %v", ce.Outcome, err)
		}
	}
}
