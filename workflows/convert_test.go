package workflows_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/convert"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// A world is what a definition meets, in whichever form it is: tools and people
// that do the same for the same step.
type world struct {
	schemas map[string]json.RawMessage // of tools
	others  []*definitions.Definition  // that steps call
	cancel  time.Duration              // when somebody cancels the run; 0 = never
	loose   bool                       // what happens at once is in no order
	known   []bool                     // whether tools are known when a definition is converted

	// tool answers the attempt, from 1, of a call of a step.
	tool func(path string, attempt int, call workflows.ToolCall) (string, error)
	// person answers a question of a step; an empty action is no answer.
	person func(path string, e workflows.Elicitation) (action, content string, after time.Duration)
}

// A happening is what came of a definition in a world. Paths are those of steps.
type happening struct {
	Calls   []string // in the order of arrival; those that undo have their path as well
	Asked   []string
	Output  string
	Failure *workflows.Failure
	Errors  []string
}

// play runs a definition in a world. The script that it may be tells by place in
// which step a path lies.
func (w *world) play(t *testing.T, d *definitions.Definition, data string, place func(string) string) *happening {
	t.Helper()
	args := perduretest.Must(d.Arguments(json.RawMessage(data)))(t)
	b := benchFor(t, append([]*definitions.Definition{d}, w.others...), string(args), nil)
	b.env.SetStartTime(time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC))
	h, attempts := &happening{}, map[string]int{}
	tool := b.locked(func(path string, call workflows.ToolCall) (string, error) {
		path = place(path)
		h.Calls = append(h.Calls, path+" "+call.Tool+" "+keys.ReplaceAllString(string(call.Arguments), "KEY"))
		attempts[path]++
		return w.tool(path, attempts[path], call)
	})
	b.tools = map[string]toolFunc{}
	for name, known := range b.input.Tools {
		known.InputSchema = w.schemas[name]
		b.input.Tools[name], b.tools[name] = known, tool
	}
	for _, other := range w.others {
		for name := range inputFor(other, "{}").Tools {
			b.tools[name] = tool
		}
	}
	seen := map[string]bool{}
	b.onMemo(func(state workflows.State) {
		for _, e := range state.Elicitations {
			if e.State != workflows.ElicitationOpen || seen[e.ID] {
				continue
			}
			seen[e.ID] = true
			path := place(string(e.StepPath))
			h.Asked = append(h.Asked, fmt.Sprintf("%s %s %s %s %s", path, e.Kind, e.Mode, probeText.ReplaceAllString(keys.ReplaceAllString(renamed(e.Message, place), "KEY"), "Was it"), e.Schema))
			if action, content, after := w.person(path, e); action != "" {
				b.answer(after, e.ID, action, content)
			}
		}
	})
	if w.cancel > 0 {
		b.env.RegisterDelayedCallback(b.env.CancelWorkflow, w.cancel)
	}
	b.env.ExecuteWorkflow(b.input.WorkflowType(), b.input)
	h.Output, h.Failure = b.result()
	if h.Failure == nil {
		var res workflows.RunResult
		perduretest.NoError(t, b.env.GetWorkflowResult(&res))
		for _, e := range res.Errors {
			h.Errors = append(h.Errors, sparing.ReplaceAllString(renamed(e.Message, place), ""))
		}
		return h
	}
	e := &h.Failure.Error
	e.Message = renamed(e.Message, place)
	for i, path := range h.Failure.Compensated {
		h.Failure.Compensated[i] = workflows.StepPath(place(string(path)))
	}
	return h
}

var scriptPath = regexp.MustCompile(`script/[\w:\[\]#/.]*[\w\]]`)

// renamed is a message with the steps in it in place of the lines.
func renamed(message string, place func(string) string) string {
	message = scriptPath.ReplaceAllStringFunc(message, place)
	return innerName.ReplaceAllString(sites.ReplaceAllString(message, ""), "][")
}

// The places of a converted script: the function of a step, and the items of
// loops around it.
var (
	loopIndex = regexp.MustCompile(`lambda:\d+(?:#\d+)?\[(\d+)\]`)
	stepDef   = regexp.MustCompile(`^(?:def step_)?([A-Za-z0-9_]+)(?: = (?:tool_output|call_workflow))?\(`)
	lastLine  = regexp.MustCompile(`:(\d+)(?:#\d+)?(/[a-z].*)?$`)
)

// placesOf tells in which step a path of a converted script lies.
func placesOf(text string) func(string) string {
	lines := strings.Split(text, "\n")
	return func(path string) string {
		parts := strings.Split(path, "/")
		n := 1
		for n < len(parts) && strings.Contains(parts[n], ":") {
			n++
		}
		if parts[0] != "script" || n == 1 {
			return path
		}
		step, line := "main", 0
		if m := lastLine.FindStringSubmatch(parts[n-1]); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		for ; line > 0; line-- {
			if def := stepDef.FindStringSubmatch(lines[line-1]); def != nil {
				step = strings.TrimRight(def[1], "_")
				break
			}
		}
		for _, index := range loopIndex.FindAllStringSubmatch(strings.Join(parts[:n], "/"), -1) {
			step += "[" + index[1] + "]"
		}
		return strings.Join(append([]string{step}, parts[n:]...), "/")
	}
}

var sites = regexp.MustCompile(`/\w+:\d+(?:#\d+)?(?:\[\d+\])?`)

var insideScript = regexp.MustCompile(`/\w+:\d+.*`)

var innerName = regexp.MustCompile(`\]/[a-z]+\[`)

// itself is the place of a path of steps; the names of inner loops are omitted, and ids
// are as variables have them.
func itself(path string) string {
	path = insideScript.ReplaceAllString(path, "")
	id := path[:len(path)-len(strings.TrimLeft(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"))]
	return innerName.ReplaceAllString(strings.TrimRight(strings.ReplaceAll(id, "-", "_"), "_")+path[len(id):], "][")
}

// asScript is the definition with a script in place of its steps.
func asScript(t *testing.T, d *definitions.Definition, tools definitions.Tools) (*definitions.Definition, string, error) {
	t.Helper()
	text, err := convert.Script(d, tools)
	if err != nil {
		return nil, "", err
	}
	converted := convert.Definition(d, text)
	reread := perduretest.Must(definitions.FromSource(converted.Source()))(t)
	if err := definitions.Check([]*definitions.Definition{reread}, definitions.CheckOptions{}).Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return reread, text, nil
}

// compareForms runs a definition as steps and as a script, and reports what differs.
func (w *world) compareForms(t *testing.T, d *definitions.Definition, data string) {
	t.Helper()
	for _, known := range w.known {
		var tools definitions.Tools
		if known { // so that the types are written
			tools = func(name string) (definitions.Tool, bool) {
				return definitions.Tool{Name: name, InputSchema: w.schemas[name]}, true
			}
		}
		converted, text, err := asScript(t, d, tools)
		if err != nil {
			t.Fatal(err)
		}
		steps := w.play(t, d, data, itself)
		script := w.play(t, converted, data, placesOf(text))
		if w.loose {
			steps.loosen()
			script.loosen()
		}
		if problems := steps.compare(script); problems != "" {
			t.Errorf("tools known: %v, steps and script differ:\n%s\n%s", known, problems, text[strings.Index(text, "\n# The steps."):])
		}
	}
}

// loosen omits what is not decided where steps fail in the same moment: which of them
// is first.
func (h *happening) loosen() {
	slices.Sort(h.Errors)
	if h.Failure == nil {
		return
	}
	slices.Sort(h.Failure.Compensated)
	h.Failure.Error = workflows.Error{}
}

var ofTools = regexp.MustCompile(`planned failure|went dead|declined|elicitation was cancelled|timed out|maxIterations`)

// withoutFields leaves of messages about templates the step only: steps name the
// field besides.
func withoutFields(messages []string) []string {
	out := slices.Clone(messages)
	for i, message := range out {
		if !ofTools.MatchString(message) {
			out[i] = stepNames.FindString(message)
		}
	}
	return out
}

// probeText is what a question says of the templates of a probe.
var probeText = regexp.MustCompile(`The probe could not find out: .*\. Was it`)

// sparing is what a script says besides where it leaves a call unknown.
var sparing = regexp.MustCompile(`; it is not repeated, since it is not known whether .* was executed$`)

// withoutTemplates omits of an output what failed templates say.
func withoutTemplates(output string) string {
	return errorText.ReplaceAllStringFunc(output, func(text string) string {
		if ofTools.MatchString(text) {
			return renamed(text, func(path string) string { return path })
		}
		return ""
	})
}

var errorText = regexp.MustCompile(`"error":"(\\.|[^"\\])*"`)

// compare reports how a script has done something else.
func (h *happening) compare(script *happening) string {
	var b strings.Builder
	differ := func(what string, a, z any) {
		if diff := cmp.Diff(a, z); diff != "" {
			fmt.Fprintf(&b, "%s: %s\n", what, diff)
		}
	}
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	differ("calls", sorted(h.Calls), sorted(script.Calls))
	differ("questions", sorted(h.Asked), sorted(script.Asked))
	differ("errors", withoutFields(h.Errors), withoutFields(script.Errors))
	differ("output", withoutTemplates(h.Output), withoutTemplates(script.Output))
	if (h.Failure == nil) != (script.Failure == nil) {
		differ("failure", h.Failure, script.Failure)
		return b.String()
	}
	if h.Failure == nil {
		return b.String()
	}
	e, z := h.Failure.Error, script.Failure.Error
	differ("code", e.Code, z.Code)
	differ("category", e.Category, z.Category)
	differ("undone", h.Failure.Compensated, script.Failure.Compensated)
	differ("not undone", len(h.Failure.Uncompensated), len(script.Failure.Uncompensated))
	if e.Category != codes.CategoryTemplate && e.Category != codes.CategoryCancelled && e.Code != "run_timeout" { // which name the field, or what is under way
		differ("message", e.Message, sparing.ReplaceAllString(z.Message, ""))
	}
	return b.String()
}

// The script of a random definition makes the calls, undoes what it has to and
// gives the result that the rules of steps say, which TestRandomDefinitions
// shows of the steps.
func TestConvertedRandomDefinitions(t *testing.T) {
	t.Parallel()
	forRandomCases(t, func(t *testing.T, c *testCase) {
		c.suggest = nil
		want := c.reference()
		converted, text, err := asScript(t, c.def, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := c.playScript(t, converted, placesOf(text))
		for _, problem := range want.compare(c, got) {
			t.Error(problem)
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

// playScript runs a case that was converted.
func (c *testCase) playScript(t *testing.T, d *definitions.Definition, place func(string) string) *observed {
	t.Helper()
	got := &observed{done: map[string]bool{}}
	defs, _ := definitions.Parse("random.yaml", []byte(c.source()))
	w := &world{cancel: c.cancel, others: defs[1:]}
	w.tool = func(path string, attempt int, call workflows.ToolCall) (string, error) {
		if undone, _, _ := strings.Cut(path, "/compensate#"); call.Tool == "undo" {
			if strings.Contains(undone, "/") {
				got.undone = append(got.undone, undone)
			}
			return string(call.Arguments), nil
		}
		got.calls = append(got.calls, path+" "+string(call.Arguments))
		if attempt <= c.failures[path] {
			return "", toolError(call, attempt, call.MaxAttempts-1, "planned failure")
		}
		return string(call.Arguments), nil
	}
	w.person = func(path string, _ workflows.Elicitation) (action, content string, after time.Duration) {
		return c.answers[path], `{}`, c.delays[path]
	}
	h := w.play(t, d, `{}`, place)
	for _, message := range h.Errors {
		got.errors = append(got.errors, workflows.Error{StepID: stepNamed(message)})
	}
	if got.failure = h.Failure; got.failure != nil {
		got.failure.Error.StepID = stepNamed(got.failure.Error.Message)
		return got
	}
	perduretest.NoError(t, json.Unmarshal([]byte(h.Output), &got.output))
	return got
}

var stepNames = regexp.MustCompile(`^step ([A-Za-z0-9]+)`)

// stepNamed is the step that a message names.
func stepNamed(message string) string {
	if m := stepNames.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return message
}

// echoing is a world whose tools always give the same, and whose people accept
// what fits.
func echoing(t *testing.T) *world {
	return &world{
		known: []bool{false},
		tool: func(_ string, _ int, call workflows.ToolCall) (string, error) {
			return string(answerOf(call.Tool, call.Arguments)), nil
		},
		person: func(_ string, e workflows.Elicitation) (action, content string, after time.Duration) {
			content = exampleOf(t, e.Schema)
			if workflows.CheckAnswer(workflows.Answer{Action: workflows.Accept, Content: json.RawMessage(content)}, e.Kind, e.Schema) != nil {
				return "", "", 0
			}
			return workflows.Accept, content, time.Second
		},
	}
}

// The definitions of the library, and those of testdata/convert, become scripts
// that make the same calls and give the same result as their steps.
func TestConvertedLibrary(t *testing.T) {
	t.Parallel()
	files := perduretest.Files(t, "../definitions/library/*.yaml")
	more, _ := filepath.Glob("testdata/convert/*.yaml")
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.yaml") {
			continue
		}
		text := perduretest.Read(t, file)
		defs, ds := definitions.Parse(file, text)
		perduretest.NoError(t, ds.Err())
		for _, d := range defs {
			t.Run(d.Name, func(t *testing.T) {
				t.Parallel()
				w := echoing(t)
				w.others = defs
				w.compareForms(t, d, exampleArguments(t, d))
			})
		}
	}
}

// The open conformance cases that run become scripts as well.
func TestConvertedConformance(t *testing.T) {
	t.Parallel()
	file := perduretest.Read(t, "testdata/convert/conformance.jsonl")
	for line := range strings.Lines(string(file)) {
		var c struct {
			Case       string
			Definition json.RawMessage
			Arguments  json.RawMessage
		}
		perduretest.NoError(t, json.Unmarshal([]byte(line), &c))
		defs, ds := definitions.Parse(c.Case, c.Definition)
		if ds.Err() != nil || definitions.Check(defs, definitions.CheckOptions{}).Err() != nil {
			continue // a case of what is refused
		}
		t.Run(c.Case+"/"+defs[0].Name, func(t *testing.T) {
			t.Parallel()
			if _, err := defs[0].Arguments(c.Arguments); err != nil { // no run starts with these
				if _, err := convert.Script(defs[0], nil); err != nil {
					t.Error(err)
				}
				return
			}
			echoing(t).compareForms(t, defs[0], string(c.Arguments))
		})
	}
}

// exampleArguments are arguments of each declared type.
func exampleArguments(t *testing.T, d *definitions.Definition) string {
	t.Helper()
	schema := perduretest.Must(template.EncodeValue(d.Parameters))(t)
	return exampleOf(t, schema)
}

// exampleOf is an object that fits a schema.
func exampleOf(t *testing.T, schema json.RawMessage) string {
	t.Helper()
	var d struct {
		Properties map[string]any
	}
	if len(schema) > 0 {
		perduretest.NoError(t, json.Unmarshal(schema, &d))
	}
	args := map[string]any{}
	properties := d.Properties
	for name, p := range properties {
		property, _ := p.(map[string]any)
		switch {
		case property["default"] != nil:
			args[name] = property["default"]
		case property["enum"] != nil:
			args[name] = property["enum"].([]any)[0]
		default:
			args[name] = map[any]any{"integer": 7, "number": 1.5, "boolean": true, "array": []string{"x", "y"}, "object": map[string]any{"k": "v"}}[property["type"]]
			if args[name] == nil {
				args[name] = "value of " + name
			}
		}
	}
	encoded := perduretest.Must(template.EncodeValue(decoded(t, args)))(t)
	return string(encoded)
}

func decoded(t *testing.T, v any) any {
	data := perduretest.Must(json.Marshal(v))(t)
	out := perduretest.Must(template.DecodeValue(data))(t)
	return out
}

// answerOf has fields of the names and types that definitions like to read.
func answerOf(tool string, args json.RawMessage) json.RawMessage {
	n := len(tool) + len(args)
	return json.RawMessage(fmt.Sprintf(`{"tool":%q,"args":%s,"text":"{\"title\":\"t%d\",\"files\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"papers\":[{\"id\":\"p\"}],\"user\":{\"login\":\"ann\"},\"state\":\"open\",\"html_url\":\"u\"}",
		"message":"m%[3]d","ratio":2.50,"whole":3.0,"big":12345678901234567890,"n":%[3]d,"ok":true,"none":null,"items":[1,"two",{"three":3}],
		"files":[{"path":"a.go","additions":1,"deletions":2},{"path":"b.go","additions":3,"deletions":0}],"commits":[{"subject":"s"}],"count":2,"additions":4,"deletions":2,
		"repositories":["r1","r2"],"vulns":[],"results":[{"id":1}],"sub":{"z":1,"a":[true]}}`, tool, args, n))
}
