package workflows_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/workflows"
)

// Temporal fails each workflow task of a run that has more than 2,000 calls
// under way.
func TestCallsUnderWay(t *testing.T) {
	t.Parallel()
	const most = 500
	var steps []string
	for i := range 12 {
		steps = append(steps, fmt.Sprintf(`{id: e%d, type: forEach, collection: "{{json (until 50)}}", maxParallel: 50, step: {tool: count}}`, i))
	}
	var mu sync.Mutex
	running, peak, full := 0, 0, make(chan struct{})
	b := newBench(t, `{name: a, description: d, steps: [`+strings.Join(steps, ",")+`]}`, `{}`, map[string]toolFunc{
		"count": func(workflows.ToolCall) (string, error) {
			mu.Lock()
			running++
			peak = max(peak, running)
			if running == most {
				close(full)
			}
			mu.Unlock()
			<-full
			mu.Lock()
			running--
			mu.Unlock()
			return "{}", nil
		},
	})
	if _, failure := b.run(); failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if peak != most || len(b.calls) != 600 {
		t.Errorf("%d calls, %d at a time; want 600, %d at a time", len(b.calls), peak, most)
	}
}

func TestPayloadSize(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain", "<a href='x'>&amp;</a>", "\u2028 and \u2029", "grüße", "日本"} {
		raw := json.RawMessage(`{"v":"` + text + `"}`)
		encoded, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := workflows.PayloadSize(raw); got != len(encoded) {
			t.Errorf("%q: got %d, want %d", text, got, len(encoded))
		}
	}
}
