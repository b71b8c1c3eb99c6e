package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/script"
)

// The script of a random definition makes the calls and gives the result that
// the rules of steps say, which TestRandomDefinitions shows of the steps.
func TestConvertedRandomDefinitions(t *testing.T) {
	t.Parallel()
	forRandomCases(t, func(t *testing.T, c *testCase) {
		c.cancel, c.suggest = 0, nil
		for _, s := range c.def.Steps {
			s.Compensate = nil
		}
		want := c.reference()
		text, err := definitions.Script(c.def, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := c.runScript(t, text, want)
		for _, problem := range want.compare(c, got) {
			t.Error(problem)
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

// runScript runs a converted script with the tools and people of a case.
func (c *testCase) runScript(t *testing.T, text string, want *expected) *observed {
	t.Helper()
	got := &observed{done: map[string]bool{}, errors: errorsOf(want.brokenSteps())}
	h := &caseHost{convertedHost: convertedHost{t: t, def: c.def, lines: strings.Split(text, "\n")}, c: c, got: got, attempts: map[string]int{}}
	output, failure := h.run(text, h, `{}`)
	if failure != nil {
		got.failure = &workflows.Failure{Error: workflows.Error{Message: failure.Message}}
		if failure.Code == script.CodeError {
			t.Errorf("the script is wrong: %s\n%s", failure.Message, failure.Backtrace)
		}
		if len(want.culprits) > 0 {
			got.failure.Error.StepID = want.culprits[0]
		}
		return got
	}
	if err := json.Unmarshal(output, &got.output); err != nil {
		t.Fatal(err)
	}
	return got
}

// errorsOf are errors of steps, of which scripts do not tell.
func errorsOf(ids []string) []workflows.Error {
	var errs []workflows.Error
	for _, id := range ids {
		errs = append(errs, workflows.Error{StepID: id})
	}
	return errs
}

// A convertedHost is a host that knows by which step a converted script calls.
type convertedHost struct {
	t     *testing.T
	def   *definitions.Definition
	lines []string
}

func (h *convertedHost) run(text string, host script.Host, data string) (out json.RawMessage, failure *script.Error) {
	h.t.Helper()
	p, ds := script.Compile(script.Source{File: "converted.star", Text: text}, script.Limits{})
	if ds != nil {
		h.t.Fatalf("%v\n%s", ds, text)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 20 * time.Second})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		out, failure = p.Run(ctx, host, script.Input{Data: json.RawMessage(data), Tools: h.tools(),
			RunID: "default-test-workflow-id", Started: workflow.Now(ctx)})
		if failure != nil {
			return temporal.NewNonRetryableApplicationError(failure.Message, failure.Category, nil)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil && failure == nil {
		h.t.Fatal(err)
	}
	return out, failure
}

// tools are those that the definition names.
func (h *convertedHost) tools() []script.Tool {
	var tools []script.Tool
	var add func(s *definitions.Step)
	add = func(s *definitions.Step) {
		if s.Tool != "" {
			tools = append(tools, script.Tool{Name: s.Tool})
		}
		if s.Step != nil {
			add(s.Step)
		}
	}
	for _, s := range h.def.Steps {
		add(s)
	}
	return tools
}

var (
	loopIndex = regexp.MustCompile(`(?:^|/)loop:\d+(?:#\d+)?\[(\d+)\]`)
	stepDef   = regexp.MustCompile(`^def step_([A-Za-z0-9_]+)\(`)
)

// path is that of the step in which a script calls.
func (h *convertedHost) path(site script.Site) string {
	path := ""
	for line := site.Line - 1; line >= 0; line-- {
		if m := stepDef.FindStringSubmatch(h.lines[line]); m != nil {
			path = m[1]
			break
		}
	}
	for _, m := range loopIndex.FindAllStringSubmatch(site.Path, -1) {
		path += "[" + m[1] + "]"
	}
	return path
}

func (h *convertedHost) Sleep(ctx workflow.Context, _ script.Site, d time.Duration) error {
	return workflow.Sleep(ctx, d)
}

func (h *convertedHost) Now(ctx workflow.Context, _ script.Site) (time.Time, error) {
	return workflow.Now(ctx), nil
}

func (h *convertedHost) Log(workflow.Context, script.Site, string)               {}
func (h *convertedHost) Progress(workflow.Context, script.Site, script.Progress) {}
func (h *convertedHost) CallWorkflow(workflow.Context, script.Site, script.WorkflowCall) (json.RawMessage, error) {
	return nil, fmt.Errorf("no workflows here")
}

// A caseHost has the tools and people of a random case.
type caseHost struct {
	undecided
	convertedHost
	c        *testCase
	got      *observed
	attempts map[string]int
}

func (h *caseHost) Call(_ workflow.Context, site script.Site, call script.ToolCall) (json.RawMessage, error) {
	path := h.path(site)
	h.got.calls = append(h.got.calls, path+" "+string(call.Args))
	if h.attempts[path]++; h.attempts[path] <= h.c.failures[path] {
		return nil, &script.Error{Code: "tool_error", Category: "tool", Message: "planned failure", Tool: call.Tool}
	}
	h.got.done[path] = true
	return call.Args, nil
}

func (h *caseHost) Elicit(ctx workflow.Context, site script.Site, q script.Question) (script.Answer, error) {
	id := h.path(site)
	action, delay := h.c.answers[id], h.c.delays[id]
	if action == "" || delay >= q.Timeout {
		action, delay = "timeout", q.Timeout
	}
	if err := workflow.Sleep(ctx, delay); err != nil {
		return script.Answer{}, err
	}
	return script.Answer{Action: action, Content: json.RawMessage(`{}`)}, nil
}

// The definitions of the library, and those of testdata/convert, become scripts
// that make the same calls and give the same result as their steps, with tools
// that give what their names say.
func TestConvertedLibrary(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../definitions/library/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no library", err)
	}
	more, _ := filepath.Glob("testdata/convert/*.yaml")
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.yaml") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defs, ds := definitions.Parse(file, text)
		if err := ds.Err(); err != nil {
			t.Fatal(err)
		}
		for _, d := range defs {
			t.Run(d.Name, func(t *testing.T) {
				t.Parallel()
				compareConverted(t, d, exampleArguments(t, d))
			})
		}
	}
}

// The open conformance cases become scripts as well, but for those that use what
// scripts have nothing for.
func TestConvertedConformance(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/convert/conformance.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var c struct {
			Case       string
			Definition json.RawMessage
			Arguments  json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		defs, ds := definitions.Parse(c.Case, c.Definition)
		if ds.Err() != nil || definitions.Check(defs, definitions.CheckOptions{}).Err() != nil {
			continue // a case of what is refused
		}
		t.Run(c.Case+"/"+defs[0].Name, func(t *testing.T) {
			t.Parallel()
			var lacking *definitions.ConversionError
			if _, err := definitions.Script(defs[0], nil); errors.As(err, &lacking) {
				if !slices.Contains(lackingCases, c.Case) {
					t.Error(err)
				}
				return
			}
			if slices.Contains(lackingCases, c.Case) {
				t.Error("it can be converted now: take it off the list")
			}
			compareConverted(t, defs[0], string(c.Arguments))
		})
	}
}

// lackingCases are those of what scripts have nothing for.
var lackingCases = []string{}

func compareConverted(t *testing.T, d *definitions.Definition, data string) {
	text, err := definitions.Script(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &echoHost{convertedHost: convertedHost{t: t, def: d, lines: strings.Split(text, "\n")}}
	h.answer = func(schema json.RawMessage) string { return exampleOf(t, schema) }
	out, failure := h.run(text, h, data)
	b := benchFor(t, []*definitions.Definition{d}, data, nil)
	b.tools = map[string]toolFunc{}
	for _, tool := range h.tools() {
		b.tools[tool.Name] = func(call workflows.ToolCall) (string, error) { return string(answerOf(call.Tool, call.Arguments)), nil }
	}
	asked := map[string]bool{}
	b.onMemo(func(state workflows.State) {
		for _, e := range state.Elicitations {
			if e.State == workflows.ElicitationOpen && !asked[e.ID] {
				asked[e.ID] = true
				b.answer(time.Second, e.ID, "accept", exampleOf(t, e.Schema))
			}
		}
	})
	b.env.ExecuteWorkflow(workflows.WorkflowType, b.input)
	output, wanted := b.result()
	slices.Sort(h.calls)
	slices.Sort(b.calls)
	switch {
	case (failure == nil) != (wanted == nil):
		t.Errorf("script: %v, steps: %+v\n%s", failure, wanted, text)
	case failure == nil && errorText.ReplaceAllString(string(out), "") != errorText.ReplaceAllString(output, ""):
		t.Errorf("script: %s\nsteps:  %s\n%s", out, output, text)
	case !slices.Equal(h.calls, b.calls):
		t.Errorf("calls of the script %q\nof the steps %q\n%s", h.calls, b.calls, text)
	case failure != nil && failure.Code == script.CodeError:
		t.Logf("both fail: %s; %s", failure.Message, wanted.Error.Message)
	}
}

// exampleArguments are arguments of each declared type.
func exampleArguments(t *testing.T, d *definitions.Definition) string {
	t.Helper()
	schema, err := definitions.EncodeValue(d.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	return exampleOf(t, schema)
}

// exampleOf is an object that fits a schema.
func exampleOf(t *testing.T, schema json.RawMessage) string {
	t.Helper()
	var d struct {
		Properties map[string]any
	}
	if len(schema) > 0 {
		if err := json.Unmarshal(schema, &d); err != nil {
			t.Fatal(err)
		}
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
	encoded, err := definitions.EncodeValue(decoded(t, args))
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func decoded(t *testing.T, v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := definitions.DecodeValue(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An echoHost has tools that always answer the same, and people who accept.
type echoHost struct {
	undecided
	convertedHost
	calls  []string
	answer func(schema json.RawMessage) string
}

func (h *echoHost) Call(_ workflow.Context, _ script.Site, call script.ToolCall) (json.RawMessage, error) {
	h.calls = append(h.calls, call.Tool+" "+string(call.Args))
	return answerOf(call.Tool, call.Args), nil
}

// Elicit takes as long as the person of the steps does, and refuses the same
// answers.
func (h *echoHost) Elicit(_ workflow.Context, _ script.Site, q script.Question) (script.Answer, error) {
	content := json.RawMessage(h.answer(q.Schema))
	schema := q.Schema
	if schema == nil {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	fits := workflows.CheckAnswer(workflows.Answer{Action: workflows.Accept, Content: content}, workflows.Question, schema) == nil
	if !fits || q.Timeout <= time.Second {
		return script.Answer{Action: "timeout"}, nil
	}
	return script.Answer{Action: "accept", Content: content}, nil
}

// errorText is what a failed item of a loop says of its failure, which names the
// step or the line.
var errorText = regexp.MustCompile(`"error":"(\\.|[^"\\])*"`)

// answerOf has fields of the names and types that definitions like to read.
func answerOf(tool string, args json.RawMessage) json.RawMessage {
	n := len(tool) + len(args)
	return json.RawMessage(fmt.Sprintf(`{"tool":%q,"args":%s,"text":"{\"title\":\"t%d\",\"files\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"papers\":[{\"id\":\"p\"}],\"user\":{\"login\":\"ann\"},\"state\":\"open\",\"html_url\":\"u\"}",
		"message":"m%[3]d","ratio":2.50,"whole":3.0,"big":12345678901234567890,"n":%[3]d,"ok":true,"none":null,"items":[1,"two",{"three":3}],
		"files":[{"path":"a.go","additions":1,"deletions":2},{"path":"b.go","additions":3,"deletions":0}],"commits":[{"subject":"s"}],"count":2,"additions":4,"deletions":2,
		"repositories":["r1","r2"],"vulns":[],"results":[{"id":1}],"sub":{"z":1,"a":[true]}}`, tool, args, n))
}

// undecided is a host whose scripts do not continue.
type undecided struct{}

func (undecided) Decide(script.Site, script.Fan)  {}
func (undecided) Decided(script.Site) *script.Fan { return nil }
