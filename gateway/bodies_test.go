package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// slowRuns take a while to start one, and keep no arguments.
type slowRuns struct {
	*fakeRuns
	begun chan struct{} // one for each run that is started
	start chan struct{} // closed when they may be
}

func (r *slowRuns) Start(ctx context.Context, req runs.StartRequest) (runs.Started, error) {
	r.begun <- struct{}{}
	<-r.start
	req.Arguments = nil
	return r.fakeRuns.Start(ctx, req)
}

func newSlowWorld(t *testing.T, plays map[string]func(*play), bodies *web.Bodies) (*world, *slowRuns) {
	t.Helper()
	slow := &slowRuns{begun: make(chan struct{}, 100), start: make(chan struct{})}
	w := newWorld(t, plays, func(o *gateway.Options) {
		slow.fakeRuns = o.Runs.(*fakeRuns)
		o.Runs, o.Bodies, o.MaxRequest = slow, bodies, 64<<20
	})
	return w, slow
}

func arguments(size int) string { return `{"message":"` + strings.Repeat("x", size) + `"}` }

// A caller at its limit waits for itself alone, and then learns that nothing was done.
// Other callers do not wait for it, and small requests wait for no other.
func TestLargeRequestsShare(t *testing.T) {
	t.Parallel()
	w, slow := newSlowWorld(t, map[string]func(*play){"echoed": echoed}, web.NewBodies(4<<20, 50*time.Millisecond))
	ann, bob := connect(t, w.url, "ann", "2025-03-26", `{}`), connect(t, w.url, "bob", "2025-03-26", `{}`)
	answered := make(chan int, 10)
	call := func(c *wire, id, arguments string) {
		go func() { answered <- c.call(id, "echoed", arguments, "").StatusCode }()
		<-slow.begun
	}
	call(ann, "1", arguments(5<<18))
	refused := ann.call("2", "echoed", arguments(5<<18), "")
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" || !strings.Contains(textOf(t, refused.Body), "nothing was done") {
		t.Errorf("one too many is answered %s, %v", refused.Status, refused.Header)
	}
	call(bob, "3", arguments(5<<18))
	call(ann, "4", arguments(10))
	close(slow.start)
	for range 3 {
		if status := <-answered; status != http.StatusOK {
			t.Errorf("answered with %d", status)
		}
	}
	// A request larger than a caller's part takes all of that part.
	if got := ann.call("5", "echoed", arguments(4<<20), ""); got.StatusCode != http.StatusOK {
		t.Errorf("afterwards it is answered %s", got.Status)
	}
}

// A call that waits for its run holds nothing of its request, wherever its client has put
// something large, and no room. (Not parallel: it looks at all memory of this process.)
func TestAttackWaitingCallHoldsNothing(t *testing.T) {
	const size, calls = 5 << 18, 2
	w, slow := newSlowWorld(t, map[string]func(*play){"gated": gated}, web.NewBodies(2<<20, 10*time.Second))
	close(slow.start)
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	for version, header := range map[string][]string{
		"2025-11-25": {"Mcp-Session-Id", c.session},
		"2026-07-28": {"Mcp-Method", "tools/call", "Mcp-Name", "gated"},
	} {
		meta := `{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"` + version + `"`
		about, able := `,"io.modelcontextprotocol/clientInfo":{"name":"wire","version":"2"}`, `,"io.modelcontextprotocol/clientCapabilities":{}`
		before := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gated",`
		for where, body := range map[string]string{
			"arguments":      before + `"arguments":{"message":"|"},"_meta":` + meta + about + able + `}}}`,
			"cursor":         before + `"cursor":"|","_meta":` + meta + about + able + `}}}`,
			"taskId":         before + `"taskId":"|","_meta":` + meta + about + able + `}}}`,
			"inputResponses": before + `"inputResponses":{"a":"|"},"_meta":` + meta + about + able + `}}}`,
			"tracestate":     before + `"_meta":` + meta + about + able + `,"tracestate":"|"}}}`,
			"clientInfo":     before + `"_meta":` + meta + `,"io.modelcontextprotocol/clientInfo":{"name":"|"}` + able + `}}}`,
			"capabilities":   before + `"_meta":` + meta + about + `,"io.modelcontextprotocol/clientCapabilities":{"experimental":{"a":"|"}}}}}`,
		} {
			parts, free := strings.SplitN(body, "|", 2), perduretest.Heap()
			for range calls { // the room is for one at a time
				hold(t, w, version, header, parts, size)
				<-slow.begun
			}
			if held := perduretest.Heap() - free; held > size {
				t.Errorf("%s: %d calls with %d MB of %s hold %d KB", version, calls, size>>20, where, held>>10)
			}
		}
	}
}

// hold sends a call with letters between the parts of its body, and waits until it is
// accepted; its stream is open until the test ends.
func hold(t *testing.T, w *world, version string, header, parts []string, size int64) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url,
		io.MultiReader(strings.NewReader(parts[0]), io.LimitReader(letters{}, size), strings.NewReader(parts[1])))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	request.Header.Set("Mcp-Protocol-Version", version)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("X-Caller", "ann")
	response := perduretest.Must(http.DefaultClient.Do(request))(t)
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: answered %s", version, response.Status)
	}
}

// letters are without end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func textOf(t *testing.T, r io.Reader) string {
	t.Helper()
	text := perduretest.Must(io.ReadAll(r))(t)
	return string(text)
}

// Requests that wait for a run hold no room, however much their sender has put
// into them, and those that last as long as their sender likes are small.
func TestWaitingRequestsHoldNoRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated, "echoed": echoed}, func(o *gateway.Options) {
		o.Bodies, o.MaxRequest = web.NewBodies(3<<20, 50*time.Millisecond), 64<<20
	})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	task := c.request("tools/call", `{"name":"gated","arguments":{},"task":{"ttl":60000}}`).ok().Task
	pad := `{"progressToken":"p","pad":"` + strings.Repeat("x", 2<<20) + `"}`
	long := `{"progressToken":"` + strings.Repeat("x", 300) + `"}`
	for _, names := range []string{
		callBody("1", "gated", `{}`, long),
		`{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"` + task.TaskID + `","_meta":` + long + `}}`,
	} {
		if m := c.do(t.Context(), http.MethodPost, names).message(); m.Error == nil || !strings.Contains(m.Error.Message, "progressToken") {
			t.Errorf("%.60s with a long token is answered %+v", names, m)
		}
	}
	for _, waits := range []string{
		callBody("1", "perdure_run_await", `{"runId":"`+string(w.runs.only(t))+`"}`, pad),
		`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + task.TaskID + `","_meta":` + pad + `}}`,
	} {
		stream := c.do(t.Context(), http.MethodPost, waits)
		for m := stream.message(); m.Method != "elicitation/create"; {
			m = stream.message()
		}
		if got := c.call("3", "echoed", arguments(2<<20), ""); got.StatusCode != http.StatusOK {
			t.Errorf("beside %.60s a large call is answered %s", waits, got.Status)
		}
	}
	for about, pad := range map[string]string{
		"large": `"` + strings.Repeat("x", 65<<10) + `"`, "dense": "[0" + strings.Repeat(",0", 2<<10) + "]",
	} {
		listens := c.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"_meta":{"pad":`+pad+`}}}`)
		if listens.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a %s subscriptions/listen is answered %s", about, listens.Status)
		}
	}
}

// A client that announces much and sends little of it, again and again, does not keep
// others waiting, at any endpoint.
func TestAttackRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) {
		o.Registry, o.Bodies = registry.New(registry.Options{}), web.NewBodies(8<<20, 50*time.Millisecond)
	})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	host := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	for i := range 18 {
		path := []string{"/mcp", gateway.RegistryPrefix + "publish"}[i%2]
		slow := perduretest.Must(net.Dial("tcp", host))(t)
		defer slow.Close()
		fmt.Fprintf(slow, "POST %s HTTP/1.1\r\nHost: %s\r\nX-Caller: guest\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, host, 8<<20)
		if line, err := bufio.NewReader(slow).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%s, %v", line, err)
		}
		if _, err := slow.Write(make([]byte, 1<<20+1)); err != nil {
			t.Log(err) // the server has answered by now
		}
		if got := c.call(fmt.Sprint(i), "echoed", arguments(3<<20), ""); got.StatusCode != http.StatusOK {
			t.Errorf("beside %d stalled requests of a guest a large call is answered %s", i+1, got.Status)
		}
	}
	if status, answer := w.request(http.MethodPost, "publish", "ann", strings.Repeat("x", 9<<20)); status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, `"error"`) {
		t.Errorf("too much is answered %d: %s", status, answer)
	}
}
