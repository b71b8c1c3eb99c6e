package backends

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A child is an MCP server that runs as a child process: a transport for
// mcp-go's client over its stdin and stdout.
//
// mcp-go's own stdio transport does not report the end of the child or whether a request
// was written, waits for a child that does not read even if the context ends, reads lines
// of any length into memory, and signals the child but not its children.
type child struct {
	process *process
	flow    *flow  // of what it writes without being asked
	claims  claims // of its lines
	awaited *awaited
	cancel  context.CancelFunc // ends the waiting for memory

	writing chan struct{} // holds a token while no write is under way
	done    chan struct{} // closed when no answer can come any more

	mu       sync.Mutex
	notify   func(mcp.JSONRPCNotification)
	requests transport.RequestHandler
	err      error // why done was closed
	closing  bool

	background sync.WaitGroup
}

func newChild(cfg Config, b answerBudget, logger *slog.Logger) *child {
	c := &child{
		flow: newFlow(), awaited: newAwaited(),
		writing: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.claims.budget, c.claims.holders = b, &holders{}
	c.claims.ctx, c.cancel = context.WithCancel(context.Background())
	c.process = &process{cfg: cfg, secrets: cfg.secrets(nil), logger: logger, noise: newFlow(), unread: c.done, exited: make(chan struct{})}
	c.writing <- struct{}{}
	return c
}

// Start starts the process; ctx does not bound its life, Close ends it.
func (c *child) Start(context.Context) error {
	if err := c.process.start(c.ended); err != nil {
		return fmt.Errorf("starting %s: %w", c.process.cfg.Command, err)
	}
	c.background.Go(c.read)
	return nil
}

// ended records why the process has ended.
func (c *child) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("the process ended: %w", err)
}

// SendRequest writes a request and waits for its answer.
func (c *child) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	id := req.ID.String()
	ch := c.awaited.add(id, x.expected)
	defer c.awaited.leave(id)
	defer c.claims.holders.expect(ctx, id, x.held)()

	reached, err := c.write(ctx, req)
	x.set(func() { x.reached = reached })
	if err != nil {
		return nil, err
	}
	select {
	case got := <-ch:
		return x.received(req, got)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.done:
	}
	select {
	case got := <-ch: // it came just before the end
		return x.received(req, got)
	default:
		return nil, c.failure()
	}
}

func (x *exchange) received(req transport.JSONRPCRequest, got arrival) (*transport.JSONRPCResponse, error) {
	if got.err != nil {
		x.set(func() { x.broke = got.err })
		return nil, got.err
	}
	answer, _ := heedVersions(req, got.answer)
	return x.capture(req, answer, nil)
}

// write writes one message as a line and reports whether any of it may have reached the
// child. It waits for a child that does not read until ctx ends.
func (c *child) write(ctx context.Context, message any) (reached bool, err error) {
	line, err := json.Marshal(message)
	if err != nil {
		return false, fmt.Errorf("encoding the message: %w", err)
	}
	select {
	case <-c.writing:
		defer func() { c.writing <- struct{}{} }()
	case <-ctx.Done():
	case <-c.process.exited:
	case <-c.done:
	}
	select { // the token may have come together with an end
	case <-c.process.exited:
		return false, c.failure()
	case <-c.done:
		return false, c.failure()
	case <-ctx.Done():
		return false, ctx.Err()
	default:
	}
	_ = c.process.stdin.SetWriteDeadline(time.Time{})
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.process.stdin.SetWriteDeadline(time.Unix(1, 0))
		close(ended)
	})
	defer func() {
		if !stop() {
			<-ended // or it would end the next message
		}
	}()
	n, err := c.process.stdin.Write(append(line, '\n'))
	if err == nil {
		return true, nil
	}
	if n > 0 { // half a line: nothing that follows could be understood
		c.process.kill()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return n > 0, fmt.Errorf("writing to the process: %w", err)
}

// failure reports why the session with the child is over.
func (c *child) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errClosed
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

// Close ends the child and its children: it closes its stdin, then sends SIGTERM, then
// SIGKILL.
func (c *child) Close() error {
	c.mu.Lock()
	closing := c.closing
	c.closing = true
	c.mu.Unlock()
	c.cancel()
	if !c.process.isStarted() || closing {
		return nil
	}
	c.process.end()
	c.background.Wait()
	return c.process.stdout.Close()
}
