package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

// tools are what scripts of the tests may call.
var tools = []script.Tool{
	{Name: "t_echo", Backend: "t", Original: "echo"},
	{Name: "t_fail", Backend: "t", Original: "fail"},
	{Name: "t_flaky", Backend: "t", Original: "flaky"},
	{Name: "t_text", Backend: "t", Original: "text"},
	{Name: "t_raw", Backend: "t", Original: "raw"},
	{Name: "t_list-pages", Backend: "t", Original: "list-pages"},
	{Name: "t_cursor", Backend: "t", Original: "cursor"},
	{Name: "t_slow", Backend: "t", Original: "slow"},
	{Name: "t_replace", Backend: "t", Original: "replace"},
	{Name: "t_unknown", Backend: "t", Original: "unknown"},
	{Name: "t_fatal", Backend: "t", Original: "fatal"},
}

// A fake is a host whose tools live in this file.
type fake struct {
	calls    []string // path tool args, in the order of arrival
	sites    []script.Site
	logged   []string
	progress []script.Progress
	slept    []time.Duration
	answers  []script.Answer // to questions in turn; none left = accept without content
	asked    []script.Question
	times    map[string]int
	delay    func(call script.ToolCall) time.Duration
	answer   func(call script.ToolCall) (json.RawMessage, error) // nil = the tools below
	journal  map[string]json.RawMessage                          // results by path that are not asked for again
}

func (f *fake) Call(ctx workflow.Context, site script.Site, call script.ToolCall) (json.RawMessage, error) {
	if was, ok := f.journal[site.Path]; ok {
		return was, nil
	}
	f.calls = append(f.calls, fmt.Sprintf("%s %s %s", site.Path, call.Tool, call.Args))
	f.sites = append(f.sites, site)
	if f.delay != nil {
		if err := workflow.Sleep(ctx, f.delay(call)); err != nil {
			return nil, err
		}
	}
	if f.answer != nil {
		return f.answer(call)
	}
	return f.tool(ctx, call)
}

func (f *fake) tool(ctx workflow.Context, call script.ToolCall) (json.RawMessage, error) {
	var args struct {
		Text    string
		Value   json.RawMessage
		Page    int
		Cursor  string
		Times   int
		Seconds float64
		Message string
	}
	if err := json.Unmarshal(call.Args, &args); err != nil && call.Tool != "t_echo" {
		return nil, err
	}
	object := func(v any) (json.RawMessage, error) { return json.Marshal(v) }
	switch strings.TrimPrefix(call.Tool, "t_") {
	case "echo", "replace":
		return call.Args, nil
	case "fail":
		return nil, &script.Error{Code: "tool_error", Category: "tool", Tool: call.Tool, Message: "no luck: " + args.Message, Attempt: 2}
	case "unknown":
		return nil, &script.Error{Code: "outcome_unknown", Category: "outcome_unknown", Tool: call.Tool, Message: "not known whether", Final: true}
	case "fatal":
		return nil, errors.New("the run is being stopped")
	case "flaky":
		if f.times == nil {
			f.times = map[string]int{}
		}
		if f.times["flaky"]++; f.times["flaky"] < args.Times {
			return nil, &script.Error{Code: "tool_error", Category: "tool", Tool: call.Tool, Message: fmt.Sprint("failed time ", f.times["flaky"])}
		}
		return object(map[string]any{"times": f.times["flaky"]})
	case "text":
		return object(map[string]any{"text": args.Text})
	case "raw":
		return args.Value, nil
	case "list-pages":
		items := []int{}
		for i := range 2 {
			if args.Page <= 3 {
				items = append(items, args.Page*10+i)
			}
		}
		return object(map[string]any{"items": items, "page": args.Page})
	case "cursor":
		next := map[string]any{"": "b", "b": "c", "c": nil}[args.Cursor]
		return object(map[string]any{"names": []string{"x" + args.Cursor}, "next": next})
	case "slow":
		if err := workflow.Sleep(ctx, time.Duration(args.Seconds*float64(time.Second))); err != nil {
			return nil, err
		}
		return call.Args, nil
	}
	return nil, fmt.Errorf("no tool %s", call.Tool)
}

func (f *fake) Elicit(ctx workflow.Context, _ script.Site, q script.Question) (script.Answer, error) {
	f.asked = append(f.asked, q)
	if len(f.answers) == 0 {
		return script.Answer{Action: "accept"}, nil
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	if q.Validate && a.Action == "accept" && strings.Contains(string(a.Content), "wrong") {
		return script.Answer{}, &script.Error{Code: script.InvalidAnswer, Category: "validation", Message: "wrong is not allowed"}
	}
	return a, nil
}

func (f *fake) CallWorkflow(_ workflow.Context, _ script.Site, call script.WorkflowCall) (json.RawMessage, error) {
	if call.Name == "missing" {
		return nil, &script.Error{Code: "unknown_workflow", Category: "tool", Message: "there is no missing"}
	}
	return json.Marshal(map[string]any{"name": call.Name, "version": call.Version, "args": call.Args})
}

func (f *fake) Sleep(ctx workflow.Context, _ script.Site, d time.Duration) error {
	f.slept = append(f.slept, d)
	return workflow.Sleep(ctx, d)
}

func (f *fake) Now(ctx workflow.Context, _ script.Site) (time.Time, error) {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), nil
}

func (f *fake) After(ctx workflow.Context, _ script.Site, until time.Time, then func()) workflow.Context {
	workflow.Go(ctx, func(ctx workflow.Context) {
		if workflow.Sleep(ctx, until.Sub(workflow.Now(ctx))) == nil {
			then()
		}
	})
	return ctx
}

func (f *fake) Began(ctx workflow.Context, _ script.Site) (record.Deadline, error) {
	return record.Deadline{Began: workflow.Now(ctx)}, nil
}

func (f *fake) Ended(script.Site, record.Deadline) {}

func (f *fake) Log(_ workflow.Context, _ script.Site, text string) { f.logged = append(f.logged, text) }

func (f *fake) Progress(_ workflow.Context, _ script.Site, p script.Progress) {
	f.progress = append(f.progress, p)
}

// Report tells what a script has reported, in the log.
func (f *fake) Report(_ workflow.Context, _ script.Site, e *script.Error) {
	f.logged = append(f.logged, "reported: "+e.Message)
}

func (f *fake) Decide(script.Site, script.Branches)  {}
func (f *fake) Decided(script.Site) *script.Branches { return nil }

// assertions is a module that tests load.
const assertions = `
def eq(got, want):
    if got != want:
        fail("got %r, want %r" % (got, want))

def true(cond):
    if not cond:
        fail("not true")
`

func compile(t testing.TB, text string) *starlark.Program {
	t.Helper()
	p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: "test.star", Text: text, Modules: map[string]string{"assert.star": assertions}}, starlark.Limits{})
	if ds != nil {
		t.Fatal(ds)
	}
	return p
}

// execute runs a program in Temporal's test environment.
func execute(t testing.TB, p *starlark.Program, host script.Host, in script.Input) (out json.RawMessage, failure *script.Error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(5 * time.Minute)
	// The default of a second is the clock's, whatever else the machine does.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 30 * time.Second})
	if in.Tools == nil {
		in.Tools = tools
	}
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		out, failure = script.Run(ctx, p, host, in)
		if failure != nil {
			return temporal.NewNonRetryableApplicationError(failure.Message, string(failure.Category), nil)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil && failure == nil {
		t.Fatalf("the workflow failed: %v", err)
	}
	return out, failure
}

// run compiles and runs a text.
func run(t testing.TB, text string, host *fake, data string) (string, *script.Error) {
	t.Helper()
	in := script.Input{}
	if data != "" {
		in.Data = json.RawMessage(data)
	}
	out, failure := execute(t, compile(t, text), host, in)
	return string(out), failure
}
