package program_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// TestToolsChange has clients of both eras listen while definitions change and
// a backend comes up. Definitions with a mistake change nothing but the status.
func TestToolsChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	define := func(name, steps string) {
		putFile(t, filepath.Join(dir, "defs", name+".yaml"), "name: "+name+"\ndescription: d\nsteps: ["+steps+"]\n")
	}
	const asks = "{id: a, type: elicitation, message: m}"
	perduretest.NoError(t, os.Mkdir(filepath.Join(dir, "defs"), 0o755))
	define("first", asks)
	define("later", "{id: a, tool: late_tool}")
	late := perduretest.Must(pgtest.FreeAddress())(t)
	putFile(t, filepath.Join(dir, "perdure.yaml"), "backends: [{name: late, transport: streamable-http, url: \"http://"+late+"/mcp\"}]\n")
	d := startDev(t, dir, "--config", "perdure.yaml", "--definitions", "defs")

	listeners := []*listening{d.listen(t, legacy), d.listen(t, modern)}
	changed := func(want ...string) {
		t.Helper()
		for _, l := range listeners {
			l.hears(t, want...)
		}
	}
	for _, l := range listeners {
		if have := l.tools(t); !slices.Contains(have, "first") || !slices.Contains(have, "later") || slices.Contains(have, "late_tool") {
			t.Errorf("%s begins with %v", l.version, have)
		}
	}

	// A client's stream may open only after the client is ready, so something
	// changes until everybody has heard of it.
	for i := 0; slices.ContainsFunc(listeners, func(l *listening) bool { return !l.heard }); i++ {
		if i == 20 {
			t.Fatal("a client does not hear that the tools change")
		}
		define(fmt.Sprintf("warm_up_%d", i), asks)
		for _, l := range listeners {
			l.waits(3 * time.Second)
		}
	}

	define("second", asks)
	changed("first", "second")

	putFile(t, filepath.Join(dir, "defs", "first.yaml"), "nam: first\n")
	define("third", asks)
	until(t, "the mistake to be told", func() bool { return strings.Contains(d.definitionsError(t), "first.yaml:1:1") })
	for _, l := range listeners {
		if have := l.tools(t); !slices.Contains(have, "first") || slices.Contains(have, "third") {
			t.Errorf("with a mistake %s lists %v", l.version, have)
		}
	}
	if log := d.output.String(); strings.Count(log, "changed files have mistakes") != 1 {
		t.Errorf("the log does not tell of the mistake, or more than once:\n%s", log)
	}
	define("first", asks)
	changed("first", "second", "third")
	if told := d.definitionsError(t); told != "" {
		t.Errorf("the mistake is mended, and still told: %s", told)
	}

	serveLate(t, late)
	changed("first", "second", "third", "late_tool", "later")
}

// serveLate starts a backend at an address.
func serveLate(t *testing.T, address string) {
	t.Helper()
	backend := mcpserver.NewMCPServer("late", "1", mcpserver.WithToolCapabilities(true))
	backend.AddTool(mcp.NewTool("tool", mcp.WithDescription("d")), nil)
	listener := perduretest.Must(net.Listen("tcp", address))(t)
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpserver.NewStreamableHTTPServer(backend))
	web := &http.Server{Handler: mux}
	go func() { _ = web.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = web.Close() })
}

// definitionsError is what /readyz?verbose says of changed definitions.
func (d *devProcess) definitionsError(t *testing.T) string {
	t.Helper()
	response := perduretest.Must(http.Get("http://" + d.address + "/readyz?verbose"))(t)
	defer response.Body.Close()
	var status struct {
		DefinitionsError string `json:"definitionsError"`
	}
	perduretest.NoError(t, json.NewDecoder(response.Body).Decode(&status))
	return status.DefinitionsError
}

// A listening client is told when the tools change.
type listening struct {
	*client.Client
	version string
	changed chan struct{}
	heard   bool
}

// waits for the client to be told of any change at all.
func (l *listening) waits(limit time.Duration) {
	select {
	case <-l.changed:
		l.heard = true
	case <-time.After(limit):
	}
}

func (d *devProcess) listen(t *testing.T, version string) *listening {
	t.Helper()
	return listenAt(t, d.url(), version)
}

// listenAt is a client of an era that listens to a server.
func listenAt(t *testing.T, url, version string) *listening {
	t.Helper()
	options := []transport.StreamableHTTPCOption{transport.WithHTTPLogger(slog.New(slog.DiscardHandler))}
	if version == legacy {
		//lint:ignore SA1019 which is how clients of that era listen
		options = append(options, transport.WithContinuousListening())
	}
	wire := perduretest.Must(transport.NewStreamableHTTP(url, options...))(t)
	l := &listening{Client: client.NewClient(wire), version: version, changed: make(chan struct{}, 100)}
	l.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == string(mcp.MethodNotificationToolsListChanged) {
			l.changed <- struct{}{}
		}
	})
	initialize(t, l.Client, version)
	if version == modern {
		stop, err := l.ListenAsync(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}, func(err error) { t.Log(err) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return l
}

func (l *listening) tools(t *testing.T) []string {
	t.Helper()
	return names(t, l.Client)
}

// hears waits until the client is told of a change after which it lists tools.
func (l *listening) hears(t *testing.T, want ...string) {
	t.Helper()
	for deadline := time.After(2 * patience); ; {
		select {
		case <-l.changed:
		case <-deadline:
			t.Fatalf("%s was not told that there is %v; it lists %v", l.version, want, l.tools(t))
		}
		have := l.tools(t)
		if !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(have, name) }) {
			return
		}
	}
}
