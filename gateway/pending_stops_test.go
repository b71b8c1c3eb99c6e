package gateway_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure/gateway"
)

// Of the clients that left a run, the last one ends it.
func TestPendingStops(t *testing.T) {
	t.Parallel()
	var stops gateway.PendingStops
	first, endFirst := context.WithCancel(t.Context())
	doneFirst := stops.Replace("a/1", endFirst)
	last, endLast := context.WithCancel(t.Context())
	defer endLast()
	doneLast := stops.Replace("a/1", endLast)
	if first.Err() == nil || last.Err() != nil {
		t.Errorf("the first one waits: %v; the last one: %v", first.Err(), last.Err())
	}
	doneFirst()
	if stops.Len() != 1 {
		t.Error("the last one is forgotten")
	}
	if doneLast(); stops.Len() != 0 {
		t.Error("one is kept that does not wait any more")
	}
}
