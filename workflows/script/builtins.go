package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	starlarktime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"

	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
)

// builtins are what scripts have besides Starlark; docs/scripts.md describes each.
var builtins = map[string]builtinFunc{
	"approve":       approve,
	"attempt":       attempt,
	"call_tool":     callTool,
	"call_workflow": callWorkflow,
	"elicit":        elicit,
	"fail":          fail,
	"iterate":       iterate,
	"log":           logText,
	"map_parallel":  mapParallel,
	"now":           now,
	"parallel":      parallel,
	"policy":        makePolicy,
	"print":         logText,
	"probe":         makeProbe,
	"progress":      progress,
	"report":        report,
	"retry":         retry,
	"skip_rest":     skipRest,
	"sleep":         sleep,
	"template":      expandTemplate,
	"tool_output":   toolOutput,
	"try_call_tool": tryCallTool,
	"typed":         makeTyped,
	"undo":          makeUndo,
	"within":        within,
}

type builtinFunc = func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)

// toolCall reads name, args, timeout and policy by position only, so that a tool may
// have arguments of any name.
func toolCall(name string, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (json.RawMessage, error) {
	var tool string
	var given, limit, how starlark.Value
	if err := starlark.UnpackPositionalArgs(name, args, nil, 1, &tool, &given, &limit, &how); err != nil {
		return nil, err
	}
	timeout, err := duration(limit)
	if err != nil {
		return nil, fmt.Errorf("%s: timeout: %w", name, err)
	}
	p, err := policyOf(how, "policy")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b := branchOf(thread)
	return b.callTool(thread, tool, given, kwargs, ToolCall{Timeout: timeout, Policy: p.of(b, thread)})
}

func callTool(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	out, err := toolCall(b.Name(), thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	return branchOf(thread).parsed(out)
}

// toolOutput is callTool without reading JSON in text.
func toolOutput(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	out, err := toolCall(b.Name(), thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	return bounded.Receive(branchOf(thread).run.Account, out)
}

func tryCallTool(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	branch := branchOf(thread)
	out, err := toolCall(b.Name(), thread, args, kwargs)
	var known *Error
	switch {
	case err == nil:
		value, err := branch.parsed(out)
		if err != nil {
			return nil, err
		}
		output, err := bounded.Receive(branch.run.Account, out)
		return outcome(value, output, nil), err
	case errors.As(err, &known) && branch.run.catchable(err):
		return outcome(starlark.None, starlark.None, errorValue(known)), nil
	}
	return nil, err
}

// duration reads seconds, a text such as 1m30s, or a time.duration; nothing is 0.
func duration(v starlark.Value) (time.Duration, error) {
	var d time.Duration
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return 0, nil
	case starlarktime.Duration:
		d = time.Duration(v)
	case starlark.String:
		var err error
		if d, err = time.ParseDuration(clip(string(v))); err != nil {
			return 0, fmt.Errorf("%s is no duration such as 1m30s", bounded.Show(v))
		}
	default:
		seconds, ok := starlark.AsFloat(v)
		if !ok || math.IsNaN(seconds) || math.Abs(seconds) > 1e9 {
			return 0, fmt.Errorf("%s is no duration: want seconds, or a text such as 1m30s", bounded.Show(v))
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < 0 {
		return 0, fmt.Errorf("the duration %s is negative", d)
	}
	return d, nil
}

// question reads the arguments of elicit and approve.
type question struct {
	Question
	message         string
	schema, timeout starlark.Value
	approvers       starlark.Value
}

func (q *question) prepare(thread *starlark.Thread) error {
	a := bounded.AccountOf(thread)
	var err error
	q.Message = q.message
	if q.Timeout, err = duration(q.timeout); err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	if q.schema != nil && q.schema != starlark.None {
		if _, ok := q.schema.(*bounded.Dict); !ok {
			return fmt.Errorf("schema: want a dict, got %s", q.schema.Type())
		}
		if q.Schema, err = bounded.EncodeInOrder(a, q.schema); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	if q.approvers == nil || q.approvers == starlark.None {
		return nil
	}
	return q.names(thread)
}

// Limits of the approvers that a question names.
const (
	maxApprovers = 100
	maxApprover  = 200 // bytes of a name
)

// names reads the approvers. An empty list is an error: it must not mean everybody.
func (q *question) names(thread *starlark.Thread) error {
	elems := []starlark.Value{q.approvers}
	if _, ok := q.approvers.(starlark.String); !ok {
		var err error
		if elems, err = bounded.Elements(thread, q.approvers); err != nil {
			return fmt.Errorf("by: %w", err)
		}
	}
	if len(elems) == 0 || len(elems) > maxApprovers {
		return fmt.Errorf("by: names %d people and groups; want 1 to %d, or None for all who may answer", len(elems), maxApprovers)
	}
	for _, e := range elems {
		name, ok := starlark.AsString(e)
		if !ok || name == "" || name == "group:" || len(name) > maxApprover {
			return fmt.Errorf("by: want subjects, and groups as \"group:NAME\", got %s", bounded.Show(e))
		}
		q.Approvers = append(q.Approvers, name)
	}
	return nil
}

// maxAttempts is how often a question is asked when answers do not fit.
const maxAttempts = 3

// put asks a person, and again with the reason if the answer does not fit.
func (q *question) put(thread *starlark.Thread) (Answer, Site, error) {
	if err := q.prepare(thread); err != nil {
		return Answer{}, Site{}, err
	}
	b := branchOf(thread)
	site, err := b.begin(thread)
	if err != nil {
		return Answer{}, Site{}, err
	}
	for q.Attempt = 1; ; q.Attempt++ {
		answer, err := b.run.host.Elicit(b.ctx, site, q.Question)
		err = b.answered(site, err)
		var invalid *Error
		if err == nil || q.Attempt == maxAttempts || !errors.As(err, &invalid) || invalid.Code != InvalidAnswer {
			return answer, site, err
		}
		q.Reason = invalid.Message
	}
}

// content is that of an answer as values; an empty dict if it has none.
func content(thread *starlark.Thread, answer Answer) (starlark.Value, error) {
	data := answer.Content
	if len(data) == 0 || string(data) == "null" {
		data = json.RawMessage("{}")
	}
	return bounded.Receive(bounded.AccountOf(thread), data)
}

func elicit(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	q := &question{Question: Question{Validate: true}}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "message", &q.message, "schema?", &q.schema, "timeout?", &q.timeout, "validate?", &q.Validate, "by?", &q.approvers, "mode?", &q.Mode); err != nil {
		return nil, err
	}
	if q.Mode != "" && q.Mode != "form" && q.Mode != "url" {
		return nil, fmt.Errorf(`%s: mode is "form" or "url"`, b.Name())
	}
	answer, _, err := q.put(thread)
	if err != nil {
		return nil, err
	}
	v, err := content(thread, answer)
	if err != nil {
		return nil, err
	}
	return bounded.NewStruct(map[string]starlark.Value{"action": starlark.String(answer.Action), "content": v, "by": starlark.String(answer.By), "at": starlarktime.Time(answer.At.UTC())}), nil
}

// approve gives the content of an accepted answer; any other ends the script.
func approve(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	q := &question{Question: Question{Validate: true, Approval: true}}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "message", &q.message, "schema?", &q.schema, "timeout?", &q.timeout, "by?", &q.approvers); err != nil {
		return nil, err
	}
	answer, site, err := q.put(thread)
	if err != nil {
		return nil, err
	}
	if answer.Action == "accept" {
		return content(thread, answer)
	}
	return nil, refused(q, site, answer)
}

func refused(q *question, site Site, answer Answer) *Error {
	e := &Error{Category: codes.CategoryDeclined, Path: site.Path, Final: true}
	switch answer.Action {
	case "decline":
		e.Code, e.Message = codes.Declined, "declined: "+q.message
	case "timeout":
		e.Code, e.Category, e.Message, e.Retryable = codes.ElicitationTimeout, codes.CategoryTimeout, "nobody answered in time: "+q.message, true
	default:
		e.Code, e.Message = codes.ElicitationCancelled, "cancelled without an answer: "+q.message
	}
	if answer.By != "" {
		e.Message += " (by " + answer.By + ")"
	}
	return e
}

// maxReference bounds name and version of a composite tool, in bytes: they go into
// the history of the run.
const maxReference = 1000

func callWorkflow(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name, version string
	var given, limit, how starlark.Value
	if err := starlark.UnpackPositionalArgs(bi.Name(), args, nil, 1, &name, &given, &limit, &how); err != nil {
		return nil, err
	}
	timeout, err := duration(limit)
	if err != nil {
		return nil, fmt.Errorf("%s: timeout: %w", bi.Name(), err)
	}
	p, err := policyOf(how, "policy")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bi.Name(), err)
	}
	var rest []starlark.Tuple
	for _, kv := range kwargs {
		if kv[0] != starlark.String("version") {
			rest = append(rest, kv)
			continue
		}
		var ok bool
		if version, ok = starlark.AsString(kv[1]); !ok {
			return nil, fmt.Errorf("%s: version: want a string, got %s", bi.Name(), kv[1].Type())
		}
	}
	b := branchOf(thread)
	data, err := b.arguments(given, rest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	site, err := b.begin(thread)
	if err != nil {
		return nil, err
	}
	if n := len(name) + len(version); n > maxReference {
		return nil, &Error{Code: codes.UnknownWorkflow, Category: codes.CategoryTool, Path: site.Path, Final: true,
			Message: fmt.Sprintf("%s: a composite tool is not found by a name and version of %d bytes: %s", bi.Name(), n, bounded.Show(starlark.String(name)))}
	}
	out, err := b.run.host.CallWorkflow(b.ctx, site, WorkflowCall{
		Name: name, Version: version, Args: data.JSON, Typed: data.Typed, Timeout: timeout, Undo: p.of(b, thread).Undo,
	})
	if err := b.answered(site, err); err != nil {
		return nil, err
	}
	b.noteEffect() // it may have called anything
	return bounded.Receive(b.run.Account, out)
}

func sleep(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var how starlark.Value
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "duration", &how); err != nil {
		return nil, err
	}
	d, err := duration(how)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bi.Name(), err)
	}
	return starlark.None, branchOf(thread).sleep(thread, d)
}

func (b *branch) sleep(thread *starlark.Thread, d time.Duration) error {
	site, err := b.begin(thread)
	if err != nil {
		return err
	}
	return b.answered(site, b.run.host.Sleep(b.ctx, site, d))
}

func now(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs); err != nil {
		return nil, err
	}
	b := branchOf(thread)
	site, err := b.begin(thread)
	if err != nil {
		return nil, err
	}
	t, err := b.run.host.Now(b.ctx, site)
	return starlarktime.Time(t.UTC()), b.answered(site, err)
}

func logText(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	text, err := bounded.Joined(thread, bi.Name(), args, kwargs)
	if err != nil {
		return nil, err
	}
	b := branchOf(thread)
	if err := b.run.Account.Spend(50, 1<<10); err != nil {
		return nil, err
	}
	if !bounded.Loading(thread) {
		b.run.host.Log(b.ctx, b.site(thread), clip(text))
	}
	return starlark.None, nil
}

func progress(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var done, total starlark.Value
	var message string
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "done", &done, "total?", &total, "message?", &message); err != nil {
		return nil, err
	}
	p := Progress{Message: clip(message)}
	var ok bool
	if p.Done, ok = count(done); !ok {
		return nil, fmt.Errorf("%s: done: want a number from 0 to 2**53, got %s", bi.Name(), bounded.Show(done))
	}
	if total != nil && total != starlark.None {
		if p.Total, ok = count(total); !ok {
			return nil, fmt.Errorf("%s: total: want a number from 0 to 2**53, got %s", bi.Name(), bounded.Show(total))
		}
	}
	b := branchOf(thread)
	if err := b.run.Account.Spend(50, 1<<10); err != nil {
		return nil, err
	}
	if !bounded.Loading(thread) {
		b.run.host.Progress(b.ctx, b.site(thread), p)
	}
	return starlark.None, nil
}

// count reads a number from 0 to 2**53.
func count(v starlark.Value) (float64, bool) {
	n, ok := starlark.AsFloat(v)
	return n, ok && n >= 0 && n <= 1<<53
}
