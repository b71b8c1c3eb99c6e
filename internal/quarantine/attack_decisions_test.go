package quarantine_test

import (
	"errors"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/secrets"
)

// decide says as somebody with keys what becomes of a run.
func (b *bench) decide(id, signal string, keys *secrets.Keys) {
	b.t.Helper()
	to := &commonpb.WorkflowExecution{WorkflowId: id, RunId: b.execution(id)}
	b.send(id, signal, quarantine.Prove(keys, signal, to, payload(b.t, "details")))
}

func (b *bench) send(id, signal string, input *commonpb.Payloads) {
	b.t.Helper()
	if _, err := b.client.WorkflowService().SignalWorkflowExecution(b.t.Context(), &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id}, SignalName: signal, Input: input,
	}); err != nil {
		b.t.Fatal(err)
	}
}

func payload(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p := perduretest.Must(converter.GetDefaultDataConverter().ToPayload(v))(t)
	return p
}

// forgedDecisions are inputs of a signal to an execution that no process of the
// installation has sent to it.
func forgedDecisions(t *testing.T, signal string, to *commonpb.WorkflowExecution) map[string]*commonpb.Payloads {
	t.Helper()
	forged := payload(t, "forged")
	good := quarantine.Prove(operators, signal, to, payload(t, "details")).Payloads
	other := &commonpb.WorkflowExecution{WorkflowId: to.WorkflowId, RunId: "another"}
	return map[string]*commonpb.Payloads{
		"without proof":           {Payloads: []*commonpb.Payload{forged}},
		"without anything":        nil,
		"with no keys":            quarantine.Prove(nil, signal, to, forged),
		"of a stranger":           quarantine.Prove(keysOf("a stranger's"), signal, to, forged),
		"with the proof of other": {Payloads: []*commonpb.Payload{forged, good[1]}},
		"of another execution":    quarantine.Prove(operators, signal, other, forged),
		"of another run":          quarantine.Prove(operators, signal, &commonpb.WorkflowExecution{WorkflowId: "another", RunId: to.RunId}, forged),
		"of another signal":       quarantine.Prove(operators, "perdure-other", to, forged),
		"with more than a proof":  {Payloads: []*commonpb.Payload{good[0], good[1], forged}},
	}
}

// TestAttackForgedDecisions has somebody who reaches Temporal release and fail a
// quarantined run: it is executed no more, and ends as the operator says.
func TestAttackForgedDecisions(t *testing.T) {
	t.Parallel()
	b := newBench(t, "QUARANTINE_CANNOT_PAUSE=1") // so that workers look at each signal
	b.start("exits", "killer", 0)
	b.awaitEvent("killer", func(e *historypb.HistoryEvent) bool {
		return strings.Contains(e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage(), quarantine.Reason)
	})
	to := &commonpb.WorkflowExecution{WorkflowId: "killer", RunId: b.execution("killer")}
	for _, signal := range []string{quarantine.FailSignal, quarantine.ReleaseSignal} {
		for name, input := range forgedDecisions(t, signal, to) {
			if quarantine.ProvenBy(operators, to)(signal, input) {
				t.Errorf("%s %s is believed", signal, name)
			}
			b.send("killer", signal, input)
		}
	}
	b.await("a signal is refused", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return strings.Contains(b.output.String(), "is refused: it has no proof")
	})
	b.decide("killer", quarantine.FailSignal, operators)
	b.awaitStatus("killer", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)
	var app *temporal.ApplicationError
	var details string
	if err := b.client.GetWorkflow(t.Context(), "killer", "").Get(t.Context(), nil); !errors.As(err, &app) || app.Details(&details) != nil || details != "details" {
		t.Errorf("it failed with %v, %q", err, details)
	}
	if n := b.died(); n != 3 {
		t.Errorf("%d workers died, not 3", n)
	}
}
