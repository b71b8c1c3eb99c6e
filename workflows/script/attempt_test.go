package script_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

// TestFailDoesNotPretend shows that a script cannot end with an error that says of
// the run what only the run knows: that it was cancelled, or broke down.
func TestFailDoesNotPretend(t *testing.T) {
	t.Parallel()
	for _, category := range []string{"cancelled", "internal", "outcome_unknown", "credentials", "permission"} {
		for _, call := range []string{
			`fail("no", category = "` + category + `")`,
			`fail(attempt(lambda: fail("no")).error, category = "` + category + `")`,
		} {
			p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: "a.star", Text: call}, starlark.Limits{})
			if ds != nil {
				t.Fatal(ds)
			}
			_, failure := execute(t, p, &fake{}, script.Input{})
			if failure == nil || string(failure.Category) == category || !strings.Contains(failure.Message, "category is one of") {
				t.Errorf("%s ended with %+v", call, failure)
			}
		}
	}
}

// TestMadeErrorDoesNotPretend shows that an error which a script has made itself is
// told on only in a category of which a script may fail: what outcome_unknown and
// permission say of a call decides what is done about it.
func TestMadeErrorDoesNotPretend(t *testing.T) {
	t.Parallel()
	for category, may := range map[string]bool{
		"tool": true, "declined": true, "timeout": true,
		"cancelled": false, "internal": false, "outcome_unknown": false, "credentials": false, "permission": false, "held": false,
	} {
		made := `struct(code = "mine", category = "` + category + `", message = "no", path = "main:1", tool = "be_write")`
		for call, code := range map[string]codes.Code{"fail(" + made + ")": codes.ScriptFailed, "report(" + made + ")": codes.ScriptError} {
			p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: "a.star", Text: call}, starlark.Limits{})
			if ds != nil {
				t.Fatal(ds)
			}
			_, failure := execute(t, p, &fake{}, script.Input{})
			if pretends := failure == nil || failure.Code == "mine"; pretends != may || !may && (failure.Code != code || string(failure.Category) == category) {
				t.Errorf("%s ended with %+v", call, failure)
			}
		}
	}
}

// TestCaughtErrorIsToldOn shows that what has happened to a call keeps its category
// when the script fails with it.
func TestCaughtErrorIsToldOn(t *testing.T) {
	t.Parallel()
	for _, category := range []string{"outcome_unknown", "permission"} {
		f := &fake{answer: func(call script.ToolCall) (json.RawMessage, error) {
			return nil, &script.Error{Code: "gone", Category: codes.Category(category), Tool: call.Tool, Message: "not known whether", Final: true}
		}}
		for _, caught := range []string{`attempt(lambda: call_tool("t_echo"))`, `try_call_tool("t_echo")`, `parallel([lambda: call_tool("t_echo")], on_error = "collect")[0]`} {
			p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: "a.star", Text: "fail(" + caught + ".error)"}, starlark.Limits{})
			if ds != nil {
				t.Fatal(ds)
			}
			_, failure := execute(t, p, f, script.Input{Tools: tools})
			if failure == nil || failure.Code != "gone" || string(failure.Category) != category {
				t.Errorf("%s ended with %+v", caught, failure)
			}
		}
	}
}
