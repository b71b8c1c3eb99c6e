package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestReadyFindsDevThatStarts: what waits for a dev asks at the address at which it
// listens, also if it starts meanwhile; without --wait it is an error at once.
func TestReadyFindsDevThatStarts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	var said strings.Builder
	ready := readyCommand{serverFlags: serverFlags{Data: dataDir(dir)}, Output: "text"}
	if err := ready.Run(t.Context(), &console{out: io.Discard}); err == nil {
		t.Error("no dev runs, and one is ready")
	}
	ended := make(chan error, 1)
	ready.Wait = time.Minute
	go func() { ended <- ready.Run(t.Context(), &console{out: &said}) }()
	perduretest.NoError(t, (devFile{MCP: server.URL + "/mcp"}).write(dir))
	useDir(t, dir)
	if err := <-ended; err != nil || said.String() != "ready\n" {
		t.Errorf("%q, %v", said.String(), err)
	}
}
