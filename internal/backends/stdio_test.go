package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
)

// childEnvVar makes the test binary a server on stdio; its value reports which.
const childEnvVar = "PERDURE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnvVar) {
	case "":
		os.Exit(m.Run())
	case "server":
		serveChild()
	case "deaf": // reads nothing and takes no notice of SIGTERM
		signalIgnore()
		select {}
	case "late": // is of 2026-07-28 once it has not answered server/discover in time
		serveLate()
	case "flood":
		serveFlood()
	case "parent": // starts a server that outlives nobody
		beParent()
	}
}

func serveChild() {
	s := newTestServer()
	s.add("env", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Join(os.Environ(), "\n")), nil
	})
	s.add("account", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		groups, err := os.Getgroups()
		return mcp.NewToolResultText(fmt.Sprint(os.Getuid(), os.Getgid(), groups)), err
	})
	s.add("large", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", 1<<20)), nil
	})
	s.add("go", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", largeAnswer)), nil
	})
	s.add("dense", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(`[` + strings.Repeat("0,", 1_000_000) + `0]`)}, nil
	})
	s.add("wait", func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
			map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": 1})
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "wait was cancelled")
		return nil, ctx.Err()
	})
	fmt.Fprintln(os.Stderr, "child is here")
	stdio := server.NewStdioServer(s.mcp)
	server.WithWorkerPoolSize(64)(stdio)
	_ = stdio.Listen(context.Background(), os.Stdin, os.Stdout)
}

func childConfig(kind string) Config {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Config{Name: "be", Transport: Stdio, Command: exe, Env: map[string]string{childEnvVar: kind}}
}

// A logWatch is a log that tests can wait on.
type logWatch struct {
	t     *testing.T
	mu    sync.Mutex
	text  strings.Builder
	waits map[string]chan struct{}
}

func (l *logWatch) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for text, ch := range l.waits {
		if strings.Contains(l.text.String(), text) {
			close(ch)
			delete(l.waits, text)
		}
	}
	return l.t.Output().Write(p)
}

func (l *logWatch) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logWatch) wait(text string) {
	l.t.Helper()
	ch := make(chan struct{})
	l.mu.Lock()
	if strings.Contains(l.text.String(), text) {
		close(ch)
	} else {
		l.waits[text] = ch
	}
	l.mu.Unlock()
	receive(l.t, ch, "the log to say "+text)
}

func openWatched(t *testing.T, cfg Config) (*Pool, *logWatch) {
	t.Helper()
	watch := &logWatch{t: t, waits: map[string]chan struct{}{}}
	p, err := New([]Config{cfg}, Aggregation{}, slog.New(slog.NewTextHandler(watch, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	p.Start(t.Context())
	t.Cleanup(p.Close)
	return p, watch
}

func openChild(t *testing.T, cfg Config) (*Pool, *logWatch) {
	t.Helper()
	p, watch := openWatched(t, cfg)
	if !p.WaitReady(t.Context(), patience) {
		t.Fatalf("not ready: %+v", p.Status())
	}
	return p, watch
}

func text(t *testing.T, p *Pool, tool string) string {
	t.Helper()
	r := perduretest.Must(p.Call(t.Context(), Call{Backend: "be", Tool: tool}))(t)
	return r.Content[0].Text
}

func TestChildCall(t *testing.T) {
	t.Parallel()
	p, watch := openChild(t, childConfig("server"))
	r, err := p.Call(t.Context(), Call{
		Backend: "be", Tool: "echo", IdempotencyKey: "k",
		Arguments: json.RawMessage(`{"n":123456789012345678901234567890}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"args":{"n":123456789012345678901234567890},"key":"k"}`, string(r.Structured)); diff != "" {
		t.Error(diff)
	}
	watch.wait(`line="child is here"`)
}

func TestChildEnvironment(t *testing.T) {
	t.Setenv("PERDURE_TEST_SECRET", "1")
	p, _ := openChild(t, childConfig("server"))
	env := text(t, p, "env")
	for _, line := range strings.Split(env, "\n") {
		name, _, _ := strings.Cut(line, "=")
		switch name {
		case "PATH", "HOME", "USER", "LANG", "TMPDIR", childEnvVar:
		default:
			t.Errorf("the child sees %s", name)
		}
	}
	if !strings.Contains(env, "PATH=") {
		t.Errorf("no PATH in %q", env)
	}
}

func TestChildProgress(t *testing.T) {
	t.Parallel()
	p, _ := openChild(t, childConfig("server"))
	checkProgress(t, p, 1)
}

func TestChildCancel(t *testing.T) {
	t.Parallel()
	p, watch := openChild(t, childConfig("server"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Call(ctx, Call{Backend: "be", Tool: "wait", Progress: func(Progress) { cancel() }})
	if ce := callError(t, err); ce.Outcome != Unknown {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
	watch.wait("wait was cancelled")
}

func TestChildCrash(t *testing.T) {
	t.Parallel()
	p, _ := openChild(t, childConfig("server"))
	first := text(t, p, "pid")
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "crash"})
	if ce := callError(t, err); ce.Outcome != Unknown || !strings.Contains(err.Error(), "exit status 3: going down") {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
	// The next call finds a new child.
	if second := text(t, p, "pid"); second == first {
		t.Errorf("the child is still %s", first)
	}
}

func TestChildCannotStart(t *testing.T) {
	t.Parallel()
	cfg := childConfig("server")
	cfg.Command = "/no/such/program"
	p, _ := openWatched(t, cfg)
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"})
	if ce := callError(t, err); ce.Outcome != NotSent || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
}

func TestChildAnswerTooLarge(t *testing.T) {
	t.Parallel()
	cfg := childConfig("server")
	cfg.MaxResultBytes = 1 << 16
	p, _ := openChild(t, cfg)
	_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "large"})
	if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, ErrTooLarge) {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
	text(t, p, "pid")

	// Beside another call, it is not known which of them was answered.
	began, other := make(chan struct{}), make(chan error)
	go func() {
		_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "wait", Progress: func(Progress) { close(began) }})
		other <- err
	}()
	<-began
	_, err = p.Call(t.Context(), Call{Backend: "be", Tool: "large"})
	for _, err := range []error{err, <-other} {
		if ce := callError(t, err); ce.Outcome != Unknown || errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "maxResultBytes") {
			t.Errorf("of two calls: outcome %d, error %v", ce.Outcome, err)
		}
	}
}

// A child that reads nothing must hold up nobody longer than he wants.
func TestChildIsDeaf(t *testing.T) {
	t.Parallel()
	c := newChild(childConfig("deaf"), newAnswerBudget(childConfig("deaf"), newAnswers()), slog.New(slog.DiscardHandler))
	perduretest.NoError(t, c.Start(t.Context()))
	ctx, x := newExchange(t.Context())
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // enough to write a part on any machine
	defer cancel()
	large := strings.Repeat("x", 1<<20) // more than a pipe takes
	_, err := c.SendRequest(ctx, jsonrpcRequest(1, large))
	if err == nil || x.outcome() != Unknown {
		t.Errorf("outcome %d, error %v", x.outcome(), err)
	}
	ctx, x = newExchange(t.Context())
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err = c.SendRequest(ctx, jsonrpcRequest(2, large)); err == nil || x.outcome() != NotSent {
		t.Errorf("after half a message: outcome %d, error %v", x.outcome(), err)
	}
	c.Close()
}

func TestCloseKillsStubbornChild(t *testing.T) {
	t.Parallel()
	c := newChild(childConfig("deaf"), newAnswerBudget(childConfig("deaf"), newAnswers()), slog.New(slog.DiscardHandler))
	perduretest.NoError(t, c.Start(t.Context()))
	c.Close()
	if err := c.process.cmd.Process.Signal(syscall.Signal(0)); err == nil {
		t.Error("the process is still there")
	}
}

// beParent starts a pool with one child, prints the child's process id and
// waits to be killed.
func beParent() {
	p, err := New([]Config{childConfig("server")}, Aggregation{}, nil)
	if err != nil {
		panic(err)
	}
	p.Start(context.Background())
	r, err := p.Call(context.Background(), Call{Backend: "be", Tool: "pid"})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Content[0].Text)
	select {}
}

func TestChildDiesWithParent(t *testing.T) {
	t.Parallel()
	cfg := childConfig("parent")
	parent := exec.Command(cfg.Command)
	parent.Env = append(os.Environ(), childEnvVar+"=parent")
	out := perduretest.Must(parent.StdoutPipe())(t)
	perduretest.NoError(t, parent.Start())
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil {
		t.Fatal(err)
	}
	pid := perduretest.Must(strconv.Atoi(line))(t)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for range time.Tick(10 * time.Millisecond) {
		if gone(pid) {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the child lives on")
		}
	}
}

// gone reports whether a process has ended, be it that nobody has waited for it.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
