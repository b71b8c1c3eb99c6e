package workflows

import (
	"encoding/json"

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

// hearRequest has the run be found by the request that joined it last.
func (r *run) hearRequest(_ workflow.Context, s Signal, _ bool) hearing {
	var a Attached
	unreadable := json.Unmarshal(s.Body, &a) != nil || a.Request == "" || len(a.Request) > maxRequestName
	return hearing{take: func(ctx workflow.Context, _ Ruling) {
		if unreadable {
			return
		}
		if err := workflow.UpsertTypedSearchAttributes(ctx, requestKey.ValueSet(a.Request)); err != nil {
			workflow.GetLogger(ctx).Error("publishing who waits for the run", "error", err)
		}
	}}
}
