package deftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// backend answers every call in the same way.
type backend struct {
	result *backends.Result
	err    error
}

func (b backend) Call(context.Context, backends.Call) (*backends.Result, error) {
	return b.result, b.err
}

// told is what a workflow learns from a call.
type told struct {
	Output    string
	Type      string
	Message   string
	Retryable bool
	Error     workflows.Error
}

func tell(result workflows.ToolResult, err error) told {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		v, _ := template.DecodeValue(result.Output) // an output that is not JSON differs
		return told{Output: string(encoded(v))}
	}
	t := told{Type: app.Type(), Message: app.Message(), Retryable: !app.NonRetryable()}
	_ = app.Details(&t.Error) // an empty one differs
	return t
}

// What a response comes to is what the real activity makes of a backend that
// answers so.
func TestOutcomesAreThoseOfActivities(t *testing.T) {
	t.Parallel()
	lost := func(outcome backends.Outcome) backend {
		return backend{err: &backends.CallError{Backend: "be", Tool: "orig", Outcome: outcome, Err: errors.New("why")}}
	}
	textResult := func(isError bool, texts ...string) backend {
		res := &backends.Result{IsError: isError}
		for _, text := range texts {
			res.Content = append(res.Content, backends.Content{Type: "text", Text: text})
		}
		return backend{result: res}
	}
	why, empty := "why", ""
	for _, tc := range []struct {
		name     string
		response response
		backend  backend
	}{
		{"structured", response{Structured: json.RawMessage(`{"a":12345678901234567890}`)},
			backend{result: &backends.Result{Structured: json.RawMessage(`{"a":12345678901234567890}`)}}},
		{"structured, but no object", response{Structured: json.RawMessage(`[1]`), Text: &why},
			backend{result: &backends.Result{Structured: json.RawMessage(`[1]`), Content: []backends.Content{{Type: "text", Text: why}}}}},
		{"text", response{Text: &why}, textResult(false, why)},
		{"nothing", response{}, textResult(false)},
		{"content", response{Content: []block{{Type: "text", Text: "a<b"}, {Type: "image", Data: "AA=="}, {Type: "text", Text: "c"}, {Type: "resource", Text: "r"}, {Type: "audio", Data: "BB=="}}},
			backend{result: &backends.Result{Content: []backends.Content{{Type: "text", Text: "a<b"}, {Type: "image", Data: "AA=="}, {Type: "text", Text: "c"}, {Type: "resource", Text: "r"}, {Type: "audio", Data: "BB=="}}}}},
		{"error", response{Error: &why}, textResult(true, why)},
		{"error without a reason", response{Error: &empty}, textResult(true)},
		{"refused", response{Refused: &why}, lost(backends.Refused)},
		{"unavailable", response{Unavailable: &why}, lost(backends.NotSent)},
		{"unauthorized", response{Unauthorized: &why}, lost(backends.CredentialsNeeded)},
		{"unknown", response{Unknown: &why}, lost(backends.Unknown)},
	} {
		for _, effect := range []definitions.Effect{definitions.Read, definitions.Idempotent, definitions.Keyed, definitions.Unsafe, ""} {
			for _, attempts := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", tc.name, effect, attempts), func(t *testing.T) {
					t.Parallel()
					call := workflows.ToolCall{RunID: "a/1", StepID: "s", StepPath: "s[2]", Tool: "be_orig", Backend: "be", Original: "orig",
						Arguments: json.RawMessage(`{}`), Effect: effect, MaxAttempts: attempts}
					want := tell(execute(t, tc.backend, call))
					got := tell(tc.response.outcome(call, 1))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("activities (-), here (+): %s", diff)
					}
				})
			}
		}
	}
}

func execute(t *testing.T, b backend, call workflows.ToolCall) (workflows.ToolResult, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	activities.Register(env, activities.New(b, nil, activities.Options{}))
	value, err := env.ExecuteActivity(workflows.CallToolName, call)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	var result workflows.ToolResult
	perduretest.NoError(t, value.Get(&result))
	return result, nil
}

func TestChoose(t *testing.T) {
	t.Parallel()
	first, second, b, third := "first", "second", "b", "third"
	list := []*response{
		{Text: &first},
		{When: json.RawMessage(`{"path":"b"}`), Text: &b},
		{Text: &second},
		{Step: "s[3]", Text: &third},
	}
	calls := []struct{ arguments, step, want string }{
		{`{"path":"a"}`, "s[0]", "first"},
		{`{"path":"b","ref":1}`, "s[1]", "b"},
		{`{"path":"b"}`, "s[2]", "b"}, // again
		{`{"path":"a"}`, "s[3]", "third"},
		{`{"path":"c"}`, "s[4]", "second"},
		{`{}`, "s[5]", "second"}, // the last one again
	}
	for _, call := range calls {
		r := choose(list, workflows.ToolCall{Arguments: json.RawMessage(call.arguments), StepID: "s", StepPath: workflows.StepPath(call.step)})
		if r == nil || *r.Text != call.want {
			t.Fatalf("%s with %s: got %+v, want %s", call.step, call.arguments, r, call.want)
		}
		r.used = true
	}
	if r := choose(list[1:2], workflows.ToolCall{Arguments: json.RawMessage(`{}`)}); r != nil {
		t.Errorf("a call that no response is for is answered with %+v", r)
	}
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want, got string
		fits      bool
	}{
		{`{}`, `{"a":1}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, true},
		{`{"a":1}`, `{"a":1.0}`, true},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":null}`, `{"a":null}`, true},
		{`[1]`, `[1,2]`, false},
		{`[{"a":1}]`, `[{"a":1,"b":2}]`, true},
		{`[1,2]`, `[1]`, false},
		{`{"a":{"$match":"^x.z$"}}`, `{"a":"xyz"}`, true},
		{`{"a":{"$match":"^x.z$"}}`, `{"a":"xyzz"}`, false},
		{`{"a":{"$match":"("}}`, `{"a":"("}`, false},
		{`{"a":{"$match":"^4"}}`, `{"a":42}`, true},
		{`{"a":[]}`, `{"a":{}}`, false},
	} {
		if got := includes(json.RawMessage(tc.want), json.RawMessage(tc.got)); got != tc.fits {
			t.Errorf("%s includes %s: %t, want %t", tc.got, tc.want, got, tc.fits)
		}
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, want, got, diff string }{
		{"none", `{"a":1,"b":[2]}`, `{"b":[2],"a":1}`, ""},
		{"a member", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, `{"a":0,"b":2,"c":3,"d":4,"e":5}`,
			"  {\n-   \"a\": 1,\n+   \"a\": 0,\n    \"b\": 2,\n    \"c\": 3,\n  …"},
		{"everything", `1`, `"1"`, "- 1\n+ \"1\""},
		{"an element more", `[1,2]`, `[1,2,3]`, "  [\n    1,\n-   2\n+   2,\n+   3\n  ]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.diff, difference(json.RawMessage(tc.want), json.RawMessage(tc.got), false)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
