package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/internal/runs"
	outcomes "github.com/perdure/perdure/internal/runs/history"
)

// TestOutcomesWaitForMemory: an outcome is read when there is room for it, wherever it is
// asked for.
func TestOutcomesWaitForMemory(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	id := start(t, c, composition(t, `
name: NAME
description: d
steps: [{id: s, tool: write, arguments: {text: "`+strings.Repeat("x", 100_000)+`"}}]
`))
	followTo(t, c, id, 0, runs.EventDone)
	full := errors.New("there is no room")
	for _, room := range []error{nil, full} {
		var most int64
		c := runs.New(runs.Config{Client: temporal, Keys: testKeys, Reserve: func(_ context.Context, bytes int64) error {
			most = max(most, bytes)
			return room
		}})
		for name, read := range map[string]func() error{
			"Result": func() error { _, err := c.Result(t.Context(), id); return err },
			"Show":   func() error { _, err := c.Show(t.Context(), id); return err },
			"Follow": func() (last error) {
				for _, err := range c.Follow(t.Context(), id, 0, runs.AllEvents) {
					last = err
				}
				return last
			},
		} {
			if most = 0; !errors.Is(read(), room) || most < 100_000 || most > 200_000 {
				t.Errorf("%s has asked for %d bytes; it was told %v", name, most, room)
			}
		}
	}
}

// TestOutcomeSize: what is kept elsewhere counts as what it is.
func TestOutcomeSize(t *testing.T) {
	t.Parallel()
	data, _ := json.Marshal("a reference")
	e := &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
		WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{
			Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: data, ExternalPayloads: []*commonpb.Payload_ExternalPayloadDetails{{SizeBytes: 50 << 20}}}}},
		}}}
	if got := outcomes.OutcomeSize(e); got != int64(50<<20+len(data)) {
		t.Errorf("got %d", got)
	}
	if got := outcomes.OutcomeSize(&historypb.HistoryEvent{}); got != 0 {
		t.Errorf("of another event: %d", got)
	}
}
