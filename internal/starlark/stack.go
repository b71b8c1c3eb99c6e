package starlark

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
)

// A Position is a place in a program.
type Position struct {
	File     string
	Function string // main = the body of the program
	Line     int    // from 1; 0 = not known
	Column   int    // from 1
}

func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Caller is the position of the program's innermost function that calls the host.
func (x *Execution) Caller(thread *starlark.Thread) Position { return x.where(thread.CallStack()) }

// where finds the innermost function of the program on a stack.
func (x *Execution) where(stack starlark.CallStack) Position {
	for i := range stack {
		frame := stack.At(i)
		if isBuiltin(frame) {
			continue
		}
		return Position{File: frame.Pos.Filename(), Function: functionName(frame.Name), Line: int(frame.Pos.Line), Column: int(frame.Pos.Col)}
	}
	return Position{File: x.program.main.file}
}

func isBuiltin(frame starlark.CallFrame) bool { return frame.Pos.Filename() == "<builtin>" }

func functionName(name string) string {
	if name == mainName || name == "<toplevel>" {
		return "main"
	}
	return name
}

// Locate gives the position of an error in the program, and the calls that led to it; ok
// is false if these are unknown.
func (x *Execution) Locate(err error) (at Position, backtrace string, ok bool) {
	stack := stackOf(err)
	if stack == nil {
		return Position{}, "", false
	}
	return x.where(stack), traceback(stack), true
}

// A stoppedError is the cause of a stopped thread, with its stack.
type stoppedError struct {
	cause error
	stack starlark.CallStack
}

func (e *stoppedError) Error() string { return e.cause.Error() }
func (e *stoppedError) Unwrap() error { return e.cause }

// A threadError is the error of another thread.
type threadError struct{ err error }

func (e *threadError) Error() string { return e.err.Error() }
func (e *threadError) Unwrap() error { return e.err }

// FromThread wraps the error of a thread for the thread that waited for it, so that
// Locate finds both stacks.
func FromThread(err error) error { return &threadError{err} }

// stackOf is the stack of an error: the innermost one, and for another thread that of its
// caller before it.
func stackOf(err error) starlark.CallStack {
	var outer, stack starlark.CallStack
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) {
		case *starlark.EvalError:
			stack = e.CallStack
		case *stoppedError:
			stack = e.stack
		case *threadError:
			outer, stack = append(outer, stack...), nil
		}
	}
	return append(outer, stack...)
}

// maxFrames is how many functions a traceback names at each end.
const maxFrames = 10

// traceback lists the functions of a program on a stack, outermost first.
func traceback(stack starlark.CallStack) string {
	var lines []string
	for _, frame := range stack {
		if !isBuiltin(frame) {
			lines = append(lines, fmt.Sprintf("  %s: in %s", frame.Pos, functionName(frame.Name)))
		}
	}
	if n := len(lines) - 2*maxFrames; n > 0 {
		lines = append(append(lines[:maxFrames:maxFrames], fmt.Sprintf("  … %d more", n)), lines[len(lines)-maxFrames:]...)
	}
	return "Traceback (most recent call last):\n" + strings.Join(lines, "\n")
}
