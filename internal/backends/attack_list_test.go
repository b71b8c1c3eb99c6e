package backends

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// whyDown waits for a backend to be down, and gives the reason.
func whyDown(t *testing.T, p *Pool) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s := p.Status()[0]
		if s.Tried && !s.Up && s.Error != "" {
			return s.Error
		}
		if s.Up || time.Now().After(end) {
			t.Fatalf("the backend is not down: %+v", s)
		}
	}
}

// TestAttackBackendLists: a list of tools that is larger than any, or has no end.
func TestAttackBackendLists(t *testing.T) {
	raw := func(text string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text)
		}
	}
	tool := func(name string) string {
		quoted, _ := json.Marshal(name)
		return fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quoted)
	}
	for name, attack := range map[string]struct {
		list func(cursor string) any
		says string
	}{
		"pages without end": {func(cursor string) any {
			return map[string]any{"tools": []any{named("t" + cursor)}, "nextCursor": cursor + "x"}
		}, "pages"},
		"empty pages without end": {func(cursor string) any { return map[string]any{"tools": []any{}, "nextCursor": cursor + "x"} }, "pages"},
		"many tools":              {func(string) any { return raw(`{"tools":[` + strings.Repeat("{},", 1<<20) + `{}]}`) }, "tools"},
		"many tools in pages": {func(cursor string) any {
			var page []any
			for i := range 1000 {
				page = append(page, named(fmt.Sprint("t", cursor, i)))
			}
			return map[string]any{"tools": page, "nextCursor": cursor + "x"}
		}, "tools"},
		"a large page": {func(string) any { return raw(`{"tools":[],"x":"` + strings.Repeat("x", 8<<20) + `"}`) }, "over the limit"},
		"large pages": {func(cursor string) any {
			return raw(`{"tools":[{"name":"t` + cursor + `","description":"` + strings.Repeat("x", 3<<20) + `","inputSchema":{}}],"nextCursor":"` + cursor + `x"}`)
		}, "over the limit"},
		"a page that follows itself": {func(string) any { return map[string]any{"tools": []any{}, "nextCursor": "x"} }, "after itself"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{list: attack.list}
			p := openUnready(t, httpConfig(serve(t, h).URL))
			var why string
			allocated := perduretest.Allocated(func() { why = whyDown(t, p) })
			t.Logf("%d MB: %.200s", allocated>>20, why)
			if !strings.Contains(why, attack.says) {
				t.Errorf("it is down since %.300s", why)
			}
			if allocated > 600<<20 {
				t.Errorf("%d MB were allocated", allocated>>20)
			}
		})
	}

	// What is wrong with a tool leaves that one out.
	deep := strings.Repeat(`{"items":`, 300) + "{}" + strings.Repeat("}", 300)
	left := []string{
		tool(""), tool("a\x00b"), tool("a\nb"), tool("a b"), tool("a\u202eb"), tool("a\u200bb"), tool("\u2028"), tool(strings.Repeat("x", 300)), tool("a\u00a0b"), tool("\ufeffgo"),
		`{"name":"a\u001b[2J","inputSchema":{}}`,
		`{"name":"deep","inputSchema":` + deep + `}`, `{"name":"deep_out","inputSchema":{},"outputSchema":` + deep + `}`,
		`{"name":"large","inputSchema":{"title":"` + strings.Repeat("x", 2<<20) + `"}}`,
		`{"name":"twice","inputSchema":{}}`, `{"name":"twice","description":"other","inputSchema":{}}`,
	}
	h := &hostile{list: func(string) any {
		return raw(`{"tools":[` + strings.Join(append(left, tool("fine"), tool("größe/öl.1-x_y:z")), ",") + `]}`)
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	var names []string
	for _, tool := range p.Tools() {
		names = append(names, tool.Original)
	}
	if want := []string{"fine", "größe/öl.1-x_y:z", "twice"}; !slices.Equal(names, want) {
		t.Errorf("taken are %q", names)
	}
}

// TestAttackBackendChanges: a server tells without end that its tools have
// changed, and has others each time.
func TestAttackBackendChanges(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	h := &hostile{list: func(string) any {
		return map[string]any{"tools": []any{named(fmt.Sprint("t", n.Add(1)))}}
	}}
	ended := make(chan struct{}, 1)
	h.listen = func(w http.ResponseWriter, r *http.Request) {
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && r.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
			fmt.Fprint(w, sseEvent(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
			w.(http.Flusher).Flush()
		}
		select {
		case ended <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}
	p := open(t, httpConfig(serve(t, h).URL))
	var told atomic.Int64
	p.OnChange(func() { told.Add(1) })
	receive(t, ended, "the end of the changes")
	// After 0.1, 0.3, 0.7, 1.5 and 3.1 s.
	if lists := h.lists.Load(); lists < 3 || lists > 7 || told.Load() > lists {
		t.Errorf("the tools were listed %d times, and %d changes told", lists, told.Load())
	}
}

// TestAttackBackendNewNames: a server lists tools by other names each time, all of
// which mcp-go's client keeps.
func TestAttackBackendNewNames(t *testing.T) {
	t.Parallel()
	var known knownNames
	for i := 0; ; i++ {
		var page []listedTool
		for j := range 1000 {
			page = append(page, listedTool{Name: fmt.Sprint("t", i, "_", j), Description: strings.Repeat("x", 100)})
		}
		if err := known.note(page); err != nil {
			break
		}
		if len(known.names) > 4*maxTools || known.size > 4*maxListing {
			t.Fatalf("%d tools of %d bytes are kept", len(known.names), known.size)
		}
	}
	var same knownNames
	for range 1000 {
		perduretest.NoError(t, same.note([]listedTool{{Name: "a", Description: strings.Repeat("x", 100_000)}}))
	}
}

// TestAttackBackendProgress: a call with more progress than anybody wants to see,
// and with messages of any length.
func TestAttackBackendProgress(t *testing.T) {
	t.Parallel()
	h := &hostile{call: func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 1; i <= 10_000; i++ {
			message := ""
			if i == 1 {
				message = strings.Repeat("é", 100_000)
			}
			fmt.Fprint(w, sseEvent(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":%d,"message":%q}}`, i, message)))
		}
		fmt.Fprint(w, sseEvent(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)))
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	var told, longest int
	began := time.Now()
	_, err := callGo(t, p, Call{Progress: func(p Progress) { told, longest = told+1, max(longest, len(p.Message)) }})
	if most := progressAtOnce + progressRate*int(time.Since(began).Seconds()+1); err != nil || told == 0 || told > most || longest == 0 || longest > maxProgressMessage+len("…") {
		t.Errorf("%v; told were %d of at most %d, the longest message has %d bytes", err, told, most, longest)
	}
}

// TestAttackBackendNames: a backend lists tools whose names are those of others.
func TestAttackBackendNames(t *testing.T) {
	t.Parallel()
	names := []string{"good", "good_2", "evil", "goo"}
	tools := []Tool{
		{Backend: "good", Original: "pay"}, {Backend: "good_2", Original: "pay"}, {Backend: "goo", Original: "x"},
		{Backend: "evil", Original: "good.pay"}, {Backend: "evil", Original: "good_pay"}, {Backend: "evil", Original: "good.other"}, {Backend: "evil", Original: "pay"},
		{Backend: "good", Original: "2_pay"}, {Backend: "good", Original: "2_later"}, {Backend: "goo", Original: "d.pay"},
	}
	for what, agg := range map[string]Aggregation{
		"prefix":              {},
		"prefix with a dot":   {PrefixFormat: "{workload}."},
		"prefix of nothing":   {PrefixFormat: "{workload}"},
		"priority":            {Strategy: StrategyPriority, Priority: []string{"good", "good_2"}},
		"priority for nobody": {Strategy: StrategyPriority},
		"manual":              {Strategy: StrategyManual},
	} {
		c, _ := resolve(agg, names, tools)
		for origin, want := range map[string]string{"good.pay": "good", "good_2.pay": "good_2", "evil.pay": "evil", "evil.good.pay": "evil"} {
			if got, ok := c.find(origin); !ok || got.Backend != want {
				t.Errorf("%s: %s is one of %s", what, origin, got.Backend)
			}
		}
		for _, name := range []string{"good.other", "good_2_later"} {
			if got, ok := c.byName[name]; ok && !(what == "prefix of nothing" && got.Backend == "good") {
				t.Errorf("%s: %s, in the name space of another, is one of %s", what, name, got.Backend)
			}
		}
		if what == "prefix" {
			for name, want := range map[string]string{"good_pay": "good", "good_2_pay": "good_2", "evil_good_pay": "evil"} {
				if got, ok := c.find(name); !ok || got.Backend != want {
					t.Errorf("%s is one of %q", name, got.Backend)
				}
			}
		}
	}
	// What the operator has named is where he wants it.
	c, _ := resolve(Aggregation{Strategy: StrategyManual, Tools: []WorkloadTools{{Workload: "evil", Overrides: map[string]Override{"x": {Name: "good.x"}}}}},
		names, []Tool{{Backend: "evil", Original: "x"}})
	if got, ok := c.find("good.x"); !ok || got.Backend != "evil" {
		t.Errorf("an override is left out: %+v", got)
	}
}
