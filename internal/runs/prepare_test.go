package runs_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// TestPrepare makes a namespace by several processes at once, some of which may
// not, and starts a run in it.
func TestPrepare(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Temporal server")
	}
	t.Parallel()
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()

	// A name that is misspelt registers nothing.
	err = runs.Prepare(t.Context(), dialTeam(t, server), runs.Namespace{Name: "team"})
	if err == nil || errors.Is(err, runs.ErrUnavailable) || !strings.Contains(err.Error(), "namespace team not found; correct --namespace") || !strings.Contains(err.Error(), "create --namespace team --retention 720h") {
		t.Errorf("without leave to register: %v", err)
	}
	humble := dialTeam(t, server, "RegisterNamespace")
	mustRefuse(t, humble, "namespace team not found", "temporal operator namespace create --namespace team")

	prepared := make(chan error)
	for range 3 {
		tc := dialTeam(t, server)
		go func() { // what Temporal takes to know the namespace is no failure
			prepared <- runs.Prepare(t.Context(), tc, runs.Namespace{Name: "team", Register: true, Logger: slog.New(slog.DiscardHandler)})
		}()
	}
	for range 3 {
		perduretest.NoError(t, <-prepared)
	}
	// Who may not look at it and change it needs not to, once all is there.
	humble = dialTeam(t, server, "DescribeNamespace", "ListSearchAttributes", "AddSearchAttributes")
	perduretest.NoError(t, prepare(t.Context(), humble))
	c := runs.New(runs.Config{Keys: testKeys, Client: humble, Namespace: "team"})
	run := perduretest.Must(c.Get(t.Context(), start(t, c, request(t, plain))))(t)
	if run.Tool != "plain" || run.Caller != "alice" || run.Status != workflows.Running {
		t.Errorf("got %+v", run)
	}

	nobody := dialTeam(t, server, "DescribeNamespace", "ListSearchAttributes", "CountWorkflowExecutions")
	mustRefuse(t, nobody, "namespace team is closed to this program")

	bare := dialTeam(t, server, "AddSearchAttributes")
	mustRefuseIn(t, bare, "default", "lacks search attributes", "temporal operator search-attribute create --namespace default --type Keyword --name PerdureCaller --name PerdureRequest --name PerdureStatus")
}

// TestPrepareWithoutTemporal reports that it may pass.
func TestPrepareWithoutTemporal(t *testing.T) {
	t.Parallel()
	nobody := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	nobody.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tc, err := client.NewLazyClient(client.Options{HostPort: nobody.Addr().String(), Namespace: "team", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer tc.Close()
	err = runs.Prepare(ctx, tc, runs.Namespace{Name: "team"})
	if !errors.Is(err, runs.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// dialTeam connects to the namespace team as somebody who may not call some
// methods.
func dialTeam(t *testing.T, server *devserver.Server, forbidden ...string) client.Client {
	t.Helper()
	guard := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		for _, name := range forbidden {
			if strings.HasSuffix(method, "/"+name) {
				return status.Error(codes.PermissionDenied, "not for you")
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	tc, err := client.NewLazyClient(client.Options{
		HostPort: server.Address(), Namespace: "team", Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: server.TLS(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(guard)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	return tc
}

// prepare tries until Temporal gives an answer that does not pass.
func prepare(ctx context.Context, c client.Client) error { return prepareNamed(ctx, c, "team") }

func prepareNamed(ctx context.Context, c client.Client, name string) error {
	for {
		err := runs.Prepare(ctx, c, runs.Namespace{Name: name, Register: true, Logger: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, runs.ErrUnavailable) {
			return err
		}
	}
}

func mustRefuse(t *testing.T, c client.Client, parts ...string) {
	t.Helper()
	mustRefuseIn(t, c, "team", parts...)
}

func mustRefuseIn(t *testing.T, c client.Client, namespace string, parts ...string) {
	t.Helper()
	err := runs.Prepare(t.Context(), c, runs.Namespace{Name: namespace, Register: true})
	if !errors.Is(err, runs.ErrNotPermitted) {
		t.Fatalf("got %v, want not permitted", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}
