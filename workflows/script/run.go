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

	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
)

// An Input is what one run of a script starts with.
type Input struct {
	Data   json.RawMessage // the value of data in the script; nil = {}
	Tools  []Tool          // the script may call, in any order
	Limits Limits          // zero fields have their defaults

	RunID   string    // run.id of the script
	Started time.Time // run.started of the script; zero = None

	// Templates parses a template; nil = scripts have none.
	Templates func(text string) (Template, error)
}

// runValue is the value of run in a script.
func (in Input) runValue() starlark.Value {
	fields := map[string]starlark.Value{"id": starlark.String(in.RunID), "started": starlark.None}
	if !in.Started.IsZero() {
		fields["started"] = starlarktime.Time(in.Started.UTC())
	}
	return bounded.NewStruct(fields)
}

const (
	yieldSteps = 50_000  // of all branches, after which others have a turn: some milliseconds
	taskSteps  = 500_000 // without a call to the host, after which a workflow task ends: some 50 ms
)

// A run is one execution of a script.
type run struct {
	*bounded.Execution
	file   string // of the script itself
	host   Host
	limits Limits
	tools  *toolset
	calls  int

	parse     func(text string) (Template, error)
	templates map[string]Template // by text

	yielded int // steps at the last yield
	blocked int // steps at the last call to the host
}

// A branch is a coroutine of a run: the script's own, or one of parallel.
type branch struct {
	run      *run
	ctx      workflow.Context
	prefix   string         // of the paths of its sites
	times    map[string]int // a site was reached, by its path without number
	inPolicy bool           // a function of a policy is under way, which must not call anything
	parent   *branch        // which called parallel; nil = this is the script's own
	unknown  []*Error       // calls of unknown outcome, in it and in branches of it
	effects  int            // completed calls with effects, in it and in branches of it
}

const branchKey = "branch"

func branchOf(thread *starlark.Thread) *branch { return thread.Local(branchKey).(*branch) }

// Run executes a script and gives what it returns, as JSON.
func Run(ctx workflow.Context, program *bounded.Program, host Host, in Input) (json.RawMessage, *Error) {
	tools := newToolset(in.Tools)
	if missing := tools.undefined(program); missing != nil {
		return nil, missing
	}
	r := &run{file: program.File(), host: host, limits: in.Limits.withDefaults(), tools: tools, parse: in.Templates}
	names := starlark.StringDict{"run": in.runValue()}
	//workflowcheck:ignore a map again
	for name, f := range builtins {
		names[name] = starlark.NewBuiltin(name, f)
	}
	tools.define(names, program.Globals())
	r.Execution = program.NewExecution(bounded.NewAccount(r.limits.Limits), bounded.Options{
		Names: names,
		Turn:  func(thread *starlark.Thread) error { return branchOf(thread).giveTurn() },
	})
	result, err := r.main(ctx, in.Data)
	if err != nil {
		return nil, r.located(err)
	}
	return result, nil
}

func (r *run) main(ctx workflow.Context, data json.RawMessage) (json.RawMessage, error) {
	if data == nil {
		data = json.RawMessage("{}")
	}
	v, err := bounded.Receive(r.Account, data)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	thread := r.branch(ctx, nil, "").thread("main")
	return r.Main(thread, starlark.StringDict{"data": v})
}

func (r *run) branch(ctx workflow.Context, parent *branch, prefix string) *branch {
	return &branch{run: r, ctx: ctx, parent: parent, prefix: prefix, times: map[string]int{}}
}

// thread makes the interpreter's thread of a branch.
func (b *branch) thread(name string) *starlark.Thread {
	thread := b.run.Thread(name)
	thread.SetLocal(branchKey, b)
	return thread
}

// giveTurn yields to other coroutines once in a while, and ends the workflow task
// before it takes too long. Both count steps, so that replay does the same.
func (b *branch) giveTurn() error {
	r := b.run
	steps := r.Account.Steps()
	if steps-r.yielded < yieldSteps {
		return nil
	}
	r.yielded = steps
	if steps-r.blocked >= taskSteps {
		r.blocked = steps
		timer := workflow.NewTimerWithOptions(b.ctx, time.Millisecond, workflow.TimerOptions{Summary: "computes"})
		return timer.Get(b.ctx, nil)
	}
	turn := workflow.NewChannel(b.ctx)
	workflow.GoNamed(b.ctx, "turn", func(ctx workflow.Context) { turn.Send(ctx, nil) })
	turn.Receive(b.ctx, nil)
	return b.ctx.Err()
}

// site is where the script is, counted.
func (b *branch) site(thread *starlark.Thread) Site {
	s := Site{Position: b.run.Caller(thread)}
	path := b.prefix + b.run.pathOf(s.Position)
	if !b.inPolicy { // executions differ in how often they call a policy
		b.times[path]++
		if n := b.times[path]; n > 1 {
			path = fmt.Sprintf("%s#%d", path, n)
		}
	}
	s.Path = path
	return s
}

// pathOf is the path of a position, without number.
func (r *run) pathOf(at bounded.Position) string {
	if at.Line == 0 {
		return ""
	}
	path := fmt.Sprintf("%s:%d", at.Function, at.Line)
	if at.File != r.file {
		path = pathName(at.File) + ":" + path
	}
	return path
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

// located makes an Error of what ended a script, with its place and backtrace.
func (r *run) located(err error) *Error {
	out := *r.errorOf(err)
	if at, backtrace, ok := r.Locate(err); ok && out.Site == (Site{}) {
		out.Site = Site{Path: r.pathOf(at), Position: at}
		out.Backtrace = strings.TrimSuffix(backtrace+"\n"+out.Backtrace, "\n")
	}
	out.Message = clip(out.Message)
	return &out
}

// errorOf makes an Error of an error, without its place.
func (r *run) errorOf(err error) *Error {
	var known *Error
	var failed *failure
	limit := r.Account.Failed()
	switch {
	case limit != nil:
		e := limitErrors[limit.Limit]
		e.Category, e.Message = codes.CategoryLimit, limit.Message
		return &e
	case errors.As(err, &known):
		return known
	case errors.As(err, &failed):
		return &Error{Code: codes.ScriptFailed, Category: codes.CategoryTool, Message: failed.message}
	case temporal.IsCanceledError(err):
		return &Error{Code: codes.Cancelled, Category: codes.CategoryCancelled, Message: "the script was cancelled", Fatal: true}
	}
	return &Error{Code: codes.ScriptError, Category: codes.CategoryTemplate, Message: innermost(err), Final: true}
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
