package runs_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// TestAttackTerminateAsItCalls: a run that calls another in the moment in which it is
// terminated leaves nothing that goes on.
func TestAttackTerminateAsItCalls(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	note(t, "a", "b")
	id := start(t, c, composition(t, source(t, strings.Replace(parentAndChild,
		"  - {id: review, type: workflow, workflow: NAME_b,",
		"  - {id: gate, type: elicitation, message: Call it?, timeout: 5m}\n  - {id: review, type: workflow, dependsOn: [gate], workflow: NAME_b,", 1))))
	gate := opened(t, c, id)
	var called runs.RunID
	call := sync.OnceFunc(func() {
		answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: "accept", By: "bob"})
		events := followTo(t, c, id, 0, runs.EventOpened)
		for events[len(events)-1].Elicitation.Run == "" {
			events = followTo(t, c, id, events[len(events)-1].Seq, runs.EventOpened)
		}
		called = runs.RunID(events[len(events)-1].Elicitation.Run)
	})
	tc := dialWith(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, ok := req.(*workflowservice.TerminateWorkflowExecutionRequest); ok {
			call()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	perduretest.NoError(t, runs.New(runs.Config{Keys: testKeys, Client: tc}).Terminate(t.Context(), id, "test"))
	run := perduretest.Must(c.Get(t.Context(), called))(t)
	if run.Closed == nil { // Temporal may have cancelled it, as the run that had called it is closed
		t.Errorf("the run that it called is %s", run.Status)
	}
}

// TestAttackTerminateWhatWasTakenUp: neither does one that was resumed, or has continued,
// beside a run that an execution of it before had called, however far the index is behind.
func TestAttackTerminateWhatWasTakenUp(t *testing.T) {
	t.Parallel()
	for how, text := range map[string]string{"resumed": parentAndChild, "continued": busyParent} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, temporal := compose(t)
			note(t, "a", "b")
			id := start(t, c, composition(t, source(t, text)))
			gate := opened(t, c, id)
			if how == "resumed" {
				terminateAndResume(t, c, temporal, id)
			} else {
				awaitContinued(t, c, temporal, id)
			}
			behind := dialWith(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if _, ok := req.(*workflowservice.ListWorkflowExecutionsRequest); ok {
					return nil
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			})
			if err := runs.New(runs.Config{Keys: testKeys, Client: behind}).Terminate(t.Context(), id, "test"); err != nil {
				t.Fatal(err)
			}
			run := perduretest.Must(c.Get(t.Context(), runs.RunID(gate.Run)))(t)
			if run.Closed == nil { // Temporal may have cancelled it, as the run that had called it is closed
				t.Errorf("the run that it had called is %s", run.Status)
			}
		})
	}
}

// dialWith connects to the Temporal of compose by way of an interceptor.
func dialWith(t *testing.T, by grpc.UnaryClientInterceptor) client.Client {
	t.Helper()
	tc, err := client.NewLazyClient(client.Options{
		HostPort: composing.server.Address(), Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: composing.server.TLS(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(by)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	return tc
}
