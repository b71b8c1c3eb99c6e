package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// How long a child may take to end after its stdin was closed, and then after
// SIGTERM, before it is killed.
const (
	stdinGrace = 2 * time.Second
	termGrace  = 3 * time.Second
)

// A child is an MCP server that runs as a child process: a transport for
// mcp-go's client over its stdin and stdout.
//
// mcp-go's own stdio transport does not tell when the child ended or whether
// a request was written, waits for a child that does not read without regard
// to the context, reads lines of any length into memory and signals the child
// but not what the child started.
type child struct {
	cfg     Config
	secrets secrets // of cfg
	logger  *slog.Logger
	flow    *flow // of what it writes without being asked
	noise   *flow // of what it writes to stderr

	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	tail   stderrTail

	writing chan struct{} // holds a token while nobody writes
	exited  chan struct{} // closed when the process has ended
	done    chan struct{} // closed when no answer can come any more

	mu       sync.Mutex
	pending  map[string]chan *transport.JSONRPCResponse
	left     map[string]bool // requests whose answers nobody waits for any more
	notify   func(mcp.JSONRPCNotification)
	requests transport.RequestHandler
	err      error // why done was closed
	closing  bool

	background sync.WaitGroup
}

func newChild(cfg Config, logger *slog.Logger) *child {
	c := &child{
		cfg: cfg, secrets: cfg.secrets(nil), logger: logger, flow: newFlow(), noise: newFlow(),
		writing: make(chan struct{}, 1), exited: make(chan struct{}), done: make(chan struct{}),
		pending: map[string]chan *transport.JSONRPCResponse{}, left: map[string]bool{},
	}
	c.writing <- struct{}{}
	return c
}

// Start starts the process; ctx does not bound its life, Close ends it.
func (c *child) Start(context.Context) error {
	account, err := findAccount(c.cfg.User, c.cfg.Group)
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.cfg.Command, err)
	}
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.cfg.Command, err)
	}
	defer stdinR.Close()
	stdoutR, stdoutW, err := os.Pipe()
	if err != nil {
		stdinW.Close()
		return fmt.Errorf("starting %s: %w", c.cfg.Command, err)
	}
	defer stdoutW.Close()
	c.stdin, c.stdout = stdinW, stdoutR

	c.cmd = exec.Command(c.cfg.Command, c.cfg.Args...)
	c.cmd.Dir = c.cfg.Dir
	c.cmd.Env = childEnv(account, c.cfg.Env)
	c.cmd.Stdin, c.cmd.Stdout = stdinR, stdoutW
	c.cmd.Stderr = &lineWriter{line: c.stderrLine, pace: c.pace}
	c.cmd.WaitDelay = time.Second // what the child started may hold stderr open
	ownGroup(c.cmd)
	account.take(c.cmd)

	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		c.stdin.Close()
		c.stdout.Close()
		return fmt.Errorf("starting %s: %w", c.cfg.Command, account.explain(err))
	}
	c.background.Go(c.read)
	return nil
}

// run starts the process and waits for it on one locked thread: Linux sends
// the parent-death signal when the thread that started the child ends.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = c.cmd.Wait()
	signalGroup(c.cmd, os.Kill) // what the child left behind
	c.mu.Lock()
	c.err = fmt.Errorf("the process ended: %w", exitError(err, c.tail.last()))
	c.mu.Unlock()
	close(c.exited)
	// What it wrote last is still in the pipe. A process that left the group
	// may hold the pipe open.
	_ = c.stdout.SetReadDeadline(time.Now().Add(time.Second))
}

func exitError(err error, stderr string) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	if stderr != "" {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return err
}

// childEnv is a small environment: a child sees what every program needs and
// what its configuration gives it, not our secrets.
func childEnv(a *account, extra map[string]string) []string {
	env := a.env()
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

// pace lets a child wait that writes to stderr without end.
func (c *child) pace(n int) {
	select {
	case <-time.After(c.noise.wait(n)):
	case <-c.done:
	}
}

func (c *child) stderrLine(line string) {
	line = c.secrets.without(line)
	c.tail.add(line)
	c.logger.Debug("stderr of backend", "line", line)
}

// SendRequest writes a request and waits for its answer.
func (c *child) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	id := req.ID.String()
	ch := make(chan *transport.JSONRPCResponse, 1)
	c.mu.Lock()
	c.pending[id] = ch
	c.mu.Unlock()
	defer c.leave(id)

	reached, err := c.write(ctx, x.amend(req))
	x.set(func() { x.reached = reached })
	if err != nil {
		return nil, err
	}
	select {
	case answer := <-ch:
		answer, _ = heedVersions(req, answer)
		return x.capture(req.Method, answer, nil)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.done:
	}
	select {
	case answer := <-ch: // it came just before the end
		return x.capture(req.Method, answer, nil)
	default:
		return nil, c.failure()
	}
}

// take is where the answer to a request is waited for; nil = nobody waits. Asked
// says whether there was such a request.
func (c *child) take(id string) (ch chan *transport.JSONRPCResponse, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch = c.pending[id]
	asked = ch != nil || c.left[id]
	delete(c.pending, id)
	delete(c.left, id)
	return ch, asked
}

// maxLeft is of how many requests it is remembered that they were made.
const maxLeft = 10_000

// leave waits for the answer to a request no more.
func (c *child) leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[id] == nil {
		return
	}
	delete(c.pending, id)
	if len(c.left) >= maxLeft {
		clear(c.left)
	}
	c.left[id] = true
}

// write writes one message as a line and reports whether any of it may have
// got to the child. It waits for a child that does not read until ctx ends.
func (c *child) write(ctx context.Context, message any) (reached bool, err error) {
	line, err := json.Marshal(message)
	if err != nil {
		return false, fmt.Errorf("encoding the message: %w", err)
	}
	select {
	case <-c.writing:
		defer func() { c.writing <- struct{}{} }()
	case <-ctx.Done():
	case <-c.exited:
	case <-c.done:
	}
	select { // the token may have come together with an end
	case <-c.exited:
		return false, c.failure()
	case <-c.done:
		return false, c.failure()
	case <-ctx.Done():
		return false, ctx.Err()
	default:
	}
	_ = c.stdin.SetWriteDeadline(time.Time{})
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.stdin.SetWriteDeadline(time.Unix(1, 0))
		close(ended)
	})
	defer func() {
		if !stop() {
			<-ended // or it would end the next message
		}
	}()
	n, err := c.stdin.Write(append(line, '\n'))
	if err == nil {
		return true, nil
	}
	if n > 0 { // half a line: nothing that follows could be understood
		signalGroup(c.cmd, os.Kill)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return n > 0, fmt.Errorf("writing to the process: %w", err)
}

// failure says why the session with the child is over.
func (c *child) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	return c.err
}

// SendNotification writes a notification.
func (c *child) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	_, err := c.write(ctx, n)
	return err
}

// SetNotificationHandler sets what notifications are handed to.
func (c *child) SetNotificationHandler(f func(mcp.JSONRPCNotification)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify = f
}

// SetRequestHandler sets what answers the child's requests.
func (c *child) SetRequestHandler(f transport.RequestHandler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = f
}

// GetSessionId returns "": a child is its own session.
func (c *child) GetSessionId() string { return "" }

// Close ends the child: its stdin is closed, then it is asked by SIGTERM and
// then killed, with all that it started.
func (c *child) Close() error {
	c.mu.Lock()
	started := c.cmd != nil && c.cmd.Process != nil
	closing := c.closing
	c.closing = true
	c.mu.Unlock()
	if !started || closing {
		return nil
	}
	_ = c.stdin.Close()
	if !c.exitedWithin(stdinGrace) {
		signalGroup(c.cmd, terminate)
		if !c.exitedWithin(termGrace) {
			signalGroup(c.cmd, os.Kill)
			<-c.exited
		}
	}
	c.background.Wait()
	return c.stdout.Close()
}

func (c *child) exitedWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}
