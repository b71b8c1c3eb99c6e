package gateway_test

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
)

// A definition says to whom it is offered, and as what; the policy goes by the
// definition's name, and can only take away.
func TestExposedTools(t *testing.T) {
	t.Parallel()
	names := []string{"open", "narrow", "renamed", "hidden", "caller"}
	plays := map[string]func(*play){}
	for _, name := range names {
		plays[name] = echoed
	}
	w := newWorld(t, plays, func(o *gateway.Options) {
		o.Prefix = "wf_"
		o.Policy = &auth.Policy{Rules: []auth.Rule{
			{Grant: auth.Grant{Tools: []string{"open", "narrow", "renamed", "caller", "be_*"}, Groups: []string{"*"}}},
		}}
	})
	source := func(name, more, step string) string {
		return "name: " + name + "\ndescription: d\n" + more + "steps: [{id: a, " + step + "}]\n---\n"
	}
	w.gateway.SetDefinitions(define(t, source("open", "", "tool: be_echo")+
		source("narrow", "expose: {subjects: [user-ann]}\n", "tool: be_echo")+
		source("renamed", "expose: {as: other}\n", "tool: be_echo")+
		source("hidden", "expose: {hidden: true, callers: [caller]}\n", "tool: be_echo")+
		source("caller", "", "type: workflow, workflow: hidden")+
		source("broken", "", "type: workflow, workflow: nowhere")))
	for caller, want := range map[string]string{"ann": "be_echo other wf_caller wf_narrow wf_open", "bob": "be_echo other wf_caller wf_open"} {
		c := connect(t, w.url, caller, "2025-11-25", canAsk)
		for _, r := range []*response{c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), c.modern("tools/list", "", `{}`, "")} {
			body := perduretest.Must(io.ReadAll(r.Body))(t)
			var listed []string
			for _, found := range regexp.MustCompile(`"name":"([a-z_]+)"`).FindAllSubmatch(body, -1) {
				if name := string(found[1]); !strings.HasPrefix(name, "perdure") {
					listed = append(listed, name)
				}
			}
			slices.Sort(listed)
			if got := strings.Join(listed, " "); got != want {
				t.Errorf("%s sees %s, want %s", caller, got, want)
			}
		}
		c.call("2", "other", `{}`, "").result(false)
		c.call("3", "wf_caller", `{}`, "").result(false)
		for _, name := range []string{"hidden", "wf_hidden", "open", "renamed", "wf_renamed", "wf_broken"} {
			if m := c.call("4", name, `{}`, "").message(); m.Error == nil {
				t.Errorf("%s calls %s: %+v", caller, name, m.Result)
			}
		}
		if m := c.modernCall("wf_narrow", `{}`, `{}`, "").message(); (m.Error == nil) != (caller == "ann") {
			t.Errorf("%s calls wf_narrow: %+v", caller, m.Error)
		}
	}
	reasons := map[string]string{}
	for _, c := range w.gateway.Composites() {
		reasons[c.Name] = c.Reason
		if c.Hidden != (c.Definition.Name == "hidden") {
			t.Errorf("%s is hidden: %v", c.Name, c.Hidden)
		}
	}
	if reasons["wf_broken"] != "it calls the composite tool nowhere, which was not found" || reasons["wf_hidden"] != "" {
		t.Errorf("reasons: %v", reasons)
	}
}
