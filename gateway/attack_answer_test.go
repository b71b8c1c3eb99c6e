package gateway_test

import (
	"net/http"
	"testing"
)

// TestAttackAnswerWithoutWorkers shows that an answer that was sent while no worker
// runs is no error, and is not asked for again: the next one would not count. The call
// gets a handle, and the task continues.
func TestAttackAnswerWithoutWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := &wire{T: t, url: w.url, caller: "ann"}
	asked := c.modernCall("gated", `{"n":1}`, canAsk, "").result(false)
	legacy := connect(t, w.url, "ann", "2025-11-25", canAsk)
	id, _, _ := legacy.call("1", "gated", `{"n":2}`, "").asked()
	task := c.modernCall("gated", `{"n":3}`, takesTasks, "").ok()
	until(t, "input_required", func() taskView { return c.modernTask("tasks/get", task.TaskID, "").ok() })
	w.runs.change(func() { w.runs.idle = true })

	m := c.modernCall("gated", `{"n":1}`, canAsk, `"requestState":"`+asked.Result.RequestState+`","inputResponses":{"gate":{"action":"accept","content":{"reason":"ok"}}}`).result(false)
	if m.Result.ResultType != "complete" || len(m.Result.InputRequests) > 0 {
		t.Errorf("the call is answered with %+v", m.Result)
	}
	if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`); err != nil {
		t.Error(err)
	}
	if got := legacy.reply(id, `{"action":"accept","content":{"reason":"ok"}}`); got != http.StatusAccepted {
		t.Errorf("the reply of a session: HTTP %d", got)
	}
	c.modernTask("tasks/update", task.TaskID, `"inputResponses":{"gate":{"action":"accept","content":{"reason":"ok"}}}`).ok()
	if n := len(w.runs.answers()); n != 3 {
		t.Errorf("%d answers were sent", n)
	}
}
