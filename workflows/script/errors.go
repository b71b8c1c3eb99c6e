package script

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
)

// limitErrors are the errors of a script's limits, by the name of the limit.
var limitErrors = map[string]Error{
	"steps": {Code: codes.ScriptSteps}, "memory": {Code: codes.ScriptMemory}, "integer": {Code: codes.ScriptInteger},
	"value": {Code: codes.ScriptValue}, "nesting": {Code: codes.ScriptNesting}, "depth": {Code: codes.ScriptDepth},
	"calls": {Code: codes.ScriptCalls}, "width": {Code: codes.ScriptWidth},
}

// An Error is why a script failed, or a call of it.
type Error struct {
	Code      codes.Code
	Category  codes.Category
	Message   string
	Tool      string          // that failed; "" = none
	Path      string          // Site.Path of the call that failed
	Attempt   int             // of the call; 0 = unknown
	Retryable bool            // whether calling again may help
	Final     bool            // retry must not repeat it
	Unknown   bool            // the outcome of the call is unknown: it must not be repeated
	Fatal     bool            // the run is being stopped: nothing in the script catches it
	Details   json.RawMessage // anything more; nil = nothing
	Site      Site            // of the script; set by Run
	Backtrace string          // of the script's functions, outermost first; Run puts it before that of a called run
}

func (e *Error) Error() string { return e.Message }

// outcome is the result of attempt, try_call_tool and collect.
func outcome(value, output, err starlark.Value) *bounded.Struct {
	ok := err == nil
	if !ok {
		return bounded.NewStruct(map[string]starlark.Value{"ok": starlark.False, "value": starlark.None, "output": starlark.None, "error": err})
	}
	return bounded.NewStruct(map[string]starlark.Value{"ok": starlark.True, "value": value, "output": output, "error": starlark.None})
}

// caught marks the struct of a real error; no script can make one.
type caught struct{}

// errorValue is an error as a script sees it.
func errorValue(e *Error) starlark.Value {
	var details starlark.Value = starlark.None
	if e.Details != nil {
		details = starlark.String(e.Details)
	}
	r := bounded.NewStruct(map[string]starlark.Value{
		"code": starlark.String(e.Code), "category": starlark.String(e.Category), "message": starlark.String(clip(e.Message)),
		"tool": starlark.String(e.Tool), "path": starlark.String(e.Path), "attempt": starlark.MakeInt(e.Attempt),
		"retryable": starlark.Bool(e.Retryable), "details": details,
	})
	r.Tag = caught{}
	return r
}

// catchable reports whether a script may continue after an error.
func (r *run) catchable(err error) bool {
	e := r.errorOf(err)
	var known *Error
	var failed *failure
	var eval *starlark.EvalError
	ours := errors.As(err, &known) || errors.As(err, &failed) || errors.As(err, &eval)
	return r.Account.Failed() == nil && !e.Fatal && ours
}

// report records a failure despite which the script continues.
func report(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	var message string
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "error", &v, "message?", &message); err != nil {
		return nil, err
	}
	e, err := errorFrom(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bi.Name(), err)
	}
	e.Message = cmp.Or(message, e.Message)
	b := branchOf(thread)
	if err := bounded.AccountOf(thread).Spend(50, 1<<10); err != nil {
		return nil, err
	}
	if !bounded.Loading(thread) && !b.inPolicy {
		b.run.host.Report(b.ctx, b.site(thread), e)
	}
	return starlark.None, nil
}

// errorFrom reads an error that a script has caught or made. One that it has made
// must not have a category that only real calls can.
func errorFrom(v starlark.Value) (*Error, error) {
	r, ok := v.(*bounded.Struct)
	if !ok || !slices.Contains(r.AttrNames(), "category") || !slices.Contains(r.AttrNames(), "code") {
		return nil, fmt.Errorf("want an error, such as .error of attempt, got %s", v.Type())
	}
	text := func(name string) string {
		v, _ := r.Attr(name)
		s, _ := starlark.AsString(v)
		return s
	}
	e := &Error{Code: codes.Code(text("code")), Category: codes.Category(text("category")), Message: text("message"), Tool: text("tool"), Path: text("path")}
	if attempts, _ := r.Attr("attempt"); attempts != nil {
		_ = starlark.AsInt(attempts, &e.Attempt)
	}
	if retryable, _ := r.Attr("retryable"); retryable != nil {
		e.Retryable = bool(retryable.Truth())
	}
	if details := text("details"); details != "" {
		e.Details = json.RawMessage(details)
	}
	if !slices.Contains(failCategories, e.Category) && !(r.Tag == caught{} && slices.Contains(caughtCategories, e.Category)) {
		return nil, fmt.Errorf("an error of the category %s cannot be reported", bounded.Show(starlark.String(e.Category)))
	}
	e.Final = e.Category != codes.CategoryTool && e.Category != codes.CategoryTimeout
	return e, nil
}

// failCategories are the categories that a script may fail with.
var failCategories = []codes.Category{codes.CategoryTool, codes.CategoryTemplate, codes.CategoryTimeout, codes.CategoryDeclined, codes.CategoryLimit, codes.CategoryValidation}

// caughtCategories are those that a script may only pass on from an error it has
// caught: they decide how a call is reconciled.
var caughtCategories = []codes.Category{codes.CategoryOutcomeUnknown, codes.CategoryPermission}

// A failure is the error of fail(…).
type failure struct{ message string }

func (f *failure) Error() string { return f.message }

// fail ends the script with a message, or with an error that it has caught.
func fail(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	e, rest := &Error{}, make([]starlark.Tuple, 0, len(kwargs))
	var code, category, message string
	for _, kv := range kwargs {
		into := map[starlark.String]*string{"code": &code, "category": &category, "message": &message}[kv[0].(starlark.String)]
		if into == nil {
			rest = append(rest, kv)
			continue
		}
		text, ok := starlark.AsString(kv[1])
		if !ok {
			return nil, fmt.Errorf("%s: %s: want a string, got %s", b.Name(), kv[0], kv[1].Type())
		}
		*into = text
	}
	e.Code, e.Category = codes.Code(code), codes.Category(category)
	if e.Category != "" && !slices.Contains(failCategories, e.Category) {
		return nil, fmt.Errorf("%s: category is one of %s", b.Name(), codes.List(failCategories))
	}
	if len(args) == 1 && len(rest) == 0 {
		if known, err := errorFrom(args[0]); err == nil {
			known.Code, known.Category, known.Message = cmp.Or(e.Code, known.Code), cmp.Or(e.Category, known.Category), cmp.Or(message, known.Message)
			return nil, known
		}
	}
	text, err := bounded.Joined(thread, b.Name(), args, rest)
	if err != nil {
		return nil, err
	}
	text = cmp.Or(text, message)
	if e.Code == "" && e.Category == "" {
		return nil, &failure{text}
	}
	e.Code, e.Category, e.Message = cmp.Or(e.Code, codes.ScriptFailed), cmp.Or(e.Category, codes.CategoryTool), text
	e.Final = e.Category != codes.CategoryTool && e.Category != codes.CategoryTimeout
	return nil, e
}

// errInPolicy is the error of a function of a policy that calls something.
var errInPolicy = errors.New("what probe and undo are given says something of a call, and must not call anything itself")
