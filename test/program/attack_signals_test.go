package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/workflows"
)

// attackedTools are composite tools whose gates somebody wants to pass.
const attackedTools = `
compositeTools:
  - name: gate
    description: Asks before it writes.
    steps:
      - {id: ask, type: elicitation, message: Write?, timeout: 1h, schema: {type: object, properties: {n: {type: integer, default: 1}}}}
      - {id: write, tool: be_write, dependsOn: [ask]}
  - name: twice
    description: Asks the same twice before it writes.
    steps:
      - {id: one, type: elicitation, message: Write?, timeout: 1h}
      - {id: two, type: elicitation, message: Write?, timeout: 1h}
      - {id: write, tool: be_write, dependsOn: [one, two]}
  - name: above
    description: Calls one that asks.
    steps: [{id: call, type: workflow, workflow: gate}]
  - name: lost
    description: Does not know whether it has paid.
    steps:
      - {id: pay, tool: be_pay, onUnknown: ask}
      - {id: write, tool: be_write, dependsOn: [pay]}
`

// A siege is an installation with a backend, and somebody who reaches its
// Temporal, and nothing else of it.
type siege struct {
	t        *testing.T
	fakes    *fakeServers
	url      string        // of the MCP endpoint
	temporal client.Client // of the attacker: without payload keys
	keyFile  string
	sealed   bool // what runs hold
	command  func(args ...string) (string, error)
}

const siegeKey, strangersKey = "0123456789abcdef", "fedcba9876543210"

func lay(t *testing.T) *siege {
	t.Helper()
	s := &siege{t: t}
	s.fakes = serveFakes(t, map[string]fakeTool{
		"be_write": structuredAnswer(`{"written":true}`),
		"be_pay":   func(context.Context, map[string]any) (*mcp.CallToolResult, error) { panic(http.ErrAbortHandler) },
	})
	return s
}

// reach connects the attacker, who has the key pair of the Temporal in dir.
func (s *siege) reach(address, dir string) {
	s.t.Helper()
	pair, err := web.LoadPair(temporalKey(dir))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.temporal, err = client.Dial(client.Options{HostPort: address, Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: pair.Client()}}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.temporal.Close)
}

// siegeOfDev attacks perdure dev.
func siegeOfDev(t *testing.T, env ...string) *siege {
	t.Helper()
	s, dir := lay(t), t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), s.fakes.configuration("[]")+attackedTools)
	d := newDev(t, dir, "--config", "perdure.yaml")
	d.env = append(d.env, env...)
	d.start()
	at := perduretest.Must(readDevFile(filepath.Join(dir, ".perdure")))(t)
	s.reach(at.Temporal, filepath.Join(dir, ".perdure"))
	s.url, s.keyFile, s.sealed = d.url(), filepath.Join(dir, ".perdure", "key"), len(env) > 0
	s.command = func(args ...string) (string, error) {
		out, errOut, err := d.try(t, args...)
		return out + errOut, err
	}
	return s
}

// siegeOfProduction attacks a gateway and a worker.
func siegeOfProduction(t *testing.T, env ...string) *siege {
	t.Helper()
	s, dir := lay(t), t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), s.fakes.configuration("[]")+attackedTools)
	s.keyFile, s.sealed = filepath.Join(dir, "key"), len(env) > 0
	write(t, s.keyFile, strings.Repeat(siegeKey, 4)+"\n")
	runsDir := t.TempDir()
	env = append(web.PairEnvironment(temporalKey(runsDir)), env...)
	temporal, err := devserver.Start(t.Context(), devserver.Options{
		Dir: runsDir, SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { temporal.Stop() })
	for command, listen := range map[string]string{"gateway": "--listen", "worker": "--health-listen"} {
		address := perduretest.Must(pgtest.FreeAddress())(t)
		p := &process{t: t, dir: dir, address: address, env: env, args: []string{command, "--config", "perdure.yaml",
			"--address", temporal.Address(), "--key-file", "key", listen, address}}
		if command == "gateway" {
			s.url = "http://" + address + endpoint
			p.args = append(p.args, "--call-patience", "500ms")
		}
		p.start()
	}
	s.reach(temporal.Address(), runsDir)
	s.command = func(args ...string) (string, error) {
		cmd := program(t, dir, append(args, "--address", temporal.Address())...)
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	return s
}

// open calls a tool, and gives the run that waits with an elicitation.
func (s *siege) open(tool, elicitation string) string {
	s.t.Helper()
	c := dial(s.t, s.url, legacy, nil)
	go toolCall{name: tool, key: s.t.Name() + tool + time.Now().String()}.by(context.WithoutCancel(s.t.Context()), c)
	var id string
	until(s.t, tool+" to ask "+elicitation, func() bool {
		out, err := s.command("runs", "list", "--waiting", "--tool", tool, "-o", "json")
		var list []runs.Run
		if err != nil || json.Unmarshal([]byte(out), &list) != nil {
			return false
		}
		for _, run := range list {
			for _, e := range run.Open() {
				if e.ID == elicitation && id == "" {
					id = string(run.ID)
				}
			}
		}
		return id != ""
	})
	return id
}

func (s *siege) send(run, signal string, body any) {
	s.t.Helper()
	if err := s.temporal.SignalWorkflow(s.t.Context(), run, "", signal, body); err != nil {
		s.t.Fatal(err)
	}
}

// log is what a run tells of a kind.
func (s *siege) log(run string, kind runs.LogKind) (entries []runs.LogEntry) {
	s.t.Helper()
	out, err := s.command("runs", "logs", run, "-o", "json")
	if err != nil {
		s.t.Fatalf("the log of %s: %v: %s", run, err, out)
	}
	lines := json.NewDecoder(strings.NewReader(out))
	for {
		var e runs.LogEntry
		if lines.Decode(&e) != nil {
			return entries
		}
		if e.Kind == kind {
			entries = append(entries, e)
		}
	}
}

// refuses sends a signal, and wants the run to refuse it for a reason, and to
// change nothing.
func (s *siege) refuses(what, run, signal string, body any, reason string) {
	s.t.Helper()
	before := len(s.log(run, runs.LogRefused))
	s.send(run, signal, body)
	var refused []runs.LogEntry
	until(s.t, what+" to be refused", func() bool {
		refused = s.log(run, runs.LogRefused)
		return len(refused) > before
	})
	if got := refused[len(refused)-1]; !strings.Contains(got.Text, reason) {
		s.t.Errorf("%s was refused with %q, want %q", what, got.Text, reason)
	}
	if n := s.fakes.count("be_write", ""); n > 0 {
		s.t.Fatalf("%s passed the gate: be_write was called %d times", what, n)
	}
}

// answered are the payloads with which a run was answered, as Temporal has them.
func (s *siege) answered(run string) (signals []*commonpb.Payload) {
	s.t.Helper()
	events := s.temporal.GetWorkflowHistory(s.t.Context(), run, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		if a := e.GetWorkflowExecutionSignaledEventAttributes(); a.GetSignalName() == workflows.AnswerSignal {
			signals = append(signals, a.Input.Payloads...)
		}
	}
	return signals
}

func (s *siege) answer(run string, args ...string) {
	s.t.Helper()
	if out, err := s.command(append([]string{"runs", "answer", run, "--key-file", s.keyFile}, args...)...); err != nil {
		s.t.Fatalf("answering %s: %v: %s", run, err, out)
	}
}

// TestAttackSignals shows that whoever reaches Temporal, and has no key, passes no
// gate of any kind by any signal, that each attempt is recorded, and that the
// answers of those who have the key count.
func TestAttackSignals(t *testing.T) {
	t.Parallel()
	seals := payloadKeysVar + "=first:" + strings.Repeat("0a", 32)
	for name, lay := range map[string]func(*testing.T, ...string) *siege{"dev": siegeOfDev, "production": siegeOfProduction} {
		t.Run(name, func(t *testing.T) { t.Parallel(); lay(t).attack() })
		t.Run(name+" that seals", func(t *testing.T) { t.Parallel(); lay(t, seals).attack() })
	}
}

func (s *siege) attack() {
	s.forge()
	s.replay()
	s.stolenKey()
	s.reconcile()
	s.called()
}

// unproven is why a signal is refused that somebody has made without the key.
func (s *siege) unproven() string {
	if s.sealed {
		return "clear text"
	}
	return "no proof"
}

// forge sends signals of every kind in somebody's name.
func (s *siege) forge() {
	gate := s.open("gate", "ask#1")
	accept := workflows.Answer{ElicitationID: "ask#1", Action: "accept", Content: json.RawMessage(`{}`), AnsweredBy: "ada", Via: workflows.ViaPage, AnswerID: "1"}
	s.refuses("an answer in ada's name", gate, workflows.AnswerSignal, accept, "claims to be from ada: it")
	s.refuses("an answer without proof", gate, workflows.AnswerSignal, accept, s.unproven())
	wrapped, err := json.Marshal(accept)
	if err != nil {
		s.t.Fatal(err)
	}
	guessed := workflows.Signal{Body: wrapped, Proof: secrets.KeyOf(s.sign(s.keys(s.keyFile), "another", accept).Proof) + "." + strings.Repeat("A", 43)}
	s.refuses("a guessed proof", gate, workflows.AnswerSignal, guessed, s.or("proof"))
	for signal, body := range map[string]any{
		workflows.QuestionSignal: workflows.QuestionReport{ElicitationID: "ask#1", Question: workflows.Question{Name: "q", Outcome: workflows.Invalid, Reason: "call 555-0100"}},
		workflows.AttachSignal:   workflows.Attached{Request: "of.somebody.else"},
		workflows.ChildSignal:    workflows.ChildReport{RunID: "gate/forged", StepPath: "write", Elicitation: &workflows.Elicitation{ID: "x#1", Message: "Your password?", State: workflows.ElicitationOpen}},
		workflows.AdoptSignal:    workflows.Adopted{StepPath: "ask"},
	} {
		s.refuses(signal, gate, signal, body, s.unproven())
	}
	shown, err := s.command("runs", "show", gate)
	if err != nil || !strings.Contains(shown, "ignored signals") || !strings.Contains(shown, workflows.AttachSignal) || strings.Contains(shown, "555-0100") {
		s.t.Errorf("the run is shown as %v:\n%s", err, shown)
	}
	s.answer(gate, "--decline")
	until(s.t, "the decision to be told", func() bool {
		decided := s.log(gate, runs.LogAnswered)
		return len(decided) == 1 && decided[0].Action == "decline" && decided[0].Via == runs.ViaCommand && !decided[0].Unproven
	})
}

// or is a reason, unless the signal is refused before it is looked at so closely.
func (s *siege) or(reason string) string {
	if s.sealed {
		return "clear text"
	}
	return reason
}

// keys are those in a file.
func (s *siege) keys(file string) *secrets.Keys {
	s.t.Helper()
	keys, err := secrets.NewKeys(secrets.KeyFile(file))
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

func (s *siege) sign(keys *secrets.Keys, run string, answer workflows.Answer) workflows.Signal {
	s.t.Helper()
	signed, err := workflows.NewSignal(keys, workflows.AnswerSignal, run, answer)
	if err != nil {
		s.t.Fatal(err)
	}
	return signed
}

// replay sends a good answer again: to another run, for another question, with
// another content.
func (s *siege) replay() {
	declined := s.open("gate", "ask#1")
	s.answer(declined, "--decline")
	first := s.open("twice", "one#1")
	s.answer(first, "--step", "one", "--accept")
	good := s.answered(first)[0]
	second := s.open("twice", "two#1")
	for second == first {
		second = s.open("twice", "one#1")
	}
	s.refuses("the answer to another run", second, workflows.AnswerSignal, converter.NewRawValue(good), s.other())
	if !s.sealed { // otherwise nobody can change it
		var signal workflows.Signal
		if err := converter.GetDefaultDataConverter().FromPayload(good, &signal); err != nil {
			s.t.Fatal(err)
		}
		signal.Body = bytes.Replace(signal.Body, []byte(`"one#1"`), []byte(`"two#1"`), 1)
		s.refuses("the answer to another question", first, workflows.AnswerSignal, signal, "proof")
	}
	s.send(first, workflows.AnswerSignal, converter.NewRawValue(good))
	until(s.t, "the same answer to come too late", func() bool {
		return slices.ContainsFunc(s.log(first, runs.LogUntaken), func(e runs.LogEntry) bool { return strings.Contains(e.Text, "too late") })
	})
	for _, run := range []string{first, second} {
		s.command("runs", "cancel", run)
	}
	if n := s.fakes.count("be_write", ""); n > 0 {
		s.t.Fatalf("be_write was called %d times", n)
	}
}

// other is why the answer to another run is refused.
func (s *siege) other() string { return "proof" }

// stolenKey signs with keys that do not count: a stranger's, and, once it is
// withdrawn, the installation's own.
func (s *siege) stolenKey() {
	gate := s.open("gate", "ask#1")
	stranger := filepath.Join(s.t.TempDir(), "stranger")
	write(s.t, stranger, strings.Repeat(strangersKey, 4)+"\n")
	forged := s.sign(s.keys(stranger), gate, workflows.Answer{ElicitationID: "ask#1", Action: "accept", AnsweredBy: "ada", AnswerID: "s"})
	if s.sealed {
		s.refuses("a stranger's signature", gate, workflows.AnswerSignal, forged, "clear text")
		own := s.sign(s.keys(s.keyFile), gate, workflows.Answer{ElicitationID: "ask#1", Action: "accept", AnsweredBy: "ada", AnswerID: "s"})
		s.refuses("a signed answer in clear text", gate, workflows.AnswerSignal, own, "clear text")
		unopened := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/encrypted")}, Data: make([]byte, 100)}
		s.refuses("an answer sealed with no key", gate, workflows.AnswerSignal, converter.NewRawValue(unopened), "does not name the key")
	} else {
		s.send(gate, workflows.AnswerSignal, forged)
		until(s.t, "a stranger's signature to wait", func() bool { return len(s.log(gate, runs.LogUnchecked)) == 1 })
		if out, err := s.command("runs", "list", "--waiting", "key", "-o", "json"); err != nil || !strings.Contains(out, gate) {
			s.t.Errorf("runs that wait for a key are %v: %s", err, out)
		}
	}
	s.answer(gate, "--decline")
	if n := s.fakes.count("be_write", ""); n > 0 {
		s.t.Fatalf("be_write was called %d times", n)
	}
}

// reconcile says in an operator's name that a call was executed.
func (s *siege) reconcile() {
	lost := s.open("lost", "pay/reconciliation#1")
	s.refuses("a reconciliation", lost, workflows.AnswerSignal, workflows.Answer{ElicitationID: "pay/reconciliation#1", Action: "accept", AnsweredBy: "ops",
		Content: json.RawMessage(`{"outcome":"happened"}`)}, s.unproven())
	if out, err := s.command("runs", "reconcile", lost, "--fail", "--key-file", s.keyFile); err != nil {
		s.t.Fatalf("reconciling: %v: %s", err, out)
	}
	until(s.t, "the reconciliation to be told as one", func() bool {
		decided := s.log(lost, runs.LogDecided)
		return len(decided) == 1 && decided[0].Decision == workflows.Fail && !strings.Contains(decided[0].Text, "accept")
	})
}

// called answers what a called run asks: to it, and to the run above.
func (s *siege) called() {
	above := s.open("above", "call/ask#1")
	var detail runs.Detail
	out, err := s.command("runs", "show", above, "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &detail) != nil {
		s.t.Fatalf("showing %s: %v: %s", above, err, out)
	}
	below := detail.Elicitations[0].Run
	accept := workflows.Answer{ElicitationID: "ask#1", Action: "accept", AnsweredBy: "ada", Content: json.RawMessage(`{}`)}
	s.refuses("an answer to the run below", below, workflows.AnswerSignal, accept, s.unproven())
	accept.ElicitationID = "call/ask#1"
	s.refuses("an answer to the run above", above, workflows.AnswerSignal, accept, s.unproven())
	told := workflows.ChildReport{RunID: below, StepPath: "call", Elicitation: &workflows.Elicitation{ID: "ask#1", State: workflows.ElicitationAnswered, Action: "accept", By: "ada"}}
	s.refuses("what the run below does not tell", above, workflows.ChildSignal, told, s.unproven())
	s.answer(above, "--accept", "--content", "{}")
	until(s.t, "the answer to reach the run below", func() bool { return s.fakes.count("be_write", "") == 1 })
	if decided := s.log(below, runs.LogAnswered); len(decided) != 1 || decided[0].Via != runs.ViaCommand || decided[0].Action != "accept" || string(decided[0].Content) != `{"n":1}` {
		s.t.Errorf("the run below was answered by %+v", decided)
	}
}

var _ payloads.Unsealable = (*workflows.Signal)(nil)
