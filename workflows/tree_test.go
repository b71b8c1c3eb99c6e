package workflows_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// levels are composite tools that call each other in loops, and the last of them a tool.
func levels(loops ...int) string {
	var docs []string
	for i, times := range loops {
		docs = append(docs, fmt.Sprintf(`{name: w%d, description: d, steps: [{id: s, type: forEach, collection: "{{toJson (until %d)}}", maxIterations: 1000,
  step: {type: workflow, workflow: w%d}}]}`, i, times, i+1))
	}
	return strings.Join(append(docs, fmt.Sprintf(`{name: w%d, description: d, steps: [{id: s, tool: echo}]}`, len(loops))), "\n---\n")
}

// TestTreesOfRuns: runs that call each other are bounded together, and what honest
// definitions call fits.
func TestTreesOfRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		loops []int
		most  int // runs; 0 = all
	}{
		{loops: []int{1000}},
		{loops: []int{10, 10, 10}},
		{loops: []int{70, 70}},
		{loops: []int{1000, 5}},
		{loops: slices.Repeat([]int{1}, 14)},
		{[]int{1000, 1000}, 46_000},
		{slices.Repeat([]int{1000}, 10), 582_421},
	} {
		all, whole := 0, true
		programs := compiled(t, levels(tc.loops...))
		var run func(tree workflows.Tree, level int)
		run = func(tree workflows.Tree, level int) {
			for range tc.loops[level] {
				below, ok := tree.Call(programs[level+1])
				if !ok {
					whole = false
					return
				}
				if all++; level+1 < len(tc.loops) {
					run(below, level+1)
				}
			}
		}
		run(workflows.Tree{}, 0)
		if whole != (tc.most == 0) || !whole && all > tc.most {
			t.Errorf("%v: %d runs (all of them: %t), want at most %d", tc.loops, all, whole, tc.most)
		}
	}
}

func compiled(t *testing.T, source string) (all []*definitions.Program) {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(source))
	perduretest.NoError(t, diags.Err())
	for _, d := range defs {
		program := perduretest.Must(definitions.Compile(d))(t)
		all = append(all, program)
	}
	return all
}

// A run that may not call as many runs as it would fails, wherever it is in the tree.
func TestTooManyRuns(t *testing.T) {
	t.Parallel()
	for width, refused := range map[int]string{
		0: "", 250: "", 500: `step s\[\d\]: w1 failed: step s\[1\]: w2 would be one run too many; this one has called 1`,
		2000: `step s\[5\]: w1 would be one run too many; this one has called 5`, 10_001: `step s\[\d\]: w1 would be`,
	} {
		b := newBench(t, levels(10, 2), `{}`, nil)
		b.input.Tree.Width = width
		_, failure := b.run()
		switch {
		case refused == "" && failure != nil:
			t.Errorf("width %d failed: %+v", width, failure.Error)
		case refused != "" && (failure == nil || failure.Error.Code != codes.TooManyRuns || !regexp.MustCompile("^"+refused).MatchString(failure.Error.Message)):
			t.Errorf("width %d: got %+v, want %s: %s", width, failure, codes.TooManyRuns, refused)
		}
	}
}
