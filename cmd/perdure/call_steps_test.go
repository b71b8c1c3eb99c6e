package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// TestLinesOfSteps shows what a call prints where there is no terminal: every attempt of a
// step, each error once, and nothing that a server repeats.
func TestLinesOfSteps(t *testing.T) {
	t.Parallel()
	const page = "https://tools.example.com/approvals/pay/1"
	var err bytes.Buffer
	s := newSteps(&console{err: &err}, "", true)
	told := func(message string, step *gateway.StepState) {
		t.Helper()
		encoded, e := json.Marshal(map[string]any{"method": "notifications/progress", "params": map[string]any{
			"progressToken": 1, "progress": 1, "message": message,
			"_meta": map[string]any{"perdure/run": map[string]any{"id": "pay/1", "approvalUrl": page}, "perdure/step": step}}})
		var n mcp.JSONRPCNotification
		if e != nil || json.Unmarshal(encoded, &n) != nil {
			t.Fatalf("%s: %v", encoded, e)
		}
		s.notified(n)
	}
	const failure = "step pay: bank_pay failed: no line"
	for attempt := range 2 {
		began := noon.Add(time.Duration(attempt) * time.Minute)
		for range 2 { // told again after a lost connection
			told("pay: bank_pay", &gateway.StepState{Path: "pay", Status: gateway.StepRunning, Started: began})
			told("pay: failed", &gateway.StepState{Path: "pay", Status: "failed", Error: failure, Started: began, Ended: began.Add(time.Second)})
		}
		told("running: pay", nil)
	}
	told("other: cancelled", &gateway.StepState{Path: "other", Status: "cancelled", Started: noon, Ended: noon})
	s.finish(false, failure+"; show it with perdure runs show")
	want := `pay/1  https://tools.example.com/approvals/pay/1
  pay: bank_pay
  pay: failed
    step pay: bank_pay failed: no line
  running: pay
  pay: bank_pay
  pay: failed
  other: cancelled
`
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestHowThePageAnswers: what is asked with mode: url is answered by no command.
func TestHowThePageAnswers(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{"": "which is closed", "https://tools.example.com/approvals/pay/1": "answer on the page above"} {
		var out bytes.Buffer
		s := newSteps(&console{err: &out}, "", false)
		s.starts("pay/1", page)
		s.printHow("ask", definitions.URLMode)
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "runs answer") {
			t.Errorf("%s: got %s", page, &out)
		}
	}
}

// TestHowSomebodyElseAnswers: an unknown outcome is recorded in another way than an
// elicitation is answered.
func TestHowSomebodyElseAnswers(t *testing.T) {
	t.Parallel()
	for path, want := range map[runs.StepPath]string{
		"ask":                    "perdure runs answer pay/1 --step ask --accept",
		"each[0]/reconciliation": "record the outcome as perdure runs show pay/1 says",
	} {
		var out bytes.Buffer
		s := newSteps(&console{err: &out}, "", false)
		s.starts("pay/1", "") // the page is closed
		s.printHow(path, "")
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "the page above") {
			t.Errorf("%s: got %s, want %s", path, &out, want)
		}
	}
}
