package counts_test

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/perduretest"
)

// BenchmarkYield is a workflow of 200 timers, one after the other, beside coroutines that
// wait all the time. docs/upstream.md says what it shows.
func BenchmarkYield(b *testing.B) {
	for _, waiting := range []int{0, 10, 100} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			passes := 0
			for b.Loop() {
				var suite testsuite.WorkflowTestSuite
				suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
				env := suite.NewTestWorkflowEnvironment()
				env.ExecuteWorkflow(func(ctx workflow.Context) error {
					over := false
					for range waiting {
						workflow.Go(ctx, func(ctx workflow.Context) {
							_ = workflow.Await(ctx, func() bool { return over })
						})
					}
					workflow.Go(ctx, func(ctx workflow.Context) {
						_ = workflow.Await(ctx, func() bool { passes++; return over })
					})
					for range 200 {
						if err := workflow.Sleep(ctx, time.Second); err != nil {
							return err
						}
					}
					over = true
					return nil
				})
				perduretest.NoError(b, env.GetWorkflowError())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(passes*(waiting+2)), "ns/yield")
		})
	}
}

// BenchmarkIsPanicking compares what the SDK does at each yield with what would do.
func BenchmarkIsPanicking(b *testing.B) {
	var deep func(depth int, f func())
	deep = func(depth int, f func()) {
		if depth == 0 {
			f()
			return
		}
		deep(depth-1, f)
	}
	b.Run("by name", func(b *testing.B) {
		deep(12, func() {
			for b.Loop() {
				var pcs [20]uintptr
				for _, pc := range pcs[:runtime.Callers(1, pcs[:])] {
					if fn := runtime.FuncForPC(pc - 1); fn != nil && fn.Name() == "runtime.gopanic" {
						b.Fatal("panicking")
					}
				}
			}
		})
	})
	b.Run("callers only", func(b *testing.B) {
		deep(12, func() {
			for b.Loop() {
				var pcs [20]uintptr
				runtime.Callers(1, pcs[:])
			}
		})
	})
}
