package main

import (
	"strings"
	"testing"
)

// The clock that is furthest from ours counts.
func TestDoctorClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		clocks []remote
		status string
	}{
		{nil, checkSkipped},
		{[]remote{{"a", -clockWarning / 2}, {"b", 0}}, checkOK},
		{[]remote{{"a", 0}, {"b", -clockWarning}}, checkWarning},
		{[]remote{{"a", clockFailure}, {"b", clockWarning}}, checkFailed},
	} {
		x := &examination{clocks: tc.clocks}
		x.clock(t.Context())
		if got := x.checks[0]; got.Status != tc.status || tc.status == checkFailed && !strings.Contains(got.Found, "a") {
			t.Errorf("%v: %+v", tc.clocks, got)
		}
	}
}
