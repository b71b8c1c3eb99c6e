package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// asksThenWrites asks before it writes.
const asksThenWrites = `
name: NAME
description: Asks before it writes.
parameters: {type: object, properties: {as: {type: string}}}
steps:
  - {id: ask, type: elicitation, message: Shall it?, timeout: 10m}
  - {id: write, tool: write, dependsOn: [ask], arguments: {as: "{{.params.as}}"}}
`

// An installation is a namespace of its own, with workers that have keys.
type installation struct {
	t        *testing.T
	temporal client.Client
	door     *runs.Client
	keys     *secrets.Keys // of whoever gives answers
}

func install(t *testing.T, name string, answers secrets.KeySource) *installation {
	t.Helper()
	connect(t)
	return installAt(t, shared.server, name, answers)
}

func installAt(t *testing.T, server *devserver.Server, name string, answers secrets.KeySource) *installation {
	t.Helper()
	in := &installation{t: t, keys: keysOf(t, answers)}
	var err error
	if in.temporal, err = client.Dial(client.Options{HostPort: server.Address(), Namespace: name, Logger: quietLogger, ConnectionOptions: client.ConnectionOptions{TLS: server.TLS()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.temporal.Close)
	perduretest.NoError(t, prepareNamed(t.Context(), in.temporal, name))
	in.door = runs.New(runs.Config{Client: in.temporal, Namespace: name, Keys: in.keys, Logger: quietLogger})
	return in
}

func keysOf(t *testing.T, source secrets.KeySource) *secrets.Keys {
	t.Helper()
	keys := perduretest.Must(secrets.NewKeys(source))(t)
	return keys
}

// works starts a worker.
func (in *installation) works(keys secrets.KeySource) {
	in.t.Helper()
	w := worker.New(in.temporal, workflows.TaskQueue, worker.Options{WorkerStopTimeout: time.Second})
	workflows.Register(w, workflows.Trust{Keys: keysOf(in.t, keys)})
	registerActivities(w, in.temporal)
	if err := w.Start(); err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(w.Stop)
}

func (in *installation) gate() runs.RunID {
	in.t.Helper()
	id := start(in.t, in.door, request(in.t, strings.ReplaceAll(asksThenWrites, "NAME", strings.ToLower(strings.ReplaceAll(in.t.Name(), "/", "_")))))
	opened(in.t, in.door, id)
	return id
}

func (in *installation) send(id runs.RunID, name string, body any) {
	in.t.Helper()
	if err := in.temporal.SignalWorkflow(in.t.Context(), string(id), "", name, body); err != nil {
		in.t.Fatal(err)
	}
}

var quietLogger = slog.New(slog.DiscardHandler)

var older, newer, foreign = []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32)), []byte(strings.Repeat("c", 32))

// TestAnswerWaitsForItsKey shows that an answer which was signed with a key that a
// worker does not have counts as soon as one with the key has the run, and that
// meanwhile the run reports what it waits for and takes other answers.
func TestAnswerWaitsForItsKey(t *testing.T) {
	t.Parallel()
	in := install(t, "rotation", secrets.FixedKeys(newer, older))
	in.works(secrets.FixedKeys(older))
	id := in.gate()
	_, err := in.door.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#1", Action: "accept", By: "ada", Via: runs.ViaPage})
	if !errors.Is(err, runs.ErrUnchecked) || !strings.Contains(err.Error(), in.keys.ID()) {
		t.Fatalf("answering: %v", err)
	}
	run, err := in.door.Get(t.Context(), id)
	if err != nil || run.WaitingFor != workflows.HeldByKey || len(run.Unchecked) != 1 || run.Unchecked[0].By != "ada" || run.Unchecked[0].Key != in.keys.ID() || len(run.Open()) != 1 {
		t.Errorf("the run waits as %+v, %v", run, err)
	}
	awaitLog(t, in.door, id, func(e runs.LogEntry) bool { return e.Kind == runs.LogUnchecked && e.By == "ada" })
	in.works(secrets.FixedKeys(newer, older))
	end := followTo(t, in.door, id, 0, runs.EventDone)
	if outcome := end[len(end)-1].Outcome; outcome.Status != runs.Completed {
		t.Errorf("the run came to %+v", outcome)
	}
	shown, err := in.door.Show(t.Context(), id)
	if err != nil || len(shown.Unchecked) != 0 || len(shown.Elicitations) != 1 || shown.Elicitations[0].By != "ada" || shown.Elicitations[0].Via != runs.ViaPage {
		t.Errorf("it is shown as %+v, %v", shown, err)
	}
}

// TestAnswerWaitsLongerThanItsGate shows that a gate does not expire over an answer
// that came in time, and that one which comes after that does not count.
func TestAnswerWaitsLongerThanItsGate(t *testing.T) {
	t.Parallel()
	in := install(t, "expiry", secrets.FixedKeys(newer, older))
	in.works(secrets.FixedKeys(older))
	id := start(t, in.door, request(t, strings.Replace(strings.ReplaceAll(asksThenWrites, "NAME", "expiry"), "10m", "2s", 1)))
	gate := opened(t, in.door, id)
	if _, err := in.door.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#1", Action: "accept", By: "ada"}); !errors.Is(err, runs.ErrUnchecked) {
		t.Fatalf("answering: %v", err)
	}
	<-time.After(time.Until(gate.Expires) + 100*time.Millisecond)
	late := workflows.Answer{ElicitationID: "ask#1", Action: "decline", AnsweredBy: "bob", AnswerID: "late"}
	known, err := workflows.NewSignal(keysOf(t, secrets.FixedKeys(older)), workflows.AnswerSignal, string(id), late)
	if err != nil {
		t.Fatal(err)
	}
	in.send(id, workflows.AnswerSignal, known)
	awaitLog(t, in.door, id, func(e runs.LogEntry) bool { return e.Kind == runs.LogUntaken && e.By == "bob" })
	in.works(secrets.FixedKeys(newer, older))
	end := followTo(t, in.door, id, 0, runs.EventDone)
	if outcome := end[len(end)-1].Outcome; outcome.Status != runs.Completed {
		t.Errorf("the run came to %+v", outcome)
	}
}

// TestUncheckedAfterContinueAsNew shows that an answer which waits for its key is
// still there when the run has continued as new.
func TestUncheckedAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	compose(t)
	in := installAt(t, composing.server, "unchecked", secrets.FixedKeys(newer, older))
	in.works(secrets.FixedKeys(older))
	id := start(t, in.door, request(t, `
name: unchecked
description: Does much while an answer waits.
parameters: {type: object, properties: {as: {type: string}}}
steps:
  - {id: ask, type: elicitation, message: Shall it?, timeout: 10m}
  - {id: first, type: elicitation, message: Now?, timeout: 10m}
  - {id: busy, type: forEach, dependsOn: [first], collection: "{{json (until 40)}}", maxParallel: 2, step: {tool: write, arguments: {text: "{{.forEach.item}}"}}}
  - {id: write, tool: write, dependsOn: [ask, busy], arguments: {as: "{{.params.as}}"}}
`))
	for e, err := range in.door.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil || e.Kind == runs.EventOpened && e.Elicitation.ID == "first#1" {
			break
		}
	}
	if _, err := in.door.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#1", Action: "accept", By: "ada"}); !errors.Is(err, runs.ErrUnchecked) {
		t.Fatalf("answering: %v", err)
	}
	retired := runs.New(runs.Config{Client: in.temporal, Namespace: "unchecked", Keys: keysOf(t, secrets.FixedKeys(older)), Logger: quietLogger})
	answer(t, retired, id, runs.Answer{ElicitationID: "first#1", Action: "accept", By: "bob"})
	awaitContinued(t, in.door, in.temporal, id)
	if run, err := in.door.Get(t.Context(), id); err != nil || len(run.Unchecked) != 1 || run.WaitingFor != workflows.HeldByKey {
		t.Errorf("after it continued, the run is %+v, %v", run, err)
	}
	in.works(secrets.FixedKeys(newer, older))
	end := followTo(t, in.door, id, 0, runs.EventDone)
	if outcome := end[len(end)-1].Outcome; outcome.Status != runs.Completed {
		t.Errorf("the run came to %+v", outcome)
	}
}

// TestAttackForgedKeys shows that answers which wait for a key do not keep others
// from answering, however many an attacker forges, and end with the question.
func TestAttackForgedKeys(t *testing.T) {
	t.Parallel()
	in := install(t, "forgery", secrets.FixedKeys(older))
	in.works(secrets.FixedKeys(older))
	id := in.gate()
	const sent = 12
	strangers := keysOf(t, secrets.FixedKeys(foreign))
	for i := range sent {
		forged, err := workflows.NewSignal(strangers, workflows.AnswerSignal, string(id), workflows.Answer{
			ElicitationID: "ask#1", Action: "accept", AnsweredBy: "ada", Via: workflows.ViaPage, AnswerID: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		in.send(id, workflows.AnswerSignal, forged)
	}
	awaitLog(t, in.door, id, func(e runs.LogEntry) bool { return e.Kind == runs.LogRefused && strings.Contains(e.Text, "too many") })
	if d := answer(t, in.door, id, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "bob", Via: runs.ViaCommand}); !d.Won || d.Action != "decline" || d.By != "bob" {
		t.Errorf("the decision is %+v", d)
	}
	end := followTo(t, in.door, id, 0, runs.EventDone)
	if outcome := end[len(end)-1].Outcome; outcome.Failure == nil || outcome.Failure.Error.Code != "declined" {
		t.Errorf("the run came to %+v", outcome)
	}
}

// TestAttackWithdrawnKey shows that a key which is withdrawn counts no more, from
// the next answer on, without a restart.
func TestAttackWithdrawnKey(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[[][]byte]
	now.Store(&[][]byte{newer, older})
	in := install(t, "withdrawal", secrets.FixedKeys(newer))
	in.works(func() ([][]byte, error) { return *now.Load(), nil })
	retired := runs.New(runs.Config{Client: in.temporal, Namespace: "withdrawal", Keys: keysOf(t, secrets.FixedKeys(older)), Logger: quietLogger})
	first := in.gate()
	if d := answer(t, retired, first, runs.Answer{ElicitationID: "ask#1", Action: "accept", By: "ada"}); !d.Won {
		t.Errorf("the answer of a retired key: %+v", d)
	}
	second := in.gate()
	now.Store(&[][]byte{newer})
	if d, err := retired.Answer(t.Context(), second, runs.Answer{ElicitationID: "ask#1", Action: "accept", By: "ada"}); !errors.Is(err, runs.ErrUnchecked) {
		t.Errorf("the answer of a withdrawn key: %+v, %v", d, err)
	}
	if d := answer(t, in.door, second, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "bob"}); !d.Won {
		t.Errorf("the answer of the key of now: %+v", d)
	}
}

// TestAttackSignalsAreRecorded shows that an attacker who reaches Temporal, and no more,
// gains nothing by any signal, and that each attempt is visible.
func TestAttackSignalsAreRecorded(t *testing.T) {
	t.Parallel()
	in := install(t, "recorded", secrets.FixedKeys(older))
	in.works(secrets.FixedKeys(older))
	id := in.gate()
	elicitation := workflows.Elicitation{ID: "ask#1", StepPath: "ask", Message: "Your password, please.", State: workflows.ElicitationOpen}
	for name, body := range map[string]any{
		workflows.AnswerSignal:   workflows.Answer{ElicitationID: "ask#1", Action: "accept", AnsweredBy: "ada", Content: json.RawMessage(`{}`)},
		workflows.QuestionSignal: workflows.QuestionReport{ElicitationID: "ask#1", Question: workflows.Question{Name: "q", Outcome: workflows.Unable, Reason: "call this number"}},
		workflows.AttachSignal:   workflows.Attached{Request: "somebody else's"},
		workflows.ChildSignal:    workflows.ChildReport{RunID: "x/y", StepPath: "write", Elicitation: &elicitation},
		workflows.AdoptSignal:    workflows.Adopted{StepPath: "write"},

		quarantine.ReleaseSignal: map[string]string{"by": "ada"},
		quarantine.FailSignal:    workflows.Failure{Error: workflows.Error{Message: "call this number"}},
	} {
		in.send(id, name, body)
		awaitLog(t, in.door, id, func(e runs.LogEntry) bool {
			return e.Kind == runs.LogRefused && strings.Contains(e.Text, name) || name == workflows.AnswerSignal && e.By == "ada"
		})
	}
	shown := perduretest.Must(in.door.Show(t.Context(), id))(t)
	if len(shown.Refused) != 7 || shown.Request != "" || len(shown.Elicitations) != 1 || len(shown.Elicitations[0].Questions) != 0 || shown.Status != runs.Waiting {
		t.Errorf("the run is shown as %+v", shown)
	}
	for _, r := range shown.Refused {
		if r.Signal == workflows.AnswerSignal && (r.By != "ada" || r.Action != "accept" || r.ElicitationID != "ask#1") || !strings.Contains(r.Reason, "no proof") {
			t.Errorf("refused was %+v", r)
		}
	}
}

// TestAttackIDsThatCannotBe asks for runs by IDs that gRPC does not send: they do not
// exist, and Temporal is not away.
func TestAttackIDsThatCannotBe(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	for _, id := range []runs.RunID{"", "publish/\x00", "publish/\xff", "\xc3", "publish/ü"} {
		_, err := c.Get(t.Context(), id)
		_, answered := c.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#1", Action: "accept"})
		for what, err := range map[string]error{"Get": err, "Answer": answered, "Cancel": c.Cancel(t.Context(), id, "")} {
			if !errors.Is(err, runs.ErrNotFound) || errors.Is(err, runs.ErrUnavailable) {
				t.Errorf("%s of %q: %v, want ErrNotFound", what, id, err)
			}
		}
	}
}
