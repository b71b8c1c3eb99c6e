package runs

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// Those who want one thing have it one after the other; those who want others, and those
// who are gone, wait for nobody.
func TestTurns(t *testing.T) {
	t.Parallel()
	var turns Turns
	first := perduretest.Must(turns.Take(t.Context(), "a/1"))(t)
	other := perduretest.Must(turns.Take(t.Context(), "a/2"))(t)
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
	if n := len(turns.of); n != 0 {
		t.Errorf("%d turns are kept", n)
	}
}
