package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Attached is a signal with the attendance of a request. Followers of the run read it
// in history: so replicas find out which of them has a waiting client, also when one
// was killed.
type Attached struct {
	Request string     `json:"request"` // its name; value of AttrRequest
	Says    Attendance `json:"says,omitempty"`
	// Of is, with Joined, the request that asked its client, which continues from there;
	// with Here and Watching, the request that is answered.
	Of string `json:"of,omitempty"`
	// Events is how many events the run has at least, as the request has seen just now; 0 =
	// it has not looked. The signal does not have it.
	Events int64 `json:"-"`
}

// An Attendance is the relation of a request to a run.
type Attendance string

// The attendances.
const (
	Named    Attendance = ""         // it waits for the run, which is found by its name from then on
	Joined   Attendance = "joined"   // it waits for the run, unless another still does
	Inquires Attendance = "inquires" // it has joined, and asks again whether another still waits
	Here     Attendance = "here"     // it still waits for the run: the answer to Joined, Inquires or Leaving of another
	Leaving  Attendance = "leaving"  // its client is gone, and it ends the run unless another waits
	Answered Attendance = "answered" // its client has been given an answer from which it can continue
	Watching Attendance = "watching" // it waits for a run of another call: the answer to Leaving of another
)

var requestKey = temporal.NewSearchAttributeKeyKeyword(AttrRequest)

const maxRequestName = 255 // bytes

// readRequest has the run be found by the request that joined it last.
func readRequest(_ workflow.Context, s Signal, _ bool) reading {
	var a Attached
	unreadable := json.Unmarshal(s.Body, &a) != nil || a.Request == "" || len(a.Request) > maxRequestName
	return reading{take: func(ctx workflow.Context, _ Ruling) {
		if unreadable || a.Says != Named {
			return
		}
		if err := workflow.UpsertTypedSearchAttributes(ctx, requestKey.ValueSet(a.Request)); err != nil {
			workflow.GetLogger(ctx).Error("publishing who waits for the run", "error", err)
		}
	}}
}
