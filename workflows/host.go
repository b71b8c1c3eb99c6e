package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Names of what keeps limits across processes; histories contain them.
const (
	HostType    = ownTypes + "backend-host"   // workflow; no composite tool has such a name
	HostName    = "ServeBackend"              // activity: serves the queue of a backend until its process stops
	PermitType  = ownTypes + "backend-permit" // workflow
	AdmitName   = "AdmitCall"                 // activity, on the queue of a backend
	ReleaseName = "ReleaseCall"               // activity, on the queue of a backend
)

// HostLost is after how long without a heartbeat the process that keeps the limits of a
// backend is replaced by another.
const HostLost = 10 * time.Second

// BackendQueue is the task queue of a backend with limits, and the ID of the
// workflow that has it served.
func BackendQueue(backend string) string { return TaskQueue + "-backend-" + backend }

// BackendHost has exactly one process serve the queue of a backend: the one that
// executes its only activity, for as long as that process reports that it does. So
// limits that are kept in its memory hold for all.
//
// It never ends by itself: runs that have begun may call the backend through its queue
// a month from now, even if the configuration has changed.
func BackendHost(ctx workflow.Context, backend string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary:             "keeps the limits of " + backend,
		StartToCloseTimeout: 10 * 365 * 24 * time.Hour,
		HeartbeatTimeout:    HostLost,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 1},
		WaitForCancellation: true,
	})
	return workflow.ExecuteActivity(ctx, HostName, backend).Get(ctx, nil)
}

// A BackendState is the state of a backend's limits. It is the details of the
// heartbeats of the process that keeps them.
type BackendState struct {
	Host     string    `json:"host"`              // the process that keeps them
	Breaker  string    `json:"breaker,omitempty"` // closed, open, half-open; "" = it has none
	Until    time.Time `json:"until,omitzero"`    // when an open breaker lets a call through
	UnderWay int       `json:"underWay"`          // calls
	Waiting  int       `json:"waiting"`           // calls that have a place in the line

	Spent    time.Time `json:"spent,omitzero"`    // when the rate let no call begin; zero = there is no rate
	Reported time.Time `json:"reported,omitzero"` // when the process has reported this
	Done     bool      `json:"done,omitempty"`    // it lets nothing through any more
}

// A PermitRequest asks for the permission to make one call outside of a run, or
// for more time, or gives it back.
type PermitRequest struct {
	Backend  string `json:"backend"`
	Ticket   string `json:"ticket"`             // names the call
	Caller   string `json:"caller,omitempty"`   // whose call it is
	Renew    bool   `json:"renew,omitempty"`    // the call takes longer
	Released bool   `json:"released,omitempty"` // the call has ended
	Outcome  string `json:"outcome,omitempty"`  // of a call that has ended: answered, failed; "" = no evidence about the backend
}

// The outcomes in a PermitRequest.
const (
	CallAnswered = "answered"
	CallFailed   = "failed"
)

// PermitLasts is for how long a permit is good that is not renewed.
const PermitLasts = time.Minute

// BackendPermit asks the process that keeps the limits of a backend. A nil Hold
// is the permission.
func BackendPermit(ctx workflow.Context, p PermitRequest) (hold *Hold, err error) {
	name := AdmitName
	if p.Released {
		name = ReleaseName
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              BackendQueue(p.Backend),
		ScheduleToCloseTimeout: hostPatience,
		StartToCloseTimeout:    shortWait / 3, // asking again changes nothing
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 1},
	})
	err = workflow.ExecuteActivity(ctx, name, p).Get(ctx, &hold)
	return hold, err
}
