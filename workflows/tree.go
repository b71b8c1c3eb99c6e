package workflows

import (
	"fmt"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
)

// A Tree is what bounds the tree of runs that call each other. A run counts its own calls
// only, so that none waits for another: it may make MaxCalledRuns / Width, and the n-th
// run that it calls and that may call others has 2n times its width. That bounds the sum
// over all runs, to some 580,000 at 10 levels; with n times it, the sum would be 1,500
// times as large, since a first call would cost nothing.
type Tree struct {
	Width   int `json:"width,omitempty"`   // 0 = 1
	Calls   int `json:"calls,omitempty"`   // of runs, in executions before
	Callers int `json:"callers,omitempty"` // of these, calls of runs that may call others
}

// call counts a call of a run of a program, and gives the tree as that run has it; ok
// false = it is one too many.
func (t *Tree) call(of *definitions.Program) (below Tree, ok bool) {
	width := max(t.Width, 1)
	if t.Calls >= definitions.MaxCalledRuns/width {
		return Tree{}, false
	}
	t.Calls++
	below = Tree{Width: 2 * (t.Callers + 1) * width}
	if of.CallsOthers() {
		t.Callers++
	}
	return below, true
}

// place gives a called run its place in the tree of runs.
func (cs *children) place(c childCall, in *RunInput) *Error {
	program, err := cs.compile(in.Definition)
	if err != nil {
		return uncompiled(c, err)
	}
	below, ok := cs.tree.call(program)
	if !ok {
		return &Error{Code: codes.TooManyRuns, Category: codes.CategoryLimit, Message: fmt.Sprintf(
			"step %s: %s would be one run too many; this one has called %d, which is what MaxCalledRuns leaves to it", c.path, c.workflow, cs.tree.Calls)}
	}
	in.Tree = below
	return nil
}

func (cs *children) next(in *RunInput) { in.Tree = cs.tree }
