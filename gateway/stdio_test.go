package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
)

// pipe serves stdio and returns what the client of it writes to and reads from.
func pipe(t *testing.T, w *world) (in *io.PipeWriter, out *io.PipeReader, served <-chan error) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := w.gateway.ServeStdio(t.Context(), inR, outW)
		_ = outW.Close()
		done <- err
	}()
	t.Cleanup(func() { _ = inW.Close(); _ = outR.Close() })
	return inW, outR, done
}

// lines gives functions that write a line to a server and read the next message from it.
func lines(t *testing.T, in io.Writer, out io.Reader) (say func(line string), hear func() *msg) {
	dec := json.NewDecoder(out)
	say = func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear = func() *msg {
		t.Helper()
		var m msg
		perduretest.NoError(t, dec.Decode(&m))
		return &m
	}
	return say, hear
}

func TestStdioWithRealClients(t *testing.T) {
	t.Parallel()
	for era, version := range map[string]string{"legacy": mcp.LATEST_LEGACY_PROTOCOL_VERSION, "modern": mcp.LATEST_PROTOCOL_VERSION} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"gated": gated, "echoed": echoed})
			w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) {
				return &backends.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"direct"}]}`)}, nil
			}
			in, out, served := pipe(t, w)
			a := &asker{}
			a.answer = func(string) (string, any) {
				if len(a.asked) == 1 {
					return "accept", map[string]any{}
				}
				return "accept", map[string]any{"reason": "r"}
			}
			opts := []client.ClientOption{client.WithElicitationHandler(a)}
			if era == "legacy" {
				opts = append(opts, sessionEra)
			}
			c := start(t, client.NewClient(transport.NewIO(out, in, io.NopCloser(strings.NewReader(""))), opts...), version)
			res := callTool(t, c, "gated", nil)
			if got := string(mustJSON(t, res.StructuredContent)); got != `{"action":"accept","by":"anonymous"}` || len(a.asked) != 2 {
				t.Errorf("gated: %s after asking %q", got, a.asked)
			}
			if res := callTool(t, c, "be_echo", nil); res.Content[0].(mcp.TextContent).Text != "direct" {
				t.Errorf("be_echo: %+v", res)
			}
			list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil || !slices.ContainsFunc(list.Tools, func(t mcp.Tool) bool { return t.Name == "echoed" }) {
				t.Errorf("tools: %+v %v", list, err)
			}
			_ = in.Close()
			if err := <-served; err != nil {
				t.Errorf("serving ended with %v", err)
			}
		})
	}
}

func TestStdioLineByLine(t *testing.T) {
	t.Parallel()
	hang := func(p *play) {
		p.step("a")
		<-p.f.ctx.Done()
	}
	w := newWorld(t, map[string]func(*play){"hang": hang})
	in, out, served := pipe(t, w)
	say, hear := lines(t, in, out)
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if m := hear(); m.Result == nil {
		t.Fatalf("initialize: %+v", m)
	}
	say("")
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`nonsense`)
	if m := hear(); m.Error == nil || m.Error.Code != -32700 {
		t.Errorf("nonsense: %+v", m)
	}
	say(callBody("1", "hang", `{}`, `{"progressToken":"t"}`))
	for range 2 {
		if m := hear(); m.Method != "notifications/progress" {
			t.Errorf("want progress, got %+v", m)
		}
	}
	w.catalogue.set(tool("echo"), tool("more"))
	if m := hear(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("want list_changed, got %+v", m)
	}
	say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // while the call is under way
	if m := hear(); string(m.ID) != "2" {
		t.Errorf("want the answer to ping, got %+v", m)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	run := w.runs.only(t)
	w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
	say(`{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}`)
	if m := hear(); string(m.ID) != "12345678901234567890" { // the cancelled call gets no response
		t.Errorf("want the answer to ping, got %+v", m)
	}
	say(callBody("3", "hang", `{"n":2}`, ""))
	w.runs.wait(t.Context(), func() bool { return len(w.runs.runs) == 2 })
	w.gateway.Drain()
	if m := hear(); string(m.ID) != "3" || m.Result.IsError || !strings.Contains(m.text(), "goes on") {
		t.Errorf("want a handle, got %+v", m)
	}
	_ = in.CloseWithError(errors.New("pipe broke"))
	if err := <-served; err == nil || !strings.Contains(err.Error(), "pipe broke") {
		t.Errorf("serving ended with %v", err)
	}
}

// A request that was cancelled gets no response, and its run ends, in each era.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for era, meta := range map[string]string{"legacy": "", "modern": modernMeta} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hanging})
			called, cancelled := make(chan bool), make(chan bool)
			w.catalogue.call = func(ctx context.Context, _ backends.Call) (*backends.Result, error) {
				close(called)
				<-ctx.Done()
				close(cancelled)
				return nil, ctx.Err()
			}
			in, out, _ := pipe(t, w)
			say, hear := lines(t, in, out)
			is := func(id string) {
				t.Helper()
				if m := hear(); string(m.ID) != id {
					t.Fatalf("want the response to %s, got %+v", id, m)
				}
			}
			cancel := func(id string) {
				say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"the user pressed stop","_meta":` + cmp.Or(meta, "{}") + `}}`)
			}
			if era == "legacy" {
				say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
				is("0")
			}
			say(callBody("1", "hang", `{}`, meta))
			run := w.runs.only(t)
			cancel("1")
			w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
			say(callBody("2", "be_echo", `{}`, meta))
			<-called
			cancel("2")
			<-cancelled
			say(callBody("3", "nothing", `{}`, meta))
			is("3")
		})
	}
}
