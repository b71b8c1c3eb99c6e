package quarantine

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
)

// valueBytes is what the values of a task have, in bytes: those that come with it, and
// those that are kept outside of Temporal and are fetched when it begins.
func valueBytes(task *workflowservice.PollWorkflowTaskQueueResponse) int64 {
	bytes := int64(proto.Size(task))
	_ = proxy.VisitPayloads(context.Background(), task, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, p := range payloads {
				for _, kept := range p.GetExternalPayloads() {
					bytes += kept.GetSizeBytes()
				}
			}
			return payloads, nil
		},
	}) // the visitor returns no error
	return bytes
}
