package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/workflows"
)

const (
	// deliveryPeriod is the time whose deliveries to a caller one history has.
	deliveryPeriod = time.Minute
	// clockSkew is how much the clocks of processes may differ.
	clockSkew = 5 * time.Second
)

// Clients are what is known, across replicas, of the clients that wait for runs: which
// requests wait, and which results were delivered.
type clients struct{ *archive }

// maxAttachable is the length of the history, in events, from which on a run
// takes no note of requests any more: a client that repeats its call for days
// must not fill it.
const maxAttachable = 5_000

// Attach signals a request's attendance to a run, so that all followers of the run see
// it (EventAttended). It returns before the run has recorded it. A run that has ended,
// or has a long history, gets none: noted is false. Where a.Events is 0, the run is
// looked at before.
func (cs clients) Attach(ctx context.Context, id RunID, a Attended) (noted bool, err error) {
	if a.Events == 0 {
		run, err := reader(cs).Get(ctx, id)
		switch {
		case err != nil:
			return false, err
		case run.Closed != nil:
			return false, nil
		case a.Says == Named && run.Request == a.Request:
			return true, nil
		}
		a.Events = run.Events
	}
	if a.Events >= maxAttachable {
		return false, nil
	}
	err = cs.signal(ctx, id, workflows.AttachSignal, a)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return false, nil
	}
	if err != nil {
		return false, failure(ctx, "signalling", id, err)
	}
	return true, nil
}

// Deliver records the runs whose results were delivered to a caller, under any name.
// Pass several runs at once: at most fifty calls a second.
func (cs clients) Deliver(ctx context.Context, caller string, all []RunID) error {
	if cs.keys == nil {
		return ErrNoKey
	}
	to := deliveries(caller, cs.now())
	signal, err := workflows.NewSignal(cs.keys, workflows.DeliveredSignal, to, all)
	if err != nil {
		return err
	}
	_, err = cs.temporal.SignalWithStartWorkflow(ctx, to, workflows.DeliveredSignal, signal, client.StartWorkflowOptions{
		TaskQueue:             workflows.TaskQueue,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         "results that were delivered to one caller",
	}, workflows.DeliveriesType, 2*deliveryPeriod)
	if err != nil {
		return failure(ctx, "noting the delivery of", all[0], err)
	}
	return nil
}

// Delivered reports whether Deliver has noted since a time that the result of a run was
// delivered to a caller.
func (cs clients) Delivered(ctx context.Context, caller string, id RunID, since time.Time) (bool, error) {
	until := cs.now().Add(clockSkew)
	for at := since.Add(-clockSkew).Truncate(deliveryPeriod); !at.After(until); at = at.Add(deliveryPeriod) {
		if delivered, err := cs.deliveredIn(ctx, deliveries(caller, at), id); err != nil || delivered {
			return delivered, err
		}
	}
	return false, nil
}

// deliveries is the ID of the workflow with a caller's deliveries around a time.
func deliveries(caller string, at time.Time) string {
	return workflows.TaskQueue + "-delivered/" + caller + "/" + at.UTC().Truncate(deliveryPeriod).Format("2006-01-02T15:04")
}

func (cs clients) deliveredIn(ctx context.Context, in string, id RunID) (bool, error) {
	for e, err := range cs.history(ctx, RunID(in), "", false) {
		var none *serviceerror.NotFound
		switch {
		case errors.As(err, &none):
			return false, nil
		case err != nil:
			return false, failure(ctx, "reading the delivery of", id, err)
		}
		var signal workflows.Signal
		var all []RunID
		a := e.GetWorkflowExecutionSignaledEventAttributes()
		delivered := a.GetSignalName() == workflows.DeliveredSignal && cs.converter.FromPayloads(a.GetInput(), &signal) == nil &&
			signal.Proven(cs.keys, workflows.DeliveredSignal, in) && json.Unmarshal(signal.Body, &all) == nil
		if delivered && slices.Contains(all, id) {
			return true, nil
		}
	}
	return false, nil
}
