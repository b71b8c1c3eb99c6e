package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/workflows/record"
)

// A Signal is what every signal to a run carries: what it says, and the proof
// that a process of the installation says it to this run. Temporal takes signals
// from anybody who reaches it, so a run believes none without proof.
type Signal struct {
	Body  json.RawMessage `json:"body"`            // an Answer, Asked, Attached, ChildTold or Adopted
	Proof string          `json:"proof,omitempty"` // of the signal's name, the run and the body

	clear bool // it came in clear text to a process that seals what runs hold
}

// UnmarshalJSON also reads what somebody sends by hand, which is a body alone.
func (s *Signal) UnmarshalJSON(data []byte) error {
	type wire Signal
	if json.Unmarshal(data, (*wire)(s)) != nil || s.Body == nil {
		*s = Signal{Body: append(json.RawMessage{}, data...)}
	}
	return nil
}

// Unsealed is called by data converters that seal, when the signal was not.
func (s *Signal) Unsealed() { s.clear = true }

// NewSignal makes a signal to a run, with proof.
func NewSignal(keys *signing.Keys, name, run string, body any) (Signal, error) {
	s, err := unproven(body)
	s.Proof = keys.Sign(s.statement(name, run)...)
	return s, err
}

func unproven(body any) (Signal, error) {
	encoded, err := json.Marshal(body)
	return Signal{Body: encoded}, err
}

// statement is what a proof is of.
func (s Signal) statement(name, run string) []string {
	return []string{"signal", name, run, string(s.Body)}
}

// Proven reports whether a signal was signed by a process of the installation.
func (s Signal) Proven(keys *signing.Keys, name, run string) bool {
	return keys.Check(s.Proof, s.statement(name, run)...) == nil
}

// Answer is the answer that a signal carries, whether or not it is proven.
func (s Signal) Answer() (Answer, bool) {
	var a Answer
	err := json.Unmarshal(s.Body, &a)
	return a, err == nil && a.ElicitationID != ""
}

// Trust is what a worker believes.
type Trust struct {
	Keys *signing.Keys // sign and check what signals say; nil = none are known
	// Unproven has runs take answers without proof, such as those of temporal
	// workflow signal. Their histories say which these are.
	Unproven bool
}

// A trustee applies trust, outside of the deterministic part of runs: what it
// finds is recorded.
type trustee struct {
	Trust

	mu     sync.Mutex
	handed map[string]bool // workflow tasks that were handed over, by what for
}

// A Verdict is what a run makes of a signal.
type Verdict string

// The verdicts.
const (
	VerdictTaken    Verdict = "taken"
	VerdictUnproven Verdict = "taken_unproven" // it has no proof, and the worker's settings let it pass
	VerdictUntaken  Verdict = "not_taken"      // it has its proof, and comes too late or does not fit
	VerdictRefused  Verdict = "refused"        // it has no proof
	VerdictHeld     Verdict = "held"           // the worker does not have the key with which it was signed
)

// A Ruling is what a run has made of a signal that it got. It is in history as
// the data of a side effect: a replay finds the same, whatever keys there are by
// then.
type Ruling struct {
	Signal  string  `json:"ruledSignal"` // its name; names a side effect as one of these
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // why it was not taken
	Key     string  `json:"key,omitempty"`    // ID of the key with which it was signed, of one that is held
	Again   bool    `json:"again,omitempty"`  // it was held before

	// Of an Answer, as far as it says so; each at most maxRuled bytes.
	ElicitationID string `json:"elicitationId,omitempty"`
	Action        string `json:"action,omitempty"`
	By            string `json:"by,omitempty"`
	AnswerID      string `json:"answerId,omitempty"`
}

const maxRuled = 200 // bytes

// taken says whether the signal counts.
func (v Ruling) taken() bool { return v.Verdict == VerdictTaken || v.Verdict == VerdictUnproven }

// A hearing is what a run has read of a signal before it decides on it.
type hearing struct {
	about  Ruling                                  // that is to be; what it is about is given
	refuse string                                  // why it is not taken, though it is proven; "" = it is
	strict bool                                    // it is not taken without proof, whatever the settings say
	take   func(ctx workflow.Context, made Ruling) // has the run do what it says
}

// A mailbox has the signals of one name.
type mailbox struct {
	name    string
	arrived workflow.ReceiveChannel // of Signal
	// hear reads a signal; no take = it stays for later. Held: it was before.
	hear func(ctx workflow.Context, s Signal, held bool) hearing
}

// box is that of a signal; nil = there is none.
func (s *signals) box(name string) *mailbox {
	for _, m := range s.boxes {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Signals are what comes to a run from outside.
type signals struct {
	trust     *trustee          // what is believed
	boxes     []*mailbox        // by signal
	unchecked []UncheckedSignal // that wait for a worker with their key
}

// receiveSignals has the run take what it is told, also when it was cancelled or
// has failed: compensations ask, and called runs tell, until it ends.
func (r *run) receiveSignals(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for _, m := range []*mailbox{
		{name: AnswerSignal, hear: r.hearAnswer},
		{name: AskedSignal, hear: r.hearAsked},
		{name: AttachSignal, hear: r.hearRequest},
		{name: ChildSignal, hear: r.hearChild},
		{name: AdoptSignal, hear: r.hearAdoption},
	} {
		m.arrived = workflow.GetSignalChannel(ctx, m.name)
		r.signals.boxes = append(r.signals.boxes, m)
		workflow.GoNamed(ctx, m.name, func(ctx workflow.Context) {
			// A signal stays in the channel until it is taken: see drained.
			for workflow.Await(ctx, func() bool { return m.arrived.Len() > 0 }) == nil {
				r.receive(ctx, m)
			}
		})
	}
	r.goOnChecking(ctx)
}

// receive takes what has arrived in a mailbox.
func (r *run) receive(ctx workflow.Context, m *mailbox) {
	for m.arrived.Len() > 0 {
		var s Signal
		if m.arrived.ReceiveAsync(&s) {
			r.rule(ctx, m, s, 0)
		}
	}
}

// arrived says whether there are signals that were not looked at.
func (s *signals) arrived() bool {
	for _, m := range s.boxes {
		if m.arrived.Len() > 0 {
			return true
		}
	}
	return false
}

// rule decides on a signal, for the first time or, round by round, again, and
// says whether that was all.
func (r *run) rule(ctx workflow.Context, m *mailbox, s Signal, round int) (settled bool) {
	r.tasks.makeRoom(ctx, record.EntryBytes)
	h := m.hear(ctx, s, round > 0)
	if h.take == nil {
		return true
	}
	h.about.Signal, h.about.Again = m.name, round > 0
	full := len(r.signals.unchecked) >= maxUnchecked
	var made Ruling
	data := workflow.SideEffect(ctx, func(workflow.Context) any { return r.signals.trust.decide(s, r.id, h, full, round) })
	if err := data.Get(&made); err != nil {
		made = h.about // cannot happen; nothing is taken
	}
	switch {
	case made.taken():
		h.take(ctx, made)
	case made.Verdict == VerdictHeld && round > 0:
		return false
	case made.Verdict == VerdictHeld:
		r.keepUnchecked(ctx, UncheckedSignal{Name: m.name, Signal: &s, Key: made.Key, ElicitationID: made.ElicitationID, By: made.By, AnswerID: made.AnswerID})
	case made.Verdict == VerdictRefused:
		workflow.GetLogger(ctx).Warn("signal refused", "signal", m.name, "reason", made.Reason, "elicitation", made.ElicitationID, "says", made.By)
	}
	return true
}

// decide is the ruling of a signal by what this worker knows and believes now.
func (t *trustee) decide(s Signal, run string, h hearing, full bool, round int) Ruling {
	made := h.about
	for _, said := range []*string{&made.ElicitationID, &made.Action, &made.By, &made.AnswerID} {
		*said = clip(*said, maxRuled)
	}
	made.Verdict, made.Reason = t.verdict(s, run, h)
	if made.Verdict != VerdictHeld {
		return made
	}
	made.Key = clip(signing.KeyOf(s.Proof), maxRuled)
	switch {
	case h.refuse != "":
		made.Verdict, made.Reason = VerdictUntaken, h.refuse
	case full && round == 0:
		made.Verdict, made.Reason = VerdictRefused, "it was signed with a key that the worker does not have, and too many others wait for their keys"
	case round > 0:
		t.handOver(fmt.Sprintf("%s %s %d", run, s.Proof, round))
	}
	return made
}

func (t *trustee) verdict(s Signal, run string, h hearing) (Verdict, string) {
	err := t.Keys.Check(s.Proof, s.statement(h.about.Signal, run)...)
	switch {
	case s.clear:
		return VerdictRefused, "it came in clear text, and what runs hold is sealed here"
	case s.Proof == "" && h.about.Signal == AnswerSignal && t.Unproven && !h.strict:
		if h.refuse != "" {
			return VerdictUntaken, h.refuse + "; nor is it proven who gave it"
		}
		return VerdictUnproven, ""
	case s.Proof == "":
		return VerdictRefused, "it has no proof that perdure has sent it"
	case errors.Is(err, signing.ErrUnknownKey):
		return VerdictHeld, ""
	case err != nil:
		return VerdictRefused, "its proof is not one of what it says to this run"
	case h.refuse != "":
		return VerdictUntaken, h.refuse
	}
	return VerdictTaken, ""
}

// maxHanded bounds the tasks that a worker remembers to have handed over.
const maxHanded = 10_000

// handOver gives a workflow task that lacks a key to another worker, by giving it
// up, which is no harm to the run. One that comes back stays here: there may be no
// other, or none that has the key.
func (t *trustee) handOver(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handed[what] {
		delete(t.handed, what)
		return
	}
	if t.handed == nil || len(t.handed) >= maxHanded {
		t.handed = map[string]bool{}
	}
	t.handed[what] = true
	panic(fmt.Sprintf("%v: another worker may have it", signing.ErrUnknownKey))
}

// signed makes a signal to another run.
func (r *run) signed(ctx workflow.Context, name, run string, body any) Signal {
	s, err := unproven(body)
	if err != nil {
		panic("workflows: encoding what is always JSON: " + err.Error())
	}
	data := workflow.SideEffect(ctx, func(workflow.Context) any { return r.signals.trust.Keys.Sign(s.statement(name, run)...) })
	if err := data.Get(&s.Proof); err != nil {
		s.Proof = "" // cannot happen; it is refused
	}
	return s
}

// clip shortens text to a number of bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
