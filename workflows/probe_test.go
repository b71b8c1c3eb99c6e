package workflows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

const probed = `{name: a, description: d, timeout: 100h, steps: [
	{id: pay, tool: pay, arguments: {n: 1}, onUnknown: UNKNOWN, probe: {tool: read_find, arguments: {key: "{{.call.key}}", n: "{{.call.arguments.n}}"},
	 happened: '{{eq .output.state "paid"}}', notHappened: '{{eq .output.state "none"}}', result: '{"id": {{json .output.id}}}'}},
	{id: after, tool: t, dependsOn: [pay], arguments: {id: "{{.steps.pay.output.id}}"}}]}`

// A probe finds out by itself whether a call was executed; where it does not
// know, a person is asked or the step fails.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, unknown   string
		found           []string // what the read tool answers, time after time; "" = it fails
		lost            int
		output, failure string
		pays, asked     int
	}{
		{"it happened", "fail", []string{`{"state":"paid","id":7}`}, 1, `{"id":"7"}`, "", 1, 0},
		{"it did not", "fail", []string{`{"state":"none"}`}, 1, `{"id":"from the tool"}`, "", 2, 0},
		{"it did not, and then it did", "fail", []string{`{"state":"none"}`, `{"state":"paid","id":8}`}, 2, `{"id":"8"}`, "", 2, 0},
		{"it never does", "fail", []string{`{"state":"none"}`, `{"state":"none"}`, `{"state":"none"}`, `{"state":"none"}`}, 9, "", "outcome_unknown", 4, 0},
		{"it does not know", "fail", []string{`{"state":"under way"}`}, 1, "", "outcome_unknown", 1, 0},
		{"it does not know, and somebody does", "ask", []string{`{"state":"under way"}`}, 1, `{}`, "", 1, 1},
		{"it fails, and somebody knows", "ask", []string{""}, 1, `{}`, "", 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			finds, key := 0, ""
			lost := losing(tc.lost)
			b := newBench(t, strings.Replace(probed, "UNKNOWN", tc.unknown, 1), `{}`, map[string]toolFunc{
				"pay": func(call workflows.ToolCall) (string, error) {
					key = call.IdempotencyKey
					return lost(call)
				},
				"read_find": func(call workflows.ToolCall) (string, error) {
					if want := fmt.Sprintf(`{"key":%q,"n":"1"}`, key); string(call.Arguments) != want {
						t.Errorf("asked with %s, want %s", call.Arguments, want)
					}
					finds++
					if tc.found[finds-1] == "" {
						return failing(call)
					}
					return tc.found[finds-1], nil
				},
			})
			asked := 0
			b.onMemo(func(state workflows.State) { asked = len(state.Elicitations) })
			b.answer(50*time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"happened"}`)
			output, failure := b.run()
			if output != tc.output || categoryOf(failure) != tc.failure {
				t.Errorf("got %s, %+v; want %s, %q", output, failure, tc.output, tc.failure)
			}
			pays := 0
			for _, call := range b.calls {
				if strings.HasPrefix(call, "pay ") {
					pays++
				}
			}
			if diff := cmp.Diff([]int{tc.pays, len(tc.found), tc.asked}, []int{pays, finds, asked}); diff != "" {
				t.Errorf("calls, probes and questions (-want +got): %s", diff)
			}
		})
	}
}

// What a configuration says of a tool is in the run; a probe whose tool is not
// one that only reads is not asked.
func TestProbeOfATool(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		effect          definitions.Effect
		output, failure string
	}{{definitions.Read, `{}`, ""}, {definitions.Unsafe, "", "outcome_unknown"}} {
		b := newBench(t, strings.Replace(unsure, "onUnknown: ask", "onUnknown: fail", 1), `{}`, map[string]toolFunc{
			"pay": losing(1), "be.find": func(workflows.ToolCall) (string, error) { return `{"paid":true}`, nil }})
		tool := b.input.Tools["pay"]
		tool.Probe = &definitions.Probe{Tool: "be.find", Happened: "{{.output.paid}}", Delay: definitions.Duration(time.Hour)}
		b.input.Tools["pay"] = tool
		b.input.Tools["be.find"] = definitions.Tool{Name: "be.find", Backend: "be", Original: "find", Effect: tc.effect}
		if output, failure := b.run(); output != tc.output || categoryOf(failure) != tc.failure {
			t.Errorf("%s: got %s, %+v", tc.effect, output, failure)
		}
	}
}
