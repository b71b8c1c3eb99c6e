package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/perdure/perdure/internal/runs"
)

// TestBulkAnswerCounts: an answer that was sent and is not processed yet has not failed.
func TestBulkAnswerCounts(t *testing.T) {
	t.Parallel()
	var n bulkAnswered
	for _, err := range []error{
		nil,
		runs.ErrNoSuchGate,
		fmt.Errorf("answering run a: %w; see perdure runs show: %w", runs.ErrUntaken, context.DeadlineExceeded),
		fmt.Errorf("answering run b: %w", runs.ErrUnchecked),
		runs.ErrQuarantined,
		errors.New("boom"),
	} {
		n.Found++
		n.count(runs.Decision{Won: err == nil}, err)
	}
	if want := "6 found, 1 answered, 1 answered already, 1 failed, 3 sent and not processed yet; see perdure runs list --waiting"; n.String() != want {
		t.Errorf("got %s, want %s", n, want)
	}
}
