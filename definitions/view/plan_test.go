package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestPlanFiles plans the definition of each file of testdata/plan, and of the
// library, with each of the arguments that stand in its comments.
func TestPlanFiles(t *testing.T) {
	t.Parallel()
	files := perduretest.Files(t, "testdata/plan/*.yaml")
	for _, file := range append(files, "../library/prepare_review.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			var plans []*Plan
			for _, args := range planArguments(string(perduretest.Read(t, file))) {
				plan := planFile(t, file, args)
				fmt.Fprintf(&text, "### %s\n\n%s\n", args, plan.Text(nil))
				plans = append(plans, plan)
			}
			perduretest.Golden(t, filepath.Join("testdata/plan", name+".txt"), text.String())
			if name != "conditions" && name != "loops" {
				return // two show the form
			}
			encoded := perduretest.Must(json.MarshalIndent(plans, "", " "))(t)
			perduretest.Golden(t, filepath.Join("testdata/plan", name+".json"), string(encoded)+"\n")
		})
	}
}

func planArguments(source string) []string {
	var all []string
	for line := range strings.Lines(source) {
		if args, ok := strings.CutPrefix(line, "# arguments: "); ok {
			all = append(all, strings.TrimSpace(args))
		}
	}
	if all == nil {
		return []string{"{}"}
	}
	return all
}

func planFile(t *testing.T, file, args string) *Plan {
	t.Helper()
	plan, err := NewPlan(program(t, perduretest.Read(t, file)), json.RawMessage(args), PlanOptions{Tools: planTools(t)})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func program(t *testing.T, source []byte) *definitions.Program {
	t.Helper()
	defs, diags := definitions.Parse("plan.yaml", source)
	perduretest.NoError(t, diags.Err())
	p := perduretest.Must(definitions.Compile(defs[0]))(t)
	return p
}

func planTools(t *testing.T) definitions.Tools {
	t.Helper()
	var tools []definitions.Tool
	perduretest.NoError(t, json.Unmarshal(perduretest.Read(t, "testdata/plan/tools.json"), &tools))
	return func(name string) (definitions.Tool, bool) {
		for _, tool := range tools {
			if tool.Name == name {
				return tool, true
			}
		}
		return definitions.Tool{}, false
	}
}

// TestPlanText holds the readable form to its width, and to what a terminal
// may be shown.
func TestPlanText(t *testing.T) {
	t.Parallel()
	p := program(t, []byte("name: wide\ndescription: d\nparameters: {type: object, properties: {x: {type: string}}}\n"+
		"steps: [{id: a, type: elicitation, message: '{{.params.x}}'}, {id: b, tool: t, arguments: {"+strings.Repeat("long", 40)+": '{{.params.x}}'}}]\n"))
	plan, err := NewPlan(p, json.RawMessage(`{"x":"\u001b[31m\u009b`+strings.Repeat("long ", 40)+`"}`), PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(plan.Text(nil)) {
		line = strings.TrimSuffix(line, "\n")
		if n := len([]rune(line)); n > 80 || strings.ContainsAny(line, "\x1b\u009b") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	marked := plan.Text(func(e Emphasis, text string) string { return "<" + string(e) + ">" + text + "<>" })
	if !strings.HasPrefix(marked, "<heading>wide") || !strings.Contains(marked, "<mistaken>fails: no backend offers the tool t<>") {
		t.Errorf("marked:\n%s", marked)
	}
}

func TestPlanRefusesArguments(t *testing.T) {
	t.Parallel()
	p := program(t, perduretest.Read(t, "testdata/plan/conditions.yaml"))
	var bad *definitions.ArgumentsError
	if _, err := NewPlan(p, json.RawMessage(`{"dry": 1}`), PlanOptions{Tools: planTools(t)}); !errors.As(err, &bad) || len(bad.Problems) != 2 {
		t.Errorf("error %v, want an ArgumentsError with two problems", err)
	}
}

// TestPlanIsNoGuess holds what plans say is known against what a run would
// get: it must not depend on anything that only a run can tell.
func TestPlanIsNoGuess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template string
		want     string // "" = only a run can tell
	}{
		{`{{.params.x}}`, `"7"`},
		{`{{if .params.x}}yes{{else}}{{.steps.a.output.y}}{{end}}`, `"yes"`},
		{`{{and false .steps.a.output.y}}`, `"false"`},
		{`{{and .steps.a.output.y false}}`, ``},
		{`{{.steps.a.status}}`, `"completed"`},
		{`{{.steps.a.error}}`, `""`},
		{`{{.steps.a.action}}{{.steps.nope.output}}`, `""`},
		{`{{.workflow.status}}`, `"running"`},
		{`{{.workflow.step_count}}`, ``},
		{`{{default "d" .steps.a.output.y}}`, ``},
		{`{{len .steps}}`, ``},
		{`{{.}}`, ``},
		{`{{json .}}`, ``},
		{`{{$}}`, ``},
		{`{{range .}}{{.}}{{end}}`, ``},
		{`{{range $k, $v := .}}{{$k}}{{end}}`, ``},
		{`{{with $x := .}}{{$x.params.x}}{{end}}`, ``},
		{`{{$x := .}}{{range .params.l}}{{json $x}}{{end}}`, ``},
		{`{{$x := .steps}}{{range .params.l}}{{index $x .}}{{end}}`, ``},
		{`{{$x := ""}}{{range .params.l}}{{$x = $}}{{end}}{{$x}}`, ``},
		{`{{define "t"}}{{json .}}{{end}}{{template "t" .}}`, ``},
		{`{{define "t"}}{{.x}}{{end}}{{template "t" .params}}`, `"7"`},
		{`{{index .steps "a" "output" "y"}}`, ``},
		{`{{index .steps "a"}}`, ``},
		{`{{index . "steps" "a"}}`, ``},
		{`{{json (index . "steps")}}`, ``},
		{`{{index . "params" "x"}}`, ``}, // could be told, but is not
		{`{{. | json}}`, ``},
		{`{{(.).steps}}`, ``},
		{`{{get .steps "a"}}`, ``},
		{`{{keys .workflow}}`, ``},
		{`{{not .steps.a}}`, ``},
		{`{{.forEach.item}}`, `""`},
	} {
		d := &definitions.Definition{Name: "d", Parameters: map[string]any{"type": "object"}, Steps: []*definitions.Step{
			{ID: "a", Tool: "be_read"},
			{ID: "b", Tool: "be_send", DependsOn: []string{"a"}, Arguments: map[string]any{"v": "x" + tt.template}},
		}}
		p, err := definitions.Compile(d)
		if err != nil {
			t.Fatalf("%s: %v", tt.template, err)
		}
		plan, err := NewPlan(p, json.RawMessage(`{"x":"7","l":[1]}`), PlanOptions{Tools: planTools(t)})
		if err != nil {
			t.Fatal(err)
		}
		got := plan.Steps[1].Arguments[0]
		want := strings.Replace(tt.want, `"`, `"x`, 1)
		if string(got.Value) != want || want == "" && (got.State != Waits || len(got.WaitsFor) == 0) {
			t.Errorf("%s: %+v, want %s", tt.template, got, want)
		}
	}
}

func FuzzPlan(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, file := range files {
		data := perduretest.Read(f, file)
		for _, args := range planArguments(string(data)) {
			f.Add(data, []byte(args))
		}
	}
	read := func(name string) (definitions.Tool, bool) {
		return definitions.Tool{Name: name, Backend: "be", Effect: definitions.Read}, name != ""
	}
	f.Fuzz(func(t *testing.T, data, args []byte) {
		defs, _ := definitions.Parse("fuzz.yaml", data)
		for _, d := range defs {
			p, err := definitions.Compile(d)
			if err != nil {
				continue
			}
			plan, err := NewPlan(p, args, PlanOptions{Tools: read})
			if err != nil {
				continue
			}
			if _, err := json.Marshal(plan); err != nil {
				t.Errorf("the plan is not JSON: %v", err)
			}
			if text := plan.Text(nil); !strings.HasSuffix(text, "\n") {
				t.Errorf("the text of the plan ends in %q", text)
			}
		}
	})
}
