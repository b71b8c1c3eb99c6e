package deftest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// A Recording is a run that has ended, with all that a test needs.
type Recording struct {
	Run          string // ID of the run
	Started      time.Time
	Input        workflows.RunInput
	Calls        []RecordedCall // in the order of starting
	Composites   []string       // called composite tools, whose runs are not recorded
	Elicitations []workflows.Elicitation
	Answers      []RecordedAnswer
	Cancelled    *time.Time // when cancellation was requested; nil = never
	Output       json.RawMessage
	Failure      *workflows.Failure // nil = it completed
}

// A RecordedCall is a call of a tool, with all of its attempts.
type RecordedCall struct {
	StepPath, Tool string
	Attempts       int
	Took           time.Duration
	Output         json.RawMessage // nil = it failed
	Error          string          // how its last attempt failed
}

// A RecordedAnswer is an answer that reached the run.
type RecordedAnswer struct {
	workflows.Answer
	At time.Time
}

const (
	// shortCall is up to what time the test leaves out how long a call took.
	shortCall = time.Second

	// endlessCall is the time for a call that did not end.
	endlessCall = 10_000 * time.Hour
)

// TestFile writes the recording as a test file with one case.
func (r *Recording) TestFile() ([]byte, error) {
	if len(r.Composites) > 0 {
		return nil, fmt.Errorf("run %s has called other composite tools (%s), whose calls are not in its recording: write the test by hand, of a file with all of these definitions",
			r.Run, strings.Join(r.Composites, ", "))
	}
	source, err := template.DecodeValue(r.Input.Definition.Source)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of run %s: %w", r.Run, err)
	}
	withoutScriptFiles(source)
	return r.testFile(arranged(source))
}

// testFile writes the recording as a test of a definition, or of a file with one.
func (r *Recording) testFile(definition *yaml.Node) ([]byte, error) {
	one, err := r.recordedCase()
	if err != nil {
		return nil, fmt.Errorf("recording run %s: %w", r.Run, err)
	}
	var file mapping
	file.add("definition", definition)
	if len(r.Input.Tools) > 0 {
		file.add("tools", r.tools())
	}
	file.add("cases", list([]*yaml.Node{one}))
	text, err := encode(file.node())
	if err != nil {
		return nil, err
	}
	return []byte("# Recorded from run " + r.Run + ".\n" + text), nil
}

// withoutScriptFiles drops the names of files whose scripts are in the source.
func withoutScriptFiles(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["script"] != nil {
			delete(v, "scriptFile")
		}
		withoutScriptFiles(v["step"])
		withoutScriptFiles(v["steps"])
	case []any:
		for _, elem := range v {
			withoutScriptFiles(elem)
		}
	}
}

func (r *Recording) tools() *yaml.Node {
	var tools mapping
	byName, unlike := map[string]definitions.Tool{}, map[string]bool{} // the definition may have several names for one
	for used, t := range r.Input.Tools {
		t.Name = cmp.Or(t.Name, used)
		byName[t.Name] = t
		unlike[t.Name] = unlike[t.Name] || !sameIdentifier(used, t.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t := byName[name]
		var one mapping
		one.text("effect", string(t.Effect))
		one.text("backend", t.Backend)
		if unlike[name] {
			one.text("original", t.Original)
		}
		one.text("keyArgument", t.KeyArgument)
		one.json("inputSchema", t.InputSchema)
		tools.add(name, one.node())
	}
	return tools.node()
}

func (r *Recording) recordedCase() (*yaml.Node, error) {
	var c mapping
	c.text("name", r.Run)
	c.text("run", r.Run)
	c.text("started", r.Started.UTC().Format(time.RFC3339Nano))
	c.json("arguments", r.Input.Arguments)
	if len(r.Calls) > 0 {
		c.add("tools", r.responses())
	}
	if answers := r.answers(); len(answers) > 0 {
		c.add("answers", list(answers))
	}
	if r.Cancelled != nil {
		c.text("cancel", max(r.Cancelled.Sub(r.Started), latency).String())
	}
	expect, err := r.expectation()
	if err != nil {
		return nil, err
	}
	c.add("expect", expect)
	return c.node(), nil
}

// responses are those of each tool.
func (r *Recording) responses() *yaml.Node {
	byTool := map[string][]RecordedCall{}
	for _, call := range r.Calls {
		byTool[call.Tool] = append(byTool[call.Tool], call)
	}
	var tools mapping
	for _, tool := range slices.Sorted(maps.Keys(byTool)) {
		var responses []*yaml.Node
		for _, call := range byTool[tool] {
			responses = append(responses, r.attempts(call, len(byTool[tool]) > 1)...)
		}
		if len(responses) == 1 {
			tools.add(tool, responses[0])
		} else {
			tools.add(tool, list(responses))
		}
	}
	return tools.node()
}

// attempts are the responses to a call. No history has the errors of attempts before
// the last: they fail in a way that the step retries.
func (r *Recording) attempts(call RecordedCall, several bool) []*yaml.Node {
	var responses []*yaml.Node
	for range call.Attempts - 1 {
		kind := "unavailable"
		if r.retries(call.StepPath) {
			kind = "error"
		}
		responses = append(responses, call.response(several, kind, "an attempt that failed", 0))
	}
	took := call.Took.Round(time.Millisecond)
	if took < shortCall || call.Attempts > 1 {
		took = 0
	}
	if call.Output == nil {
		kind, text := call.failure()
		if kind == "" {
			took = endlessCall
		}
		return append(responses, call.response(several, kind, text, took))
	}
	return append(responses, call.response(several, "structured", call.Output, took))
}

func (r *Recording) retries(path string) bool {
	d, err := definitions.FromSource(r.Input.Definition.Source)
	if err != nil {
		return false
	}
	for _, s := range d.AllSteps() {
		for s.ID == definitions.StepPath(path).Top() && s.Step != nil {
			s = s.Step
			s.ID = definitions.StepPath(path).Top()
		}
		if s.ID == definitions.StepPath(path).Top() {
			return s.OnError != nil && s.OnError.Action == definitions.Retry
		}
	}
	return false
}

func (call RecordedCall) response(several bool, kind string, value any, took time.Duration) *yaml.Node {
	var one mapping
	if several {
		one.text("step", call.StepPath)
	}
	switch value := value.(type) {
	case json.RawMessage:
		one.json(kind, value)
	case string:
		if kind != "" {
			one.add(kind, written(value))
		}
	}
	if took > 0 {
		one.text("after", took.String())
	}
	return one.node()
}

// failure gives the key of test files for how the tool failed, and its message; "" for
// a call that did not end.
func (call RecordedCall) failure() (kind, text string) {
	attempt := workflows.Attempt{Call: workflows.ToolCall{StepPath: workflows.StepPath(call.StepPath), Tool: call.Tool}}
	code, reason := attempt.Reason(call.Error)
	kinds := map[codes.Code]string{codes.ToolError: "error", codes.Refused: "refused", codes.ConnectionLost: "unknown", codes.BackendUnavailable: "unavailable", codes.CredentialsNeeded: "unauthorized"}
	return kinds[code], reason
}

func (r *Recording) answers() []*yaml.Node {
	var answers []*yaml.Node
	for _, a := range r.Answers {
		i := slices.IndexFunc(r.Elicitations, func(e workflows.Elicitation) bool { return e.ID == a.ElicitationID })
		if i < 0 {
			continue
		}
		var one mapping
		one.text("step", string(r.Elicitations[i].StepPath))
		one.text("action", a.Action)
		if a.Action == workflows.Accept {
			one.json("content", a.Content)
		}
		one.text("by", a.AnsweredBy)
		one.text("after", max(a.At.Sub(r.Elicitations[i].Opened).Round(time.Millisecond), latency).String())
		answers = append(answers, one.node())
	}
	return answers
}

func (r *Recording) expectation() (*yaml.Node, error) {
	var expect mapping
	if r.Failure != nil {
		var e mapping
		e.text("code", string(r.Failure.Error.Code))
		e.text("category", string(r.Failure.Error.Category))
		e.text("step", string(r.Failure.Error.StepPath))
		expect.add("error", e.node())
	} else {
		if _, err := template.DecodeValue(r.Output); err != nil {
			return nil, fmt.Errorf("reading the result: %w", err)
		}
		expect.json("result", r.Output)
	}
	counts := map[string]int64{}
	for _, call := range r.Calls {
		counts[call.Tool] += int64(max(call.Attempts, 1))
	}
	var calls mapping
	for _, tool := range slices.Sorted(maps.Keys(counts)) {
		calls.add(tool, written(counts[tool]))
	}
	if len(counts) > 0 {
		expect.add("calls", calls.node())
	}
	return expect.node(), nil
}

// A mapping is a YAML mapping with its keys in the order of adding.
type mapping struct{ content []*yaml.Node }

func (m *mapping) add(key string, value *yaml.Node) {
	m.content = append(m.content, written(key), value)
}

// text adds a text that is not empty.
func (m *mapping) text(key, value string) {
	if value != "" {
		m.add(key, written(value))
	}
}

// json adds a value; none if raw is empty.
func (m *mapping) json(key string, raw json.RawMessage) {
	if v, err := template.DecodeValue(raw); err == nil {
		m.add(key, written(v))
	}
}

func (m *mapping) node() *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: m.content}
	if len(m.content) == 0 {
		node.Style = yaml.FlowStyle
	}
	return node
}

func list(elements []*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: elements}
}

// keyOrder is the usual order of keys in a definition; others follow by name.
var keyOrder = []string{
	"id", "name", "type", "tool", "version", "description", "parameters", "dependsOn", "condition", "collection", "itemVar", "message", "schema",
	"arguments", "timeout", "failureMode", "runAs", "script", "modules", "tools", "steps", "step", "output",
}

// arranged is a definition's source as a node, with its keys in the usual order.
func arranged(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		rank := func(key string) int {
			if i := slices.Index(keyOrder, key); i >= 0 {
				return i
			}
			return len(keyOrder)
		}
		var m mapping
		for _, key := range slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
		}) {
			m.add(key, arranged(v[key]))
		}
		return m.node()
	case []any:
		if len(v) == 0 {
			return written(v)
		}
		var elements []*yaml.Node
		for _, e := range v {
			elements = append(elements, arranged(e))
		}
		return list(elements)
	default:
		return written(v)
	}
}
