package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Names of the record of delivered results; histories contain them.
const (
	DeliveriesType  = ownTypes + "deliveries" // workflow
	DeliveredSignal = "delivered"             // to it: a Signal with what was delivered
)

// Deliveries keeps, in the signals of its history, which runs had their result
// delivered to a caller in a minute: a run that has ended takes no signals. Readers
// read the history, also after the end.
func Deliveries(ctx workflow.Context, lasts time.Duration) error {
	err := workflow.Sleep(ctx, lasts)
	for delivered := workflow.GetSignalChannel(ctx, DeliveredSignal); delivered.ReceiveAsync(nil); { // or the SDK warns of them
	}
	return err
}
