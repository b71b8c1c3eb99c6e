package workflows_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// What a client has answered by a form does not open a gate that a resumption has put on
// the approvals page, and what did not have to fit a schema none where it must.
func TestAttackAnswerOfAnotherMode(t *testing.T) {
	t.Parallel()
	const step = `{name: a, description: d, timeout: 100h, steps: [{id: g, type: elicitation, message: m, timeout: 50h}, {id: bad, tool: fail, dependsOn: [g]}, {id: w, tool: write, dependsOn: [bad]}]}`
	const call = `{name: a, description: d, timeout: 100h, script: "a = elicit('m', timeout='50h', validate=False, schema={'type': 'object', 'properties': {'n': {'type': 'integer'}}})\nif a.action != 'accept':\n    fail('nobody agreed')\ncall_tool('fail')\ncall_tool('write')\n"}`
	for name, c := range map[string]struct {
		source, old, now string // what the resumption has another definition for; old = "" for none
		id, content      string
		opens            bool
	}{
		"the same":              {step, "", "", "g#1", `{}`, true},
		"on the page":           {step, "message: m,", "message: m, mode: url,", "g#1", `{}`, false},
		"script, the same":      {call, "", "", "script/main:1#1", `{"n": "x"}`, true},
		"script, on the page":   {call, "'m',", "'m', mode='url',", "script/main:1#1", `{"n": "x"}`, false},
		"script, to be checked": {call, "validate=False", "validate=True", "script/main:1#1", `{"n": "x"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newBench(t, c.source, `{}`, map[string]toolFunc{"fail": failing})
			before.env.RegisterDelayedCallback(func() {
				before.signal(workflows.AnswerSignal, workflows.Answer{ElicitationID: c.id, Action: "accept", Content: json.RawMessage(c.content), AnsweredBy: "ada", Via: workflows.ViaForm})
			}, time.Hour)
			if _, failure := before.run(); failure == nil || failure.Error.Tool != "fail" {
				t.Fatalf("got %+v", failure)
			}
			var req history.ResumeRequest
			if c.old != "" {
				ds, diags := definitions.Parse("test.yaml", []byte(strings.Replace(c.source, c.old, c.now, 1)))
				if len(ds) != 1 {
					t.Fatal(diags)
				}
				req.Definition = ds[0]
			}
			plan := before.resumption(t, req)
			after := newBench(t, c.source, `{}`, nil)
			after.input = plan.Input
			_, failure := after.run()
			if opened := failure == nil && slices.ContainsFunc(after.calls, func(call string) bool { return strings.HasPrefix(call, "write ") }); opened != c.opens {
				t.Errorf("the gate has let the write through: %t, want %t; called are %q; %+v", opened, c.opens, after.calls, failure)
			}
			if !c.opens && len(after.calls) > 0 {
				t.Errorf("called are %q", after.calls)
			}
		})
	}
}
