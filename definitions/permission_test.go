package definitions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPermissionOfTheWholeClosure holds which calls are asked about, by whose
// right, and where a denial is reported.
func TestPermissionOfTheWholeClosure(t *testing.T) {
	t.Parallel()
	defs, diags := Parse("test.yaml", []byte(`
name: top
description: d
steps:
  - {id: one, tool: be.one, onUnknown: ask, probe: {tool: be_probe, happened: "true"}, compensate: {tool: be_undo}}
  - {id: each, type: forEach, collection: "[1]", step: {tool: be_inner}}
  - {id: below, type: workflow, workflow: own@^1}
  - id: scripted
    type: script
    tools: ["made_*"]
    modules:
      m.star: |
        def go(): return be_module()
    script: |
      load("m.star", "go")
      go()
      call_tool("be_called", undo=undo("be_undone"))
      f = be_value
      call_workflow("again")
      call_tool(data["x"])
---
name: own
version: 1.0.0
description: d
runAs: composite
steps: [{id: a, tool: be_own}, {id: b, type: workflow, workflow: again}]
---
name: again
description: d
script: |
  be_again()
  iterate("be_pages", {})
`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var all []Tool
	for _, name := range []string{"one", "probe", "undo", "inner", "own", "module", "called", "undone", "value", "again", "pages"} {
		all = append(all, Tool{Name: "be_" + name, Backend: "be", Original: name, Effect: Read})
	}
	all = append(all, Tool{Name: "made_1", Backend: "made", Original: "1"}, Tool{Name: "made_2", Backend: "made", Original: "2"})
	tools := func(name string) (Tool, bool) {
		i := slices.IndexFunc(all, func(t Tool) bool { return t.Name == name || t.Backend+"."+t.Original == name })
		if i < 0 {
			return Tool{}, false
		}
		return all[i], true
	}
	var asked []string
	denied := ""
	permission := func(u Use) string {
		name := u.Tool
		if u.Called != nil {
			name = u.Called.Title()
		}
		use := fmt.Sprintf("%s: %s as %q calls %s", u.In.Name, u.By.Name, u.As, name)
		asked = append(asked, use)
		if denied != "" && strings.Contains(use, denied) {
			return "not " + name
		}
		return ""
	}
	check := func(defs []*Definition) Diagnostics {
		return Check(defs, CheckOptions{Tools: tools, Definitions: Among(defs), Permission: permission, AllTools: func() []Tool { return all }})
	}
	if diags := check(defs); diags.HasErrors() {
		t.Fatal(diags)
	}
	asked = slices.DeleteFunc(asked, func(use string) bool { return !strings.HasPrefix(use, "top: ") })
	slices.Sort(asked)
	want := []string{
		`top: again as "" calls be_again`, `top: again as "" calls be_pages`,
		`top: again as "own" calls be_again`, `top: again as "own" calls be_pages`,
		`top: own as "own" calls again`, `top: own as "own" calls be_own`,
		`top: top as "" calls again`,
		`top: top as "" calls be_called`, `top: top as "" calls be_inner`, `top: top as "" calls be_module`, `top: top as "" calls be_one`,
		`top: top as "" calls be_probe`, `top: top as "" calls be_undo`, `top: top as "" calls be_undone`, `top: top as "" calls be_value`,
		`top: top as "" calls made_*`, `top: top as "" calls made_1`, `top: top as "" calls made_2`, `top: top as "" calls own 1.0.0`,
	}
	if diff := cmp.Diff(want, slices.Compact(asked)); diff != "" {
		t.Errorf("what is asked (-want +got):\n%s", diff)
	}
	for use, at := range map[string]string{
		`as "" calls be_one`: "test.yaml:5:21", `calls be_probe`: "test.yaml:5:59", `calls be_undo`: "test.yaml:5:107", `calls be_inner`: "test.yaml:6:63",
		`calls made_2`: "test.yaml:10:13", `calls be_module`: "test.yaml:13:26", `calls be_value`: "test.yaml:18:11", `top as "" calls own`: "test.yaml:7:43",
		`calls be_own`:                  `test.yaml:7:43: step "below": in own 1.0.0, which it calls: not be_own`,
		`again as "own" calls be_again`: `test.yaml:7:43: step "below": in own 1.0.0, which it calls: in again, which it calls: not be_again`,
	} {
		denied = "top: " + use
		if !strings.HasPrefix(use, "again") && !strings.HasPrefix(use, "top") {
			denied = use
		}
		diags := check(defs)
		if found := slices.ContainsFunc(diags, func(d Diagnostic) bool { return d.Check == "permission" && strings.HasPrefix(d.String(), at) }); !found {
			t.Errorf("without %s: no problem at %s:\n%s", use, at, diags)
		}
	}
}
