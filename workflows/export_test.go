package workflows

import "github.com/perdure/perdure/definitions"

// NewCompiler gives what an interpreter compiles definitions by.
func NewCompiler() func(Pinned) (*definitions.Program, error) {
	return newInterpreter(Trust{}).program
}

// Call counts a call of a run of a program.
func (t *Tree) Call(of *definitions.Program) (below Tree, ok bool) { return t.call(of) }
