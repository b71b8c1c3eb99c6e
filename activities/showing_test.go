package activities

import (
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/workflows"
)

// A run shows that it waits for a backend once the call has been repeated for some time,
// once, and only if the call has another attempt.
func TestWorthShowing(t *testing.T) {
	t.Parallel()
	now, before := time.Now(), time.Now().Add(-showUnreachable)
	policy := &temporal.RetryPolicy{MaximumAttempts: 3}
	for name, tc := range map[string]struct {
		attempt workflows.Attempt
		info    activity.Info
		pause   time.Duration
		want    bool
	}{
		"at once":          {workflows.Attempt{Number: 1}, activity.Info{ScheduledTime: now}, time.Second, false},
		"asked to wait":    {workflows.Attempt{Number: 1}, activity.Info{ScheduledTime: now}, time.Minute, true},
		"for some time":    {workflows.Attempt{Number: 2}, activity.Info{ScheduledTime: before, RetryPolicy: policy}, 0, true},
		"the last attempt": {workflows.Attempt{Number: 3}, activity.Info{ScheduledTime: before, RetryPolicy: policy}, 0, false},
		"in the task":      {workflows.Attempt{Number: 1}, activity.Info{ScheduledTime: before, IsLocalActivity: true}, 0, false},
		"shown already":    {workflows.Attempt{Call: workflows.ToolCall{Waits: true}, Number: 1}, activity.Info{ScheduledTime: before}, 0, false},
	} {
		if got := worthShowing(tc.attempt, tc.info, tc.pause); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
