package deftest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// Each of these scripts becomes a definition whose test passes, with any names of
// tools and any result.
func TestPromote(t *testing.T) {
	t.Parallel()
	items := definitions.Tool{Name: "be_items", Backend: "be", Original: "items", Effect: definitions.Read}
	renamed := definitions.Tool{Name: "search", Backend: "git-hub", Original: "find.issues", Effect: definitions.Read}
	first, answer := []string{"script/main:1"}, `{"n":7}`
	for name, c := range map[string]struct {
		script, result string
		tools          map[string]definitions.Tool // by the name in the script
		named          string                      // the one that it calls, to clients
		calls          []string                    // step paths
		nulls          []string
	}{
		"by the name that clients see": {`return be_items(n=1)`, answer, map[string]definitions.Tool{"be_items": items}, "be_items", first, nil},
		"by the backend":               {`return be.items(n=1)`, answer, map[string]definitions.Tool{"be.items": items}, "be_items", first, nil},
		"by both": {"be.items()\nreturn call_tool(\"be_items\")", answer,
			map[string]definitions.Tool{"be.items": items, "be_items": items}, "be_items", []string{"script/main:1", "script/main:2"}, nil},
		"by a name of its own": {`return git_hub.find_issues()`, answer, map[string]definitions.Tool{"git_hub.find_issues": renamed}, "search", first, nil},
		"by a computed name":   {`return call_tool("be" + "_items")`, answer, map[string]definitions.Tool{"be_items": items}, "be_items", first, nil},

		"nulls": {
			script: `return {"n": 2, "none": None, "o": {"a": None, "b": 1}, "all": {"x": None}, "list": [None], "a b": "c"}`,
			result: `{"n":2,"none":null,"o":{"a":null,"b":1},"all":{"x":null},"list":[null],"a b":"c"}`,
			nulls:  []string{"none", "o.a"},
		},
		"only nulls": {script: `return {"a": None}`, result: `{"a":null}`},
		"no object":  {script: `return [1, None]`, result: `[1,null]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recording := &Recording{
				Run: "execute_tool_script/k3v9a2m4qx", Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Output: json.RawMessage(c.result),
				Input: workflows.RunInput{Arguments: json.RawMessage(`{}`), Tools: c.tools},
			}
			d := definitions.NewScript("execute_tool_script", "d", c.script)
			if d.Scripts().CallDynamically() {
				d.Tools = []string{"*"}
			}
			recording.Input.Definition.Source = d.Source()
			for _, path := range c.calls {
				recording.Calls = append(recording.Calls, RecordedCall{StepPath: path, Tool: c.named, Attempts: 1, Output: json.RawMessage(`{"n":7}`)})
			}
			p := perduretest.Must(recording.Promote("promoted", ""))(t)
			if err := p.Check("promoted.yaml", "promoted_test.yaml"); err != nil {
				t.Errorf("%v\n%s\n%s", err, p.Definition, p.Test)
			}
			if !slices.Equal(p.Nulls, c.nulls) {
				t.Errorf("null were %q, want %q", p.Nulls, c.nulls)
			}
		})
	}
}

// Of a script that has called composite tools the definition is made, and no test,
// since what those have called is not recorded.
func TestPromoteWhatCallsComposites(t *testing.T) {
	t.Parallel()
	recording := &Recording{
		Run: "execute_tool_script/k3v9a2m4qx", Output: json.RawMessage(`{"n":2}`), Composites: []string{"helper"},
		Input: workflows.RunInput{Arguments: json.RawMessage(`{}`)},
	}
	recording.Input.Definition.Source = definitions.NewScript("execute_tool_script", "d", `return call_workflow("helper", n=1)`).Source()
	p, err := recording.Promote("promoted", "")
	if err != nil || p.Test != nil || !strings.Contains(string(p.Definition), "helper") || p.Check("promoted.yaml", "promoted_test.yaml") != nil {
		t.Errorf("%v: %+v", err, p)
	}
	if _, err := recording.TestFile(); err == nil || !strings.Contains(err.Error(), "other composite tools (helper)") {
		t.Errorf("a test of it: %v", err)
	}
}
