package gateway_test

import (
	"fmt"
	"strings"
	"testing"
)

// A reason for cancelling goes into the history of the run: it is as short as the
// tool says.
func TestAttackLongReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	c.call("1", "gated", `{}`, "").asked()
	run := w.runs.only(t)
	cancelled := func(id, reason string) *response {
		return c.call(id, "perdure_run_cancel", fmt.Sprintf(`{"runId":%q,"reason":%q}`, run, reason), "")
	}
	if said := cancelled("2", strings.Repeat("é", 501)).result(true).text(); !strings.Contains(said, "500") {
		t.Errorf("a long reason is answered %s", said)
	}
	cancelled("3", strings.Repeat("é", 500)).result(false)
}
