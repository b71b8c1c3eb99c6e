package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// asker answers what it is asked, and notes it.
type asker struct {
	mu     sync.Mutex
	asked  []string
	answer func(message string) (action string, content any)
}

func (a *asker) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.Params.Message)
	res := &mcp.ElicitationResult{}
	action, content := a.answer(r.Params.Message)
	res.Action, res.Content = mcp.ElicitationResponseAction(action), content
	return res, nil
}

//lint:ignore SA1019 clients of the session era are half of what is tested
var sessionEra = client.WithLegacyProtocolOnly()

// dial opens a real client of an era: legacy, listening (legacy, with a
// standalone stream) or modern.
func dial(t *testing.T, url, era string, handler client.ElicitationHandler) *client.Client {
	t.Helper()
	var topts []transport.StreamableHTTPCOption
	var copts []client.ClientOption
	version := mcp.LATEST_PROTOCOL_VERSION
	if era != "modern" {
		version = mcp.LATEST_LEGACY_PROTOCOL_VERSION
		copts = append(copts, sessionEra)
	}
	if era == "listening" {
		topts = append(topts, transport.WithContinuousListening()) //lint:ignore SA1019 clients of the session era do it
	}
	if handler != nil {
		copts = append(copts, client.WithElicitationHandler(handler))
	}
	tr := perduretest.Must(transport.NewStreamableHTTP(url, topts...))(t)
	return start(t, client.NewClient(tr, copts...), version)
}

func start(t *testing.T, c *client.Client, version string) *client.Client {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	perduretest.NoError(t, c.Start(t.Context()))
	var req mcp.InitializeRequest
	req.Params.ProtocolVersion = version
	req.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	if _, err := c.Initialize(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if c.ProtocolVersion() != version {
		t.Fatalf("negotiated %s, want %s", c.ProtocolVersion(), version)
	}
	return c
}

func callTool(t *testing.T, c *client.Client, name string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = name, args
	res, err := c.CallTool(t.Context(), req)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func TestRealClients(t *testing.T) {
	t.Parallel()
	plays := map[string]func(*play){
		"gated": gated,
		"plain": func(p *play) {
			p.step("a")
			p.complete(`{"got":` + p.arguments() + `}`)
		},
	}
	for _, era := range []string{"legacy", "listening", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, plays)
			var tries int
			a := &asker{answer: func(string) (string, any) {
				tries++
				if tries == 1 {
					return "accept", map[string]any{"reason": 1}
				}
				return "accept", map[string]any{"reason": "fine"}
			}}
			c := dial(t, w.url, era, a)
			list := perduretest.Must(c.ListTools(t.Context(), mcp.ListToolsRequest{}))(t)
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if want := []string{"be_echo", "gated", "perdure_run_await", "perdure_run_cancel", "perdure_run_list", "plain"}; !slices.Equal(names, want) {
				t.Errorf("tools are %v, want %v", names, want)
			}
			res := callTool(t, c, "plain", map[string]any{"message": "hi"})
			if got := string(mustJSON(t, res.StructuredContent)); got != `{"got":{"message":"hi","n":1}}` {
				t.Errorf("plain: %s", got)
			}
			res = callTool(t, c, "gated", nil)
			if got := string(mustJSON(t, res.StructuredContent)); got != `{"action":"accept","by":"user-"}` {
				t.Errorf("gated: %s %v", got, res.Content)
			}
			if len(a.asked) != 2 {
				t.Errorf("asked %q", a.asked)
			}
			if _, err := c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "nothing"}}); err == nil {
				t.Error("an unknown tool can be called")
			}
		})
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b := perduretest.Must(json.Marshal(v))(t)
	return b
}

// TestManyCalls has every call hear of its own progress and of no other's.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	const n, steps = 100, 10
	w := newWorld(t, map[string]func(*play){"many": func(p *play) {
		p.total = steps
		for i := range steps {
			p.step(fmt.Sprint(i))
		}
		p.complete(p.arguments())
	}})
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	modern := &wire{T: t, url: w.url, caller: "ann"}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			token := fmt.Sprintf(`"tok%d"`, i)
			var r *response
			if i%2 == 0 {
				r = session.call(fmt.Sprint(i), "many", fmt.Sprintf(`{"message":"m%d"}`, i), `{"progressToken":`+token+`}`)
			} else {
				r = modern.modernCall("many", fmt.Sprintf(`{"message":"m%d"}`, i), `{}`, "")
			}
			seen, last, mine := 0, -1.0, ""
			for {
				m := r.message()
				if m.Result != nil {
					if want := fmt.Sprintf(`{"message":"m%d","n":1}`, i); string(m.Result.Structured) != want {
						t.Errorf("call %d got %s", i, m.Result.Structured)
					}
					break
				}
				var p struct {
					ProgressToken string
					Progress      float64
				}
				if err := json.Unmarshal(m.Params, &p); err != nil {
					t.Error(err)
				}
				if mine == "" {
					mine = p.ProgressToken
				}
				if p.ProgressToken != mine || i%2 == 0 && `"`+mine+`"` != token || p.Progress <= last {
					t.Errorf("call %d got progress %+v after %v", i, p, last)
				}
				seen, last = seen+1, p.Progress
			}
			if seen < steps {
				t.Errorf("call %d heard of %d steps", i, seen)
			}
		})
	}
	all.Wait()
}

func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	resumable := connect(t, w.url, "ann", "2025-11-25", canAsk)
	older := connect(t, w.url, "ann", "2025-06-18", canAsk)
	stream, olderStream := resumable.call("1", "gated", `{}`, ""), older.call("1", "gated", `{}`, "")
	id, _, _ := stream.asked()
	olderID, _, _ := olderStream.asked()
	idle := resumable.do(t.Context(), "GET", "")
	idle.frame()

	w.gateway.Drain()
	if f, ok := stream.frame(); ok {
		t.Errorf("the resumable stream was not cut: %s", f.Data)
	}
	if f, ok := idle.frame(); ok {
		t.Errorf("the standalone stream was not cut: %s", f.Data)
	}
	if m := olderStream.next(); m.Method != "notifications/cancelled" {
		t.Errorf("the question %s was not withdrawn: %+v", olderID, m)
	}
	m := olderStream.result(false)
	if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`); err != nil {
		t.Error(err)
	}
	_, resumable.url = w.replica()
	again := resumable.do(t.Context(), "GET", "", "Last-Event-ID", stream.lastID)
	resumable.reply(id, `{"action":"decline"}`)
	again.result(false).structuredIs(t, `{"action":"decline","by":"user-ann"}`)
}
