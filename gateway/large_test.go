package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
)

// TestLargeResult shows which clients are given a link to a large output, and
// who may follow it.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	large := `{"text":"` + strings.Repeat("x", 5000) + `"}`
	w := newWorld(t, map[string]func(*play){
		"large": func(p *play) { p.complete(large) },
		"small": func(p *play) { p.complete(`{"text":"x"}`) },
	}, func(o *gateway.Options) { o.LinkOver = 1000 })
	ann, bob := connect(t, w.url, "ann", "2025-11-25", `{}`), connect(t, w.url, "bob", "2025-11-25", `{}`)
	old := connect(t, w.url, "ann", "2025-03-26", `{}`)
	old.call("1", "large", `{}`, "").result(false).structuredIs(t, large)
	ann.call("2", "small", `{}`, "").result(false).structuredIs(t, `{"text":"x"}`)

	var answer struct {
		Result struct {
			Content []struct {
				Type, URI, MimeType string
				Size                int
			}
			StructuredContent json.RawMessage
		}
	}
	raw := ann.call("3", "large", `{"message":"other"}`, "").messageText()
	err := json.Unmarshal(raw, &answer)
	link := answer.Result
	if err != nil || len(link.Content) != 2 || link.Content[1].Type != "resource_link" || link.Content[1].Size != len(large) || link.StructuredContent != nil {
		t.Fatalf("the client is given %s, %v", raw, err)
	}
	read := func(c *wire, uri string) string {
		return string(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":%q}}`, uri)).messageText())
	}
	if got := read(ann, link.Content[1].URI); !strings.Contains(got, strings.Repeat("x", 5000)) {
		t.Errorf("its caller reads %s", got)
	}
	for who, got := range map[string]string{
		"another caller": read(bob, link.Content[1].URI), "no such run": read(ann, "perdure://runs/large%2Fnone/result"),
	} {
		if strings.Contains(got, "xxxx") || !strings.Contains(got, "result not found") || !strings.Contains(got, "-32002") {
			t.Errorf("%s reads %s", who, got)
		}
	}
	anybody := &wire{T: t, url: w.url, caller: "ann"}
	none := anybody.modern("resources/read", "perdure://runs/large%2Fnone/result", `{}`, `"uri":"perdure://runs/large%2Fnone/result"`)
	if got := string(none.messageText()); !strings.Contains(got, "result not found") || !strings.Contains(got, "-32602") {
		t.Errorf("in 2026-07-28 she reads %s", got)
	}
}

// TestLargeResultOfAnExposedName shows that what a tool is offered as does not
// matter to its links, and what any version of it says of its output does.
func TestLargeResultOfAnExposedName(t *testing.T) {
	t.Parallel()
	large := `{"text":"` + strings.Repeat("x", 5000) + `"}`
	much := func(p *play) { p.complete(large) }
	w := newWorld(t, map[string]func(*play){"prefixed": much, "renamed": much, "typed": much}, func(o *gateway.Options) {
		o.LinkOver, o.Prefix = 1000, "wf_"
	})
	source := func(name, more string) string {
		return "name: " + name + "\ndescription: d\n" + more + "steps: [{id: a, tool: be_echo}]\n---\n"
	}
	w.gateway.SetDefinitions(define(t, source("prefixed", "")+source("renamed", "expose: {as: other}\n")+
		source("typed", "output: {properties: {text: {type: string, value: x}}}\n")))
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	for name, linked := range map[string]bool{"wf_prefixed": true, "other": true, "wf_typed": false} {
		if got := string(c.call("1", name, `{}`, "").messageText()); strings.Contains(got, "resource_link") != linked || !strings.Contains(got, "resource_link") != strings.Contains(got, "xxxx") {
			t.Errorf("%s is answered %s", name, got[:min(len(got), 500)])
		}
	}
}
