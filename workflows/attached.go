package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Attached is a signal that tells a run of another request that waits for it,
// by which it can be found from then on.
type Attached struct {
	Request string `json:"request"` // value of AttrRequest
}

var requestKey = temporal.NewSearchAttributeKeyKeyword(AttrRequest)

const maxRequestName = 255 // bytes

// receiveRequests has the run be found by the request that joined it last.
func (r *run) receiveRequests(ctx workflow.Context) {
	requests := workflow.GetSignalChannel(ctx, AttachSignal)
	wait, _ := workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(wait, "requests", func(ctx workflow.Context) {
		for workflow.Await(ctx, func() bool { return requests.Len() > 0 }) == nil {
			var a Attached
			if !requests.ReceiveAsync(&a) || a.Request == "" || len(a.Request) > maxRequestName {
				continue
			}
			if err := workflow.UpsertTypedSearchAttributes(ctx, requestKey.ValueSet(a.Request)); err != nil {
				workflow.GetLogger(ctx).Error("publishing who waits for the run", "error", err)
			}
		}
	})
}
