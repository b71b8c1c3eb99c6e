package record

import (
	"encoding/json"
	"time"
)

// A Call is one of a tool: of a step, an item, a script, a probe, or what undoes another.
type Call struct {
	Digest         string          `json:"digest,omitempty"`         // of its arguments
	Tool           string          `json:"tool,omitempty"`           // as clients know it
	Undoes         bool            `json:"undoes,omitempty"`         // it has undone another call
	Output         json.RawMessage `json:"output,omitempty"`         // an object; nil = it has not succeeded
	Error          *Error          `json:"error,omitempty"`          // why it failed
	OutcomeUnknown *UnknownCall    `json:"outcomeUnknown,omitempty"` // it was sent, and must be reconciled before anything else
	Undo           *Undo           `json:"undo,omitempty"`           // of a script: the call that undoes this one
}

// A Child is a called run.
type Child struct {
	Digest         string          `json:"digest,omitempty"`         // of its arguments
	ID             string          `json:"id,omitempty"`             // "" = the call failed before there was a run
	Started        bool            `json:"started,omitempty"`        // there was a run of the ID for certain
	Again          json.RawMessage `json:"again,omitempty"`          // what a run is started with once more that has failed; nil = it is under way, or was
	Output         json.RawMessage `json:"output,omitempty"`         // null where it has none; nil = it has not completed
	Effects        *Effects        `json:"effects,omitempty"`        // of the run
	OutcomeUnknown bool            `json:"outcomeUnknown,omitempty"` // what the run has done is not known
	Error          *Error          `json:"error,omitempty"`          // why it failed
	Undo           *Undo           `json:"undo,omitempty"`           // of a script: the call that undoes it
}

// A Given is the output that a person has given, in a resumption, for a call or a called run.
type Given struct {
	Tool    string          `json:"tool,omitempty"` // of a call
	Output  json.RawMessage `json:"output"`
	Effects *Effects        `json:"effects,omitempty"` // of a called run
}

// A Gate is an elicitation that was answered or timed out.
type Gate struct {
	Digest string `json:"digest,omitempty"` // of what was asked
	Answer Answer `json:"answer"`
	Error  *Error `json:"error,omitempty"` // with which the answer let the step fail
}

// A Wait is the time until which a step or a script waits, or the time that a script
// was given.
type Wait struct {
	Digest string    `json:"digest,omitempty"` // of the step's expression; "" of a script
	Until  time.Time `json:"until"`
	Error  *Error    `json:"error,omitempty"`
}

// A Span is a step with others in it, a forEach or a script: its own time.
type Span struct {
	Until time.Time `json:"until,omitzero"` // when its time is over; zero = never, or it has completed
	Done  bool      `json:"done,omitempty"` // it has completed
	Error *Error    `json:"error,omitempty"`
}

// A Value is the result of a step of a type that records one of its own.
type Value struct {
	Digest string          `json:"digest,omitempty"` // of what it was made from
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error,omitempty"`
}

// An End is that of a step without any other entry.
type End struct {
	Skipped bool   `json:"skipped,omitempty"` // its condition was false
	Error   *Error `json:"error,omitempty"`
}

// Branches are those of a parallel of a script that count, where that depends on which was
// first.
type Branches struct {
	Count  []int `json:"count"` // from 0, in order
	Failed bool  `json:"failed,omitempty"`
}

// A Deadline is the time that a script has for something.
type Deadline struct {
	Began time.Time `json:"began"`
	Ended string    `json:"ended,omitempty"` // InTime, OutOfTime; "" = not yet
}

// How a Deadline ends.
const (
	InTime    = "in_time"
	OutOfTime = "out_of_time"
)

// A Report is a failure that a script has reported, and with which it continued.
type Report struct {
	Reported Error `json:"reported"`
}

// A Reference is what the reference of steps to a composite tool means to the run.
type Reference struct {
	Means json.RawMessage `json:"means"` // a definition, and its tools
}

func (Call) name() string      { return "call" }
func (Child) name() string     { return "child" }
func (Given) name() string     { return "given" }
func (Gate) name() string      { return "gate" }
func (Wait) name() string      { return "wait" }
func (Span) name() string      { return "span" }
func (Value) name() string     { return "value" }
func (End) name() string       { return "end" }
func (Branches) name() string  { return "branches" }
func (Deadline) name() string  { return "deadline" }
func (Report) name() string    { return "report" }
func (Reference) name() string { return "reference" }

func (k Call) digest() string    { return k.Digest }
func (k Child) digest() string   { return k.Digest }
func (Given) digest() string     { return "" }
func (k Gate) digest() string    { return k.Digest }
func (k Wait) digest() string    { return k.Digest }
func (Span) digest() string      { return "" }
func (k Value) digest() string   { return k.Digest }
func (End) digest() string       { return "" }
func (Branches) digest() string  { return "" }
func (Deadline) digest() string  { return "" }
func (Report) digest() string    { return "" }
func (Reference) digest() string { return "" }

func (k Call) done() bool    { return k.Output != nil }
func (k Child) done() bool   { return k.Output != nil }
func (Given) done() bool     { return true }
func (Gate) done() bool      { return true }
func (Wait) done() bool      { return true }
func (k Span) done() bool    { return k.Done }
func (Value) done() bool     { return true }
func (End) done() bool       { return false }
func (Branches) done() bool  { return false }
func (Deadline) done() bool  { return false }
func (Report) done() bool    { return false }
func (Reference) done() bool { return true }

func (k Call) failure() *Error    { return k.Error }
func (k Child) failure() *Error   { return k.Error }
func (Given) failure() *Error     { return nil }
func (k Gate) failure() *Error    { return k.Error }
func (k Wait) failure() *Error    { return k.Error }
func (k Span) failure() *Error    { return k.Error }
func (k Value) failure() *Error   { return k.Error }
func (k End) failure() *Error     { return k.Error }
func (Branches) failure() *Error  { return nil }
func (Deadline) failure() *Error  { return nil }
func (Report) failure() *Error    { return nil }
func (Reference) failure() *Error { return nil }

func (k Call) bytes() int {
	return len(k.Digest) + len(k.Tool) + PayloadSize(k.Output) + k.Error.bytes() + k.OutcomeUnknown.bytes() + k.Undo.bytes()
}

func (k Child) bytes() int {
	return len(k.Digest) + len(k.ID) + PayloadSize(k.Output) + PayloadSize(k.Again) + k.Effects.bytes() + k.Error.bytes() + k.Undo.bytes()
}

func (k Given) bytes() int { return len(k.Tool) + PayloadSize(k.Output) + k.Effects.bytes() }

func (k Gate) bytes() int {
	return len(k.Digest) + PayloadSize(k.Answer.Content) + PayloadSize(k.Answer.AnsweredBy) + k.Error.bytes()
}

func (k Wait) bytes() int     { return len(k.Digest) + k.Error.bytes() }
func (k Span) bytes() int     { return k.Error.bytes() }
func (k Value) bytes() int    { return len(k.Digest) + PayloadSize(k.Result) + k.Error.bytes() }
func (k End) bytes() int      { return k.Error.bytes() }
func (k Branches) bytes() int { return len("1000,") * len(k.Count) }
func (Deadline) bytes() int   { return 0 }
func (k Report) bytes() int   { return k.Reported.bytes() + EntryBytes }

func (k Reference) bytes() int { return PayloadSize(k.Means) }

// ended is what is recorded of a step that has failed, beside what it had recorded; nil =
// it had recorded nothing that counts then.
func ended(k Kind, err *Error) Kind {
	switch k := k.(type) {
	case Call:
		k.Error = err
		return k
	case Child:
		k.Error = err
		return k
	case Gate:
		k.Error = err
		return k
	case Wait:
		k.Error = err
		return k
	case Span:
		k.Error = err
		return k
	case Value:
		k.Error = err
		return k
	}
	return End{Error: err}
}
