package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A bench runs one definition in Temporal's time-skipping test environment
// against tools that are Go functions.
type bench struct {
	t     *testing.T
	env   *testsuite.TestWorkflowEnvironment
	input workflows.RunInput
	tools map[string]toolFunc

	mu     sync.Mutex
	calls  []string          // "TOOL ARGUMENTS" in the order of arrival
	within map[string]string // by ID of a called run: the path of the step that has called it, and a slash

	slow    chan struct{}              // of forEffects; nil = not called
	results map[string]json.RawMessage // of called runs that have completed, by ID: a RunResult
	before  *bench                     // of the execution before; nil = this is the first
	counted map[string]int64           // by metric, tool and effect
}

// A toolFunc answers a call: an output, or an error as activities report it.
type toolFunc func(call workflows.ToolCall) (string, error)

// newBench makes a bench for a definition in YAML, the first of several where
// that calls others. Tools that are not given answer with their arguments.
func newBench(t *testing.T, source, args string, tools map[string]toolFunc) *bench {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(source))
	if err := diags.Err(); err != nil {
		t.Fatalf("parsing: %v", err)
	}
	if err := definitions.Check(defs, definitions.CheckOptions{}).Err(); err != nil {
		t.Fatalf("checking: %v", err)
	}
	return benchFor(t, defs, args, tools)
}

// trusting makes a bench whose worker believes other signals than others do.
func trusting(t *testing.T, trust workflows.Trust, source string) *bench {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(source))
	if err := diags.Err(); err != nil {
		t.Fatalf("parsing: %v", err)
	}
	return benchWith(t, defs, `{}`, nil, trust)
}

// benchFor does so for definitions, which may be ones that Check refuses.
func benchFor(t *testing.T, defs []*definitions.Definition, args string, tools map[string]toolFunc) *bench {
	t.Helper()
	return benchWith(t, defs, args, tools, trust)
}

// intercept gives the worker interceptors besides that of every worker.
func (b *bench) intercept(more ...interceptor.WorkerInterceptor) {
	b.env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 20 * time.Second, // of a busy machine
		Interceptors:             append(more, workflows.InPlace()),
	})
}

func benchWith(t *testing.T, defs []*definitions.Definition, args string, tools map[string]toolFunc, trust workflows.Trust) *bench {
	t.Helper()
	d := defs[0]
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	b := &bench{t: t, tools: tools, within: map[string]string{}, results: map[string]json.RawMessage{}, counted: map[string]int64{}}
	suite.SetMetricsHandler(metrics{b, nil})
	b.env = suite.NewTestWorkflowEnvironment()
	workflows.Register(b.env, trust)
	b.env.SetTestTimeout(30 * time.Second)
	b.intercept()
	b.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
		var in workflows.RunInput
		if err := args.Get(&in); err != nil {
			t.Error(err)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.within[info.WorkflowExecution.ID] = b.within[in.Parent.RunID] + string(in.Parent.StepPath) + "/"
	})
	b.env.SetOnChildWorkflowCompletedListener(func(info *workflow.Info, result converter.EncodedValue, err error) {
		var got workflows.RunResult
		if err != nil || result.Get(&got) != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.results[info.WorkflowExecution.ID], _ = json.Marshal(workflows.RunResult{Output: got.Output, Effects: got.Effects})
	})
	b.env.RegisterActivityWithOptions(func(_ context.Context, call workflows.ToolCall) (workflows.ToolResult, error) {
		b.mu.Lock()
		b.calls = append(b.calls, call.Tool+" "+string(call.Arguments))
		b.mu.Unlock()
		f, ok := b.tools[call.Tool]
		if !ok {
			return workflows.ToolResult{Output: call.Arguments}, nil
		}
		out, err := f(call)
		if err != nil {
			return workflows.ToolResult{}, err
		}
		return workflows.ToolResult{Output: json.RawMessage(out)}, nil
	}, activity.RegisterOptions{Name: workflows.CallToolName})
	b.env.RegisterActivityWithOptions(func(_ context.Context, ref workflows.DefinitionRef) (workflows.ResolvedDefinition, error) {
		for _, d := range defs {
			if d.Name == ref.Workflow {
				in := inputFor(d, "{}")
				return workflows.ResolvedDefinition{Definition: in.Definition, Tools: in.Tools}, nil
			}
		}
		e := workflows.Error{Code: "unknown_workflow", Category: codes.CategoryTool, Message: "there is no composite tool " + ref.Workflow}
		return workflows.ResolvedDefinition{}, workflows.Report(&e, false)
	}, activity.RegisterOptions{Name: workflows.ResolveName})
	b.env.RegisterActivityWithOptions(func(context.Context, string) (string, error) {
		return "", nil // a test has no executions before its own
	}, activity.RegisterOptions{Name: workflows.LatestName})
	b.input = inputFor(d, args)
	return b
}

// metrics counts what runs count.
type metrics struct {
	*bench
	tags map[string]string
}

func (m metrics) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(tags)
	maps.Copy(all, m.tags)
	return metrics{m.bench, all}
}

func (m metrics) Counter(name string) client.MetricsCounter {
	return count(func(n int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.counted[fmt.Sprintf("%s of %s %s of %s, %s", name, m.tags["perdure.tool"], m.tags["gen_ai.tool.name"], m.tags["perdure.backend"], m.tags["perdure.effect"])] += n
	})
}

func (metrics) Gauge(string) client.MetricsGauge { return client.MetricsNopHandler.Gauge("") }
func (metrics) Timer(string) client.MetricsTimer { return client.MetricsNopHandler.Timer("") }

type count func(int64)

func (c count) Inc(n int64) { c(n) }

func inputFor(d *definitions.Definition, args string) workflows.RunInput {
	in := workflows.RunInput{
		Definition: workflows.Pinned{Name: d.Name, Digest: d.Digest(), Source: d.Source()},
		Arguments:  json.RawMessage(args),
		Caller:     workflows.Caller{Subject: "tester"},
		Lineage:    d.Name + "/test",
		Tools:      map[string]definitions.Tool{},
	}
	for _, name := range d.ToolNames() {
		tool := definitions.Tool{Name: name, Backend: "be", Original: name, Effect: definitions.Unsafe}
		if strings.HasPrefix(name, "read") {
			tool.Effect = definitions.Read
		}
		in.Tools[name] = tool
	}
	return in
}

// run executes the workflow and returns its output, or why it failed.
func (b *bench) run() (string, *workflows.Failure) {
	b.t.Helper()
	b.env.ExecuteWorkflow(b.input.WorkflowType(), b.input)
	return b.result()
}

// result is what run returns, once the workflow was executed.
func (b *bench) result() (string, *workflows.Failure) {
	b.t.Helper()
	if !b.env.IsWorkflowCompleted() {
		b.t.Fatal("the workflow did not complete")
	}
	err := b.env.GetWorkflowError()
	if err == nil {
		var res workflows.RunResult
		if err := b.env.GetWorkflowResult(&res); err != nil {
			b.t.Fatalf("reading the result: %v", err)
		}
		return string(res.Output), nil
	}
	var f workflows.Failure
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &app) && app.HasDetails():
		err = app.Details(&f)
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		err = cancelled.Details(&f)
	}
	if f.Error.Message == "" {
		b.t.Fatalf("the failure has no details: %v", err)
	}
	return "", &f
}

// answer sends an answer after some time of the workflow's.
func (b *bench) answer(after time.Duration, id, action, content string) {
	b.env.RegisterDelayedCallback(func() {
		b.signal(workflows.AnswerSignal, workflows.Answer{
			ElicitationID: id, Action: action, Content: json.RawMessage(content), AnsweredBy: "ada", At: b.env.Now().UTC(), AnswerID: id + action,
		})
	}, after)
}

// signal sends a signal with proof, now.
func (b *bench) signal(name string, body any) {
	b.env.SignalWorkflow(name, signed(name, testRun, body))
}

func toolError(call workflows.ToolCall, attempt, retries int, format string, args ...any) error {
	e := workflows.Error{Code: "tool_error", Category: codes.CategoryTool, StepID: call.StepID, StepPath: call.StepPath,
		Tool: call.Tool, Attempt: attempt, Message: "step " + string(call.StepPath) + ": " + fmt.Sprintf(format, args...)}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category),
		temporal.ApplicationErrorOptions{NonRetryable: attempt > retries, Details: []any{e}})
}

func failing(call workflows.ToolCall) (string, error) {
	return "", toolError(call, 1, 0, "planned failure")
}

func TestResults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, source, args, want string
		tools                    map[string]toolFunc
	}{
		{
			name: "the last completed step is the result",
			source: `{name: a, description: d, steps: [
				{id: one, tool: t, arguments: {n: 1}},
				{id: two, tool: t, arguments: {n: 2}, dependsOn: [one]},
				{id: three, tool: t, arguments: {n: 3}, dependsOn: [two], condition: "false"}]}`,
			want: `{"n":2}`,
		},
		{
			name:   "nothing ran",
			source: `{name: a, description: d, steps: [{id: one, tool: t, condition: "false"}]}`,
			want:   `null`,
		},
		{
			name: "arguments and outputs flow along the graph, exactly",
			source: `{name: a, description: d, parameters: {type: object, properties: {n: {type: integer}}}, steps: [
				{id: b, tool: read, dependsOn: [a], arguments: {n: "{{.steps.a.output.big}}"}},
				{id: a, tool: read, arguments: {big: 123456789012345678901234567890, n: "{{.params.n}}"}}],
				output: {properties: {n: {type: integer, description: d, value: "{{.steps.b.output.n}}"}}}}`,
			args: `{"n":12345678}`,
			want: `{"n":123456789012345678901234567890}`,
		},
		{
			name: "a failed step that continues has its defaults, status and error",
			source: `{name: a, description: d, steps: [
				{id: bad, tool: fail, onError: {action: continue}, defaultResults: {v: dflt}},
				{id: c, tool: t, dependsOn: [bad], arguments: {m: "{{.steps.bad.output.v}} {{.steps.bad.status}} {{.steps.bad.error}}"}}]}`,
			tools: map[string]toolFunc{"fail": failing},
			want:  `{"m":"dflt failed step bad: planned failure"}`,
		},
		{
			name: "items in order, failed ones told apart",
			source: `{name: a, description: d, steps: [
				{id: e, type: forEach, collection: '["x","y","z"]', onError: {action: continue},
				 step: {tool: pick, arguments: {v: "{{.forEach.index}}{{.forEach.item}}"}}}]}`,
			tools: map[string]toolFunc{"pick": func(call workflows.ToolCall) (string, error) {
				if call.StepPath == "e[1]" {
					return failing(call)
				}
				return string(call.Arguments), nil
			}},
			want: `{"completed":2,"count":3,"failed":1,"iterations":[` +
				`{"index":0,"item":"x","output":{"v":"0x"},"status":"completed"},` +
				`{"error":"step e[1]: planned failure","index":1,"item":"y","status":"failed"},` +
				`{"index":2,"item":"z","output":{"v":"2z"},"status":"completed"}]}`,
		},
		{
			name: "a forEach in a forEach",
			source: `{name: a, description: d, steps: [
				{id: o, type: forEach, collection: '[[1,2],[3]]', itemVar: row,
				 step: {id: i, type: forEach, collection: "{{json .forEach.row}}", itemVar: cell,
				        step: {tool: t, arguments: {v: "{{.forEach.cell}}"}}}}],
				output: {properties: {v: {type: string, description: d,
				  value: "{{range .steps.o.output.iterations}}{{range .output.iterations}}{{.output.v}};{{end}}{{end}}"}}}}`,
			want: `{"v":"1;2;3;"}`,
		},
		{
			name: "every step has a status, and a skipped one a reason",
			source: `{name: a, description: d, steps: [
				{id: a, tool: t, arguments: {all: "{{range $id, $s := .steps}}{{$id}} {{$s.status}} {{$s.reason}};{{end}}", n: "{{.workflow.step_count}}"}},
				{id: b, tool: t, condition: "false", dependsOn: [a]},
				{id: c, tool: t, dependsOn: [b], arguments: {all: "{{range $id, $s := .steps}}{{$id}} {{$s.status}} {{$s.reason}};{{end}}", n: "{{.workflow.step_count}}"}}],
				output: {properties: {
					a: {type: string, description: d, value: "{{.steps.a.output.all}} {{.steps.a.output.n}}"},
					c: {type: string, description: d, value: "{{.steps.c.output.all}} {{.steps.c.output.n}}"},
					n: {type: integer, description: d, value: "{{.workflow.step_count}}"}}}}`,
			want: `{"a":"a running ;b pending ;c pending ; 0","c":"a completed ;b skipped its condition is false: false;c running ; 2","n":3}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.args == "" {
				tc.args = `{}`
			}
			got, failure := newBench(t, tc.source, tc.args, tc.tools).run()
			if failure != nil {
				t.Fatalf("failed: %+v", failure)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The outcome of a run names its skipped steps and why they were, whether it completed or
// failed; that of a called run does not.
func TestSkippedSteps(t *testing.T) {
	t.Parallel()
	const completes = `{name: a, description: d, steps: [{id: one, tool: t}, {id: two, tool: t, condition: '{{eq .steps.one.status (print .params.n) | printf "%v"}}', dependsOn: [one]}]}`
	var res workflows.RunResult
	b := newBench(t, completes, `{}`, nil)
	b.run()
	perduretest.NoError(t, b.env.GetWorkflowResult(&res))
	want := []workflows.SkippedStep{{ID: "two", Why: "its condition is false: {{eq .steps.one.status (print .params.n) | printf \"%v\"}}, and .steps.one.status is \"completed\", .params.n is no value"}}
	if diff := cmp.Diff(want, res.Skipped); diff != "" {
		t.Error(diff)
	}
	_, failure := newBench(t, `{name: a, description: d, failureMode: continue, steps: [{id: bad, tool: fail}, {id: after, tool: t, dependsOn: [bad]}]}`, `{}`, map[string]toolFunc{"fail": failing}).run()
	want = []workflows.SkippedStep{{ID: "after", Why: "step bad did not succeed"}}
	if diff := cmp.Diff(want, failure.Skipped); diff != "" {
		t.Error(diff)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, source string
		tools        map[string]toolFunc
		want         workflows.Error
		partial      map[string]string
	}{
		{
			name: "the failing step is named and completed ones are partial results",
			source: `{name: a, description: d, steps: [
				{id: ok, tool: t, arguments: {n: 1}}, {id: bad, tool: fail, dependsOn: [ok]}, {id: after, tool: t, dependsOn: [bad]}]}`,
			tools: map[string]toolFunc{"fail": failing},
			want: workflows.Error{Code: "tool_error", Category: codes.CategoryTool, StepID: "bad", StepPath: "bad", Tool: "fail",
				Attempt: 1, Message: "step bad: planned failure"},
			partial: map[string]string{"ok": `{"n":1}`},
		},
		{
			name: "an item that fails names itself",
			source: `{name: a, description: d, steps: [
				{id: e, type: forEach, collection: '[1]', step: {tool: fail}}]}`,
			tools: map[string]toolFunc{"fail": failing},
			want: workflows.Error{Code: "tool_error", Category: codes.CategoryTool, StepID: "e", StepPath: "e[0]", Tool: "fail",
				Attempt: 1, Message: "step e[0]: planned failure"},
		},
		{
			name:   "too many items",
			source: `{name: a, description: d, steps: [{id: e, type: forEach, collection: '[1,2]', maxIterations: 1, step: {tool: t}}]}`,
			want: workflows.Error{Code: "too_many_items", Category: codes.CategoryLimit, StepID: "e", StepPath: "e",
				Message: "step e: the collection has 2 items, maxIterations is 1"},
		},
		{
			name:   "nobody answers",
			source: `{name: a, description: d, steps: [{id: g, type: elicitation, message: m, timeout: 20m}]}`,
			want: workflows.Error{Code: "elicitation_timeout", Category: codes.CategoryTimeout, StepID: "g", StepPath: "g", Retryable: true,
				Message: "step g timed out: nobody answered within 20m0s"},
		},
		{
			name:   "the run's own timeout",
			source: `{name: a, description: d, timeout: 1m, steps: [{id: g, type: elicitation, message: m, timeout: 20m}]}`,
			want: workflows.Error{Code: "run_timeout", Category: codes.CategoryTimeout, Retryable: true,
				Message: "a timed out after 1m0s in step g"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.source, `{}`, tc.tools)
			out, failure := b.run()
			if failure == nil {
				t.Fatalf("completed with %s", out)
			}
			tc.want.RunID = "default-test-workflow-id"
			if diff := cmp.Diff(tc.want, failure.Error); diff != "" {
				t.Error(diff)
			}
			partial := map[string]string{}
			for id, out := range failure.Partial {
				partial[string(id)] = string(out)
			}
			if tc.partial == nil {
				tc.partial = map[string]string{}
			}
			if diff := cmp.Diff(tc.partial, partial); diff != "" {
				t.Error(diff)
			}
			if slices.ContainsFunc(b.calls, func(c string) bool { return strings.HasPrefix(c, "after") }) {
				t.Error("a dependent of the failed step ran")
			}
		})
	}
}

const gated = `{name: a, description: d, steps: [
	{id: g, type: elicitation, message: "Write?", timeout: 24h, schema: {type: object, properties: {why: {type: string}}, required: [why]}%s},
	{id: w, tool: write, dependsOn: [g], arguments: {why: "{{.steps.g.output.content.why}}", a: "{{.steps.g.output.action}}"}}], timeout: 48h}`

func TestAnswers(t *testing.T) {
	t.Parallel()
	type sent struct{ action, content string }
	for _, tc := range []struct {
		name, handlers string
		answers        []sent // one an hour
		want           string // output, or error code
		calls          int
	}{
		{"accepted", "", []sent{{"accept", `{"why":"because"}`}}, `{"a":"accept","why":"because"}`, 1},
		{"one that does not fit is not taken", "", []sent{{"accept", `{"why":3}`}, {"accept", `{"why":"ok"}`}}, `{"a":"accept","why":"ok"}`, 1},
		{"the first valid one counts", "", []sent{{"decline", ``}, {"accept", `{"why":"late"}`}}, "declined", 0},
		{"declined", "", []sent{{"decline", ``}}, "declined", 0},
		{"dismissed", "", []sent{{"cancel", ``}}, "elicitation_cancelled", 0},
		{"declined and continued", ", onDecline: {action: continue}", []sent{{"decline", ``}}, `{"a":"decline"}`, 1},
		{"nobody, and continued", ", onCancel: {action: continue}", nil, `{"a":"timeout"}`, 1},
		{"declined, the rest skipped", ", onDecline: {action: skip_remaining}", []sent{{"decline", ``}}, `{"action":"decline","skipped":true}`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, fmt.Sprintf(gated, tc.handlers), `{}`, nil)
			for i, a := range tc.answers {
				b.answer(time.Duration(i+1)*time.Hour, "g#1", a.action, a.content)
			}
			got, failure := b.run()
			if failure != nil {
				got = string(failure.Error.Code)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if len(b.calls) != tc.calls {
				t.Errorf("calls: %v, want %d", b.calls, tc.calls)
			}
		})
	}
}

func TestCancelStopsTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, fmt.Sprintf(gated, ""), `{}`, nil)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	b.answer(2*time.Hour, "g#1", "accept", `{"why":"late"}`)
	_, failure := b.run()
	if failure == nil || failure.Error.Category != codes.CategoryCancelled {
		t.Fatalf("got %+v, want a cancelled run", failure)
	}
	if len(b.calls) != 0 {
		t.Errorf("a cancelled run called %v", b.calls)
	}
}

// A step starts when its own dependencies are done, not when a whole level is.
func TestGraphIsEager(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 3h, steps: [
		{id: slow, type: elicitation, message: m, timeout: 2h, onCancel: {action: continue}},
		{id: quick, tool: t, arguments: {n: 1}},
		{id: next, tool: t, dependsOn: [quick], arguments: {n: 2}},
		{id: last, tool: t, dependsOn: [slow, next], arguments: {n: 3}}]}`, `{}`, nil)
	var before []string
	b.env.RegisterDelayedCallback(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		before = slices.Clone(b.calls)
	}, time.Hour)
	if _, failure := b.run(); failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if diff := cmp.Diff([]string{`t {"n":1}`, `t {"n":2}`}, before); diff != "" {
		t.Errorf("calls while the slow step waited: %s", diff)
	}
}

// A run that carries a journal calls only what the journal does not answer.
func TestJournalIsReused(t *testing.T) {
	t.Parallel()
	source := `{name: a, description: d, steps: [
		{id: one, tool: t, arguments: {n: 1}},
		{id: two, tool: t, dependsOn: [one], arguments: {n: "{{.steps.one.output.from}}"}}]}`
	first := newBench(t, source, `{}`, nil)
	var keys []string
	first.env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
		var call workflows.ToolCall
		if err := args.Get(&call); err != nil {
			t.Error(err)
		}
		keys = append(keys, call.IdempotencyKey)
	})
	if _, failure := first.run(); failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Fatalf("keys of two steps: %v", keys)
	}

	again := newBench(t, source, `{}`, nil)
	again.input.Journal = map[definitions.StepPath]record.Entry{
		"one": {Kind: record.Call{Digest: record.DigestOf([]byte(`{"n":1}`)), Output: json.RawMessage(`{"from":"journal"}`)}},
		"two": {Kind: record.Call{Digest: "of other arguments", Output: json.RawMessage(`{"from":"journal"}`)}},
	}
	out, failure := again.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if diff := cmp.Diff([]string{`t {"n":"journal"}`}, again.calls); diff != "" {
		t.Error(diff)
	}
	if out != `{"n":"journal"}` {
		t.Errorf("got %s", out)
	}
}
