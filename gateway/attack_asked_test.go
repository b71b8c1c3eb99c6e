package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// The id of a question reports what is asked, and where: it is longer than those that
// clients choose.
func TestAnswerToADeepQuestion(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("script/main:12/", 100) + "gate"
	w := newWorld(t, map[string]func(*play){"asks": func(p *play) {
		p.open(runs.Elicitation{StepID: deep, Message: "Ok?", Digest: strings.Repeat("d", 43)})
		p.complete(`{"action":"` + p.answered(deep+"#1").Action + `"}`)
	}})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "asks", `{}`, "")
	id, _, _ := stream.asked()
	if got := c.reply(id, `{"action":"accept","content":{}}`); got != http.StatusAccepted {
		t.Errorf("answer: HTTP %d", got)
	}
	stream.result(false).structuredIs(t, `{"action":"accept"}`)
}

// TestAttackAnswerToWhatIsNotAskedAnyMore: a client answers what it has shown its
// user, while the elicitation asks something else under the same ID, as after a reset
// of its run. That is no answer, and the client is asked anew.
func TestAttackAnswerToWhatIsNotAskedAnyMore(t *testing.T) {
	t.Parallel()
	pays := func(p *play) {
		p.open(runs.Elicitation{StepID: "gate", Message: "Pay 1?", Digest: "one"})
		p.complete(`{"action":"` + p.answered("gate#1").Action + `"}`)
	}
	begin := func(t *testing.T, with ...func(*gateway.Options)) (w *world, resets func()) {
		w = newWorld(t, map[string]func(*play){"pays": pays}, with...)
		return w, func() {
			w.runs.change(func() {
				for _, r := range w.runs.runs {
					e := &r.run.Elicitations[0]
					e.Message, e.Digest, e.Round = "Pay 1000000?", "two", "again"
				}
			})
		}
	}
	open := func(w *world) (open bool) {
		w.runs.change(func() {
			for _, r := range w.runs.runs {
				open = r.run.Elicitations[0].State == "open"
			}
		})
		return open
	}
	t.Run("2026-07-28", func(t *testing.T) {
		t.Parallel()
		w, resets := begin(t)
		c := &wire{T: t, url: w.url, caller: "ann"}
		m := c.modernCall("pays", `{}`, canAsk, "").result(false)
		say := func(key string) *msg {
			return c.modernCall("pays", `{}`, canAsk, fmt.Sprintf(`"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{}}}`, m.Result.RequestState, key)).result(false)
		}
		resets()
		m = say("gate")
		if got := m.Result.InputRequests["gate#1.2@again"].Params.Message; !open(w) || !strings.Contains(got, "something else is asked now") || !strings.Contains(got, "Pay 1000000?") {
			t.Fatalf("asked %+v", m.Result.InputRequests)
		}
		say("gate#1.2@again").structuredIs(t, `{"action":"accept"}`)
	})
	t.Run("2025-11-25", func(t *testing.T) {
		t.Parallel()
		w, resets := begin(t)
		c := connect(t, w.url, "ann", "2025-11-25", canAsk)
		id, _, _ := c.call("1", "pays", `{}`, `{"progressToken":"tok"}`).asked()
		resets()
		if got := c.reply(id, `{"action":"accept","content":{}}`); got != http.StatusAccepted {
			t.Errorf("answer: HTTP %d", got)
		}
		if !open(w) {
			t.Error("it counts as an answer to what it did not answer")
		}
	})
	t.Run("a task of 2026-07-28", func(t *testing.T) {
		t.Parallel()
		w, resets := begin(t, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
		c := &wire{T: t, url: w.url, caller: "ann"}
		task := c.modernCall("pays", `{}`, takesTasks, "").ok()
		get := func() taskView { return c.modernTask("tasks/get", task.TaskID, "").ok() }
		if got := until(t, "input_required", get); len(got.InputRequests["gate"]) == 0 {
			t.Fatalf("asked %s", got.InputRequests)
		}
		say := func(key string) taskView {
			return c.modernTask("tasks/update", task.TaskID, fmt.Sprintf(`"inputResponses":{%q:{"action":"accept","content":{}}}`, key)).ok()
		}
		resets()
		say("gate")
		got := get()
		if err := hasAll(string(got.InputRequests["gate@again"]), "Pay 1000000?"); err != nil || !open(w) || len(got.InputRequests) != 1 {
			t.Fatalf("asked %s: %v", got.InputRequests, err)
		}
		say("gate@again")
		if err := hasAll(string(until(t, "completed", get).Result), `"action":"accept"`); err != nil {
			t.Error(err)
		}
	})
}
