package workflows_test

import (
	"bytes"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/workflows"
)

// TestSignalThatDoesNotOpen: a signal that says it was sealed, and cannot be opened, is
// refused; the run continues and takes the next.
func TestSignalThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	var o client.Options
	payloads.Seal(&o, nil)
	for name, key := range map[string]map[string][]byte{
		"no key":       {},
		"an empty one": {"encryption-key-id": {}},
	} {
		b := newBench(t, `{name: a, description: d, steps: [{id: g, type: elicitation, message: m}, {id: w, tool: t, dependsOn: [g], arguments: {n: 1}}]}`, `{}`, nil)
		b.env.SetDataConverter(o.DataConverter)
		key[converter.MetadataEncoding] = []byte("binary/encrypted")
		b.env.RegisterDelayedCallback(func() {
			b.env.SignalWorkflow(workflows.AnswerSignal, converter.NewRawValue(&commonpb.Payload{Metadata: key, Data: bytes.Repeat([]byte{7}, 100)}))
		}, time.Minute)
		b.answer(2*time.Minute, "g#1", "accept", `{}`)
		if output, failure := b.run(); failure != nil || output != `{"n":1}` {
			t.Errorf("%s: %s, %+v", name, output, failure)
		}
	}
}
