package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// TestOnlySignedIn: what is answered where people have signed in says where that is.
func TestOnlySignedIn(t *testing.T) {
	t.Parallel()
	leads := []string{"group:leads", "ada"}
	for want, e := range map[string]runs.Elicitation{
		"":                                   {},
		"on the approvals page, by a person": {Mode: definitions.URLMode},
		"on the approvals page, by group:leads, ada":                                         {Mode: definitions.URLMode, Approvers: leads},
		"can only be answered by group:leads, ada, on the approvals page or in their client": {Approvers: leads},
	} {
		if e.NeedsSignIn() != (want != "") || !strings.Contains(onlySignedIn(e), want) {
			t.Errorf("%+v: %s, want %s", e, onlySignedIn(e), want)
		}
	}
}

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
