package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/test/topology/clients"
)

// TestReplicaKilledWithAnAnswer kills, in each era, the gateway that has just
// taken an answer: the gate passes once, nobody is asked again, and the client
// gets the result of its call from the other gateway.
func TestReplicaKilledWithAnAnswer(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "taken")
	session := r.answerTakenInASession(t)
	sessionless := r.answerTakenInACall(t)
	r.release()
	for key, result := range map[string]<-chan string{"session": session, "sessionless": sessionless} {
		sameJSON(t, "the result of "+key, receive(t, result, "the result of "+key), asJSON(t, map[string]any{"written": key, "verdict": "ok"}))
		r.wrote(t, key, key)
	}
}

// answerTakenInASession kills the gateway between its 202 and the client.
func (r *replicas) answerTakenInASession(t *testing.T) <-chan string {
	b := r.balancer(t)
	var asked atomic.Int32
	var once sync.Once
	killed := make(chan *process, 1)
	note := b.Served
	b.Served = func(request *http.Request, body []byte, replica string) {
		note(request, body, replica)
		if message(body) == "response" {
			once.Do(func() {
				g := r.gateway(replica)
				g.kill()
				killed <- g
			})
		}
	}
	c := newResumer(t, b.url(), func(context.Context, string) (string, any, error) {
		asked.Add(1)
		return "accept", map[string]any{"verdict": "ok"}, nil
	})
	result := make(chan string, 1)
	go func() {
		raw, err := c.call(t.Context(), 1, "slow_gate", `{"key":"session"}`)
		if err != nil {
			result <- fmt.Sprintf("%q", err)
			return
		}
		result <- structuredContent(raw)
	}()
	g := receive(t, killed, "the gateway to be killed")
	until(t, "the write", func() bool { return r.backend.count("be_slow_write", "session\"") == 1 })
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	g.start()
	return result
}

// answerTakenInACall kills the gateway when the step after the gate has begun.
// The client sends the call with its answer again, to the other one.
func (r *replicas) answerTakenInACall(t *testing.T) <-chan string {
	var at [2]clients.Sessionless
	for i, g := range r.gateways {
		at[i] = clients.Sessionless{URL: "http://" + g.address + endpoint, Capabilities: `{"elicitation":{}}`}
	}
	var question struct {
		ResultType    string
		InputRequests map[string]json.RawMessage
		RequestState  string
	}
	const call = `"name":"slow_gate","arguments":{"key":"sessionless"}`
	raw, err := at[1].Request(t.Context(), 1, "tools/call", "slow_gate", call)
	if err == nil {
		err = json.Unmarshal(raw, &question)
	}
	if err != nil || len(question.InputRequests) != 1 {
		t.Fatalf("it is not asked: %s: %v", raw, err)
	}
	answers := map[string]any{}
	for name := range question.InputRequests {
		answers[name] = map[string]any{"action": "accept", "content": map[string]any{"verdict": "ok"}}
	}
	answer := func(gateway, id int) <-chan string {
		result := make(chan string, 1)
		go func() {
			raw, err := at[gateway].Request(t.Context(), id, "tools/call", "slow_gate",
				call+fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, question.RequestState, asJSON(t, answers)))
			if err != nil {
				result <- fmt.Sprintf("%q", err)
				return
			}
			result <- structuredContent(raw)
		}()
		return result
	}
	broken := answer(0, 2)
	until(t, "the write", func() bool { return r.backend.count("be_slow_write", "sessionless\"") == 1 })
	r.gateways[0].kill()
	receive(t, broken, "the call that broke")
	result := answer(1, 3)
	r.gateways[0].start()
	return result
}

// gateway is the one at an address.
func (r *replicas) gateway(address string) *process {
	return r.gateways[slices.IndexFunc(r.gateways[:], func(g *process) bool { return g.address == address })]
}
