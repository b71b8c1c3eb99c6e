package backends

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// A flaky handler treats the first tools/call requests in a way of its own.
type flaky struct {
	next  http.Handler
	first func(w http.ResponseWriter, r *http.Request, body []byte)
	times atomic.Int64
	seen  atomic.Int64
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var buf bytes.Buffer
	if r.Body != nil {
		_, _ = buf.ReadFrom(r.Body)
	}
	r.Body = readCloser(buf.Bytes())
	if bytes.Contains(buf.Bytes(), []byte(`"tools/call"`)) {
		f.seen.Add(1)
		if f.times.Add(-1) >= 0 {
			f.first(w, r, buf.Bytes())
			return
		}
	}
	f.next.ServeHTTP(w, r)
}

type body struct{ *bytes.Reader }

func (body) Close() error { return nil }

func readCloser(b []byte) body { return body{bytes.NewReader(b)} }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		status int
		value  string
		want   time.Duration
	}{
		{429, "30", 30 * time.Second},
		{503, "Tue, 24 Nov 2026 12:01:30 GMT", 90 * time.Second},
		{503, "Tue, 24 Nov 2026 11:00:00 GMT", 0},
		{503, "99999999999999999999", 0},
		{503, "4294967295", maxRetryAfter},
		{503, "-1", 0},
		{503, "soon", 0},
		{503, "", 0},
		{500, "30", 0},
	} {
		resp := &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.value}}}
		if got := retryAfter(resp, now); got != tc.want {
			t.Errorf("%d with %q: %s, want %s", tc.status, tc.value, got, tc.want)
		}
	}
}

// An outcomeCase is a way in which the first call may go wrong over HTTP.
type outcomeCase struct {
	name  string
	first func(http.ResponseWriter, *http.Request, []byte)
	want  Outcome
	text  string // that the error has
}

// outcomeCases are all of them; docs/contract.md has a row for each.
func outcomeCases() []outcomeCase {
	drop := func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }
	status := func(code int, body string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	half := func(contentType, body string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(200)
			fmt.Fprint(w, body)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	echo := func(members string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, r *http.Request, body []byte) {
			var request struct{ ID json.RawMessage }
			_ = json.Unmarshal(body, &request)
			status(200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, request.ID, members))(w, r, body)
		}
	}
	return []outcomeCase{
		{"dropped after the request was read", drop, Unknown, ""},
		{"half of a JSON answer", half("application/json", `{"jsonrpc":"2.0","id":`), Unknown, "EOF"},
		{"broken stream", half("text/event-stream", "event: message\ndata: {"), Unknown, "EOF"},
		{"500", status(500, `{}`), Unknown, "500"},
		{"500 with a JSON-RPC error", status(500, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"boom"}}`), Unknown, "boom"},
		{"502", status(502, `bad gateway`), Unknown, "502"},
		{"503", status(503, ``), Unknown, "503"},
		{"400", status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"odd request"}}`), Refused, "odd request"},
		{"401", status(401, ``), Refused, "401"},
		{"403", status(403, ``), Refused, "403"},
		{"405", status(405, ``), Refused, "405"},
		{"413", status(413, `{"error":"too big"}`), Refused, "too big"},
		{"408", status(408, ``), Unknown, "408"},
		{"429", status(429, ``), NotSent, "429"},
		{"429 with an error in JSON", status(429, `{"error":"slow down"}`), NotSent, "slow down"},
		{"429 with a JSON-RPC error", status(429, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"slow down"}}`), NotSent, "slow down"},
		{"redirect", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		}, Refused, "307"},
		{"neither result nor error", status(200, `{"jsonrpc":"2.0","id":3}`), Unknown, ""},
		{"the id of another request", status(200, `{"jsonrpc":"2.0","id":99,"result":{"content":[]}}`), Unknown, "another request"},
		{"the id of another request on a stream", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `event: message`+"\n"+`data: {"jsonrpc":"2.0","id":"3","result":{"content":[]}}`+"\n\n")
		}, Unknown, "another request"},
		{"an error with the id of another request", status(200, `{"jsonrpc":"2.0","id":99,"error":{"code":-32603,"message":"not yours"}}`), Unknown, "another request"},
		{"an error with the id of another request on a stream", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `event: message`+"\n"+`data: {"jsonrpc":"2.0","id":99,"error":{"code":-32603,"message":"not yours"}}`+"\n\n")
		}, Unknown, "another request"},
		{"an error and a result", echo(`"result":{"content":[]},"error":{"code":-32603,"message":"boom"}`), Unknown, "both"},
		{"no JSON", status(200, `hello`), Unknown, ""},
		{"JSON-RPC error", echo(`"error":{"code":-32602,"message":"bad params"}`), Refused, "bad params (code -32602)"},
		{"input required", echo(`"result":{"resultType":"input_required","inputRequests":{},"requestState":"x"}`), Refused, "input"},
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range outcomeCases() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			forEachEra(t, func(t *testing.T, e era) {
				f := &flaky{next: e.handler(newTestServer()), first: tt.first}
				p := open(t, httpConfig(serve(t, f).URL))
				if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"}); err != nil { // warms the connection
					t.Fatal(err)
				}
				f.times.Store(1)
				_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"})
				if ce := callError(t, err); ce.Outcome != tt.want || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("outcome %d, want %d: %v", ce.Outcome, tt.want, err)
				}
				if n := f.seen.Load(); n != 2 {
					t.Errorf("the backend saw %d calls, want 2: nothing may be repeated by itself", n)
				}
				if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"}); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// TestContractOfOutcomes holds the table of docs/contract.md, what an answer of the
// wire comes to, against the cases, so that neither can go without the other.
func TestContractOfOutcomes(t *testing.T) {
	t.Parallel()
	page := perduretest.Read(t, "../../docs/contract.md")
	told := map[string]string{}
	_, table, _ := strings.Cut(string(page), "| on the wire | outcome |\n|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			break
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			told[name[1]] = strings.TrimSpace(cells[2])
		}
	}
	want := map[string]string{}
	for _, c := range outcomeCases() {
		want[c.name] = map[Outcome]string{Unknown: "unknown", NotSent: "not sent", Refused: "refused"}[c.want]
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("outcomes (-code +page): %s", diff)
	}
}

func TestForgottenSession(t *testing.T) {
	t.Parallel()
	for _, code := range []int{404, 400} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := newTestServer()
			f := &flaky{next: eras[1].handler(s), first: func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
			}}
			p := open(t, httpConfig(serve(t, f).URL))
			f.times.Store(1)
			if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"}); err != nil {
				t.Fatal(err)
			}
			f.times.Store(2)
			_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"})
			if err == nil {
				t.Fatal("a session that is forgotten twice in one call is made a third time")
			}
			if n := s.calls.Load(); n != 1 {
				t.Errorf("%d executions, want 1", n)
			}
		})
	}
}

// answersError answers a request with an error that has its ID.
func answersError(status, code int, message string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) {
		var request struct{ ID json.RawMessage }
		_ = json.Unmarshal(body, &request)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, request.ID, code, message)
	}
}

// refusesOnce shows that the first answer of f refuses a call, which is sent once, and that the
// next call succeeds.
func refusesOnce(t *testing.T, f *flaky) {
	t.Helper()
	p := open(t, httpConfig(serve(t, f).URL))
	f.times.Store(1)
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"})
	if ce := callError(t, err); ce.Outcome != Refused || f.seen.Load() != 1 {
		t.Errorf("outcome %d after %d calls, want that the first is refused: %v", ce.Outcome, f.seen.Load(), err)
	}
	if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"}); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A tool may refuse a call with words that servers have for the end of a session. Its error
// has the id of the call, which then is not made again.
func TestAttackRefusalNamesASession(t *testing.T) {
	t.Parallel()
	f := &flaky{next: eras[1].handler(newTestServer()), first: answersError(http.StatusBadRequest, -32000, "sent half; the session of the browser is closed")}
	refusesOnce(t, f)
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		s := newTestServer()
		s.add("large", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(strings.Repeat("x", 1<<20)), nil
		})
		cfg := httpConfig(serve(t, e.handler(s)).URL)
		cfg.MaxResultBytes = 1 << 16
		p := open(t, cfg)
		_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "large"})
		if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, ErrTooLarge) {
			t.Errorf("outcome %d, error %v", ce.Outcome, err)
		}
	})
}

// TestAttackSessionEndsUnderACall: a call whose stream breaks and cannot be resumed, since the
// server has forgotten the session meanwhile, may have been executed, and is not made again.
func TestAttackSessionEndsUnderACall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	forgotten := make(chan bool, 1)
	h := &hostile{
		call: func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			calls.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\nretry: 10\ndata:\n\n")
		},
		listen: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-Id") == "" {
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNotFound)
			forgotten <- true
		},
	}
	_, err := callGo(t, open(t, httpConfig(serve(t, h).URL)), Call{})
	if ce := callError(t, err); ce.Outcome != Unknown || calls.Load() != 1 {
		t.Errorf("outcome %d after %d calls, want that the first is unknown: %v", ce.Outcome, calls.Load(), err)
	}
	<-forgotten
}

// TestAttackToolNamesARevision: a tool may fail with the code by which servers refuse a
// revision. Its error comes as an answer, and the call is not made again.
func TestAttackToolNamesARevision(t *testing.T) {
	t.Parallel()
	f := &flaky{next: eras[0].handler(newTestServer()), first: answersError(http.StatusOK, mcp.UNSUPPORTED_PROTOCOL_VERSION, "sent half")}
	refusesOnce(t, f)
}

// A server without sessions that does not find something has refused the call.
func TestNotFoundWithoutASession(t *testing.T) {
	t.Parallel()
	f := &flaky{next: eras[0].handler(newTestServer()), first: func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(http.StatusNotFound)
	}}
	refusesOnce(t, f)
}
