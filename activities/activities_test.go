package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

type backend func(ctx context.Context, call backends.Call) (*backends.Result, error)

func (b backend) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	return b(ctx, call)
}

// call executes the activity once against a backend.
func call(t *testing.T, b backend, c workflows.ToolCall) (workflows.ToolResult, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Second)
	activities.Register(env, activities.New(b, nil, activities.Options{}))
	var res workflows.ToolResult
	value, err := env.ExecuteActivity(workflows.CallToolName, c)
	if err == nil {
		err = value.Get(&res)
	}
	return res, err
}

// What may follow a failure is the effect contract: known failures are
// repeated as often as onError says, what did not happen may always be
// repeated, and an unknown outcome never on an unsafe tool.
func TestFailures(t *testing.T) {
	t.Parallel()
	isError := func(context.Context, backends.Call) (*backends.Result, error) {
		return &backends.Result{IsError: true, Content: []backends.Content{{Type: "text", Text: "disk full"}}}, nil
	}
	unanswered := func(o backends.Outcome) backend {
		return func(_ context.Context, c backends.Call) (*backends.Result, error) {
			return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: o, Err: errors.New("broken pipe")}
		}
	}
	oversized := func(_ context.Context, c backends.Call) (*backends.Result, error) {
		return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: backends.Unknown, Err: fmt.Errorf("%w of 9 bytes", backends.ErrTooLarge)}
	}
	const tooLarge = "the answer is over the limit maxResultBytes of 9 bytes"
	const unknown = "; whether be_put was executed is not known, so it is not called again"
	for _, tc := range []struct {
		name     string
		backend  backend
		effect   definitions.Effect
		attempts int // that onError allows
		code     string
		category codes.Category
		message  string
		repeated bool
	}{
		{"an answer with isError", isError, definitions.Unsafe, 1, "tool_error", codes.CategoryTool, "be_put failed: disk full", false},
		{"an answer with isError and attempts left", isError, definitions.Unsafe, 2, "tool_error", codes.CategoryTool, "be_put failed: disk full", true},
		{"an unsafe call without an answer", unanswered(backends.Unknown), definitions.Unsafe, 5, "connection_lost", codes.CategoryOutcomeUnknown, "be_put gave no answer: broken pipe" + unknown, false},
		{"a call of an unclassified tool without an answer", unanswered(backends.Unknown), "", 5, "connection_lost", codes.CategoryOutcomeUnknown, "be_put gave no answer: broken pipe" + unknown, false},
		{"a read without an answer", unanswered(backends.Unknown), definitions.Read, 1, "connection_lost", codes.CategoryTool, "be_put gave no answer: broken pipe", true},
		{"an idempotent call without an answer", unanswered(backends.Unknown), definitions.Idempotent, 1, "connection_lost", codes.CategoryTool, "be_put gave no answer: broken pipe", true},
		{"a keyed call without an answer", unanswered(backends.Unknown), definitions.Keyed, 1, "connection_lost", codes.CategoryTool, "be_put gave no answer: broken pipe", true},
		{"a read with too large an answer", oversized, definitions.Read, 1, "output_too_large", codes.CategoryLimit, "be_put: " + tooLarge + ": ask the tool for less", false},
		{"a keyed call with too large an answer", oversized, definitions.Keyed, 5, "output_too_large", codes.CategoryLimit, "be_put: " + tooLarge + ": ask the tool for less", false},
		{"an unsafe call with too large an answer", oversized, definitions.Unsafe, 5, "connection_lost", codes.CategoryOutcomeUnknown, "be_put gave no answer: " + tooLarge + unknown, false},
		{"an unsafe call that never left", unanswered(backends.NotSent), definitions.Unsafe, 1, "backend_unavailable", codes.CategoryTool, "be_put was not called, backend be cannot be reached: broken pipe", true},
		{"a call that was refused", unanswered(backends.Refused), definitions.Unsafe, 1, "refused", codes.CategoryTool, "be_put was refused: broken pipe", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, tc.backend, workflows.ToolCall{
				RunID: "r/1", StepID: "put", StepPath: "put[3]", Tool: "be_put", Backend: "be", Original: "put",
				Arguments: json.RawMessage(`{}`), Effect: tc.effect, MaxAttempts: tc.attempts,
			})
			var app *temporal.ApplicationError
			if !errors.As(err, &app) {
				t.Fatalf("got %v, want an application error", err)
			}
			if app.NonRetryable() == tc.repeated {
				t.Errorf("repeated: %v, want %v", !app.NonRetryable(), tc.repeated)
			}
			if app.Type() != string(tc.category) {
				t.Errorf("type %q, want %q", app.Type(), tc.category)
			}
			var got workflows.Error
			perduretest.NoError(t, app.Details(&got))
			want := workflows.Error{Code: codes.Code(tc.code), Category: tc.category, Message: "step put[3]: " + tc.message,
				StepID: "put", StepPath: "put[3]", Tool: "be_put", Attempt: 1, RunID: "r/1", Retryable: got.Retryable}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A composite tool that is named as none can be is a mistake of the script.
func TestInvalidReference(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	a := activities.New(nil, nil, activities.Options{Resolve: func(context.Context, workflows.DefinitionRef) (found workflows.ResolvedDefinition, err error) {
		return found, fmt.Errorf("%w: it is named twice", activities.ErrInvalidReference)
	}})
	env.RegisterActivity(a.ResolveDefinition)
	_, err := env.ExecuteActivity(a.ResolveDefinition, workflows.DefinitionRef{Workflow: "x@1@2"})
	var app *temporal.ApplicationError
	var got workflows.Error
	if !errors.As(err, &app) || !app.NonRetryable() || app.Details(&got) != nil {
		t.Fatalf("got %v", err)
	}
	if got.Code != "invalid_workflow" || got.Category != codes.CategoryValidation || got.Retryable || !strings.Contains(got.Message, "it is named twice") {
		t.Errorf("got %+v", got)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	text := func(s string) backends.Content { return backends.Content{Type: "text", Text: s} }
	for _, tc := range []struct {
		name string
		res  backends.Result
		want string
	}{
		{"structured content, exactly", backends.Result{Structured: json.RawMessage(`{"n":123456789012345678901234567890}`), Content: []backends.Content{text("x")}}, `{"n":123456789012345678901234567890}`},
		{"one text", backends.Result{Content: []backends.Content{text("a b")}}, `{"text":"a b"}`},
		{"blocks by name", backends.Result{Content: []backends.Content{
			text("a"), text("b"), {Type: "image", Data: "aW1n"}, {Type: "audio", Data: "YXVk"},
			{Type: "resource", Text: "r"}, {Type: "resource", Data: "cg=="}, {Type: "resource_link", URI: "mem://x"}}},
			`{"image_0":"aW1n","resource":"r","resource_1":"cg==","text":"a","text_1":"b"}`},
		{"an array is no object", backends.Result{Structured: json.RawMessage(`[1]`), Content: []backends.Content{text("[1]")}}, `{"text":"[1]"}`},
		{"nothing", backends.Result{}, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, err := call(t, func(context.Context, backends.Call) (*backends.Result, error) { return &tc.res, nil }, workflows.ToolCall{})
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Output) != tc.want {
				t.Errorf("got %s, want %s", res.Output, tc.want)
			}
		})
	}
}

// TestStructuredWithoutText: structured content that no step could see fails the step; null
// is none.
func TestStructuredWithoutText(t *testing.T) {
	t.Parallel()
	for _, structured := range []string{`[1]`, `7`, ` "x"`} {
		_, err := call(t, func(context.Context, backends.Call) (*backends.Result, error) {
			return &backends.Result{Structured: json.RawMessage(structured)}, nil
		}, workflows.ToolCall{Tool: "be_t"})
		if err == nil || !strings.Contains(err.Error(), "no object, and no text has it") {
			t.Errorf("%s: %v", structured, err)
		}
	}
}

// TestOutputBeside shows that content blocks are read beside structured content
// where templates name them.
func TestOutputBeside(t *testing.T) {
	t.Parallel()
	text := func(s string) backends.Content { return backends.Content{Type: "text", Text: s} }
	given := &backends.Result{Structured: json.RawMessage(`{"n":123456789012345678901234567890,"text_1":null}`), Content: []backends.Content{text("x"), text("y"), {Type: "resource", Text: "r"}}}
	for _, tc := range []struct {
		reads, want string
	}{
		{"{{.steps.a.output.n}}", `{"n":123456789012345678901234567890,"text_1":null}`},
		{"{{.steps.a.output.text}}{{with .steps.a.output}}{{.text_1}}{{.resource}}{{.image_0}}{{end}}", `{"n":123456789012345678901234567890,"resource":"r","text":"x","text_1":null}`},
		{"{{(index .steps \"a\").output.resource}}", `{"n":123456789012345678901234567890,"resource":"r","text_1":null}`},
	} {
		p, err := definitions.Compile(&definitions.Definition{Steps: []*definitions.Step{{ID: "a", Tool: "t"}, {ID: "b", Tool: "t", Arguments: map[string]any{"x": tc.reads}}}})
		if err != nil {
			t.Fatal(err)
		}
		if p.Beside("b") != nil || p.Beside("a/undo") != nil {
			t.Errorf("%s: what nobody reads is wanted", tc.reads)
		}
		res, err := call(t, func(context.Context, backends.Call) (*backends.Result, error) { return given, nil }, workflows.ToolCall{Beside: p.Beside("a")})
		if err != nil {
			t.Fatal(err)
		}
		if string(res.Output) != tc.want {
			t.Errorf("%s: got %s, want %s", tc.reads, res.Output, tc.want)
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		res  backends.Result
		want string
	}{
		{"the first text that says something", backends.Result{Content: []backends.Content{{Type: "text"}, {Type: "text", Text: "no"}}}, "no"},
		{"the structured error", backends.Result{Structured: json.RawMessage(`{"message":"m","error":"e"}`)}, "e"},
		{"an error that is an object", backends.Result{Structured: json.RawMessage(`{"error":{"code":5}}`)}, `{"code":5}`},
		{"nothing at all", backends.Result{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := activities.Message(&tc.res); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	long := activities.Message(&backends.Result{Content: []backends.Content{{Type: "text", Text: strings.Repeat("ä", 100_000)}}})
	if len(long) > 9000 || !strings.HasSuffix(long, "…") {
		t.Errorf("a message of %d bytes", len(long))
	}
}

// The key travels with every call, and in the argument where the operator says so.
func TestCallCarriesItsKey(t *testing.T) {
	t.Parallel()
	var got backends.Call
	_, err := call(t, func(_ context.Context, c backends.Call) (*backends.Result, error) {
		got = c
		return &backends.Result{}, nil
	}, workflows.ToolCall{Backend: "be", Original: "put", IdempotencyKey: "k", KeyArgument: "token", Arguments: json.RawMessage(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	got.Progress, got.MaySend = nil, nil
	want := backends.Call{Backend: "be", Tool: "put", IdempotencyKey: "k", KeyArgument: "token", Arguments: json.RawMessage(`{"a":1}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOutputTooLarge(t *testing.T) {
	t.Parallel()
	huge := json.RawMessage(`{"d":"` + strings.Repeat("x", workflows.MaxResultSize) + `"}`)
	_, err := call(t, func(context.Context, backends.Call) (*backends.Result, error) {
		return &backends.Result{Structured: huge}, nil
	}, workflows.ToolCall{Tool: "be_big", MaxAttempts: 5})
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != string(codes.CategoryLimit) || !app.NonRetryable() {
		t.Errorf("got %v, want a limit that is not tried again", err)
	}
}

// That the worker stops does not cancel the run: another worker may repeat
// what may be repeated, and nothing else.
func TestWorkerStops(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		effect   definitions.Effect
		outcome  backends.Outcome
		category codes.Category
		retry    bool
	}{
		{definitions.Read, backends.Unknown, codes.CategoryTool, true},
		{definitions.Idempotent, backends.Unknown, codes.CategoryTool, true},
		{definitions.Unsafe, backends.NotSent, codes.CategoryTool, true},
		{definitions.Unsafe, backends.Unknown, codes.CategoryOutcomeUnknown, false},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
		activities.Register(env, activities.New(backend(func(ctx context.Context, c backends.Call) (*backends.Result, error) {
			stop(worker.ErrWorkerShutdown)
			<-ctx.Done()
			return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: tc.outcome, Err: context.Cause(ctx)}
		}), nil, activities.Options{}))
		_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{StepPath: "s", Tool: "be_put", Effect: tc.effect})
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != string(tc.category) || app.NonRetryable() == tc.retry {
			t.Errorf("%s, outcome %d: got %v, want %s, repeated %t", tc.effect, tc.outcome, err, tc.category, tc.retry)
		}
	}
}

// A heartbeat that could not be delivered ends no call: the SDK cancels the
// activity, with what went wrong as the cause.
func TestHeartbeatIsLost(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	activities.Register(env, activities.New(backend(func(ctx context.Context, c backends.Call) (*backends.Result, error) {
		stop(context.DeadlineExceeded) // of the heartbeat
		select {
		case <-ctx.Done():
			return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: backends.Unknown, Err: context.Cause(ctx)}
		case <-time.After(100 * time.Millisecond): // it would have ended by now
			return &backends.Result{Structured: json.RawMessage(`{"n":1}`)}, nil
		}
	}), nil, activities.Options{}))
	result, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{StepPath: "s", Tool: "be_put", Effect: definitions.Unsafe})
	var output workflows.ToolResult
	if err == nil {
		err = result.Get(&output)
	}
	if err != nil || string(output.Output) != `{"n":1}` {
		t.Errorf("the call came to %s, %v", output.Output, err)
	}
}

// A call that is not permitted is never sent, fails for good, and reports whose right
// it is that is missing.
func TestDeniedCall(t *testing.T) {
	t.Parallel()
	for as, who := range map[string]string{"": "the caller of the run", "deploy": "the composite tool deploy"} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		var asked workflows.ToolCall
		activities.Register(env, activities.New(backend(func(context.Context, backends.Call) (*backends.Result, error) {
			t.Error("the backend was called")
			return nil, nil
		}), nil, activities.Options{Permits: func(call workflows.ToolCall) bool {
			asked = call
			return false
		}}))
		_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{
			StepPath: "s", Tool: "be_put", Effect: definitions.Read, As: as, MaxAttempts: 5, Caller: workflows.Caller{Subject: "alice"}})
		var app *temporal.ApplicationError
		var e workflows.Error
		if !errors.As(err, &app) || !app.NonRetryable() || app.Type() != string(codes.CategoryPermission) || app.Details(&e) != nil ||
			e.Code != "permission_denied" || e.Message != "step s: be_put was not called: "+who+" may not call it" {
			t.Errorf("as %q: %v", as, err)
		}
		if asked.Tool != "be_put" || asked.Caller.Subject != "alice" || asked.As != as {
			t.Errorf("asked about %+v", asked)
		}
	}
}

// A worker without rules makes no call of a run that was started where there are
// some, so that one that has them can.
func TestWorkerWithoutRules(t *testing.T) {
	t.Parallel()
	for _, ruled := range []bool{false, true} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		called := false
		activities.Register(env, activities.New(backend(func(context.Context, backends.Call) (*backends.Result, error) {
			called = true
			return &backends.Result{}, nil
		}), nil, activities.Options{}))
		_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{StepPath: "s", Tool: "be_put", Ruled: ruled})
		var app *temporal.ApplicationError
		var e workflows.Error
		refused := errors.As(err, &app) && !app.NonRetryable() && app.Details(&e) == nil && e.Code == "worker_without_rules"
		if called == ruled || refused != ruled {
			t.Errorf("ruled %t: called %t, %v", ruled, called, err)
		}
	}
}
