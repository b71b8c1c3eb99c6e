package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"
	"go.temporal.io/sdk/workflow"

	bounded "github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/record"
)

// A Probe is how to find out whether a call of unknown outcome was executed.
type Probe struct {
	Tool    string        // of class read
	Delay   time.Duration // before it is called; 0 = the host's default
	Timeout time.Duration // of its call; 0 = the host's default

	// Arguments gives its arguments for {key, arguments, sent} of the call.
	Arguments func(call json.RawMessage) (Arguments, error)
	// Find reads its output. Result is an object, for a call that happened.
	Find func(call, output json.RawMessage) (happened, notHappened bool, result json.RawMessage, err error)
}

// What a host records of a call.
type (
	Undo      = record.Undo
	Arguments = record.Arguments
)

// A Policy is what a call has besides its arguments.
type Policy struct {
	Retries   int           // after an attempt that the tool answered with an error
	Delay     time.Duration // before the first retry; 0 = the host's default
	OnUnknown string        // ask, fail; "" = as configured for the tool
	Probe     *Probe        // nil = as configured for the tool

	// Undo gives the call that undoes this one, for its output; nil = none.
	Undo func(output json.RawMessage) *Undo
}

// maxRetries bounds the retries of a policy.
const maxRetries = 10

// policy is the value of policy(…), undo(…) and probe(…).
type policy struct {
	kind      string
	tool      string
	args      starlark.Value // a dict, or a function that gives one; nil = none
	timeout   time.Duration
	retries   int
	delay     time.Duration
	onUnknown string
	probe     *policy
	undo      *policy

	happened, notHappened, result starlark.Callable
}

func (p *policy) String() string        { return "<" + p.kind + ">" }
func (p *policy) Type() string          { return p.kind }
func (p *policy) Freeze()               {}
func (p *policy) Truth() starlark.Bool  { return true }
func (p *policy) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: %s", p.kind) }

// Parts implements bounded.Composite.
func (p *policy) Parts() []starlark.Value {
	var all []starlark.Value
	for _, v := range []starlark.Value{p.args, p.happened, p.notHappened, p.result} {
		if v != nil {
			all = append(all, v)
		}
	}
	for _, inner := range []*policy{p.probe, p.undo} {
		if inner != nil {
			all = append(all, inner)
		}
	}
	return all
}

func makePolicy(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &policy{kind: "policy"}
	var delay, probe, undo starlark.Value
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "retries?", &p.retries, "delay?", &delay, "on_unknown?", &p.onUnknown, "probe?", &probe, "undo?", &undo)
	if err != nil {
		return nil, err
	}
	if p.onUnknown != "" && p.onUnknown != "ask" && p.onUnknown != "fail" {
		return nil, fmt.Errorf(`%s: on_unknown is "ask" or "fail"`, b.Name())
	}
	if p.probe, err = policyOf(probe, "probe"); err != nil {
		return nil, err
	}
	if p.undo, err = policyOf(undo, "undo"); err != nil {
		return nil, err
	}
	return p, p.times(nil, delay)
}

// policyOf reads an argument made by the function named kind.
func policyOf(v starlark.Value, kind string) (*policy, error) {
	if v == nil || v == starlark.None {
		return nil, nil
	}
	p, ok := v.(*policy)
	if !ok || p.kind != kind {
		return nil, fmt.Errorf("want %s(…), got %s", kind, v.Type())
	}
	return p, nil
}

// misplaced reports where a policy belongs that was given as an argument of the tool.
func (p *policy) misplaced(name starlark.Value) error {
	if p.kind != "policy" {
		return fmt.Errorf("%s: %s(…) is no argument of a tool: it belongs in a policy(…)", bounded.Show(name), p.kind)
	}
	return fmt.Errorf("%s: policy(…) is no argument of a tool: give it by position, as in call_tool(name, args, timeout, policy(…)), with None for no timeout", bounded.Show(name))
}

// times reads durations and checks the retries.
func (p *policy) times(timeout, delay starlark.Value) (err error) {
	if p.timeout, err = duration(timeout); err != nil {
		return fmt.Errorf("%s: timeout: %w", p.kind, err)
	}
	if p.delay, err = duration(delay); err != nil {
		return fmt.Errorf("%s: delay: %w", p.kind, err)
	}
	if p.retries < 0 || p.retries > maxRetries {
		return fmt.Errorf("%s: retries is a number from 0 to %d", p.kind, maxRetries)
	}
	return nil
}

func makeUndo(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &policy{kind: "undo"}
	var timeout, delay starlark.Value
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "tool", &p.tool, "args?", &p.args, "timeout?", &timeout, "retries?", &p.retries, "delay?", &delay)
	if err != nil {
		return nil, err
	}
	return p, p.times(timeout, delay)
}

func makeProbe(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &policy{kind: "probe"}
	var timeout, delay starlark.Value
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "tool", &p.tool, "args?", &p.args, "delay?", &delay, "timeout?", &timeout,
		"happened?", &p.happened, "not_happened?", &p.notHappened, "result?", &p.result)
	if err != nil {
		return nil, err
	}
	if p.happened == nil && p.notHappened == nil {
		return nil, fmt.Errorf("%s: happened or not_happened is required: a function of the call and the output that says it", b.Name())
	}
	return p, p.times(timeout, delay)
}

// of is the policy of one call in a branch. Its functions are called while the call
// is under way, and must not call the host.
func (p *policy) of(b *branch, thread *starlark.Thread) Policy {
	if p == nil {
		return Policy{}
	}
	out := Policy{Retries: p.retries, Delay: p.delay, OnUnknown: p.onUnknown}
	if u := p.undo; u != nil {
		out.Undo = func(output json.RawMessage) *Undo {
			undo := &Undo{Tool: b.toolNamed(u.tool), Timeout: u.timeout, Retries: u.retries, Delay: u.delay}
			var err error
			if undo.Args, err = u.arguments(b, thread, output); err != nil {
				undo.Error = b.run.errorOf(err).Message
			}
			return undo
		}
	}
	if q := p.probe; q != nil {
		out.Probe = &Probe{
			Tool: b.toolNamed(q.tool), Delay: q.delay, Timeout: q.timeout,
			Arguments: func(call json.RawMessage) (Arguments, error) {
				args, err := q.arguments(b, thread, call)
				return args, b.hostError(err)
			},
			Find: func(call, output json.RawMessage) (bool, bool, json.RawMessage, error) {
				happened, notHappened, result, err := q.find(b, thread, call, output)
				return happened, notHappened, result, b.hostError(err)
			},
		}
	}
	return out
}

// toolNamed gives the name by which the host knows a tool.
func (b *branch) toolNamed(name string) string {
	if known := b.run.tools.byName[name]; known != "" {
		return known
	}
	return name
}

// hostError is an error of a function of a policy, for the host.
func (b *branch) hostError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(b.run.errorOf(err).Message)
}

// arguments gives the arguments of a probe or an undo.
func (p *policy) arguments(b *branch, thread *starlark.Thread, seen ...json.RawMessage) (Arguments, error) {
	given := p.args
	if fn, ok := given.(starlark.Callable); ok {
		var err error
		if given, err = p.call(b, thread, fn, seen...); err != nil {
			return Arguments{}, err
		}
	}
	return b.arguments(given, nil)
}

// call calls a function of a policy with values.
func (p *policy) call(b *branch, thread *starlark.Thread, fn starlark.Callable, seen ...json.RawMessage) (starlark.Value, error) {
	args := make(starlark.Tuple, len(seen))
	for i, data := range seen {
		var err error
		if args[i], err = bounded.Receive(b.run.Account, data); err != nil {
			return nil, err
		}
	}
	was, ctx := b.inPolicy, b.ctx
	defer func() { b.inPolicy, b.ctx = was, ctx }()
	b.inPolicy = true
	// A call that completed although it was stopped must still be undone.
	disconnected, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	b.ctx = disconnected
	return bounded.Invoke(thread, fn, args)
}

// find lets the functions of a probe judge its output.
func (p *policy) find(b *branch, thread *starlark.Thread, call, output json.RawMessage) (happened, notHappened bool, result json.RawMessage, err error) {
	for _, f := range []struct {
		fn   starlark.Callable
		into *bool
	}{{p.happened, &happened}, {p.notHappened, &notHappened}} {
		if f.fn == nil {
			continue
		}
		v, err := p.call(b, thread, f.fn, call, output)
		if err != nil {
			return false, false, nil, err
		}
		*f.into = bool(v.Truth())
	}
	switch {
	case happened && notHappened:
		return false, false, nil, errors.New("probe: happened and notHappened are both true")
	case !happened:
		return happened, notHappened, nil, nil
	case p.result == nil:
		return happened, notHappened, json.RawMessage("{}"), nil
	}
	v, err := p.call(b, thread, p.result, call, output)
	if err != nil {
		return false, false, nil, err
	}
	if _, ok := v.(*bounded.Dict); !ok {
		return false, false, nil, fmt.Errorf("probe.result: must give an object, not %s", v.Type())
	}
	result, err = bounded.Encode(b.run.Account, v)
	return happened, notHappened, result, err
}

// A typed value is converted, as an argument, to the type in the tool's schema.
type typed struct{ value starlark.Value }

func (t *typed) String() string          { return "typed(…)" } // the printer knows how deep it is
func (t *typed) Type() string            { return "typed" }
func (t *typed) Parts() []starlark.Value { return []starlark.Value{t.value} }
func (t *typed) Marked() starlark.Value  { return t.value }
func (t *typed) Freeze()                 { t.value.Freeze() }
func (t *typed) Truth() starlark.Bool    { return t.value.Truth() }
func (t *typed) Hash() (uint32, error)   { return 0, errors.New("unhashable type: typed") }

func makeTyped(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	t := &typed{}
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &t.value); err != nil {
		return nil, err
	}
	if _, again := t.value.(*typed); again {
		return nil, errors.New("typed: the value is typed already")
	}
	return t, bounded.AccountOf(thread).Spend(1, 2*16)
}
