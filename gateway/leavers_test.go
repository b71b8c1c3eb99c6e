package gateway_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure/gateway"
)

// Of the clients that left a run, the last one ends it.
func TestLeavers(t *testing.T) {
	t.Parallel()
	var leavers gateway.Leavers
	first, endFirst := context.WithCancel(t.Context())
	doneFirst := leavers.Replace("a/1", endFirst)
	last, endLast := context.WithCancel(t.Context())
	defer endLast()
	doneLast := leavers.Replace("a/1", endLast)
	if first.Err() == nil || last.Err() != nil {
		t.Errorf("the first one waits: %v; the last one: %v", first.Err(), last.Err())
	}
	doneFirst()
	if leavers.Len() != 1 {
		t.Error("the last one is forgotten")
	}
	if doneLast(); leavers.Len() != 0 {
		t.Error("one is kept that does not wait any more")
	}
}
