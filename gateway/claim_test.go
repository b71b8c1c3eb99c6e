package gateway

import (
	"testing"

	"github.com/perdure/perdure/internal/runs"
)

// TestHear goes through what a request hears that wants to join a run: until the run has
// noted it, all is of earlier requests.
func TestHear(t *testing.T) {
	t.Parallel()
	note := func(request string, says runs.Attendance, of string) *runs.Attended {
		return &runs.Attended{Request: request, Says: says, Of: of}
	}
	roll := others{name: "me", answers: answerNotes{}}
	for i, step := range []struct {
		says *runs.Attended
		want heard
	}{
		{note("other", runs.Here, "before"), heardNothing},
		{note("first", runs.Answered, ""), heardNothing},
		{note("next", runs.Joined, "first"), heardNothing}, // continues from the answer
		{note("me", runs.Joined, ""), heardSelf},
		{note("me", runs.Here, "other"), heardNothing},
		{note("other", runs.Joined, ""), heardOther},
		{note("other", runs.Leaving, ""), heardOther},
		{note("other", runs.Inquires, ""), heardNothing},
		{note("other", runs.Here, "another"), heardOther},
		{note("me", runs.Inquires, ""), heardSelf},
		{note("other", runs.Here, "me"), heardWaiting},
		{note("other", runs.Answered, ""), heardAnswer},
		{note("next", runs.Joined, "other"), heardWaiting}, // it continues, and waits
	} {
		if got := roll.hear(step.says); got != step.want {
			t.Errorf("%d: %v, want %v", i, got, step.want)
		}
	}
}
