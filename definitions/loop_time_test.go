package definitions_test

import (
	"math"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
)

// A forEach without a timeout leaves its items the time that they have.
func TestLoopTime(t *testing.T) {
	t.Parallel()
	const hour = definitions.Duration(time.Hour)
	for _, tc := range []struct {
		step  definitions.Step
		items int
		want  time.Duration
	}{
		{definitions.Step{Step: &definitions.Step{}}, 100, 5 * time.Minute},
		{definitions.Step{Step: &definitions.Step{Timeout: 100 * hour}}, 2, 100 * time.Hour},
		{definitions.Step{Step: &definitions.Step{Timeout: hour}}, 11, 2 * time.Hour},
		{definitions.Step{Step: &definitions.Step{Timeout: hour}, MaxParallel: 1}, 3, 3 * time.Hour},
		{definitions.Step{Step: &definitions.Step{Timeout: hour}, Timeout: 2 * hour, MaxParallel: 1}, 3, 2 * time.Hour},
		{definitions.Step{Step: &definitions.Step{Timeout: hour}}, 0, 5 * time.Minute},
		{definitions.Step{Step: &definitions.Step{Type: definitions.WorkflowStep}}, 3, 0},
		{definitions.Step{Step: &definitions.Step{Timeout: math.MaxInt64}, MaxParallel: 1}, 3, 0},
	} {
		if got := tc.step.LoopTime(tc.items); got != tc.want {
			t.Errorf("%d items of %v, timeout %v: %s, want %s", tc.items, tc.step.Step, tc.step.Timeout, got, tc.want)
		}
	}
}
