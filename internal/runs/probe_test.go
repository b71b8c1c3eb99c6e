package runs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/internal/runs"
)

// TestProbeAtALimit: a Temporal that turns requests down because there are many is not
// away; one whose storage is at its limit is, and so is one that does not finish a probe.
func TestProbeAtALimit(t *testing.T) {
	t.Parallel()
	for cause, want := range map[enumspb.ResourceExhaustedCause]error{
		enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT:                 nil,
		enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW:             runs.ErrUnavailable,
		enumspb.RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED:         runs.ErrUnavailable,
		enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_STORAGE_LIMIT: runs.ErrUnavailable,
	} {
		t.Run(cause.String(), func(t *testing.T) {
			t.Parallel()
			tc := refusing(t, cause)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := runs.Probe(ctx, tc, "default"); !errors.Is(err, want) {
				t.Errorf("probing gives %v, want %v", err, want)
			}
		})
	}
}

// refusing is a client of a Temporal that is healthy, and turns everything else down.
func refusing(t *testing.T, cause enumspb.ResourceExhaustedCause) client.Client {
	t.Helper()
	refuse := func(_ context.Context, method string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Check") {
			return nil
		}
		return serviceerror.NewResourceExhausted(cause, "limit exceeded").(*serviceerror.ResourceExhausted).Status().Err()
	}
	tc, err := client.NewLazyClient(client.Options{
		HostPort: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(refuse)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	return tc
}
