package workflows_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// gateThenWrite asks before it writes.
const gateThenWrite = `{name: a, description: d, timeout: 100h, steps: [
	{id: g, type: elicitation, message: m, timeout: 50h},
	{id: w, tool: write, dependsOn: [g]}]}`

// forged are signals that accept the gate of gateThenWrite without a process with
// the key having said so to this run.
func forged(t *testing.T) map[string]any {
	t.Helper()
	accept := workflows.Answer{ElicitationID: "g#1", Action: "accept", Content: json.RawMessage(`{}`), AnsweredBy: "ada", Via: workflows.ViaPage, AnswerID: "forged"}
	good := signed(workflows.AnswerSignal, testRun, workflows.Answer{ElicitationID: "g#2", Action: "accept", AnsweredBy: "ada"})
	decline := signed(workflows.AnswerSignal, testRun, workflows.Answer{ElicitationID: "g#1", Action: "decline", AnsweredBy: "ada"})
	strangers := perduretest.Must(secrets.NewKeys(secrets.FixedKeys([]byte("somebody else's"))))(t)
	ofStrangers := perduretest.Must(workflows.NewSignal(strangers, workflows.AnswerSignal, testRun, accept))(t)
	moved := func(s workflows.Signal, body any) workflows.Signal {
		encoded := perduretest.Must(json.Marshal(body))(t)
		return workflows.Signal{Body: encoded, Proof: s.Proof}
	}
	_, mac, _ := strings.Cut(ofStrangers.Proof, ".")
	return map[string]any{
		"without proof":                 accept,
		"without proof, wrapped":        workflows.Signal{Body: moved(good, accept).Body},
		"with the proof of another":     moved(good, accept),
		"with the proof of a refusal":   moved(decline, accept),
		"of another run":                signed(workflows.AnswerSignal, "another/run", accept),
		"of another signal":             signed(workflows.QuestionSignal, testRun, accept),
		"of a stranger, our ID":         moved(workflows.Signal{Proof: secrets.KeyOf(good.Proof) + "." + mac}, accept),
		"to another question":           signed(workflows.AnswerSignal, testRun, workflows.Answer{ElicitationID: "g#1", Digest: "another", Action: "accept", AnsweredBy: "ada"}),
		"that is no object":             "accept",
		"that is nothing":               nil,
		"with a body that is no answer": signed(workflows.AnswerSignal, testRun, "accept"),
	}
}

// TestAttackForgedAnswers shows that an answer counts only if a process with the
// key has given it to this run, for this question, as it is.
func TestAttackForgedAnswers(t *testing.T) {
	t.Parallel()
	for name, signal := range forged(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gateThenWrite, `{}`, nil)
			b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(workflows.AnswerSignal, signal) }, time.Hour)
			b.answer(2*time.Hour, "g#1", "decline", "")
			if _, failure := b.run(); failure == nil || failure.Error.Code != "declined" || !strings.HasSuffix(failure.Error.Message, "by ada") {
				t.Errorf("the run came to %+v", failure)
			}
			if len(b.calls) > 0 {
				t.Errorf("called were %q", b.calls)
			}
		})
	}
}

// TestAttackEarlyAnswers floods a run with answers to an elicitation that it has yet to
// open again after it continued: all but a few are looked at and refused at once, and the
// one that has its proof counts, though it came last.
func TestAttackEarlyAnswers(t *testing.T) {
	t.Parallel()
	const many = 40
	var b *bench
	looked, opens := 0, time.Time{}
	keys, err := secrets.NewKeys(func() ([][]byte, error) {
		if b != nil && b.env.Now().Before(opens) {
			looked++
		}
		return [][]byte{[]byte("tests")}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	bench := trusting(t, workflows.Trust{Keys: keys}, `{name: a, description: d, timeout: 100h, steps: [
		{id: pause, type: wait, for: 2h},
		{id: g, type: elicitation, message: m, timeout: 50h, dependsOn: [pause]}]}`)
	opens = bench.env.Now().Add(2 * time.Hour)
	bench.input.Continued = true
	bench.input.Open = []workflows.Elicitation{{ID: "g#1", StepID: "g", StepPath: "g", State: workflows.ElicitationOpen,
		Opened: bench.env.Now(), Expires: bench.env.Now().Add(50 * time.Hour)}}
	bench.env.RegisterDelayedCallback(func() {
		b = bench
		for range many {
			b.env.SignalWorkflow(workflows.AnswerSignal, workflows.Answer{ElicitationID: "g#1", Action: "accept", Content: json.RawMessage(`{}`), AnsweredBy: "a stranger"})
		}
	}, time.Minute)
	bench.answer(time.Hour, "g#1", "decline", "")
	if _, failure := bench.run(); failure == nil || failure.Error.Code != "declined" || !strings.HasSuffix(failure.Error.Message, "by ada") {
		t.Errorf("the run came to %+v", failure)
	}
	if looked < many-10 {
		t.Errorf("%d of %d answers were looked at before the elicitation was open", looked, many)
	}
}

// TestUnprovenAnswers shows what the setting lets pass, and that it is told apart.
func TestUnprovenAnswers(t *testing.T) {
	t.Parallel()
	accept := workflows.Answer{ElicitationID: "g#1", Action: "accept", Content: json.RawMessage(`{}`), AnsweredBy: "ada", Via: workflows.ViaPage, AnswerID: "mine"}
	for name, c := range map[string]struct {
		source string
		signal any
		taken  bool
	}{
		"any question":            {gateThenWrite, accept, true},
		"of the page":             {strings.Replace(gateThenWrite, "message: m,", "message: m, mode: url,", 1), accept, false},
		"with a wrong proof":      {gateThenWrite, workflows.Signal{Body: mustJSON(accept), Proof: secrets.KeyOf(signed("x", "y", 1).Proof) + ".x"}, false},
		"what others tell":        {gateThenWrite, workflows.ChildReport{StepPath: "g"}, false},
		"a question for somebody": {`{name: a, description: d, timeout: 100h, script: "elicit('m', by=['ada'], timeout='50h')"}`, withID(accept, "script/main:1#1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := trusting(t, workflows.Trust{Keys: testKeys, Unproven: true}, c.source)
			var closed workflows.Elicitation
			b.onMemo(func(s workflows.State) {
				for _, e := range s.Elicitations {
					if e.State == workflows.ElicitationAnswered {
						closed = e
					}
				}
			})
			b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(workflows.AnswerSignal, c.signal) }, time.Hour)
			b.run()
			if closed.Unproven != c.taken || c.taken && (closed.By != "ada (unproven)" || closed.Via != workflows.ViaSignal || closed.At.IsZero()) {
				t.Errorf("the question was closed as %+v", closed)
			}
		})
	}
}

// TestAttackCommandForOthers: the command line signs nobody in, so what names who answers
// takes no answer of it, whoever it says has answered.
func TestAttackCommandForOthers(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{"": "by the command line", ", by=['ada']": "by ada"} {
		b := newBench(t, `{name: a, description: d, timeout: 100h, script: "approve('m', timeout='50h'`+by+`)"}`, `{}`, nil)
		const id = "script/main:1#1"
		b.env.RegisterDelayedCallback(func() {
			b.signal(workflows.AnswerSignal, workflows.Answer{ElicitationID: id, Action: "decline", AnsweredBy: "the command line", Via: workflows.ViaCommand, AnswerID: "command"})
		}, time.Hour)
		b.answer(2*time.Hour, id, "decline", "")
		if _, failure := b.run(); failure == nil || !strings.Contains(failure.Error.Message, want) {
			t.Errorf("approve(%s): the run came to %+v, want %s", by, failure, want)
		}
	}
}

func withID(a workflows.Answer, id string) workflows.Answer {
	a.ElicitationID = id
	return a
}

func mustJSON(v any) json.RawMessage {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return encoded
}
