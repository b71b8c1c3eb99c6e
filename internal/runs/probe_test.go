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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/perdure/perdure/definitions"
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
			tc := refusing(t, serviceerror.NewResourceExhausted(cause, "limit exceeded").(*serviceerror.ResourceExhausted).Status().Err())
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := runs.Probe(ctx, tc, "default"); !errors.Is(err, want) {
				t.Errorf("probing gives %v, want %v", err, want)
			}
		})
	}
}

// TestShutOut: a Temporal that no longer takes the credentials of a process is away for it,
// whatever it answers; what a caller wanted was certainly not done.
func TestShutOut(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.PermissionDenied, codes.Unauthenticated} {
		tc := refusing(t, status.Error(code, "Request unauthorized."))
		_, probed := runs.Probe(t.Context(), tc, "default")
		c := runs.New(runs.Config{Client: tc, Logger: slog.New(slog.DiscardHandler)})
		shown := c.Cancel(t.Context(), "tool/name", "")
		_, started := c.Start(t.Context(), runs.StartRequest{Definition: &definitions.Definition{Name: "tool"}})
		for doing, err := range map[string]error{"probing": probed, "cancelling a run": shown, "starting one": started} {
			if !errors.Is(err, runs.ErrUnavailable) || errors.Is(err, runs.ErrMayHaveStarted) || !strings.Contains(runs.Fix(err), "TEMPORAL_API_KEY") {
				t.Errorf("%s: %s gives %v; to fix it: %s", code, doing, err, runs.Fix(err))
			}
		}
	}
}

func TestFix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"error reading server preface: EOF":                               "TEMPORAL_TLS=true",
		"tls: first record does not look like a TLS handshake":            "unset",
		"tls: failed to verify certificate: x509: unknown authority":      "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
		"remote error: tls: certificate required":                         "wants a client certificate",
		"remote error: tls: unknown certificate authority":                "does not take the client certificate",
		"write tcp 127.0.0.1:1->127.0.0.1:2: write: broken pipe":          "does not take the client certificate",
		"error reading server preface: http2: frame too large":            "frontend",
		"unknown service temporal.api.workflowservice.v1.WorkflowService": "frontend",
	} {
		if fix := runs.Fix(errors.New(text)); !strings.Contains(fix, want) {
			t.Errorf("against %q helps: %s", text, fix)
		}
	}
	if fix := runs.Fix(errors.New("connection refused")); fix != "" {
		t.Errorf("against no answer helps: %s", fix)
	}
}

// refusing is a client of a Temporal that is healthy, and turns everything else down.
func refusing(t *testing.T, with error) client.Client {
	t.Helper()
	refuse := func(_ context.Context, method string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Check") {
			return nil
		}
		return with
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
