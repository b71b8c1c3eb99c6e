package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
)

// Joins start the runs of calls, or join them to existing ones.
type joins struct {
	runs        Runs
	rights      *rights
	attendance  *attendance
	served      *served
	deliveries  *deliveries
	disconnects *disconnects
	outlive     func(definitions.OnDisconnect) bool // what a definition says means that its run continues without its client
	turns       runs.Turns                          // of runs, for requests that want to join: each reads the whole history
	window      time.Duration                       // in which a call may be one sent again; 0 or less = none
	now         func() time.Time
}

// start starts the run of a call, unless it exists. A call equals an earlier one if it
// has the same key, if the transport repeated the same request of a session, or if, in
// 2026-07-28 and within Options.ReattachWindow, the answer was lost.
//
// Such a call may be repeated when it is unknown whether it was started. Any other
// would be a second one.
func (j *joins) start(ctx context.Context, x *exchange, req runs.StartRequest) (runs.Started, error) {
	req.Request = x.dialect.requestName(x.client, x.id)
	key, err := req.Definition.Key(req.Arguments)
	switch {
	case err != nil:
		return runs.Started{}, err
	case key != "":
		started, err := j.startOne(ctx, x, req, key)
		return started, repeatable(err)
	case x.params.Meta.IdempotencyKey != "":
		req.ID = derivedID(req.Definition.Name, "key", x.callerID, x.params.Meta.IdempotencyKey)
		started, err := j.startNamed(ctx, x, req)
		return started, repeatable(err)
	}
	return x.dialect.start(ctx, j, x, req)
}

// startNamed starts the run whose ID is given by its call, or finds it.
func (j *joins) startNamed(ctx context.Context, x *exchange, req runs.StartRequest) (runs.Started, error) {
	started, err := j.runs.Start(ctx, req)
	if err != nil || !started.Attached {
		return started, err
	}
	return j.attach(ctx, x, req, started)
}

// repeatable is the error of a start that finds the run if it is repeated. If its time
// was over, as after the process stood still, the run may have been started.
func repeatable(err error) error {
	if errors.Is(err, runs.ErrMayHaveStarted) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s", runs.ErrUnavailable, err.Error())
	}
	return err
}

// startOne starts the run that all calls with a business key share. A call joins it if
// the caller may see it and the arguments are the same: otherwise the first caller
// would decide for all. A repetition, by its own key or by the transport, is no second
// call.
func (j *joins) startOne(ctx context.Context, x *exchange, req runs.StartRequest, key string) (runs.Started, error) {
	req.ID = derivedID(req.Definition.Name, "business", key)
	if mine := x.params.Meta.IdempotencyKey; mine != "" {
		req.Request = encode64(digest("request", x.callerID, mine)[:15])
	}
	started, err := j.runs.Start(ctx, req)
	if err != nil || !started.Attached {
		return started, err
	}
	run, err := j.runs.Show(ctx, started.ID)
	if err != nil {
		return started, err
	}
	x.setOutlives(j.outlive(run.OnDisconnect))
	if run.Caller != x.caller.Subject {
		started.Owner = run.Caller
	}
	again := started.Owner == "" && req.Request != "" && run.Request == req.Request
	switch {
	case !j.rights.may(x.who, auth.See, &run.Run):
		return runs.Started{}, &runs.Error{Code: codes.Duplicate, Category: codes.CategoryValidation,
			Message: "another caller has called " + x.params.Name + " with the same business key, and you may not see that run"}
	case req.Definition.OnDuplicate == definitions.Reject && !again:
		return runs.Started{}, &runs.Error{Code: codes.Duplicate, Category: codes.CategoryValidation, RunID: string(run.ID),
			Message: fmt.Sprintf("%s was already called with the same business key; the run is %s", x.params.Name, run.Status)}
	case !sameArguments(req.Definition, run.Arguments, req.Arguments):
		return runs.Started{}, &runs.Error{Code: codes.KeyReused, Category: codes.CategoryValidation, RunID: string(run.ID),
			Message: fmt.Sprintf("%s was already called with the same business key and other arguments; nothing was started. Call it with the arguments of that run, or for another business key", x.params.Name)}
	}
	if x.dialect.sendsAgain() {
		j.join(ctx, x, &run.Run)
	}
	return started, nil
}

// sessionRunID is the ID of the run that a request of a session started.
func sessionRunID(tool string, c *client, request json.RawMessage) runs.RunID {
	return derivedID(tool, "session", c.callerID, c.scope, string(request))
}

// attach makes sure that a run which was there already is that of the same
// call, and not of another one for which the client used the same id.
func (j *joins) attach(ctx context.Context, x *exchange, req runs.StartRequest, started runs.Started) (runs.Started, error) {
	run, err := j.runs.Show(ctx, started.ID)
	if errors.Is(err, runs.ErrUnavailable) {
		return started, fmt.Errorf("%w: %w", runs.ErrMayHaveStarted, err)
	}
	if err != nil {
		return started, err
	}
	forwards := x.forwarded.IsMarked(run.Forwarded) // otherwise it may be for another tenant
	switch {
	case forwards && run.Caller == x.caller.Subject && sameArguments(req.Definition, run.Arguments, req.Arguments) && (x.params.Name != scriptTool || run.Digest == req.Definition.Digest()):
		x.setOutlives(j.outlive(run.OnDisconnect))
		j.join(ctx, x, &run.Run)
		return started, nil
	case x.params.Meta.IdempotencyKey != "":
		return started, errKeyReused
	}
	req.ID = ""
	return j.runs.Start(ctx, req)
}

// join lets a run know of another request that waits for it.
func (j *joins) join(ctx context.Context, x *exchange, run *runs.Run) {
	switch request := x.dialect.requestName(x.client, x.id); {
	case run.Closed != nil || request != "" && run.Request == request:
	case request != "":
		j.attendance.attend(ctx, run.ID, runs.Attended{Request: request, Says: runs.Named, Events: run.Events})
	default:
		x.joined = j.attendance.attend(ctx, run.ID, runs.Attended{Request: x.name, Says: runs.Joined, Events: run.Events})
	}
}

// sameArguments reports whether a call has the arguments of a run that was started
// before. What the definition has a default for, and had no parameter for then, counts
// for nothing.
func sameArguments(d *definitions.Definition, had, has json.RawMessage) bool {
	if sameJSON(had, has) {
		return true
	}
	completed, err := d.Arguments(had)
	return err == nil && sameJSON(completed, has)
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := template.Canonical(orEmpty(a))
	y, errY := template.Canonical(orEmpty(b))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
