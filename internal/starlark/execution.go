package starlark

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// hookSteps is between two calls of look.
const hookSteps = 256

// An Execution is one run of a program, on threads that take turns.
type Execution struct {
	Account *Account

	program *Program
	names   starlark.StringDict // the language's and the host's
	turn    func(*starlark.Thread) error
	loaded  map[string]starlark.StringDict // by module
}

// Options are what a host gives to an execution.
type Options struct {
	Names starlark.StringDict // the host's names, and the globals of the program

	// Turn is called regularly on each thread: at least every few hundred steps, and
	// when a function of the language begins. It may let other threads run. An error
	// stops the thread. nil = threads are never interrupted.
	Turn func(thread *starlark.Thread) error
}

// NewExecution prepares a run of the program that charges the account.
func (p *Program) NewExecution(account *Account, o Options) *Execution {
	x := &Execution{Account: account, program: p, turn: o.Turn, names: starlark.StringDict{}, loaded: map[string]starlark.StringDict{}}
	//workflowcheck:ignore a map again
	for name, v := range predeclared {
		x.names[name] = v
	}
	//workflowcheck:ignore a map again
	for name, v := range o.Names {
		x.names[name] = v
	}
	return x
}

// A threadState is the state of a thread.
type threadState struct {
	execution *Execution
	steps     uint64 // charged so far
	pending   error  // why the thread was stopped, until a call returns it
	loading   bool   // a module is being loaded
}

const stateKey = "execution"

func stateOf(thread *starlark.Thread) *threadState {
	return thread.Local(stateKey).(*threadState)
}

// AccountOf is the account of a thread's execution, for a function that begins. It
// gives other threads a turn.
func AccountOf(thread *starlark.Thread) *Account {
	s := stateOf(thread)
	if err := s.execution.giveTurn(thread); err != nil {
		Stop(thread, err)
	}
	return s.execution.Account
}

// Loading reports whether a thread is loading a module, where a host should refuse
// calls.
func Loading(thread *starlark.Thread) bool { return stateOf(thread).loading }

// Stop ends a thread with an error, from a place that cannot return one.
func Stop(thread *starlark.Thread, err error) {
	if s := stateOf(thread); s.pending == nil {
		s.pending = err
	}
	thread.Cancel(err.Error())
}

// Thread makes a thread of the execution.
func (x *Execution) Thread(name string) *starlark.Thread {
	thread := &starlark.Thread{Name: name, Load: x.load}
	thread.SetLocal(stateKey, &threadState{execution: x})
	thread.SetMaxExecutionSteps(hookSteps)
	thread.OnMaxSteps = x.look
	return thread
}

// look is called every few steps, charges for them, and gives others a turn. It depends
// on the number of steps and never on a clock, so that each execution does the same.
func (x *Execution) look(thread *starlark.Thread) {
	s := stateOf(thread)
	steps := int(thread.Steps - s.steps)
	s.steps = thread.Steps
	thread.SetMaxExecutionSteps(thread.Steps + hookSteps)
	err := x.Account.Spend(steps, 0)
	if depth := x.Account.limits.Depth; err == nil && thread.CallStackDepth() > depth {
		err = x.Account.Fail("depth", "functions are called more than %d deep, which is the limit", depth)
	}
	if err == nil {
		err = x.giveTurn(thread)
	}
	if err != nil {
		Stop(thread, err)
	}
}

func (x *Execution) giveTurn(thread *starlark.Thread) error {
	if x.turn == nil {
		return nil
	}
	return x.turn(thread)
}

// Main loads the modules, runs the program, and gives its result as JSON, null without
// one. The names are defined in the program itself, not in its modules.
func (x *Execution) Main(thread *starlark.Thread, names starlark.StringDict) (json.RawMessage, error) {
	globals, err := x.define(thread, x.program.main, names)
	if err != nil {
		return nil, err
	}
	v, err := Invoke(thread, globals[mainName], nil)
	if err != nil {
		return nil, err
	}
	if result, ok := v.(encoded); ok {
		return result.data, nil
	}
	return json.RawMessage("null"), nil
}

// define executes the top level of a module, with names besides those that all
// modules have.
func (x *Execution) define(thread *starlark.Thread, m *module, own starlark.StringDict) (starlark.StringDict, error) {
	names := x.names
	if own != nil {
		names = starlark.StringDict{}
		//workflowcheck:ignore a map again
		for name, v := range x.names {
			names[name] = v
		}
		//workflowcheck:ignore a map again
		for name, v := range own {
			names[name] = v
		}
	}
	s := stateOf(thread)
	was := s.loading
	s.loading = true
	defer func() { s.loading = was }()
	return m.program.Init(thread, names)
}

// load implements load(…).
func (x *Execution) load(thread *starlark.Thread, name string) (starlark.StringDict, error) {
	if globals, ok := x.loaded[name]; ok {
		return globals, nil
	}
	m := x.program.modules[name]
	if m == nil {
		return nil, fmt.Errorf("there is no %q to load", name)
	}
	globals, err := x.define(thread, m, nil)
	if err != nil {
		return nil, err
	}
	l := NewLock(x.Account) // never released
	for _, name := range globals.Keys() {
		if err := l.Hold(globals[name]); err != nil {
			return nil, err
		}
	}
	x.loaded[name] = globals
	return globals, nil
}

// Invoke calls a function of the program. If the thread was stopped, the error is the
// cause, and the thread can continue if the caller handles it.
func Invoke(thread *starlark.Thread, fn starlark.Value, args starlark.Tuple) (starlark.Value, error) {
	s := stateOf(thread)
	v, err := starlark.Call(thread, fn, args, nil)
	if pending := s.pending; err != nil && pending != nil {
		s.pending = nil
		thread.Uncancel()
		return nil, located(pending, err)
	}
	if eval, ok := err.(*starlark.EvalError); ok {
		eval.Msg += meant(eval.Msg)
	}
	return v, err
}

// located keeps where the interpreter was when it was stopped.
func located(cause, stopped error) error {
	var eval *starlark.EvalError
	if !errors.As(stopped, &eval) {
		return cause
	}
	return &stoppedError{cause: cause, stack: eval.CallStack}
}
