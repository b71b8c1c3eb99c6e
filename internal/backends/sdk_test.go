package backends

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// requireVar names what tests must not be skipped for the lack of, with commas.
const requireVar = "PERDURE_TEST_REQUIRE"

// lacking skips the test for the lack of servers, or fails it where they are
// required.
func lacking(t *testing.T, why ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(requireVar), ","), "npm") {
		t.Fatal(why...)
	}
	t.Skip(why...)
}

// npmServer is the command of a server that make servers has installed.
func npmServer(t *testing.T, script string, args ...string) []string {
	t.Helper()
	dir := filepath.Join("..", "..", "test", "program", "testdata", "servers")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@modelcontextprotocol", "node")); err != nil {
		lacking(t, "make servers has not been run:", err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		lacking(t, err)
	}
	return append([]string{node, filepath.Join(dir, script)}, args...)
}

// goServer is the command of a server on the official Go SDK.
func goServer(t *testing.T, modfile string, args ...string) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "server")
	build := exec.Command("go", "build", "-modfile", modfile, "-o", program, ".")
	build.Dir = filepath.Join("testdata", "servers-go")
	if out, err := build.CombinedOutput(); err != nil {
		lacking(t, string(out), err)
	}
	return append([]string{program}, args...)
}

// startServer starts a server over HTTP and returns the address that it says.
func startServer(t *testing.T, command []string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not say where it listens: %v", err)
	}
	return strings.TrimSpace(address)
}

// TestServersOfSDKs connects to servers on the SDKs of others, of each generation
// and transport, calls them, and hears of a tool that they add.
func TestServersOfSDKs(t *testing.T) {
	t.Parallel()
	const older, newer = "2025-11-25", "2026-07-28"
	for name, server := range map[string]struct {
		command func(t *testing.T) []string
		stdio   bool
		version string
		deaf    bool // tells nobody of tools that are added
	}{
		"go 1.7 with sessions": {command: func(t *testing.T) []string { return goServer(t, "go-1.7.mod", "-http") }, version: older},
		"go 1.7 stateless":     {command: func(t *testing.T) []string { return goServer(t, "go-1.7.mod", "-http", "-stateless") }, version: newer},
		"go 1.7 stdio":         {command: func(t *testing.T) []string { return goServer(t, "go-1.7.mod") }, stdio: true, version: newer},
		"go 1.8 with sessions": {command: func(t *testing.T) []string { return goServer(t, "go.mod", "-http") }, version: older},
		"go 1.8 stateless":     {command: func(t *testing.T) []string { return goServer(t, "go.mod", "-http", "-stateless") }, version: newer},
		"go 1.8 stdio":         {command: func(t *testing.T) []string { return goServer(t, "go.mod") }, stdio: true, version: newer},

		"typescript 1 with sessions": {command: func(t *testing.T) []string { return npmServer(t, "sdk1.mjs", "sessions") }, version: older},
		"typescript 1 stateless":     {command: func(t *testing.T) []string { return npmServer(t, "sdk1.mjs", "stateless") }, version: older, deaf: true},
		"typescript 1 stdio":         {command: func(t *testing.T) []string { return npmServer(t, "sdk1.mjs", "stdio") }, stdio: true, version: older},
		"typescript 2 with sessions": {command: func(t *testing.T) []string { return npmServer(t, "sdk2.mjs", "sessions") }, version: older},
		"typescript 2 dual":          {command: func(t *testing.T) []string { return npmServer(t, "sdk2.mjs", "dual") }, version: newer},
		"typescript 2 modern only":   {command: func(t *testing.T) []string { return npmServer(t, "sdk2.mjs", "modern") }, version: newer},
		"typescript 2 stdio":         {command: func(t *testing.T) []string { return npmServer(t, "sdk2.mjs", "stdio") }, stdio: true, version: newer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := server.command(t)
			config := Config{Name: "be", Transport: Stdio, Command: command[0], Args: command[1:]}
			if !server.stdio {
				config = httpConfig(startServer(t, command))
			}
			p := open(t, config)
			if got := p.Status()[0].ProtocolVersion; got != server.version {
				t.Errorf("the revision is %s, want %s", got, server.version)
			}
			echoes(t, p)
			if !server.deaf {
				grows(t, p)
			}
		})
	}
}

// echoes calls the tool echo.
func echoes(t *testing.T, p *Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := p.Call(ctx, Call{Backend: "be", Tool: "echo", Arguments: json.RawMessage(`{"text":"one"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(result.Raw); result.IsError || !strings.Contains(text, `"one"`) {
		t.Errorf("echo says %s", text)
	}
}

// grows has tools added until the pool has heard of one: the stream on which it
// is told may not be open at first.
func grows(t *testing.T, p *Pool) {
	t.Helper()
	changed := make(chan struct{}, 100)
	p.OnChange(func() { changed <- struct{}{} })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick, n := time.Tick(500*time.Millisecond), byte('a'); ; n++ {
		name := "late_" + string(n)
		if _, err := p.Call(ctx, Call{Backend: "be", Tool: "grow", Arguments: json.RawMessage(`{"text":"` + name + `"}`)}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
			if _, ok := p.Find("be.late_a"); ok {
				return
			}
		case <-tick:
		}
	}
}
