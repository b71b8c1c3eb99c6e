package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
)

// TestBusinessKey: calls with the same business key, from any caller and at any
// replica, are one run. A caller who may not see that run is refused and learns nothing.
func TestBusinessKey(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	w := newWorld(t, map[string]func(*play){
		"ship": func(p *play) { p.step("a"); <-released; p.complete(p.arguments()) },
		"once": echoed,
	}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Operators: []auth.Grant{{Tools: []string{"*"}, Subjects: []string{"user-op"}}}}
	})
	const source = `{name: %s, description: d, businessKey: "order {{.params.order}}", onDuplicate: %s,
		parameters: {type: object, properties: {order: {type: string}}}, steps: [{id: a, tool: be_echo}]}
---
`
	defs := define(t, fmt.Sprintf(source, "ship", "attach")+fmt.Sprintf(source, "once", "reject"))
	other, url := w.replica()
	w.gateway.SetDefinitions(defs)
	other.SetDefinitions(defs)

	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	first := ann.call("1", "ship", `{"order":"7","note":"a"}`, `{"progressToken":1}`)
	first.progress()
	run := w.runs.only(t)
	op := connect(t, url, "op", "2025-11-25", `{}`)
	second := op.call("1", "ship", `{"note":"a","order":"7"}`, `{"progressToken":1}`)
	second.progress()
	bob := connect(t, url, "bob", "2025-11-25", `{}`)
	refused := bob.call("1", "ship", `{"order":"7"}`, "").result(true)
	told := refused.text() + string(refused.Result.Meta["perdure/error"]) + string(refused.Result.Meta["perdure/run"])
	if !strings.Contains(told, "may not see") || strings.Contains(told, string(run)) {
		t.Errorf("somebody who may not see the run is told %s", told)
	}
	// The second caller's giving up is not the first one's.
	op.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"the user gave up"}}`)
	close(released)
	if m := first.result(false); !strings.Contains(m.text(), `"note":"a"`) {
		t.Errorf("the first call got %s", m.text())
	}
	m := op.call("2", "ship", `{"order":"7","note":"a"}`, "").result(false)
	var state struct {
		ID       string
		Attached bool
	}
	if err := json.Unmarshal(m.Result.Meta["perdure/run"], &state); err != nil || state.ID != string(run) || !state.Attached || !strings.Contains(m.text(), `"note":"a"`) {
		t.Errorf("a later call got %s of %+v, %v", m.text(), state, err)
	}

	const keyed = `{"perdure/idempotency-key":"k"}`
	ann.call("2", "once", `{"order":"7"}`, keyed).result(false)
	ann.call("3", "once", `{"order":"7"}`, keyed).result(false) // the same call, once more
	if m := ann.call("4", "once", `{"order":"7"}`, "").result(true); !strings.Contains(m.text(), "with the same business key") {
		t.Errorf("a duplicate is told %s", m.text())
	}
	ann.call("5", "once", `{"order":"8"}`, "").result(false)
}

// TestAttackForeignKeys: the first caller to use a key does not decide the result of a
// call with other arguments, and does not learn of that call.
func TestAttackForeignKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"pay": echoed, "note": echoed}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Operators: []auth.Grant{{Tools: []string{"*"}, Subjects: []string{"user-op"}}}}
	})
	w.gateway.SetDefinitions(define(t, `{name: pay, description: d, businessKey: "invoice {{.params.invoice}}",
		parameters: {type: object, properties: {invoice: {type: string}, to: {type: string}}}, steps: [{id: a, tool: be_echo}]}
---
{name: note, description: d, parameters: {type: object, properties: {text: {type: string}}}, steps: [{id: a, tool: be_echo}]}`))
	refused := func(caller *wire, tool, arguments, meta, why string) {
		t.Helper()
		m := caller.call("9", tool, arguments, meta).result(true)
		if told := string(m.Result.Meta["perdure/error"]); !strings.Contains(told, why) || strings.Contains(m.text(), "mallory") {
			t.Errorf("%s %s %s: %s, %s", tool, arguments, meta, told, m.text())
		}
	}
	mallory := connect(t, w.url, "mallory", "2025-11-25", `{}`)
	mallory.call("1", "pay", `{"invoice":"7","to":"mallory"}`, "").result(false)
	for _, caller := range []string{"ann", "op"} { // who may not see that run, and who may
		why := map[string]string{"ann": "duplicate", "op": "key_reused"}[caller]
		refused(connect(t, w.url, caller, "2025-11-25", `{}`), "pay", `{"invoice":"7","to":"bob"}`, "", why)
	}
	refused(mallory, "pay", `{"invoice":"7","to":"bob"}`, "", "key_reused")
	refused(mallory, "pay", `{"invoice":"7"}`, "", "key_reused")
	mallory.call("2", "pay", `{"to":"mallory","invoice":"7"}`, "").result(false)

	// An idempotency key is its caller's own.
	const keyed = `{"perdure/idempotency-key":"k"}`
	mallory.call("3", "note", `{"text":"mallory"}`, keyed).result(false)
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	if m := ann.call("3", "note", `{"text":"ann"}`, keyed).result(false); !strings.Contains(m.text(), "ann") || strings.Contains(m.text(), "mallory") {
		t.Errorf("a call with the key of somebody else got %s", m.text())
	}
	refused(ann, "note", `{"text":"other"}`, keyed, "key_reused")
	w.runs.change(func() {
		if n := len(w.runs.runs); n != 3 {
			t.Errorf("there are %d runs", n)
		}
	})
}

// TestBusinessKeyOfADeletedRun: a run that was deleted after its retention time
// gives its ID to the next call with its business key. What the caller of the
// first one still holds is of no use with the second one.
func TestBusinessKeyOfADeletedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"ship": gated})
	w.gateway.SetDefinitions(define(t, `{name: ship, description: d, businessKey: "order {{.params.order}}",
		parameters: {type: object, properties: {order: {type: string}}}, steps: [{id: a, tool: be_echo}]}`))
	ann := connect(t, w.url, "ann", "2025-11-25", canAsk)
	modern := &wire{T: t, url: w.url, caller: "ann"}
	stream := ann.call("1", "ship", `{"order":"7"}`, "")
	question, _, _ := stream.asked()
	place := stream.lastID
	state := modern.modernCall("ship", `{"order":"7"}`, `{"elicitation":{}}`, "").result(false).Result.RequestState
	ann.reply(question, `{"action":"decline"}`)
	stream.result(false)
	run := w.runs.only(t)
	w.runs.change(func() { delete(w.runs.runs, run) })

	bob := connect(t, w.url, "bob", "2025-11-25", canAsk)
	bobs := bob.call("1", "ship", `{"order":"7"}`, "")
	id, _, _ := bobs.asked()
	if again := w.runs.only(t); again != run {
		t.Fatalf("the second run is %s, not %s", again, run)
	}
	before := len(w.runs.answers())
	ann.reply(question, `{"action":"accept","content":{"reason":"mine"}}`)
	refused := map[string]*msg{
		"a stream that is resumed": ann.do(t.Context(), http.MethodGet, "", "Last-Event-ID", place).result(true),
		"a requestState": modern.modernCall("ship", `{"order":"7"}`, `{"elicitation":{}}`,
			fmt.Sprintf(`"requestState":%q,"inputResponses":{"gate":{"action":"accept","content":{"reason":"mine"}}}`, state)).result(true),
	}
	for name, m := range refused {
		if !strings.Contains(m.text(), "no such run") {
			t.Errorf("%s got %s", name, m.text())
		}
	}
	if got := w.runs.answers(); len(got) != before {
		t.Errorf("the answer of somebody else was taken: %+v", got[before:])
	}
	bob.reply(id, `{"action":"decline"}`)
	bobs.result(false).structuredIs(t, `{"action":"decline","by":"user-bob"}`)
}
