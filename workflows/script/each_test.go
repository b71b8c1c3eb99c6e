package script_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/script"
)

func TestEach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		n, width int
		enough   int // begun, after which no more is
		most     int // at a time
	}{
		{name: "nothing", n: 0, width: 3, enough: 9, most: 0},
		{name: "fewer than at a time", n: 2, width: 3, enough: 9, most: 2},
		{name: "more than at a time", n: 7, width: 3, enough: 9, most: 3},
		{name: "one by one", n: 3, width: 1, enough: 9, most: 1},
		{name: "enough before the end", n: 7, width: 3, enough: 4, most: 3},
		{name: "no width", n: 2, width: 0, enough: 9, most: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var begun, ended []int
			most := 0
			suite := testsuite.WorkflowTestSuite{}
			env := suite.NewTestWorkflowEnvironment()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				more := func() bool { return len(begun) < test.enough }
				script.Each(ctx, "each", test.n, test.width, more, func(ctx workflow.Context, i int) {
					begun = append(begun, i)
					most = max(most, len(begun)-len(ended))
					_ = workflow.Sleep(ctx, time.Duration(10-i)*time.Minute)
					ended = append(ended, i)
				})
				return nil
			})
			perduretest.NoError(t, env.GetWorkflowError())
			var want []int
			for i := range min(test.n, test.enough) {
				want = append(want, i)
			}
			if diff := cmp.Diff(want, begun); diff != "" {
				t.Errorf("begun (-want +got):\n%s", diff)
			}
			if slices.Sort(ended); cmp.Diff(want, ended) != "" {
				t.Errorf("ended when Each returned: %v of %v", ended, want)
			}
			if most != test.most {
				t.Errorf("%d at a time, want %d", most, test.most)
			}
		})
	}
}

// Each returns when those have ended that were begun, also where the context has.
func TestEachOutlivesItsContext(t *testing.T) {
	t.Parallel()
	ended := 0
	suite := testsuite.WorkflowTestSuite{}
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx, cancel := workflow.WithCancel(ctx)
		wait, _ := workflow.NewDisconnectedContext(ctx)
		script.Each(ctx, "each", 5, 2, func() bool { return ctx.Err() == nil }, func(ctx workflow.Context, i int) {
			if i == 0 {
				cancel()
			}
			_ = workflow.Sleep(wait, time.Minute)
			ended++
		})
		if ended != 1 {
			t.Errorf("%d had ended when Each returned", ended)
		}
		return nil
	})
	perduretest.NoError(t, env.GetWorkflowError())
}
