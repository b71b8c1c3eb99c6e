package counts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	temporal "go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/telemetry"
)

// A house is a Temporal, a worker and a gateway in this process, and a client of it.
type house struct {
	meter    *meter
	temporal temporal.Client // that is not counted
	client   *client.Client  // of the session era
	modern   *client.Client
}

var quiet = slog.New(slog.DiscardHandler)

// open opens a house with the composite tools of testdata/shapes.yaml and others.
func open(t *testing.T, others string) *house {
	t.Helper()
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: t.TempDir(), SearchAttributes: runs.SearchAttributes(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	h := &house{meter: newMeter()}
	h.temporal = dial(t, server, temporal.Options{})
	address := h.serve(t, server, configure(t, serveBackends(t), others))
	h.client = connect(t, "http://"+address+service.Endpoint, mcp.LATEST_LEGACY_PROTOCOL_VERSION, transport.WithContinuousListening())
	h.modern = connect(t, "http://"+address+service.Endpoint, mcp.LATEST_PROTOCOL_VERSION)
	return h
}

func dial(t *testing.T, server *devserver.Server, o temporal.Options) temporal.Client {
	t.Helper()
	o.HostPort, o.Logger = server.Address(), quiet
	o.ConnectionOptions.TLS, o.ConnectionOptions.GrpcCompression = server.TLS(), &temporal.GrpcCompressionNone{}
	c := perduretest.Must(temporal.Dial(o))(t)
	t.Cleanup(c.Close)
	return c
}

// serve serves the composite tools of a configuration, as perdure dev does.
func (h *house) serve(t *testing.T, server *devserver.Server, loaded *config.Loaded) (address string) {
	t.Helper()
	keys := perduretest.Must(secrets.NewKeys(secrets.FixedKeys([]byte("counts"))))(t)
	options := temporal.Options{Interceptors: h.meter.interceptors()}
	options.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(h.meter.request)}
	guard := service.NewGuard(&options, 3, false, keys, (*telemetry.Telemetry)(nil), quiet)
	news := service.NewNews(&options)
	listener := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s, err := service.New(service.Options{
		Loaded: loaded, Temporal: dial(t, server, options), Namespace: temporal.DefaultNamespace, Keys: keys, Guard: guard, News: news, Worker: true,
		Gateway: &service.GatewayOptions{Keys: service.Keys{Signing: []byte(strings.Repeat("k", 32)), Proofs: keys}, PublicURL: service.WebURL("http://" + listener.Addr().String())},
		Logger:  quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Serve(ctx, listener, s.Clients(), func() <-chan error { close(ready); return nil })
	}()
	t.Cleanup(func() { stop(); <-ended })
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// configure loads a configuration with the shapes for each backend.
func configure(t *testing.T, url, others string) *config.Loaded {
	t.Helper()
	shapes := perduretest.Read(t, "testdata/shapes.yaml")
	text := "name: counts\nincomingAuth: {type: anonymous}\nbackends:\n" +
		"  - {name: unsafe, url: " + url + "/unsafe/mcp, transport: streamable-http}\n" +
		"  - {name: reads, url: " + url + "/reads/mcp, transport: streamable-http, effects: [{tool: count, class: unsafe}, {tool: '*', class: read}]}\n" +
		"compositeTools:\n"
	for _, backend := range []string{"unsafe", "reads"} {
		text += strings.ReplaceAll(string(shapes), "BACKEND", backend)
	}
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	perduretest.NoError(t, os.WriteFile(file, []byte(text+others), 0o600))
	loaded, diags := config.Load(config.Sources{Config: file})
	perduretest.NoError(t, diags.Err())
	return loaded
}

// serveBackends serves the tools that the shapes call.
func serveBackends(t *testing.T) (url string) {
	t.Helper()
	mux := mcpMux{}
	for _, name := range []string{"unsafe", "reads"} {
		s := mcpserver.NewMCPServer(name, "1", mcpserver.WithToolCapabilities(true))
		for tool, answer := range map[string]func(arguments map[string]any) any{
			"echo":  func(arguments map[string]any) any { return arguments },
			"count": func(map[string]any) any { return map[string]any{"n": 1} },
			"list":  func(arguments map[string]any) any { return map[string]any{"items": items(arguments["n"])} },
		} {
			s.AddTool(mcp.NewToolWithRawSchema(tool, tool, json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)),
				func(_ context.Context, call mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return mcp.NewToolResultStructured(answer(call.GetArguments()), ""), nil
				})
		}
		mux["/"+name+"/mcp"] = mcpserver.NewStreamableHTTPServer(s)
	}
	web := httptest.NewServer(mux)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

func items(n any) []map[string]any {
	count, _ := n.(float64)
	all := make([]map[string]any, int(count))
	for i := range all {
		all[i] = map[string]any{"name": fmt.Sprint("item ", i)}
	}
	return all
}

// connect opens a client that accepts what it is asked.
func connect(t *testing.T, url, version string, options ...transport.StreamableHTTPCOption) *client.Client {
	t.Helper()
	over := perduretest.Must(transport.NewStreamableHTTP(url, append(options, transport.WithLogger(quiet))...))(t)
	eras := []client.ClientOption{client.WithElicitationHandler(accepting{})}
	if version == mcp.LATEST_LEGACY_PROTOCOL_VERSION {
		eras = append(eras, client.WithLegacyProtocolOnly())
	}
	c := client.NewClient(over, eras...)
	perduretest.NoError(t, c.Start(context.Background()))
	t.Cleanup(func() { _ = c.Close() })
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = version
	hello.Params.ClientInfo = mcp.Implementation{Name: "counts", Version: "1"}
	if _, err := c.Initialize(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	return c
}

type accepting struct{}

func (accepting) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	res := &mcp.ElicitationResult{}
	res.Action, res.Content = mcp.ElicitationResponseActionAccept, map[string]any{}
	return res, nil
}

// call calls a composite tool, which must complete.
func (h *house) call(t *testing.T, by *client.Client, tool string, arguments map[string]any) {
	t.Helper()
	call := mcp.CallToolRequest{}
	call.Params.Name, call.Params.Arguments = tool, arguments
	res, err := by.CallTool(t.Context(), call)
	if err != nil {
		t.Fatalf("calling %s: %s", tool, err)
	}
	if res.IsError {
		said, _ := json.Marshal(res.Content)
		t.Fatalf("calling %s: %s", tool, said)
	}
}
