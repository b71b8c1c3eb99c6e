package main

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// A Record is everything that was noted of a time of chaos, in no order but
// where it is said: what backends did, what histories say, what clients were
// told, and who answered and cancelled. Times are nanoseconds since the epoch,
// all of one machine.
type Record struct {
	Effects []Effect
	Runs    []Run
	Calls   []Call
	Answers []Answer
	Cancels []Cancel
}

// An Effect is what a backend did, as its log has it.
type Effect struct {
	At    int64  `json:"at"`
	Tool  string `json:"tool"` // BACKEND_TOOL
	Class string `json:"class"`
	Run   string `json:"run"`              // as the arguments say
	Step  string `json:"step"`             // as the arguments say
	Key   string `json:"key"`              // idempotency key, as it came with the call
	About string `json:"about,omitempty"`  // what the call was made for: Call.Same
	Carry string `json:"carry,omitempty"`  // digest of the answer that the call carries out
	Again bool   `json:"again,omitempty"`  // a keyed call that was known by its key: nothing was done
	Fault bool   `json:"faulty,omitempty"` // answered with an error: nothing was done
}

// done says whether something was changed.
func (e Effect) done() bool { return !e.Again && !e.Fault && e.Class != "read" }

// A Run is a run as its history tells it.
type Run struct {
	ID     string
	Tool   string
	Status string // running, waiting, completed, failed, cancelled, timed_out
	Steps  []Step // calls of tools, in the order in which they were scheduled
	Gates  []Gate
	// Cancelled is the number of the event with which somebody cancelled the
	// run; 0 = nobody did.
	Cancelled int
	Output    string // of a completed run, as JSON
}

// ended says whether nothing more comes of the run.
func (r *Run) ended() bool { return r.Status != "running" && r.Status != "waiting" }

// How a Step has ended.
const (
	stepDone      = "completed"
	stepFailed    = "failed"
	stepUnknown   = "unknown" // whether it was executed is unknown
	stepCancelled = "cancelled"
)

// A Step is one call of a tool that has its intent in history. Events are
// numbered through the executions of the run.
type Step struct {
	Path      string
	Tool      string
	Class     string
	Key       string
	Scheduled int   // event
	At        int64 // when it was scheduled
	End       string
	Ended     int // event; 0 = not yet
	Attempts  int // as the last start has it
}

// A Gate is an elicitation.
type Gate struct {
	ID, Path, Kind, State, Action string
	Content                       string // digest of the answer that won
	Outcome                       string // of a reconciliation
	Event                         int    // with which the answer came that won
}

// A Call is one call of a client, through all its attempts.
type Call struct {
	ID     string
	Client string // what kind
	Tool   string
	Same   string // calls with the same value, if any, mean the same run
	Run    string // as the client was told; "" = it was told of none
	Status string // of the run as the result says; "" = no result
	Output string // structured content of a completed run, as JSON
	Error  string // why there is no result
	Took   time.Duration

	Attempts []Attempt

	handle bool // the client was told the run, and waits for it by its ID
}

// An Attempt is one of a client at its call.
type Attempt struct {
	Began, Ended int64
	Run          string // as the client was told until then
	Error        string // "" = it was told the end
}

// An Answer is an attempt to answer a question.
type Answer struct {
	Run, Question string
	Channel       string
	Content       string // digest
	Won           bool   // whoever answered was told that this answer counts
}

// A Cancel is a run that somebody cancelled, and was told that it is.
type Cancel struct {
	Run string
	At  int64
}

// digest names what an answer says.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
