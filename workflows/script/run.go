package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	starlarktime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// An Input is what one run of a script starts with.
type Input struct {
	Data   json.RawMessage // what the script knows as data; nil = {}
	Tools  []Tool          // that it may call, in any order
	Limits Limits          // zero fields have their defaults

	RunID   string    // what the script knows as run.id
	Started time.Time // what it knows as run.started; zero = None

	// Templates parses a template; nil = scripts have none.
	Templates func(text string) (Template, error)
}

// about is what a script knows of its run.
func (in Input) about() starlark.Value {
	fields := map[string]starlark.Value{"id": starlark.String(in.RunID), "started": starlark.None}
	if !in.Started.IsZero() {
		fields["started"] = starlarktime.Time(in.Started.UTC())
	}
	return newRecord(fields)
}

const (
	hookSteps  = 256       // between two looks at what a branch does
	yieldSteps = 50_000    // of all branches, after which others have a turn: some milliseconds
	taskSteps  = 2_000_000 // without asking the world, after which a workflow task ends
)

// A run is one execution of a script.
type run struct {
	program *Program
	host    Host
	account *account
	tools   *toolset
	loaded  map[string]starlark.StringDict // by module
	data    starlark.Value                 // what the script knows by that name
	about   starlark.Value                 // what it knows as run
	loader  func(*starlark.Thread, string) (starlark.StringDict, error)

	parse     func(text string) (Template, error)
	templates map[string]Template // by text

	yielded int // steps at the last yield
	blocked int // steps when the world was last asked
}

// A branch is a coroutine of a run: the script's own, or one of parallel.
type branch struct {
	run     *run
	ctx     workflow.Context
	prefix  string         // of the paths of its sites
	times   map[string]int // a site was reached, by its path without number
	pending error          // what an iterator ran into, and nobody has seen yet
	loading bool           // a module is being loaded, which may not ask for anything
	steps   uint64         // of the thread that the account has

	deciding bool // a function of a policy is called, which may not either

	parent  *branch  // that called parallel; nil = the script's own
	unknown []*Error // calls in it, and in branches of it, of which nobody knows whether they were executed
}

const branchKey = "branch"

func branchOf(thread *starlark.Thread) *branch { return thread.Local(branchKey).(*branch) }

// Run executes the script and gives what it returns, as JSON.
func (p *Program) Run(ctx workflow.Context, host Host, in Input) (json.RawMessage, *Error) {
	r := &run{program: p, host: host, account: &account{limits: in.Limits.withDefaults()},
		tools: newToolset(in.Tools), loaded: map[string]starlark.StringDict{}, parse: in.Templates}
	r.loader, r.about = r.loadModule, in.about()
	if ds := p.undefined(r.tools); ds != nil {
		return nil, &Error{Code: "unknown_tool", Category: "tool", Message: ds.Error(), Retryable: true,
			Site: Site{File: ds[0].File, Line: ds[0].Line, Column: ds[0].Column}}
	}
	b := r.branch(ctx, nil, "")
	thread := b.thread("main")
	v, err := r.main(thread, in.Data)
	if err != nil {
		return nil, r.explain(err)
	}
	if result, ok := v.(encoded); ok {
		return result.data, nil
	}
	return json.RawMessage("null"), nil
}

// main loads the modules, defines the body and calls it.
func (r *run) main(thread *starlark.Thread, data json.RawMessage) (starlark.Value, error) {
	if data == nil {
		data = json.RawMessage("{}")
	}
	v, err := frozen(r.account, data)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	r.data = v
	globals, err := r.load(thread, r.program.main)
	if err != nil {
		return nil, err
	}
	return branchOf(thread).call(thread, globals[mainName], nil)
}

// load executes the top level of a module.
func (r *run) load(thread *starlark.Thread, m *module) (starlark.StringDict, error) {
	names := starlark.StringDict{}
	//workflowcheck:ignore a map again
	for name, v := range predeclared {
		names[name] = v
	}
	names["run"] = r.about
	if m == r.program.main {
		names["data"] = r.data
	}
	r.tools.define(names, r.program.globals)
	b := branchOf(thread)
	was := b.loading
	b.loading = true
	defer func() { b.loading = was }()
	return m.program.Init(thread, names)
}

// loadModule implements load(…).
func (r *run) loadModule(thread *starlark.Thread, name string) (starlark.StringDict, error) {
	if globals, ok := r.loaded[name]; ok {
		return globals, nil
	}
	m := r.program.modules[name]
	if m == nil {
		return nil, fmt.Errorf("there is no %q to load", name)
	}
	globals, err := r.load(thread, m)
	if err != nil {
		return nil, err
	}
	l := &lock{account: r.account}
	for _, name := range globals.Keys() {
		if err := l.value(globals[name]); err != nil { // for ever
			return nil, err
		}
	}
	r.loaded[name] = globals
	return globals, nil
}

func (r *run) branch(ctx workflow.Context, parent *branch, prefix string) *branch {
	return &branch{run: r, ctx: ctx, parent: parent, prefix: prefix, times: map[string]int{}}
}

// thread makes the interpreter's thread of a branch.
func (b *branch) thread(name string) *starlark.Thread {
	thread := &starlark.Thread{Name: name, Load: b.run.loader}
	thread.SetLocal(branchKey, b)
	thread.SetMaxExecutionSteps(hookSteps)
	thread.OnMaxSteps = b.look
	return thread
}

// look is called every few steps: it charges them, and sees to it that others
// have their turn. Everything here depends on the number of steps and never on
// a clock, so that it is the same when the run is replayed.
func (b *branch) look(thread *starlark.Thread) {
	r := b.run
	steps := int(thread.Steps - b.steps)
	b.steps = thread.Steps
	thread.SetMaxExecutionSteps(thread.Steps + hookSteps)
	err := r.account.spend(steps, 0)
	if err == nil && thread.CallStackDepth() > r.account.limits.Depth {
		err = r.account.fail("script_depth", "functions are called more than %d deep, which is the limit", r.account.limits.Depth)
	}
	if err == nil {
		err = b.giveTurn()
	}
	if err != nil {
		b.stop(thread, err)
	}
}

// stop ends what a thread does with an error, from where none can be returned.
func (b *branch) stop(thread *starlark.Thread, err error) {
	if b.pending == nil {
		b.pending = err
	}
	thread.Cancel(err.Error())
}

// giveTurn lets other coroutines run once in a while, and ends the workflow
// task before it takes too long.
func (b *branch) giveTurn() error {
	r := b.run
	if r.account.steps-r.yielded < yieldSteps {
		return nil
	}
	r.yielded = r.account.steps
	if r.account.steps-r.blocked >= taskSteps {
		r.blocked = r.account.steps
		timer := workflow.NewTimerWithOptions(b.ctx, time.Millisecond, workflow.TimerOptions{Summary: "computes"})
		return timer.Get(b.ctx, nil)
	}
	turn := workflow.NewChannel(b.ctx)
	workflow.GoNamed(b.ctx, "turn", func(ctx workflow.Context) { turn.Send(ctx, nil) })
	turn.Receive(b.ctx, nil)
	return b.ctx.Err()
}

// call calls a function of the script. It gives the error that counts, and lets
// the thread go on where a builtin catches it.
func (b *branch) call(thread *starlark.Thread, fn starlark.Value, args starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Call(thread, fn, args, nil)
	if pending := b.pending; err != nil && pending != nil {
		b.pending = nil
		thread.Uncancel()
		return nil, located(pending, err)
	}
	return v, err
}

// located keeps where the interpreter stood when it was stopped.
func located(cause, stopped error) error {
	var eval *starlark.EvalError
	if !errors.As(stopped, &eval) {
		return cause
	}
	return &stoppedError{cause: cause, stack: eval.CallStack}
}

// A stoppedError is why a thread was stopped, and where it stood.
type stoppedError struct {
	cause error
	stack starlark.CallStack
}

func (e *stoppedError) Error() string { return e.cause.Error() }
func (e *stoppedError) Unwrap() error { return e.cause }

// site is where the script stands, counted.
func (b *branch) site(thread *starlark.Thread) Site {
	s := where(thread.CallStack(), b.run.program.main.file)
	path := b.prefix + s.Path
	if b.deciding { // how often a policy is asked differs from one execution to the next
		s.Path = path
		return s
	}
	b.times[path]++
	if n := b.times[path]; n > 1 {
		path = fmt.Sprintf("%s#%d", path, n)
	}
	s.Path = path
	return s
}

// where finds the innermost function of the script on a stack.
func where(stack starlark.CallStack, mainFile string) Site {
	for i := range stack {
		frame := stack.At(i)
		if builtinFrame(frame) {
			continue
		}
		s := Site{File: frame.Pos.Filename(), Function: functionName(frame.Name), Line: int(frame.Pos.Line), Column: int(frame.Pos.Col)}
		s.Path = fmt.Sprintf("%s:%d", s.Function, s.Line)
		if s.File != mainFile {
			s.Path = pathName(s.File) + ":" + s.Path
		}
		return s
	}
	return Site{File: mainFile}
}

func builtinFrame(frame starlark.CallFrame) bool { return frame.Pos.Filename() == "<builtin>" }

func functionName(name string) string {
	if name == mainName || name == "<toplevel>" {
		return "main"
	}
	return name
}

// pathName makes the name of a file fit into a path.
func pathName(file string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, file)
}

// explain makes an Error of what ended a script.
func (r *run) explain(err error) *Error {
	out := *r.kind(err)
	if stack := stackOf(err); stack != nil && out.Site == (Site{}) {
		out.Site = where(stack, r.program.main.file)
		out.Backtrace = strings.TrimSuffix(backtrace(stack)+"\n"+out.Backtrace, "\n")
	}
	out.Message = clip(out.Message)
	return &out
}

// kind makes an Error of an error without saying where it came up.
func (r *run) kind(err error) *Error {
	var known *Error
	var failed *failure
	switch {
	case r.account.failed != nil:
		return r.account.failed
	case errors.As(err, &known):
		return known
	case errors.As(err, &failed):
		return &Error{Code: CodeFailed, Category: "tool", Message: failed.message}
	case temporal.IsCanceledError(err):
		return &Error{Code: "cancelled", Category: "cancelled", Message: "the script was cancelled", Fatal: true}
	}
	return &Error{Code: CodeError, Category: "template", Message: innermost(err), Final: true}
}

const maxMessage = 4 << 10

func clip(s string) string {
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// innermost is the message of an error without where it went through.
func innermost(err error) string {
	var eval *starlark.EvalError
	if errors.As(err, &eval) {
		return eval.Msg
	}
	return err.Error()
}

// stackOf is the stack at which an error came up: the innermost one, and of a
// branch after that of what called parallel.
func stackOf(err error) starlark.CallStack {
	var outer, stack starlark.CallStack
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) {
		case *starlark.EvalError:
			stack = e.CallStack
		case *stoppedError:
			stack = e.stack
		case *branchError:
			outer, stack = append(outer, stack...), nil
		}
	}
	return append(outer, stack...)
}

// maxFrames is how many functions a backtrace names at each end.
const maxFrames = 10

// backtrace lists the functions of a script on a stack, outermost first.
func backtrace(stack starlark.CallStack) string {
	var lines []string
	for _, frame := range stack {
		if !builtinFrame(frame) {
			lines = append(lines, fmt.Sprintf("  %s: in %s", frame.Pos, functionName(frame.Name)))
		}
	}
	if n := len(lines) - 2*maxFrames; n > 0 {
		lines = append(append(lines[:maxFrames:maxFrames], fmt.Sprintf("  … %d more", n)), lines[len(lines)-maxFrames:]...)
	}
	return "Traceback (most recent call last):\n" + strings.Join(lines, "\n")
}
