package workflows_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows"
)

// Random definitions that use all of the language do the same as steps and as a
// script: typed arguments, templates of every kind, also those that fail,
// retries, undoing, probes, calls of unknown outcome, waits, called
// workflows, scripts, loops in loops, questions in them, output blocks.
func TestConvertedRandomLanguage(t *testing.T) {
	t.Parallel()
	forSeeds(t, func(t *testing.T, seed uint64) {
		m := makeDefinition(seed)
		defs, ds := definitions.Parse("random.yaml", []byte(m.source()))
		if err := ds.Err(); err != nil {
			t.Fatalf("%v\n%s", err, m.source())
		}
		if err := definitions.Check(defs, definitions.CheckOptions{}).Err(); err != nil {
			if strings.Contains(err.Error(), "[argument-type]") || strings.Contains(err.Error(), "[output]") { // which only chance can avoid
				t.Skip(err)
			}
			t.Fatalf("%v\n%s", err, m.source())
		}
		w := m.world(t)
		w.others = defs[1:]
		w.compareForms(t, defs[0], wideArguments)
		if t.Failed() {
			t.Logf("%s", defs[0].Source())
		}
	})
}

// A maker makes a definition of everything that there is.
type maker struct {
	seed    uint64
	rnd     *rand.Rand
	chain   bool // each step comes after the one before, so that all is decided
	def     *definitions.Definition
	deps    []string // of the step that is made
	inside  []string // templates that the loops around it offer
	through int      // loops around it
}

const wideArguments = `{"n":3,"big":123456789012345678901234567890,"f":2.50,"whole":4.25,"flag":true,"off":false,"text":"a \"b\"\n<c>","empty":"",
	"list":["x",2,{"three":3},null],"words":["b","a","b"],"obj":{"k":"v","l":[1,2.5]},"none":null,"json":"{\"a\": [1, 2.0, \"z\"]}","pause":"90m","far":"2999-01-01T00:00:00Z","long":"90000h"}`

const wideParameters = `{"type":"object","properties":{"n":{"type":"integer"},"big":{"type":"integer"},"f":{"type":"number"},"whole":{"type":"number"},"flag":{"type":"boolean"},"off":{"type":"boolean"},
	"text":{"type":"string"},"empty":{"type":"string"},"list":{"type":"array"},"words":{"type":"array"},"obj":{"type":"object"},"none":{},"json":{"type":"string"},"pause":{"type":"string"},"far":{"type":"string"},"long":{"type":"string"},
	"left":{"type":"string"},"more":{"type":"integer","default":7},"odd":{"type":["string","integer"]}}}`

const wideSchema = `{"type":"object","properties":{"n":{"type":"integer"},"f":{"type":"number"},"flag":{"type":"boolean"},"list":{"type":"array"},"obj":{"type":"object"},"text":{"type":"string"},
	"many":{"type":["integer","null","string"]},"either":{"anyOf":[{"type":"boolean"},{"type":"array","items":{"type":"integer"}}]},"deep":{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}},"b":{"$ref":"#/$defs/b"}}},"any":{}},
	"$defs":{"b":{"enum":[1,2]}}}`

// Templates that can be expanded wherever a definition has them.
var wideTemplates = []string{
	"{{.params.n}}", "{{.params.big}}", "{{.params.f}}", "{{.params.whole}}", "{{.params.flag}}", "{{.params.text}}", "{{.params.empty}}", "{{.params.list}}", "{{.params.obj}}",
	"{{.params.none}}", "{{.params.left}}", "{{.params.nope.deeper}}", "{{.params.more}}", "{{.params.odd}}", "{{- .params.n -}}", "x{{ .params.n }}y", "{{.params.n}}{{.params.f}}",
	"Hello {{.params.text}} and {{.params.list}}, {{.params.obj.l}}.", "{{.params.text | upper}}", "{{json .params.obj}}", "{{json .params.left}}", "{{json .params.list}}", "{{add .params.n 1}}", "{{div .params.whole 3}}", "{{mul .params.big 3}}",
	"{{len .params.list}}", "{{len .params.text}}", "{{index .params.list 0}}", "{{(index .params.list 2).three}}", `{{index .params.obj "k"}}`, `{{index .params.obj "l" 1}}`, `{{index .params.left "x"}}`,
	"{{with .params.obj}}{{.k}}{{end}}", "{{with .params.left}}no{{else}}none{{end}}", "{{range $i, $e := .params.list}}{{$i}}={{$e}};{{end}}", "{{range .params.words}}{{.}}{{$.params.n}},{{else}}-{{end}}",
	`{{if gt .params.n 2}}big{{else if .params.flag}}flag{{else}}small{{end}}`, `{{if and .params.flag (not .params.left)}}{{.params.n}}{{end}}`, "{{.workflow.id}}", "{{.workflow.status}}", "{{.workflow.start_time}}", "{{.vars.x}}",
	`{{default "d" .params.left}}`, `{{default 5 .params.n}}`, `{{printf "%05d|%s|%v|%q|%.2f" .params.n .params.text .params.list .params.text .params.f}}`, "{{quote .params.text}}", `{{join ", " .params.words}}`,
	`{{fromJson "{\"a\":[1,2.0]}"}}`, "{{(fromJson .params.json).a}}", "{{index (fromJson .params.json).a 1}}", "{{$x := .params.n}}{{$x}}{{$x = 4}}{{$x}}", `{{define "t"}}[{{.}}]{{end}}{{template "t" .params.n}}`, "{{/* c */}}lit",
	`{{"{{"}}`, "{{and .params.flag .params.text}}", "{{or .params.left .params.n}}", "{{or .params.left .params.off}}", "{{not .params.left}}", "{{eq .params.n 3}}", `{{eq .params.text "x" "y"}}`, "{{ne .params.left .params.n}}", "{{lt .params.f 3}}",
	"{{le 1 2}}", "{{kindOf .params.whole}} {{kindOf .params.n}} {{kindOf .params.f}}", "{{first .params.words}}", "{{uniq .params.words}}", "{{dict \"a\" .params.n}}", "{{list .params.n .params.left}}", "{{ternary 1 \"z\" .params.flag}}",
	"5", "true", `["a", 1]`, "null", "plain", " 7 ", "1.50", "\ttab \\n \u00e9 \U0001F600", "line one\nline two {{.params.n}}\n", `it's "q" {{.params.n}} \d`, "{{`raw \\ \"q\"`}}", "{{1e3}} {{0x10}} {{'a'}}",
}

// Templates whose loops, comparisons and functions become expressions.
var translatedTemplates = []string{
	"{{range .params.list}}[{{.}}]{{end}}", "{{range $k, $v := .params.obj}}{{$k}}={{$v}} {{end}}", "{{range .params.obj}}{{.}},{{end}}", "{{range .params.n}}{{.}}{{end}}", "{{range $i, $n := .params.n}}{{$i}}{{$n}}{{end}}", "{{range .params.left}}x{{else}}none of {{$.params.n}}{{end}}",
	"{{range .params.obj.l}}{{range $.params.words}}{{.}}{{end}}{{.}};{{end}}", `[{{range $i, $w := .params.words}}{{if $i}}, {{end}}{"w": {{json $w}}, "n": {{$.params.n}}}{{end}}]`, "{{range .params.words}}{{if eq . \"a\"}}A{{else}}{{upper .}}{{end}}{{end}}", "{{range $w := .params.words}}{{with $.params.obj}}{{.k}}{{$w}}{{end}}{{end}}",
	"100% of {{.params.n}}: {{.params.f}} and {{.params.text}}", "{{with $o := .params.obj}}{{$o.k}} {{.k}}{{end}}", "{{if $x := .params.left}}{{$x}}{{else}}no{{end}}", "{{(fromJson .params.json).a}} {{len (fromJson .params.json).a}}",
	"{{gt .params.f 2.25}} {{le 3 .params.n}}", "{{lt .params.big 5}}", "{{ge .params.whole .params.n}}", `{{join "-" .params.list}}`, `{{join ", " .params.left}}|{{join "+" .params.n}}`, `{{replace "b" "c" .params.text | upper}}`, `{{lower .params.n}} {{trim .params.text}}`, `{{upper .params.left}}.`,
	`{{contains "b" .params.text}}`, `{{hasPrefix "a" .params.text}} {{hasSuffix ">" .params.text}}`, `{{trimPrefix "a" .params.text}}{{trimSuffix "c" .params.empty}}`, `{{printf "%s is %v, %d%%" .params.text .params.left (len .params.words)}}`, `{{printf "%s" .params.f}}`, "{{empty .params.left}}", "{{list 1 .params.f \"x\" | json}}", "{{list}}",
	"{{json .params.words}}", "{{json .params.f}} {{json .params.big}} {{json .params.text}}", "{{toJson .params.obj}}", "{{json .params.whole}}", "{{index .params.words (len .params.obj)}}", "{{(index .params.list 2).three.deeper}}", "{{.params.list | first}}{{.params.n | add 1}}", "{{2.5}} {{10.0}}", "{{range .params.words}}{{first $.params.list}}{{break}}{{end}}",
}

// Templates that fail, now and then.
var failingTemplates = []string{
	"{{.params.text.bad}}", "{{eq .params.n .params.text}}", "{{index .params.list 99}}", `{{fail "no"}}`, "{{fromJson .params.text}}", "{{len .params.n}}", "{{lt .params.left 3}}", "{{index .params.list -1}}", "x {{.params.list.y}}", `{{index .params.n "a"}}`,
	"{{range .params.text}}x{{end}}", "{{range .params.f}}x{{end}}", "{{upper .params.list}}", "{{gt .params.flag 1}}", "{{range .params.words}}{{.x}}{{end}}", "{{fromJson .params.left}}", "{{range .params.empty}}{{end}}", "{{nil | json}}",
}

// Templates that read a step that has ended.
var stepTemplates = []string{
	"{{.steps.D.status}}", "{{.steps.D.output.n}}", "{{.steps.D.output.text}}", "{{.steps.D.output.sub}}", "{{.steps.D.output.sub.z}} {{.steps.D.status}}", "{{.steps.D.action}}", "{{.steps.D.content}}", "{{.steps.D.content.text}}", "{{json .steps.D.content}}",
	"{{if .steps.D.error}}failed{{else}}fine{{end}}", `{{(index .steps "D").status}}`, `{{index .steps "D" "output" "n"}}`, "{{default 0 .steps.D.output.n}}", "{{json .steps.D.output.sub}}", "{{with .steps.D}}{{.status}}{{end}}", "{{.steps.D.reason}}", `{{json .steps.D}}`,
	"{{.steps.D.output.n}}-{{.params.n}}", "{{eq .steps.D.status \"completed\"}}",
}

var wideConditions = []string{
	"{{.params.flag}}", " true ", "True", "{{gt .params.n 2}}", "{{and .params.flag (lt .params.n 5)}}", "{{not .params.left}}", "{{eq .params.text \"zz\"}}", " {{ne .params.n 4}}\n", "{{or .params.off .params.flag}}", "{{if .params.flag}}true{{else}}false{{end}}",
	"{{eq (len .params.list) 4}}", "{{eq .params.whole 4}}",
}

func makeDefinition(seed uint64) *maker {
	m := &maker{seed: seed, rnd: rand.New(rand.NewPCG(seed, 7))}
	m.def = &definitions.Definition{
		Name: "wide", Description: "Does much.\nIn two lines.", Timeout: definitions.Duration(100_000 * time.Hour), FailureMode: pick(m.rnd, "", "", definitions.FailLate, definitions.BestEffort),
	}
	_ = json.Unmarshal([]byte(wideParameters), &m.def.Parameters)
	m.chain = m.def.FailureMode == "" || m.rnd.IntN(2) == 0
	for i := range 1 + m.rnd.IntN(6) {
		s := &definitions.Step{ID: fmt.Sprintf("t%d", i)}
		m.deps = nil
		for j, before := range m.def.Steps {
			if m.chain && j == i-1 || m.rnd.IntN(3) == 0 {
				m.deps = append(m.deps, before.ID)
			}
		}
		s.DependsOn = m.deps
		m.step(s)
		m.def.Steps = append(m.def.Steps, s)
	}
	m.deps = nil
	for _, s := range m.def.Steps {
		m.deps = append(m.deps, s.ID)
	}
	if m.rnd.IntN(4) > 0 {
		m.def.Output = &definitions.Output{Properties: m.properties(0)}
	}
	return m
}

// source is the definition, and that which it calls.
func (m *maker) source() string {
	return string(m.def.Source()) + "\n---\n" + `{name: inner, description: d, parameters: {type: object, properties: {n: {type: integer}, text: {type: string, default: none}}, required: [n]}, steps: [
		{id: s, tool: t, arguments: {n: "{{.params.n}}", text: "{{.params.text}}"}}], output: {properties: {n: {type: integer, description: d, value: "{{.params.n}}"}, text: {type: string, description: d, value: "{{.params.text}}"}}}}`
}

func (m *maker) one(in int) bool { return m.rnd.IntN(in) == 0 }

// template is one that can be expanded where the step that is made stands.
func (m *maker) template() string {
	switch {
	case m.one(40):
		return pick(m.rnd, failingTemplates...)
	case len(m.deps) > 0 && m.one(3):
		return strings.ReplaceAll(pick(m.rnd, stepTemplates...), "D", pick(m.rnd, m.deps...))
	case len(m.inside) > 0 && m.one(2):
		return pick(m.rnd, m.inside...)
	}
	return pick(m.rnd, slices.Concat(wideTemplates, translatedTemplates)...)
}

// value is an argument as a step writes it.
func (m *maker) value(depth int) any {
	switch kind := m.rnd.IntN(12); {
	case kind == 0:
		return pick[any](m.rnd, int64(5), true, nil, template.Float(2.5), "plain")
	case kind == 1 && depth < 2:
		return []any{m.value(depth + 1), m.value(depth + 1)}
	case kind == 2 && depth < 2:
		return map[string]any{"a": m.value(depth + 1), "b": m.value(depth + 1)}
	}
	return m.template()
}

func (m *maker) arguments() map[string]any {
	args := map[string]any{}
	for range m.rnd.IntN(5) {
		args[pick(m.rnd, "n", "f", "flag", "list", "obj", "text", "many", "either", "deep", "any", "unknown")] = m.value(0)
	}
	if m.one(8) {
		args["deep"] = map[string]any{"a": []any{m.template(), m.template()}, "b": m.template()}
	}
	return args
}

// step fills a step in, whatever it is to be.
func (m *maker) step(s *definitions.Step) {
	s.DefaultResults = definitions.Give(map[string]any{"n": pick[any](m.rnd, int64(0), "none", nil), "text": "default", "sub": map[string]any{"z": int64(9)}, "action": "", "content": nil})
	if m.one(4) {
		s.Condition = pick(m.rnd, wideConditions...)
		if len(m.deps) > 0 && m.one(2) {
			s.Condition = fmt.Sprintf(pick(m.rnd, `{{eq .steps.%s.status "completed"}}`, `{{ne .steps.%s.action "accept"}}`, `{{not .steps.%s.output.n}}`), pick(m.rnd, m.deps...))
		}
		if m.one(20) {
			s.Condition = "{{.params.text}}"
		}
	}
	if m.one(3) {
		s.OnError = &definitions.OnError{Action: definitions.Continue}
	}
	switch kind := m.rnd.IntN(14); {
	case kind < 2:
		m.elicitation(s)
	case kind < 5 && m.through < 2:
		m.loop(s)
	case kind == 5:
		m.wait(s)
	case kind == 6:
		s.Type, s.Workflow, s.Arguments = definitions.WorkflowStep, "inner", map[string]any{"n": m.template(), "text": m.template()}
		if m.one(2) {
			s.Arguments["n"] = pick(m.rnd, "{{.params.n}}", "7", "{{.params.more}}")
		}
		m.compensate(s)
	case kind == 7:
		m.script(s)
	case kind == 8:
		m.probed(s)
	default:
		m.tool(s)
	}
}

func (m *maker) tool(s *definitions.Step) {
	s.Tool, s.Arguments = pick(m.rnd, "t", "read_t", "pay"), m.arguments()
	m.compensate(s)
	if s.OnError == nil && m.one(4) {
		s.OnError = &definitions.OnError{Action: definitions.Retry, RetryCount: 1 + m.rnd.IntN(3), RetryDelay: definitions.Duration(moment(m.rnd).Round(time.Second))}
	}
	s.Timeout = definitions.Duration(pick(m.rnd, 0, 200*time.Hour))
	if s.OnError != nil && s.OnError.RetryCount > 0 {
		s.Timeout = definitions.Duration(200 * time.Hour)
	}
	if s.Tool == "pay" {
		s.OnUnknown = pick(m.rnd, "", definitions.Ask, definitions.FailUnknown)
	}
}

func (m *maker) compensate(s *definitions.Step) {
	if !m.one(3) {
		return
	}
	s.Compensate = &definitions.Compensation{Tool: "undo", Arguments: map[string]any{"n": pick(m.rnd, "{{.output.n}}", "{{.output.sub.z}}", "{{.params.n}}"), "was": pick(m.rnd, "{{.output.nope.x}}", "{{json .output.sub}}", "undone")}}
	if m.one(4) {
		s.Compensate.OnError = &definitions.OnError{Action: definitions.Retry, RetryCount: 2}
	}
}

func (m *maker) probed(s *definitions.Step) {
	m.tool(s)
	s.Tool = "pay"
	s.Probe = &definitions.Probe{
		Tool: "read_find", Arguments: map[string]any{"text": "{{.call.key}}", "obj": "{{.call.arguments}}", "n": m.template()}, Delay: definitions.Duration(pick(m.rnd, 0, time.Minute)),
		Happened: `{{eq .output.state "paid"}}`, NotHappened: pick(m.rnd, "", `{{eq .output.state "none"}}`, `{{gt (len .output.state) 4}}`), Result: pick(m.rnd, "", `{"n": {{json .output.n}}}`, "{{.output.sub}}", "{{.output.n}}"),
	}
}

func (m *maker) elicitation(s *definitions.Step) {
	s.Type, s.Message = definitions.ElicitationStep, "Sure? "+m.template()
	if m.one(2) {
		s.Schema = definitions.FormSchema(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	}
	s.Mode = pick(m.rnd, "", definitions.FormMode, definitions.URLMode)
	s.Timeout = definitions.Duration(moment(m.rnd))
	handlers := []*definitions.Handler{nil, {Action: definitions.Continue}, {Action: definitions.Continue}, {Action: definitions.SkipRemaining}, {Action: definitions.Abort}}
	s.OnDecline, s.OnCancel = pick(m.rnd, handlers...), pick(m.rnd, handlers...)
}

func (m *maker) wait(s *definitions.Step) {
	s.Type = definitions.WaitStep
	if m.one(3) {
		s.Until = pick(m.rnd, "{{.workflow.start_time}}", "{{.params.far}}", "{{.params.text}}", " 2001-01-01T00:00:00+02:00 ")
		return
	}
	s.For = pick(m.rnd, moment(m.rnd).String(), "{{.params.pause}}", " 1h ", "-5m", "{{.params.left}}", "{{.params.long}}", "{{.params.n}}m")
}

func (m *maker) script(s *definitions.Step) {
	s.Type = definitions.ScriptStep
	s.Arguments = map[string]any{"a": m.template(), "b": m.template(), "n": "{{.params.n}}"}
	s.Script = pick(m.rnd, "return {\"n\": data[\"n\"], \"text\": str(data.get(\"a\")), \"sub\": {\"z\": data.get(\"b\")}}",
		"# only counts\nx = 0\nfor i in range(data[\"n\"]):\n    x += i\n    if x > 2:\n        break\nreturn {\"n\": x, \"text\": \"\"\"two\n  lines\"\"\", \"sub\": (1, 2.0)}",
		"got = t(n = data[\"n\"], text = \"of a script\")\ndef f(y):\n    return y + 1\nreturn {\"n\": f(data[\"n\"]), \"text\": got[\"text\"]}",
		"if data.get(\"a\"):\n    fail(\"not today\")\nreturn None", "data[\"n\"] + 1\nx = 1 // 0")
}

func (m *maker) loop(s *definitions.Step) {
	s.Type = definitions.ForEachStep
	s.Collection = pick(m.rnd, "{{.params.list}}", "{{.params.words}}", "{{.params.obj}}", "[1, 2, 3]", "{{json .params.words}}", "[]", `{"b": 1, "a": [2]}`, "{{.params.left}}", "{{.params.n}}", `["{{.params.n}}", "z"]`)
	s.ItemVar = pick(m.rnd, "", "", "entry", "thing")
	name := "item"
	if s.ItemVar != "" {
		name = s.ItemVar
	}
	s.MaxParallel, s.Timeout = 1+m.rnd.IntN(3), definitions.Duration(pick(m.rnd, 0, 1000*time.Hour, 1000*time.Hour))
	if m.one(15) {
		s.MaxIterations = 2
	}
	outer := m.inside
	m.inside = append(slices.Clone(outer), "{{.forEach."+name+"}}", "{{.forEach.index}}", "{{.forEach.key}}", "{{json .forEach."+name+"}} of {{.forEach.index}}", "{{add .forEach.index 1}}")
	m.through++
	s.Step = &definitions.Step{ID: pick(m.rnd, "", "inner")}
	m.step(s.Step)
	if s.Step.Type != definitions.ScriptStep && m.one(4) {
		s.Step.Condition = pick(m.rnd, "{{ne .forEach.index 1}}", "{{lt .forEach.index 2}}", "{{eq (json .forEach."+name+") \"2\"}}")
	}
	if !stopsNothing(s) {
		s.MaxParallel = 1 // otherwise which item is first is not decided
	}
	s.Collect = pick(m.rnd, "", "{{.output.n}}", `{"i": {{.forEach.index}}, "n": {{json .output.n}}}`, "[{{.forEach.index}}]", "text {{.output.text}}", " {{.output.sub}} ", "lit", "{{.forEach."+name+"}}")
	if m.one(40) {
		s.Collect, s.MaxParallel = "{{.forEach.index.x}}", 1
	}
	m.inside = outer
	m.through--
}

func stopsNothing(s *definitions.Step) bool {
	return s.OnError != nil && s.OnError.Action == definitions.Continue || s.Step.OnError != nil && s.Step.OnError.Action == definitions.Continue
}

func (m *maker) properties(depth int) map[string]*definitions.Property {
	properties := map[string]*definitions.Property{}
	for i := range 1 + m.rnd.IntN(4) {
		p := &definitions.Property{Type: pick(m.rnd, "string", "string", "integer", "number", "boolean", "array", "object"), Description: "d", Value: m.template()}
		if m.one(4) && depth < 2 {
			p.Type, p.Value, p.Properties = "object", "", m.properties(depth+1)
		}
		if p.Type != "string" && !m.one(8) || m.one(4) {
			p.Default = map[string]any{"string": "standard", "integer": int64(1), "number": template.Float(1.5), "boolean": false, "array": []any{"d"}, "object": map[string]any{"d": int64(1)}}[p.Type]
		}
		properties[fmt.Sprintf("p%d", i)] = p
	}
	for _, s := range m.def.Steps {
		if depth == 0 && s.Type == definitions.ForEachStep {
			properties[s.ID] = &definitions.Property{Type: "string", Description: "d", Value: strings.ReplaceAll("{{.steps.D.output.count}} {{.steps.D.output.completed}} {{.steps.D.output.failed}} {{json .steps.D.output.collected}}", "D", s.ID), Default: "none"}
		}
	}
	return properties
}

// chance is a number below n that is the same for the same words.
func (m *maker) chance(n int, words ...any) int {
	h := fnv.New64a()
	fmt.Fprintln(h, append([]any{m.seed}, words...)...)
	return int(h.Sum64() % uint64(n))
}

// world has tools and people that do the same for the same step, and no two
// people answer in the same moment.
func (m *maker) world(t *testing.T) *world {
	w := &world{schemas: map[string]json.RawMessage{}, loose: !m.chain, known: []bool{m.seed%2 == 0}}
	for _, tool := range []string{"t", "read_t", "pay", "undo", "read_find"} {
		w.schemas[tool] = json.RawMessage(wideSchema)
	}
	w.tool = func(path string, attempt int, call workflows.ToolCall) (string, error) {
		fails := m.chance(9, "fails", path, call.Tool)
		switch {
		case call.Tool == "pay" && fails < 3 && attempt <= 1+m.chance(5, "lost", path):
			e, repeat := workflows.Attempt{Call: call, Number: attempt}.Lost("the line went dead")
			return "", workflows.Report(e, repeat)
		case call.Tool == "undo" && fails == 0 && attempt <= 2, call.Tool != "undo" && fails == 8 && attempt <= m.chance(5, "failures", path):
			return "", toolError(call, attempt, call.MaxAttempts-1, "planned failure")
		case call.Tool == "read_find":
			return fmt.Sprintf(`{"state":%q,"n":%d,"sub":{"n":1}}`, []string{"paid", "none", "under way"}[m.chance(3, "found", path)], m.chance(9, path)), nil
		}
		return fmt.Sprintf(`{"n":%d,"text":"of %s","items":[1,"two"],"sub":{"z":%d.0,"a":[true]},"whole":3.0}`, m.chance(100, path), path, m.chance(7, path)), nil
	}
	w.person = func(path string, e workflows.Elicitation) (action, content string, after time.Duration) {
		after = time.Second + time.Duration(m.chance(10_000_000, "delay", path))*time.Millisecond
		switch e.Kind {
		case workflows.Reconciliation:
			return workflows.Accept, pick(rand.New(rand.NewPCG(m.seed, uint64(m.chance(1000, path)))), `{"outcome":"happened","result":"{\"n\": 5}"}`, `{"outcome":"not_happened"}`, `{"outcome":"fail"}`), after
		case workflows.Compensation:
			return []string{workflows.Accept, workflows.Decline, workflows.Cancel}[m.chance(3, "undo", path)], `{}`, after
		}
		return []string{workflows.Accept, workflows.Accept, workflows.Decline, workflows.Cancel, ""}[m.chance(5, "answer", path)], exampleOf(t, e.Schema), after
	}
	return w
}

// keys are what represents keys of calls, which a script makes of its places.
var keys = regexp.MustCompile(`[0-9a-f]{32}`)
