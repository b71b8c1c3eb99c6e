package backends

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// A hostile server keeps sessions and speaks 2025-11-25, as far as a connection
// needs that. What it is not told to do otherwise it does as others.
type hostile struct {
	call   func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
	list   func(cursor string) any // the result of tools/list
	listen func(w http.ResponseWriter, r *http.Request)

	lists   atomic.Int64 // tools/list
	answers atomic.Int64 // to requests of the server
	sent    atomic.Int64 // bytes that were taken of floods
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Cursor string `json:"cursor"`
		} `json:"params"`
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &request)
	w.Header().Set("Content-Type", "application/json")
	answer := func(result any) {
		json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": result})
	}
	switch {
	case r.Method == http.MethodGet && h.listen != nil:
		w.Header().Set("Content-Type", "text/event-stream")
		h.listen(w, r)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case request.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		answer(map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{"listChanged": true}}, "serverInfo": map[string]any{"name": "evil", "version": "1"}})
	case request.Method == "tools/list" && h.list != nil:
		h.lists.Add(1)
		switch result := h.list(request.Params.Cursor).(type) {
		case func(w http.ResponseWriter, id json.RawMessage):
			result(w, request.ID)
		default:
			answer(result)
		}
	case request.Method == "tools/list":
		h.lists.Add(1)
		answer(map[string]any{"tools": []any{named("go")}})
	case request.Method == "tools/call":
		h.call(w, r, request.ID)
	case request.Method == "" && len(request.ID) > 0:
		h.answers.Add(1)
		w.WriteHeader(http.StatusAccepted)
	case len(request.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": request.ID, "error": map[string]any{"code": -32601, "message": "Method not found"}})
	}
}

func named(name string) map[string]any {
	return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
}

// flood writes the same over and over until nobody takes it.
func (h *hostile) flood(w http.ResponseWriter, r *http.Request, text string) {
	chunk := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
	for r.Context().Err() == nil {
		n, err := w.Write(chunk)
		h.sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func sseEvent(data string) string { return "event: message\ndata: " + data + "\n\n" }

// callGo calls the tool of a hostile server, with a limit of time that no attack
// may come to.
func callGo(t *testing.T, p *Pool, c Call) (*Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.Backend, c.Tool = "be", "go"
	result, err := p.Call(ctx, c)
	if ctx.Err() != nil {
		t.Errorf("the call has not ended: %v", err)
	}
	return result, err
}

const flooded = 4 * chatterAtOnce // what a flood may bring, with what is in buffers

// mostRequests is how many requests of a server may have been answered since.
func mostRequests(began time.Time) int64 {
	return int64(chatterAtOnce+chatterRate*(time.Since(began).Seconds()+1)) / costOfRequest
}

// TestAttackBackendStreams: a backend answers a call with a stream that has no
// end, or costs far more than its bytes.
func TestAttackBackendStreams(t *testing.T) {
	for name, text := range map[string]string{
		"comments":              ": hello\n",
		"empty lines":           "\n",
		"unknown fields":        "more: xxxxxxxxxxxxxxxx\n",
		"fields without a name": "xxxxxxxxxxxxxxxx\n",
		"empty data":            "data:\n",
		"empty events":          "event: message\n\n",
		"ids":                   "id: 1\n\n",
		"no messages":           sseEvent("hello"),
		"notifications":         sseEvent(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`),
		"changes of the list":   sseEvent(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
		"progress":              sseEvent(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":1}}`),
		"requests":              sseEvent(`{"jsonrpc":"2.0","id":7,"method":"ping"}`),
		"elicitations":          sseEvent(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Password?"}}`),
		"a line without an end": "data: xxxxxxxxxxxxxxxx",
		"lines without an end":  "data: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{}
			h.call = func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/event-stream")
				h.flood(w, r, text)
			}
			config := httpConfig(serve(t, h).URL)
			config.MaxResultBytes = 4 << 20
			p := open(t, config)
			began := time.Now()
			_, err := callGo(t, p, Call{Progress: func(Progress) {}})
			if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, errFlood) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v, outcome %d", err, ce.Outcome)
			}
			if n := h.sent.Load(); n > flooded {
				t.Errorf("%d MB were read", n>>20)
			}
			if n := h.answers.Load(); n > mostRequests(began) {
				t.Errorf("%d requests were answered", n)
			}
		})
	}
}

// TestAttackBackendListening: the same on the stream on which a server tells of
// changes, beside which calls are made. The session is given up, and tried again
// at intervals. One after the other: who reads slowly is not flooded.
func TestAttackBackendListening(t *testing.T) {
	for name, text := range map[string]string{
		"notifications": sseEvent(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`),
		"requests":      sseEvent(`{"jsonrpc":"2.0","id":7,"method":"ping"}`),
		"answers":       sseEvent(`{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("x", 10_000) + `"}}`),
		"empty lines":   "\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{}
			streams := make(chan struct{}, 100)
			var floods atomic.Int64
			h.listen = func(w http.ResponseWriter, r *http.Request) {
				if floods.Add(1) == 1 {
					h.flood(w, r, text)
					streams <- struct{}{}
				}
				<-r.Context().Done()
			}
			h.call = func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"fine"}]}}`, id)
			}
			p := open(t, httpConfig(serve(t, h).URL))
			receive(t, streams, "the stream to be given up")
			if n := h.sent.Load(); n > flooded {
				t.Errorf("%d MB were read", n>>20)
			}
			if result, err := callGo(t, p, Call{}); err != nil || result.Content[0].Text != "fine" {
				t.Errorf("a call afterwards: %v, %v", result, err)
			}
		})
	}
}

// TestAttackBackendAnswers: one answer that is larger, or takes more memory, than
// what may be done with it.
func TestAttackBackendAnswers(t *testing.T) {
	repeat := strings.Repeat
	answer := func(result string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, result)
		}
	}
	streamed := func(before, result string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "%s%s", before, sseEvent(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, result)))
		}
	}
	const size = 16 << 20
	attacks := map[string]struct {
		answer  func(w http.ResponseWriter, id json.RawMessage)
		says    string // "" = the call succeeds
		outcome Outcome
	}{
		"too large":       {answer(`"result":{"content":[{"type":"text","text":"` + repeat("x", size+size/2) + `"}]}`), "over the limit", Unknown},
		"an endless body": {func(w http.ResponseWriter, _ json.RawMessage) { w.Write(bytes.Repeat([]byte(" "), 3*size)) }, "over the limit", Unknown},
		"a gzip bomb": {func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 64 {
				z.Write(bytes.Repeat([]byte(" "), size))
			}
			z.Close()
		}, "over the limit", Unknown},
		"many blocks":           {answer(`"result":{"content":[` + repeat("{},", 400_000) + `{}]}`), "content blocks", Unknown},
		"many blocks, streamed": {streamed("", `"result":{"content":[`+repeat("{},", 400_000)+`{}]}`), "content blocks", Unknown},
		"many values":           {answer(`"result":{"content":[],"structuredContent":[` + repeat("[],", 4<<20) + `[]]}`), "more than 891289 JSON values", Unknown},
		"many values, streamed": {streamed("", `"result":{"content":[],"structuredContent":[`+repeat("[],", 4<<20)+`[]]}`), "more than 891289 JSON values", Unknown},
		"a deep result":         {answer(`"result":{"content":[],"structuredContent":` + repeat(`{"a":`, 400_000) + "1" + repeat("}", 400_000) + `}`), "the answer ended before", Unknown},
		"a deep notification":   {streamed(sseEvent(`{"jsonrpc":"2.0","method":"x","params":`+repeat(`{"a":`, 1<<20)+"1"+repeat("}", 1<<20)+"}"), `"result":{"content":[]}`), "", 0},
		"a large notification":  {streamed(sseEvent(`{"jsonrpc":"2.0","method":"x","params":[`+repeat("[],", 4<<20)+"1]}"), `"result":{"content":[]}`), "floods", Unknown},
		"many lines":            {streamed("event: message\n"+repeat("data:  \n", 1<<20)+"\n", `"result":{"content":[]}`), "floods", Unknown},
		"lines of an answer":    {func(w http.ResponseWriter, id json.RawMessage) { lines(w, id, 1<<20) }, "", 0},
		"a long error":          {answer(`"error":{"code":1,"message":"` + repeat("x", 200<<10) + `"}`), "xxx", Refused},
		"a huge error":          {answer(`"error":{"code":1,"message":"m","data":[` + repeat("[],", 4<<20) + `1]}`), "over the limit", Unknown},
		"a huge status": {func(w http.ResponseWriter, _ json.RawMessage) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(repeat("x", size)))
		}, "HTTP status 400", Refused},
		"huge headers": {func(w http.ResponseWriter, _ json.RawMessage) {
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), repeat("x", 10<<10))
			}
		}, "header", Unknown},
		"many answers": {func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 1000 {
				fmt.Fprint(w, sseEvent(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)))
			}
		}, "", 0},
		"questions without end": {streamed("", `"result":{"resultType":"input_required","inputRequests":{"q":"`+repeat("x", 2<<20)+`"}}`), "elicitations", Unknown},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { attack.answer(w, id) }}
			config := httpConfig(serve(t, h).URL)
			config.MaxResultBytes = size
			p := open(t, config)
			var err error
			took := time.Now()
			allocated := perduretest.Allocated(func() { _, err = callGo(t, p, Call{ClientInput: &ClientInput{}}) })
			t.Logf("%s, %d MB: %.200v", time.Since(took).Round(time.Millisecond), allocated>>20, err)
			// The server writes beside it: what is bounded is the multiple.
			if allocated > 20*size {
				t.Errorf("%d MB were allocated", allocated>>20)
			}
			if attack.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			ce := callError(t, err)
			if !strings.Contains(err.Error(), attack.says) || ce.Outcome != attack.outcome {
				t.Errorf("%.300v, outcome %d; want %q, %d", err, ce.Outcome, attack.says, attack.outcome)
			}
			if n := len(err.Error()); n > 2*maxErrorText {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

// lines writes an answer as an event of many lines, which is allowed.
func lines(w http.ResponseWriter, id json.RawMessage, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[\n", id)
	w.Write(bytes.Repeat([]byte("data: \n"), n))
	fmt.Fprint(w, "data: ]}}\n\n")
}

// A server that ends its streams with more than one answer leaves nothing behind
// that waits for ever.
func TestAttackBackendLeavesNothing(t *testing.T) {
	h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 5 {
			fmt.Fprint(w, sseEvent(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)))
		}
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	if _, err := callGo(t, p, Call{}); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for range 200 {
		if _, err := callGo(t, p, Call{}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before+50; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines were left behind by 200 calls", runtime.NumGoroutine()-before)
		}
	}
}

// TestAttackBackendAsksForEver: a tool may ask maxRounds times in one call.
func TestAttackBackendAsksForEver(t *testing.T) {
	t.Parallel()
	h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"more?","requestedSchema":{"type":"object","properties":{}}}}}}}`, id)
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	if got, err := callGo(t, p, Call{ClientInput: &ClientInput{Round: maxRounds - 1}}); err != nil || !got.Asks {
		t.Errorf("the last time: %+v, %v", got, err)
	}
	if _, err := callGo(t, p, Call{ClientInput: &ClientInput{Round: maxRounds}}); !errors.Is(err, errAsksForEver) {
		t.Errorf("once more: %v", err)
	}
}
