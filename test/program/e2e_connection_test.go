package program_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/perdure/perdure/internal/perduretest"
)

// A strictTemporal speaks TLS only and takes nobody's API key. It notes what it
// is sent.
type strictTemporal struct {
	workflowservice.UnimplementedWorkflowServiceServer

	mu         sync.Mutex
	keys       []string
	namespaces []string
}

// GetSystemInfo is what every client calls first.
func (s *strictTemporal) GetSystemInfo(ctx context.Context, _ *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, _ := metadata.FromIncomingContext(ctx)
	s.keys = append(s.keys, sent.Get("authorization")...)
	return &workflowservice.GetSystemInfoResponse{}, nil
}

// DescribeNamespace refuses.
func (s *strictTemporal) DescribeNamespace(ctx context.Context, r *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, _ := metadata.FromIncomingContext(ctx)
	s.keys = append(s.keys, sent.Get("authorization")...)
	s.namespaces = append(s.namespaces, r.Namespace)
	return nil, status.Error(codes.Unauthenticated, "unknown key")
}

// serve gives the address and the file of the certificate that is to be trusted.
func (s *strictTemporal) serve(t *testing.T) (address, certificate string) {
	t.Helper()
	key := perduretest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"temporal.test"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der := perduretest.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	listener := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	workflowservice.RegisterWorkflowServiceServer(server, s)
	go func() { _ = server.Serve(listener) }() // until it is stopped
	t.Cleanup(server.Stop)
	certificate = filepath.Join(t.TempDir(), "ca.pem")
	putFile(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return listener.Addr().String(), certificate
}

// TestTemporalCredentials says who it is as the variables of the temporal
// command have it, over TLS, and what to do where it is not believed.
func TestTemporalCredentials(t *testing.T) {
	t.Parallel()
	temporal := &strictTemporal{}
	address, certificate := temporal.serve(t)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), "backends: []\n")
	putFile(t, filepath.Join(dir, "temporal.toml"), `
[profile.production]
address = "`+address+`"
namespace = "of-the-profile"
`)
	for name, c := range map[string]struct {
		args, env []string
		namespace string
	}{
		"variables": {env: []string{"TEMPORAL_ADDRESS=" + address, "TEMPORAL_NAMESPACE=of-the-variable"}, namespace: "of-the-variable"},
		"profile":   {env: []string{"TEMPORAL_CONFIG_FILE=temporal.toml", "TEMPORAL_PROFILE=production"}, namespace: "of-the-profile"},
		"flags": {args: []string{"--address", address, "--namespace", "of-the-flag"},
			env: []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "TEMPORAL_NAMESPACE=other"}, namespace: "of-the-flag"},
	} {
		cmd := program(t, dir, append([]string{"worker", "--config", "perdure.yaml", "--insecure-random-key"}, c.args...)...)
		cmd.Env = append(cmd.Env, "TEMPORAL_API_KEY=s3cret", "TEMPORAL_TLS_SERVER_CA_CERT_PATH="+certificate, "TEMPORAL_TLS_SERVER_NAME=temporal.test")
		cmd.Env = append(cmd.Env, c.env...)
		watchdog := time.AfterFunc(patience, func() { killGroup(cmd) })
		out, err := cmd.CombinedOutput()
		watchdog.Stop()
		if err == nil || !strings.Contains(string(out), "Temporal does not take the API key or certificate") || strings.Contains(string(out), "s3cret") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		temporal.mu.Lock()
		if len(temporal.namespaces) == 0 || last(temporal.namespaces) != c.namespace {
			t.Errorf("%s: the namespace is %v", name, temporal.namespaces)
		}
		if len(temporal.keys) == 0 || last(temporal.keys) != "Bearer s3cret" {
			t.Errorf("%s: the key was not sent: %v", name, temporal.keys)
		}
		temporal.mu.Unlock()
	}
}
