package backends

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	tool := func(backend, original string) Tool {
		return Tool{Backend: backend, Original: original, Description: "as listed"}
	}
	// exposed gives what a client sees as name → backend.original, hidden
	// tools in brackets.
	exposed := func(c *catalogue) map[string]string {
		names := map[string]string{}
		for _, t := range c.tools {
			origin := t.Backend + "." + t.Original
			if t.Hidden {
				origin = "(" + origin + ")"
			}
			names[t.Name] = origin
		}
		return names
	}
	both := []Tool{tool("a", "get"), tool("a", "put"), tool("b", "get"), tool("c", "get"), tool("c", "del")}
	tests := []struct {
		name    string
		agg     Aggregation
		tools   []Tool
		want    map[string]string
		clashes []string
	}{
		{"no tools", Aggregation{}, nil, map[string]string{}, nil},
		{"prefix is the default", Aggregation{}, both,
			map[string]string{"a_get": "a.get", "a_put": "a.put", "b_get": "b.get", "c_get": "c.get", "c_del": "c.del"}, nil},
		{"prefix of free text", Aggregation{Strategy: "prefix", PrefixFormat: "x-{workload}."}, both[:2],
			map[string]string{"x-a.get": "a.get", "x-a.put": "a.put"}, nil},
		{"prefix that does not tell apart", Aggregation{PrefixFormat: "p_"}, both,
			map[string]string{"p_put": "a.put", "p_del": "c.del", "a.get": "(a.get)", "b.get": "(b.get)", "c.get": "(c.get)"}, []string{"p_get (a.get, b.get, c.get)"}},
		{"names that meet by prefix", Aggregation{}, []Tool{tool("a", "b_c"), tool("a_b", "c"), tool("a_b", "d")},
			map[string]string{"a_b_c": "a_b.c", "a_b_d": "a_b.d", "a.b_c": "(a.b_c)"}, []string{"a_b_c (a.b_c, whose name begins as those of backend a_b)"}},
		{"priority: first wins, others lose, listed or not", Aggregation{Strategy: "priority", Priority: []string{"b", "a"}}, both,
			map[string]string{"get": "b.get", "put": "a.put", "del": "c.del", "a.get": "(a.get)", "c.get": "(c.get)"}, nil},
		{"priority: of no listed backend, all are prefixed", Aggregation{Strategy: "priority", Priority: []string{"b", "nowhere"}}, append(both, tool("a", "del")),
			map[string]string{"get": "b.get", "put": "a.put", "a_del": "a.del", "c_del": "c.del", "a.get": "(a.get)", "c.get": "(c.get)"}, nil},
		{"priority without order", Aggregation{Strategy: "priority"}, both,
			map[string]string{"a_get": "a.get", "put": "a.put", "b_get": "b.get", "c_get": "c.get", "del": "c.del"}, nil},
		{"manual drops only what clashes", Aggregation{Strategy: "manual"}, both,
			map[string]string{"put": "a.put", "del": "c.del", "a.get": "(a.get)", "b.get": "(b.get)", "c.get": "(c.get)"}, []string{"get (a.get, b.get, c.get)"}},
		{"manual settled by overrides", Aggregation{Strategy: "manual", Tools: []WorkloadTools{
			{Workload: "b", Overrides: map[string]Override{"get": {Name: "bget"}}},
			{Workload: "c", Overrides: map[string]Override{"get": {Name: "cget"}}},
		}}, both, map[string]string{"get": "a.get", "put": "a.put", "bget": "b.get", "cget": "c.get", "del": "c.del"}, nil},
		{"overrides rename before the prefix", Aggregation{Tools: []WorkloadTools{
			{Workload: "a", Overrides: map[string]Override{"get": {Name: "fetch"}}},
		}}, both[:2], map[string]string{"a_fetch": "a.get", "a_put": "a.put"}, nil},
		{"filter hides, by either name", Aggregation{Tools: []WorkloadTools{
			{Workload: "a", Filter: []string{"fetch"}, Overrides: map[string]Override{"get": {Name: "fetch"}}},
			{Workload: "c", Filter: []string{"get"}},
		}}, both, map[string]string{"a_fetch": "a.get", "a_put": "(a.put)", "b_get": "b.get", "c_get": "c.get", "c_del": "(c.del)"}, nil},
		{"excludeAll", Aggregation{Tools: []WorkloadTools{{Workload: "c", ExcludeAll: true}}}, both,
			map[string]string{"a_get": "a.get", "a_put": "a.put", "b_get": "b.get", "c_get": "(c.get)", "c_del": "(c.del)"}, nil},
		{"excludeAllTools", Aggregation{ExcludeAllTools: true}, both[:2],
			map[string]string{"a_get": "(a.get)", "a_put": "(a.put)"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, clashes := resolve(tt.agg, backendsOf(tt.tools), tt.tools)
			if diff := cmp.Diff(tt.want, exposed(c)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.clashes, clashes); diff != "" {
				t.Errorf("clashes (-want +got):\n%s", diff)
			}
			for _, tool := range tt.tools {
				if got, ok := c.find(tool.Backend + "." + tool.Original); !ok || got.Backend != tool.Backend || got.Original != tool.Original {
					t.Errorf("%s.%s is found as %+v", tool.Backend, tool.Original, got)
				}
			}
			for _, tool := range c.tools {
				if got, _ := c.find(tool.Name); got.Backend != tool.Backend || got.Original != tool.Original {
					t.Errorf("%s is found as %s.%s", tool.Name, got.Backend, got.Original)
				}
			}
		})
	}
}

func TestOverrideAnnotations(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	agg := Aggregation{Tools: []WorkloadTools{{Workload: "a", Overrides: map[string]Override{"get": {Annotations: Annotations{Title: "Get", ReadOnlyHint: &yes}}}}}}
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"hints that are trusted", Config{Name: "a", TrustAnnotations: true}, "read"},
		{"hints that are not trusted", Config{Name: "a"}, "unsafe"},
		{"a rule", Config{Name: "a", TrustAnnotations: true, Effects: []EffectRule{{Tool: "*", Class: "keyed"}}}, "keyed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			listed := listedTool{Name: "get"}
			listed.Annotations.OpenWorldHint, listed.Annotations.ReadOnlyHint = &no, &no
			c, _ := resolve(agg, []string{"a"}, tc.config.rules().classify([]Tool{tc.config.tool(listed)}))
			got, _ := c.find("a_get")
			if got.Effect != tc.want || got.Annotations != (Annotations{Title: "Get", ReadOnlyHint: &yes, OpenWorldHint: &no}) {
				t.Errorf("class %s, annotations %+v, want %s", got.Effect, got.Annotations, tc.want)
			}
		})
	}
}

func TestOverrideDescription(t *testing.T) {
	t.Parallel()
	c, _ := resolve(Aggregation{Tools: []WorkloadTools{{Workload: "a", Overrides: map[string]Override{"get": {Description: "new"}}}}}, []string{"a"},
		[]Tool{{Backend: "a", Original: "get", Description: "old"}})
	if got, _ := c.find("a_get"); got.Description != "new" {
		t.Errorf("description %q", got.Description)
	}
}

func TestEffect(t *testing.T) {
	t.Parallel()
	rules := []EffectRule{
		{Tool: "get_secret", Class: "unsafe"},
		{Tool: "get_*", Class: "read"},
		{Tool: "pay", Class: "keyed", KeyArgument: "request_id"},
	}
	tests := []struct {
		name, tool string
		trust      bool
		hints      string
		want, key  string
	}{
		{"first rule wins", "get_secret", false, `{}`, "unsafe", ""},
		{"glob", "get_file", false, `{}`, "read", ""},
		{"keyed", "pay", false, `{}`, "keyed", "request_id"},
		{"no rule", "put", false, `{}`, "unsafe", ""},
		{"hints of an untrusted server", "list", false, `{"readOnlyHint":true}`, "unsafe", ""},
		{"trusted read", "list", true, `{"readOnlyHint":true}`, "read", ""},
		{"trusted idempotent", "set", true, `{"readOnlyHint":false,"idempotentHint":true}`, "idempotent", ""},
		{"trusted without hints", "set", true, `{}`, "unsafe", ""},
		{"a rule before trusted hints", "get_secret", true, `{"readOnlyHint":true}`, "unsafe", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l listedTool
			perduretest.NoError(t, json.Unmarshal([]byte(`{"name":"`+tt.tool+`","annotations":`+tt.hints+`}`), &l))
			c := Config{Name: "be", Effects: rules, TrustAnnotations: tt.trust}
			got := c.rules().classify([]Tool{c.tool(l)})[0]
			if got.Effect != tt.want || got.KeyArgument != tt.key {
				t.Errorf("class %s, key argument %q; want %s, %q", got.Effect, got.KeyArgument, tt.want, tt.key)
			}
		})
	}
}

func TestWithKey(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, argument, key, want string }{
		{``, "", "", `{}`},
		{`{"n":1.0}`, "", "k", `{"n":1.0}`},
		{`{"n":123456789012345678901234567890}`, "id", "k", `{"id":"k","n":123456789012345678901234567890}`},
		{`{"id":"old"}`, "id", "k", `{"id":"k"}`},
		{``, "id", "k", `{"id":"k"}`},
		{`{"a":1}`, "id", "", `{"a":1}`},
		{`[]`, "", "", ``},
		{`null`, "id", "k", ``},
		{`{"a":`, "", "", ``},
	}
	for _, tt := range tests {
		got, err := withKey(json.RawMessage(tt.args), tt.argument, tt.key)
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("withKey(%s, %s, %s) = %s, %v; want %s", tt.args, tt.argument, tt.key, got, err, tt.want)
		}
	}
}

func TestParseResult(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"content":[
		{"type":"text","text":"one"},
		{"type":"image","data":"aW1n","mimeType":"image/png"},
		{"type":"audio","data":"YXVk","mimeType":"audio/wav"},
		{"type":"resource","resource":{"uri":"mem://a","mimeType":"text/plain","text":"inside"}},
		{"type":"resource","resource":{"uri":"mem://b","blob":"YmxvYg=="}},
		{"type":"resource_link","uri":"mem://c","name":"c","mimeType":"text/html"},
		{"type":"hologram","depth":3}
	],"structuredContent":{"n":1e400},"isError":true}`)
	got := perduretest.Must(parseResult(raw))(t)
	want := &Result{IsError: true, Raw: raw, Structured: json.RawMessage(`{"n":1e400}`), Content: []Content{
		{Type: "text", Text: "one"},
		{Type: "image", Data: "aW1n", MIMEType: "image/png"},
		{Type: "audio", Data: "YXVk", MIMEType: "audio/wav"},
		{Type: "resource", Text: "inside", URI: "mem://a", MIMEType: "text/plain"},
		{Type: "resource", Data: "YmxvYg==", URI: "mem://b"},
		{Type: "resource_link", URI: "mem://c", MIMEType: "text/html"},
		{Type: "hologram"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1},"isError":false}`))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"u","blob":"AA=="}}],"structuredContent":null}`))
	f.Add([]byte(`{"resultType":"input_required"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseResult(raw)
		if err == nil && r.Structured != nil && !json.Valid(r.Structured) {
			t.Errorf("structured content %q is not JSON", r.Structured)
		}
	})
}

func backendsOf(tools []Tool) (names []string) {
	for _, t := range tools {
		if !slices.Contains(names, t.Backend) {
			names = append(names, t.Backend)
		}
	}
	return names
}
