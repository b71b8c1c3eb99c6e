package service

import (
	"strings"
	"testing"
)

// The clock that is furthest from ours counts.
func TestExamineClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		clocks []remote
		status CheckStatus
	}{
		{nil, CheckSkipped},
		{[]remote{{"a", -clockWarning / 2}, {"b", 0}}, CheckOK},
		{[]remote{{"a", 0}, {"b", -clockWarning}}, CheckWarning},
		{[]remote{{"a", clockFailure}, {"b", clockWarning}}, CheckFailed},
	} {
		x := &examination{clocks: tc.clocks}
		x.clock(t.Context())
		if got := x.checks[0]; got.Status != tc.status || tc.status == CheckFailed && !strings.Contains(got.Found, "a") {
			t.Errorf("%v: %+v", tc.clocks, got)
		}
	}
}
