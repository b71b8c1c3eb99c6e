package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
)

// A backend's questions and its client's answers pass through a direct call.
func TestBackendAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.catalogue.set(tool("ask"), tool("other"))
	calls := make(chan backends.ClientInput, 10)
	w.catalogue.call = func(_ context.Context, call backends.Call) (*backends.Result, error) {
		if call.ClientInput == nil {
			return &backends.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"nobody to ask"}]}`)}, nil
		}
		calls <- *call.ClientInput
		if call.ClientInput.State == "" {
			return &backends.Result{Asks: true, Raw: json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"maxTokens":9007199254740993}}},"requestState":"theirs"}`)}, nil
		}
		return &backends.Result{Raw: json.RawMessage(`{"resultType":"complete","content":[{"type":"text","text":"thanks"}]}`)}, nil
	}
	const abilities = `{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	ann := &wire{T: t, url: w.url, caller: "ann"}
	first := ann.modernCall("be_ask", `{}`, abilities, "")
	raw := perduretest.Must(io.ReadAll(first.lines))(t)
	var m msg
	if err := json.Unmarshal(raw, &m); err != nil || m.Result == nil {
		t.Fatalf("%v in %s", err, raw)
	}
	state := m.Result.RequestState
	if err := hasAll(string(raw), `"q":{"method":"sampling/createMessage","params":{"maxTokens":9007199254740993}}`, `"resultType":"input_required"`); err != nil || state == "theirs" {
		t.Errorf("%v, state %q", err, state)
	}
	if got := string((<-calls).Capabilities); got != `{"sampling":{}}` {
		t.Errorf("the backend is told that the client can %s", got)
	}

	retry := func(caller, name, state string) *msg {
		c := &wire{T: t, url: w.url, caller: caller}
		return c.modernCall(name, `{}`, abilities, fmt.Sprintf(`"requestState":%q,"inputResponses":{"q":{"role":"assistant"}}`, state)).message()
	}
	for what, m := range map[string]*msg{
		"of somebody else":  retry("bob", "be_ask", state),
		"of another tool":   retry("ann", "be_other", state),
		"of the backend's":  retry("ann", "be_ask", "theirs"),
		"that was tampered": retry("ann", "be_ask", state[:len(state)-2]+"__"),
	} {
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("a state %s: %+v", what, m)
		}
	}
	if m := retry("ann", "be_ask", state); m.text() != "thanks" {
		t.Errorf("the retry came to %+v", m)
	}
	if got := <-calls; got.State != "theirs" || string(got.Responses) != `{"q":{"role":"assistant"}}` {
		t.Errorf("the backend got the answers %s and the state %q", got.Responses, got.State)
	}
	if m := connect(t, w.url, "ann", "2025-11-25", canAsk).call("1", "be_ask", `{}`, "").message(); m.text() != "nobody to ask" {
		t.Errorf("a client of the session era: %+v", m)
	}
}

// TestAttackBackendAsksForEver: the state that a client sends back counts how often
// a backend has asked in one call, also where the backend gives no state, so that
// it is known at any replica when to end the call.
func TestAttackBackendAsksForEver(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{"with a state": `,"requestState":"theirs"`, "without": ""} {
		w := newWorld(t, nil)
		w.catalogue.set(tool("ask"))
		var rounds []int
		w.catalogue.call = func(_ context.Context, call backends.Call) (*backends.Result, error) {
			rounds = append(rounds, call.ClientInput.Round)
			return &backends.Result{Asks: true, Raw: json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage"}}` + state + `}`)}, nil
		}
		c := &wire{T: t, url: w.url, caller: "ann"}
		sent := ""
		for range 4 {
			m := c.modernCall("be_ask", `{}`, `{"sampling":{}}`, sent).message()
			if m.Result == nil || m.Result.RequestState == "" {
				t.Fatalf("%s: %+v", name, m)
			}
			sent = fmt.Sprintf(`"requestState":%q,"inputResponses":{"q":{}}`, m.Result.RequestState)
		}
		if !slices.Equal(rounds, []int{0, 1, 2, 3}) {
			t.Errorf("%s: the rounds were %v", name, rounds)
		}
	}
}

// What a backend wants of the client and the client cannot is the client's to know.
func TestMissingCapabilityIsPassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.catalogue.call = func(_ context.Context, call backends.Call) (*backends.Result, error) {
		return nil, &backends.CallError{Backend: "be", Tool: "echo", Outcome: backends.Refused,
			Err: &backends.RPCError{Code: -32021, Message: "missing", Data: map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}}}}
	}
	m := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("be_echo", `{}`, `{}`, "").message()
	if m.Error == nil || m.Error.Code != -32021 || string(m.Error.Data) != `{"requiredCapabilities":{"sampling":{}}}` {
		t.Errorf("the error is %+v", m)
	}
	if m := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "be_echo", `{}`, "").message(); m.Result == nil || !m.Result.IsError {
		t.Errorf("a client of the session era: %+v", m)
	}
}
