package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// StepCalls are the calls that a step has made, those that undo it, and those with a key, in
// the order in which they were put on their way.
type stepCalls struct {
	of    workflows.StepPath // "" = only calls with the key
	key   string
	after time.Time // calls that were decided until then do not count
	made  []*madeCall
	// beside are the calls that a script has made at the same place at other times, and those
	// that undo them.
	beside []*madeCall
}

// A madeCall is a call, and what it has come to. One that a reset has put on its way again
// is another one.
type madeCall struct {
	call   *history.Call
	at     time.Time // when it was put on its way
	key    string    // "" = it called a run
	path   workflows.StepPath
	fate   fate
	result *workflows.ToolResult // if it completed
	again  bool                  // its last attempt followed one without a reported outcome
	early  bool                  // it does not count
	args   json.RawMessage
	error  workflows.Error // with which it failed
}

// A fate is what a call has come to.
type fate int

const (
	open       fate = iota // under way, or its outcome is unknown
	completed              // with a result
	failed                 // known to have failed
	unsent                 // as if it had never been made
	unread                 // unsent by its last attempt, which could not read the call
	sentBefore             // not made, since it had been made before a reset
)

// add takes a fact. A call that cannot be read may be the one that is looked for,
// and one that was completed has a result: neither may be passed over.
func (s *stepCalls) add(fact history.Fact, at time.Time) error {
	switch f := fact.(type) {
	case history.CallStarted:
		return s.started(f, at)
	case history.CallTried:
		if m := s.find(f.Call); m != nil {
			m.again = f.Number > 1 && !f.Before.KnownOutcome()
		}
	case history.CallEnded:
		if m := s.find(f.Call); m != nil {
			return m.ended(f)
		}
	}
	return nil
}

func (s *stepCalls) started(f history.CallStarted, at time.Time) error {
	if f.Call.Type != workflows.CallToolName {
		if s.of != "" && f.Call.Path == s.of {
			s.made = append(s.made, &madeCall{call: f.Call, at: at, path: s.of})
		}
		return nil
	}
	call, err := f.ToolCall()
	if err != nil {
		return err
	}
	m := &madeCall{call: f.Call, at: at, key: call.IdempotencyKey, path: call.StepPath, args: call.Arguments}
	ofStep := s.of != "" && (call.StepPath == s.of || call.StepPath.Undoes() == s.of)
	if ofStep || call.IdempotencyKey == s.key {
		m.early = !s.after.IsZero() && !call.Decided.After(s.after)
		s.made = append(s.made, m)
	} else if s.of.IsScriptCall() && cmp.Or(call.StepPath.Undoes(), call.StepPath).Site() == s.of.Site() {
		s.beside = append(s.beside, m)
	}
	return nil
}

func (s *stepCalls) find(call *history.Call) *madeCall {
	for _, list := range [][]*madeCall{s.made, s.beside} {
		for _, m := range slices.Backward(list) {
			if m.call == call {
				return m
			}
		}
	}
	return nil
}

func (m *madeCall) ended(f history.CallEnded) error {
	m.fate, m.error = fateOf(f), f.Failure.Reported()
	if m.fate != completed || m.key == "" {
		return nil
	}
	result, err := f.ToolResult()
	if err == nil {
		m.result = &result
	}
	return err
}

func fateOf(f history.CallEnded) fate {
	code := f.Failure.Reported().Code
	mayHaveRun := !f.Unsent && (!f.Failure.OfCall() || f.Failure.LeavesUnknown())
	switch {
	case f.Status == history.StepCompleted:
		return completed
	case code == codes.SentBefore:
		return sentBefore
	case mayHaveRun:
		return open
	case code == codes.ToolError, code == codes.Refused:
		return failed
	case f.Failure.Held():
		return unread
	}
	return unsent
}

// A callFate is what has come of the call of a step with a key.
type callFate struct {
	call    *madeCall // the last one that counts; nil = none
	result  *workflows.ToolResult
	failure *workflows.Error // with which it fails again, since the script has repeated it after that
	unknown bool             // it may have been executed, or undone since, or the step made another one
	other   bool             // the key does not cover that: the step may have made another one, or it is not known whether what it did was undone
}

// fate is that of the call with the key. A call is made only if what was before is known,
// or decided, so the last one that was sent counts, and what followed it; undone is what the
// step did that this call undoes.
func (s *stepCalls) fate(undone lastMade) callFate {
	var last, other, undo *madeCall
	wasUndone := false // or may have been, since the last one
	for _, m := range s.made {
		switch {
		case m.early, m.fate == unsent, m.fate == unread, m.key == "":
		case m.key == s.key && m.isOpen(): // it may have looked back, and not been made
			last = m
		case m.key == s.key:
			last, other, undo, wasUndone = m, nil, nil, false
		case m.path == s.of:
			other, undo = m, nil
		default:
			undo, wasUndone = m, true
		}
	}
	isUndone := undo != nil && undo.fate == completed
	f := callFate{call: last, unknown: s.sentUnread(), other: other != nil && other.fate != failed && !isUndone}
	if last != nil {
		f.result, f.unknown = last.result, f.unknown || last.isOpen()
	}
	switch {
	case last == nil:
	case last.at.Before(undone.completed): // it undid what the step did before
		f.result, f.unknown = nil, false
	case wasUndone:
		f.result, f.unknown, f.other = nil, true, f.other || other == nil && !isUndone
	case f.result != nil && last.at.Before(undone.possible):
		f.result, f.unknown, f.other = nil, true, true
	}
	if first := s.overcome(last); first != nil && (first.fate == failed || first.error.Code == codes.BackendUnavailable) {
		f.failure = &first.error
	} else if first != nil {
		f.other = true
	}
	f.unknown = f.unknown || f.other
	return f
}

// overcome is the first failure of a script's call with the key, whose last attempt is last,
// if the script has made the same call at the same place after that, and what this
// did is not undone: made again, the call would do it twice. nil = there is none.
func (s *stepCalls) overcome(last *madeCall) *madeCall {
	if last != nil && last.fate != failed {
		return nil
	}
	i := slices.IndexFunc(s.made, func(m *madeCall) bool {
		return !m.early && m.key == s.key && (m.fate == failed || m.fate == unsent)
	})
	if i < 0 {
		return nil
	}
	first := s.made[i]
	repeats := func(m *madeCall) bool {
		return (m.fate == completed || m.isOpen()) && m.path.Undoes() == "" && !m.at.Before(first.at) && bytes.Equal(m.args, first.args) && !s.undone(m)
	}
	if slices.ContainsFunc(s.beside, repeats) {
		return first
	}
	return nil
}

// undone reports whether what a call beside did was undone after it.
func (s *stepCalls) undone(m *madeCall) bool {
	return slices.ContainsFunc(s.beside, func(u *madeCall) bool {
		return u.path.Undoes() == m.path && u.fate == completed && u.at.After(m.at)
	})
}

func (m *madeCall) isOpen() bool { return m.fate == open || m.fate == sentBefore }

// sentUnread reports whether the call with the key may have been executed by an attempt
// before one that could not read it, the last one that is known.
func (s *stepCalls) sentUnread() (may bool) {
	for _, m := range s.made {
		switch {
		case m.early, m.key != s.key, m.fate == open:
		case m.fate == unread:
			may = may || m.again
		default:
			may = false
		}
	}
	return may
}

// A lastMade is when a step began its last call that completed, and its last one that did
// or may have; zero = there is none.
type lastMade struct{ completed, possible time.Time }

// A doing is a call that has done what a step does, or undone it, or may have.
type doing struct {
	at      time.Time
	undoes  bool
	certain bool
	run     string // that was called; "" = it is a call of a tool
}

func (s *stepCalls) doings() (all []doing) {
	for _, m := range s.made {
		if m.fate == completed || m.fate == open {
			all = append(all, doing{m.at, m.path != s.of, m.fate == completed, m.call.Run})
		}
	}
	return all
}

// lastOf is when a step began its last calls, by all that it made.
func lastOf(all []doing) (last lastMade) {
	for _, d := range all {
		if d.undoes {
			continue
		}
		if last.possible = later(last.possible, d.at); d.certain {
			last.completed = later(last.completed, d.at)
		}
	}
	return last
}

// firstOfEachRun leaves out where a run was called or taken up that had been called before.
func firstOfEachRun(all []doing) []doing {
	slices.SortStableFunc(all, func(a, b doing) int { return a.at.Compare(b.at) })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(d doing) bool {
		again := d.run != "" && seen[d.run]
		seen[d.run] = true
		return again
	})
}

// timesAnew is how often what a step does was done anew after it was undone.
func timesAnew(all []doing) (times int) {
	slices.SortStableFunc(all, func(a, b doing) int { return a.at.Compare(b.at) })
	for i, d := range all {
		if i > 0 && all[i-1].undoes && !d.undoes {
			times++
		}
	}
	return times
}

// timesWith is timesAnew with one more call.
func timesWith(all []doing) int {
	times := timesAnew(all)
	if len(all) > 0 && all[len(all)-1].undoes {
		times++
	}
	return times
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
