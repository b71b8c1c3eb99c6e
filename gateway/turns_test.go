package gateway_test

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure/gateway"
)

// Requests that join one run do so one after the other; those of other runs, and
// those whose clients are gone, wait for nobody.
func TestTurns(t *testing.T) {
	t.Parallel()
	var turns gateway.Turns
	first, err := turns.Take(t.Context(), "a/1")
	if err != nil {
		t.Fatal(err)
	}
	other, err := turns.Take(t.Context(), "a/2")
	if err != nil {
		t.Fatal(err)
	}
	other()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := turns.Take(gone, "a/1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that is gone: %v", err)
	}
	second := make(chan func())
	go func() {
		next, err := turns.Take(context.Background(), "a/1")
		if err != nil {
			t.Error(err)
		}
		second <- next
	}()
	select {
	case <-second:
		t.Error("two have the turn")
	default:
	}
	first()
	(<-second)()
	if n := turns.Len(); n != 0 {
		t.Errorf("%d turns are kept", n)
	}
}

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
