package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/perdure/perdure/internal/secrets"
)

// A Signal is what every signal to a run carries: a body, and the proof that a process
// of the installation sent it to this run. Temporal takes signals from any program that
// reaches it, so a run believes none without proof.
type Signal struct {
	Body  json.RawMessage `json:"body"`            // an Answer, Asked, Attached, ChildReport or Adopted
	Proof string          `json:"proof,omitempty"` // of the signal's name, the run and the body

	clear  bool  // it came in clear text to a process that seals what runs hold
	unread error // why it could not be opened or read; nil = it was
}

// UnmarshalJSON also reads a signal sent by hand, which is a body alone.
func (s *Signal) UnmarshalJSON(data []byte) error {
	type wire Signal
	if json.Unmarshal(data, (*wire)(s)) != nil || s.Body == nil {
		*s = Signal{Body: append(json.RawMessage{}, data...)}
	}
	return nil
}

// Unsealed is called by data converters that seal, when the signal was not.
func (s *Signal) Unsealed() { s.clear = true }

// Unreadable is called by data converters that could not open or read the signal, though
// no key is missing.
func (s *Signal) Unreadable(why error) { s.unread = why }

// NewSignal makes a signal to a run, with proof.
func NewSignal(keys *secrets.Keys, name, run string, body any) (Signal, error) {
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
func (s Signal) Proven(keys *secrets.Keys, name, run string) bool {
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
	Keys *secrets.Keys // sign and check signals; nil = none
	// Unproven has runs take answers without proof, such as those of temporal workflow
	// signal. Their histories report which these are.
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

// A Ruling is the run's decision about a signal. It is in history as the data of a side
// effect: a replay finds the same, even with other keys.
type Ruling struct {
	Signal  string  `json:"ruledSignal"` // its name; names a side effect as one of these
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // why it was not taken
	Key     string  `json:"key,omitempty"`    // ID of the key with which it was signed, of one that is held
	Again   bool    `json:"again,omitempty"`  // it was held before

	// Of an Answer, as it states them; each at most maxRuled bytes.
	ElicitationID string `json:"elicitationId,omitempty"`
	Action        string `json:"action,omitempty"`
	By            string `json:"by,omitempty"`
	AnswerID      string `json:"answerId,omitempty"`
}

const maxRuled = 200 // bytes

// taken reports whether the signal counts.
func (v Ruling) taken() bool { return v.Verdict == VerdictTaken || v.Verdict == VerdictUnproven }

// decide is the ruling of a signal by what this worker knows and believes now.
func (t *trustee) decide(s Signal, run string, h reading, full bool, round int) Ruling {
	made := h.about
	for _, said := range []*string{&made.ElicitationID, &made.Action, &made.By, &made.AnswerID} {
		*said = clip(*said, maxRuled)
	}
	made.Verdict, made.Reason = t.verdict(s, run, h)
	if made.Verdict != VerdictHeld {
		return made
	}
	made.Key = clip(secrets.KeyOf(s.Proof), maxRuled)
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

func (t *trustee) verdict(s Signal, run string, h reading) (Verdict, string) {
	err := t.Keys.Check(s.Proof, s.statement(h.about.Signal, run)...)
	switch {
	case s.unread != nil:
		return VerdictRefused, "it cannot be read: " + clip(s.unread.Error(), maxRuled)
	case s.clear:
		return VerdictRefused, "it came in clear text, and what runs hold is sealed here"
	case s.Proof == "" && h.about.Signal == AnswerSignal && t.Unproven && !h.strict:
		if h.refuse != "" {
			return VerdictUntaken, h.refuse + "; nor is it proven who gave it"
		}
		return VerdictUnproven, ""
	case s.Proof == "":
		return VerdictRefused, "it has no proof that perdure has sent it"
	case errors.Is(err, secrets.ErrUnknownKey):
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
	panic(fmt.Sprintf("%v: another worker may have it", secrets.ErrUnknownKey))
}

// clip shortens text to a number of bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
