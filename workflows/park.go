package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// maxParkedArguments bounds the arguments of a call that are shown, in bytes.
const maxParkedArguments = 16 << 10

func newParkedCall(ctx workflow.Context, q request, key string) ParkedCall {
	c := ParkedCall{Tool: q.tool.Name, Arguments: q.args, Key: key, Sent: workflow.Now(ctx).UTC()}
	if record.PayloadSize(c.Arguments) > maxParkedArguments {
		c.Arguments = nil
	}
	return c
}
