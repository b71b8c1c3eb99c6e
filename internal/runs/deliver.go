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

// Deliver records the runs whose results were delivered to a caller, under any name.
// Pass several runs at once: at most fifty calls a second.
func (c *Client) Deliver(ctx context.Context, caller string, all []RunID) error {
	if c.keys == nil {
		return ErrNoKey
	}
	to := deliveries(caller, time.Now())
	signal, err := workflows.NewSignal(c.keys, workflows.DeliveredSignal, to, all)
	if err != nil {
		return err
	}
	_, err = c.temporal.SignalWithStartWorkflow(ctx, to, workflows.DeliveredSignal, signal, client.StartWorkflowOptions{
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
func (c *Client) Delivered(ctx context.Context, caller string, id RunID, since time.Time) (bool, error) {
	until := time.Now().Add(clockSkew)
	for at := since.Add(-clockSkew).Truncate(deliveryPeriod); !at.After(until); at = at.Add(deliveryPeriod) {
		if delivered, err := c.deliveredIn(ctx, deliveries(caller, at), id); err != nil || delivered {
			return delivered, err
		}
	}
	return false, nil
}

// deliveries is the ID of the workflow with a caller's deliveries around a time.
func deliveries(caller string, at time.Time) string {
	return workflows.TaskQueue + "-delivered/" + caller + "/" + at.UTC().Truncate(deliveryPeriod).Format("2006-01-02T15:04")
}

func (c *Client) deliveredIn(ctx context.Context, in string, id RunID) (bool, error) {
	for e, err := range c.history(ctx, RunID(in), "", false) {
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
		told := a.GetSignalName() == workflows.DeliveredSignal && c.converter.FromPayloads(a.GetInput(), &signal) == nil &&
			signal.Proven(c.keys, workflows.DeliveredSignal, in) && json.Unmarshal(signal.Body, &all) == nil
		if told && slices.Contains(all, id) {
			return true, nil
		}
	}
	return false, nil
}
