package record

import (
	"encoding/json"
	"time"
)

// An UnknownCall was sent, and its outcome is unknown.
type UnknownCall struct {
	Call  ParkedCall `json:"call"`
	Error Error      `json:"error"`         // why it is not known
	Times int        `json:"times"`         // how often the call's outcome was unknown, this time included
	Ask   bool       `json:"ask,omitempty"` // regardless of the tool's settings

	// Arguments of the call, where Call does not show them.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Anew reports that the run was resumed in a way that changes it, so that the call
	// has the arguments to which its templates come now.
	Anew bool `json:"anew,omitempty"`

	// NotHappened reports that it has turned out since that it was not executed, so
	// that it can be made.
	NotHappened bool `json:"notHappened,omitempty"`
}

// A ParkedCall is the call about which a run waits for a person.
type ParkedCall struct {
	Tool      string          `json:"tool"`                // as the step names it
	Arguments json.RawMessage `json:"arguments,omitempty"` // none if they have more than 16 KB
	Key       string          `json:"key"`                 // with which the call was sent, in _meta as perdure/idempotency-key
	Sent      time.Time       `json:"sent"`                // when it was handed over to be sent
}

// Sent are the arguments of the call; nil if they were not kept.
func (u UnknownCall) Sent() json.RawMessage {
	if u.Arguments != nil {
		return u.Arguments
	}
	return u.Call.Arguments
}

func (u *UnknownCall) bytes() int {
	if u == nil {
		return 0
	}
	return PayloadSize(u.Error.Message) + PayloadSize(u.Sent()) + EntryBytes
}

// An Undo is a call of a script that undoes another one which has completed.
type Undo struct {
	Tool    string        `json:"tool"`
	Args    Arguments     `json:"args"`
	Error   string        `json:"error,omitempty"`   // why there are no arguments; "" = there are
	Timeout time.Duration `json:"timeout,omitempty"` // all attempts together; 0 = the host's default
	Retries int           `json:"retries,omitempty"` // after the first attempt
	Delay   time.Duration `json:"delay,omitempty"`   // before the first retry; 0 = the host's default
}

// Arguments are those of a call of a script.
type Arguments struct {
	JSON json.RawMessage `json:"json,omitempty"` // an object, its keys in order

	// Typed are JSON pointers to values that take the type that the tool wants
	// there, as templates of steps do. A null among them is no value.
	Typed []string `json:"typed,omitempty"`
}

func (u *Undo) bytes() int {
	if u == nil {
		return 0
	}
	return PayloadSize(u.Args.JSON) + EntryBytes
}
