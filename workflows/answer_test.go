package workflows_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// answeredGate is a gate whose answer a write carries.
const answeredGate = `{name: a, description: d, timeout: 100h, steps: [
	{id: g, type: elicitation, message: m, timeout: 50h, onDecline: {action: continue}, onCancel: {action: continue}, DEFAULTS
	 schema: {type: object, properties: {notify: {type: boolean, default: true}, n: {type: integer, default: 3}, why: {type: string}, sure: {type: boolean, default: true}}, required: [REQUIRED]}},
	{id: w, tool: t, dependsOn: [g], condition: CONDITION, arguments: {a: ARGUMENT}}]}`

// TestWhatAnswersGive shows what steps have of answers: what clients leave out has its
// default, and what was not accepted has what stands in for it.
func TestWhatAnswersGive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action, content     string
		defaults            string
		condition, argument string
		want                string
	}{
		"a default that the client left out": {"accept", `{}`, "", "{{.steps.g.content.notify}}", "{{json .steps.g.content}}", `{"n":3,"notify":true,"sure":true}`},
		"what the person entered counts":     {"accept", `{"notify":false,"n":7}`, "", "true", "{{json .steps.g.output}}", `{"action":"accept","content":{"n":7,"notify":false,"sure":true}}`},
		"who and when":                       {"accept", `{}`, "", "true", "{{.steps.g.by}} {{.steps.g.at}} {{.steps.g.action}}", `ada 2026-11-23T10:00:00Z accept`},
		"who declined":                       {"decline", ``, "", "true", "{{.steps.g.by}} {{.steps.g.at}}", `ada 2026-11-23T10:00:00Z`},
		"the content of a decline":           {"decline", ``, "defaultResults: {content: {notify: true}, more: 1},", "{{.steps.g.content.notify}}", "{{json .steps.g.output}}", `{"action":"decline","content":{"notify":true},"more":1}`},
		"a default is none of a decline":     {"decline", ``, "", "{{not .steps.g.content.notify}}", "{{json .steps.g.output}}", `{"action":"decline"}`},
		"a decline and a number":             {"decline", ``, "defaultResults: 7,", `{{eq .steps.g.action "decline"}}`, "{{.steps.g.output}}", `7`},
		"a dismissal and a list":             {"cancel", ``, "defaultResults: [1, {b: 2}],", `{{eq .steps.g.action "cancel"}}`, "{{json .steps.g.output}}", `[1,{"b":2}]`},
		"a decline and a text":               {"decline", ``, "defaultResults: none,", "true", "{{.steps.g.output}}", `none`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := strings.NewReplacer("DEFAULTS", c.defaults, "REQUIRED", "", "CONDITION", quoted(c.condition), "ARGUMENT", quoted(c.argument)).Replace(answeredGate)
			b := newBench(t, source, `{}`, nil)
			want := perduretest.Must(json.Marshal(map[string]string{"a": c.want}))(t)
			b.env.RegisterDelayedCallback(func() {
				b.signal(workflows.AnswerSignal, workflows.Answer{ElicitationID: "g#1", Action: c.action, Content: json.RawMessage(c.content),
					AnsweredBy: "ada", Via: workflows.ViaForm, At: time.Date(2026, 11, 23, 10, 0, 0, 5e8, time.UTC)})
			}, time.Hour)
			if got, failure := b.run(); failure != nil || got != string(want) {
				t.Errorf("got %s, %+v, want %s", got, failure, want)
			}
		})
	}
}

// TestRequiredFieldsHaveNoDefault shows that a decision which somebody has to make
// is not made by a default.
func TestRequiredFieldsHaveNoDefault(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.NewReplacer("DEFAULTS", "", "REQUIRED", "sure", "CONDITION", quoted("true"), "ARGUMENT", quoted("{{json .steps.g.content}}")).Replace(answeredGate), `{}`, nil)
	b.answer(time.Hour, "g#1", "accept", `{"n":1}`)
	b.answer(2*time.Hour, "g#1", "accept", `{"n":2,"sure":false}`)
	if got, failure := b.run(); failure != nil || got != `{"a":"{\"n\":2,\"notify\":true,\"sure\":false}"}` {
		t.Errorf("got %s, %+v", got, failure)
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// TestDefaultResultsOfAnyKind shows that what stands in for an output may be any
// JSON value, whatever the step is and why it has no output.
func TestDefaultResultsOfAnyKind(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`5`: `5`, `null`: `null`, `text`: `"text"`, `false`: `false`, `[1, {a: 2}]`: `[1,{"a":2}]`, `{a: 1}`: `{"a":1}`, `123456789012345678901234567890`: `123456789012345678901234567890`,
	} {
		for kind, step := range map[string]string{
			"a tool that is skipped":    `tool: fail, condition: "false"`,
			"a tool that fails":         `tool: fail, onError: {action: continue}`,
			"a forEach that fails":      `type: forEach, collection: "{{fromJson .params.none}}", onError: {action: continue}, step: {tool: t}`,
			"an elicitation that fails": `type: elicitation, message: "{{fromJson .params.none}}", onError: {action: continue}`,
			"a script that fails":       `type: script, script: "fail('x')", onError: {action: continue}`,
			"a workflow that fails":     `type: workflow, workflow: none, onError: {action: continue}`,
		} {
			t.Run(kind+" with "+value, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, `{name: a, description: d, steps: [{id: s, `+step+`, defaultResults: `+value+`}],
					output: {properties: {o: {type: string, description: d, value: "{{json .steps.s.output}}"}}}}`, `{}`, map[string]toolFunc{"fail": failing})
				encoded := perduretest.Must(json.Marshal(want))(t)
				if got, failure := b.run(); failure != nil || got != `{"o":`+string(encoded)+`}` {
					t.Errorf("got %s, %+v, want %s", got, failure, encoded)
				}
			})
		}
	}
	for continues, step := range map[string]string{
		"the item": `step: {tool: fail, onError: {action: continue}, defaultResults: [7]}`,
		"the loop": `onError: {action: continue}, step: {tool: fail, defaultResults: [7]}`,
	} {
		t.Run("an item that fails where continues "+continues, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, `{name: a, description: d, steps: [{id: s, type: forEach, collection: "[1]", `+step+`}]}`, `{}`, map[string]toolFunc{"fail": failing})
			if got, failure := b.run(); failure != nil || !strings.Contains(got, `"output":[7]`) {
				t.Errorf("got %s, %+v", got, failure)
			}
		})
	}
}

// TestScriptSeesWhoAnswered shows what elicit gives besides action and content.
func TestScriptSeesWhoAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 100h, script: "a = elicit('m', schema = {'type': 'object', 'properties': {'n': {'type': 'integer', 'default': 4}}}, timeout = '50h')\nreturn [a.by, a.at.unix, a.content]"}`, `{}`, nil)
	b.env.RegisterDelayedCallback(func() {
		b.signal(workflows.AnswerSignal, workflows.Answer{ElicitationID: "script/main:1#1", Action: "accept", AnsweredBy: "ada", At: time.Unix(1700000000, 0)})
	}, time.Hour)
	if got, failure := b.run(); failure != nil || got != `["ada",1700000000,{"n":4}]` {
		t.Errorf("got %s, %+v", got, failure)
	}
}

// TestConvertedAnswers shows that the script of a definition sees of an answer
// what the steps see, also where defaultResults are no object.
func TestConvertedAnswers(t *testing.T) {
	t.Parallel()
	for _, defaults := range []string{"", "defaultResults: 7,", "defaultResults: null,", "defaultResults: [1, x],", "defaultResults: {content: {n: 4}, more: 1},"} {
		for _, action := range []string{"accept", "decline", "cancel", ""} {
			for _, handler := range []string{"continue", "skip_remaining"} {
				t.Run(strings.Join([]string{action, handler, defaults}, " "), func(t *testing.T) {
					t.Parallel()
					defs, diags := definitions.Parse("test.yaml", []byte(`{name: a, description: d, timeout: 100h, steps: [
						{id: g, type: elicitation, message: m, timeout: 50h, onDecline: {action: `+handler+`}, onCancel: {action: `+handler+`}, `+defaults+`
						 schema: {type: object, properties: {n: {type: integer, default: 3}}}},
						{id: w, tool: t, dependsOn: [g], arguments: {all: "{{json .steps.g.output}} {{.steps.g.by}} {{.steps.g.at}} {{json .steps.g.content}}"}}],
						output: {properties: {o: {type: string, description: d, value: "{{json .steps.g.output}} {{.steps.g.by}} {{.steps.g.action}}"}}}}`))
					perduretest.NoError(t, diags.Err())
					w := &world{known: []bool{false},
						tool: func(_ string, _ int, call workflows.ToolCall) (string, error) { return string(call.Arguments), nil },
						person: func(string, workflows.Elicitation) (string, string, time.Duration) {
							return action, `{}`, time.Hour
						},
					}
					w.compareForms(t, defs[0], `{}`)
				})
			}
		}
	}
}
