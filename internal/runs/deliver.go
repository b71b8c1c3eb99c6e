package runs

import (
	"context"
	"encoding/json"
	"errors"
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

// A Delivery is what is known of the result of a run: it was delivered, or was
// not, although that was said before.
type Delivery struct {
	Run  RunID `json:"run"`
	Lost bool  `json:"lost,omitempty"`
}

// Deliver notes which results were delivered to a caller, by whatever name it has.
// It is meant for several at once, at most fifty times in a second.
func (c *Client) Deliver(ctx context.Context, caller string, all []Delivery) error {
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
		return failure(ctx, "noting the delivery of", all[0].Run, err)
	}
	return nil
}

// Delivered reports whether the result of a run was delivered to a caller since a
// time, as Deliver has noted it last.
func (c *Client) Delivered(ctx context.Context, caller string, id RunID, since time.Time) (bool, error) {
	delivered, until := false, time.Now().Add(clockSkew)
	for at := since.Add(-clockSkew).Truncate(deliveryPeriod); !at.After(until); at = at.Add(deliveryPeriod) {
		if err := c.deliveredIn(ctx, deliveries(caller, at), id, &delivered); err != nil {
			return false, err
		}
	}
	return delivered, nil
}

// deliveries is the ID of the workflow with a caller's deliveries around a time.
func deliveries(caller string, at time.Time) string {
	return workflows.TaskQueue + "-delivered/" + caller + "/" + at.UTC().Truncate(deliveryPeriod).Format("2006-01-02T15:04")
}

func (c *Client) deliveredIn(ctx context.Context, in string, id RunID, delivered *bool) error {
	for e, err := range c.history(ctx, RunID(in), "", false) {
		var none *serviceerror.NotFound
		switch {
		case errors.As(err, &none):
			return nil
		case err != nil:
			return failure(ctx, "reading the delivery of", id, err)
		}
		var signal workflows.Signal
		var all []Delivery
		a := e.GetWorkflowExecutionSignaledEventAttributes()
		told := a.GetSignalName() == workflows.DeliveredSignal && c.converter.FromPayloads(a.GetInput(), &signal) == nil &&
			signal.Proven(c.keys, workflows.DeliveredSignal, in) && json.Unmarshal(signal.Body, &all) == nil
		for _, d := range all {
			if told && d.Run == id {
				*delivered = !d.Lost
			}
		}
	}
	return nil
}
