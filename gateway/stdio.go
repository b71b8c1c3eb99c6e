package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/web"
)

// Stdio serves MCP on standard input and output.
type stdio struct {
	admission *admission
	requests  *requests
	questions *questions
	calls     *calls
	mcp       *server.MCPServer
	who       auth.Identity // who sends what is read
	keepAlive time.Duration
}

// A stdioConn is one client that started this process and speaks with it line
// by line. All that goes out goes through out.
//
// mcp-go's own stdio server is not used: all of them in a process share one
// session, calls wait for a free worker, and responses to requests with ids of
// our choosing never arrive.
type stdioConn struct {
	at       *stdio
	listener *listener
	handling sync.WaitGroup

	mu  sync.Mutex // guards session
	ses *session

	outMu    sync.Mutex
	out      io.Writer
	standIns map[*standIn]bool // of requests that mcp-go handles
}

func (a *stdio) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	c := &stdioConn{at: a, listener: newListener(), out: out}
	c.listener.ready = false // until it has initialized, or listens
	if err := a.mcp.RegisterSession(ctx, c.listener); err != nil {
		cancel()
		return fmt.Errorf("serving stdio: %w", err)
	}
	defer a.mcp.UnregisterSession(context.WithoutCancel(ctx), c.listener.id)
	c.handling.Go(func() { c.listener.forward(ctx, &lineOutlet{c: c}, a.keepAlive) })
	defer c.handling.Wait()
	defer cancel()
	return c.read(ctx, in)
}

// receive handles a message. Requests and responses are handled on the side,
// so that none waits for another; a large one waits here until there is room for the
// work on it.
func (c *stdioConn) receive(ctx context.Context, text []byte) {
	if len(text) == 0 {
		return
	}
	free, err := c.at.admission.weigh(ctx, onStdio, text)
	if err != nil {
		c.refuse(newTopLevel(text), err)
		return
	}
	if !c.take(ctx, text, free) {
		free()
	}
}

// For whom the requests of the client are counted, and its cancellations, which it can send
// while it has as many requests under way as it may.
const (
	onStdio        = "stdio"
	cancelsOnStdio = "cancelled on stdio"
)

// take handles a message whose work has its room, and reports whether it gives that
// back by itself.
func (c *stdioConn) take(ctx context.Context, text []byte, free func()) (frees bool) {
	var m message
	err := json.Unmarshal(text, &m)
	if invalid := invalidRequest(text, &m); invalid != nil {
		_ = c.write(invalid)
		return false
	}
	if err != nil || m.hasLongID() {
		c.handle(ctx, text, m.ID, nil)
		return false
	}
	var p params
	badParams := json.Unmarshal(orEmpty(m.Params), &p)
	client := c.client(&m, &p)
	switch {
	case m.isResponse():
		reply, _ := c.at.questions.claim(ctx, client, &m) // before the next line is read, which may be a second one
		if reply == nil {
			return false
		}
		c.handling.Go(func() { defer free(); c.at.questions.settle(ctx, client, reply) })
		return true
	case m.Method == string(mcp.MethodNotificationCancelled):
		return c.cancel(ctx, client, &p, free)
	case m.Method == string(mcp.MethodInitialize):
		c.handle(ctx, text, m.ID, nil)
	case m.Method == string(mcp.MethodSubscriptionsListen) && !web.IsSmall(text): // as over HTTP
		c.refuse(newTopLevel(text), errLargeListen)
	case m.isRequest():
		x := newExchange(ctx, client, m.ID, &p, &lineOutlet{c: c})
		x.badParams = badParams
		c.at.requests.forward(x, nil, m.Params)
		return c.request(ctx, x, text, &m, free)
	default:
		c.handle(ctx, text, m.ID, nil)
	}
	return false
}

// request begins to serve a request.
func (c *stdioConn) request(ctx context.Context, x *exchange, text []byte, m *message, free func()) (frees bool) {
	x.release = func() {
		m.Params, text = nil, nil
		x.params.shed()
		free()
	}
	return c.begin(ctx, x, free, func(ctx context.Context) {
		if !c.at.requests.serve(ctx, x, m, nil) {
			c.handle(ctx, text, m.ID, x)
		}
	}, m)
}

// cancel handles a cancellation, unless the client has sent too many.
func (c *stdioConn) cancel(ctx context.Context, client *client, p *params, free func()) (frees bool) {
	leave, err := c.at.admission.count(cancelsOnStdio)
	if err != nil {
		c.at.admission.note(onStdio, err)
		return false
	}
	c.handling.Go(func() {
		defer free()
		defer leave()
		c.at.calls.cancelled(ctx, client, p)
	})
	return true
}

// begin serves a request on the side, unless the client has too many under way.
func (c *stdioConn) begin(ctx context.Context, x *exchange, free func(), serve func(context.Context), m *message) (frees bool) {
	leave, err := c.at.admission.count(onStdio)
	if err != nil { // written before the next line is read: a client that reads nothing is not read from either
		x.fail(mcp.INTERNAL_ERROR, err.Error())
		return false
	}
	end := c.at.calls.begin(x) // before the next line is read, which may cancel it
	c.handling.Go(func() {
		defer free()
		defer leave()
		defer end()
		ctx, done := context.WithCancel(ctx)
		defer done()
		c.at.requests.observed(c.at.admission.reading(ctx, onStdio), x, m, serve)
	})
	return true
}

// client is what is known by now of the program on the other side.
func (c *stdioConn) client(m *message, p *params) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.at.who
	if m.Method == string(mcp.MethodInitialize) {
		c.ses = newSession(callerIDOf(who), c.listener.id, p)
	}
	var known *client
	if mcp.IsModernProtocol(p.Meta.ProtocolVersion) || c.ses == nil {
		known = modernClient(who, p)
	} else {
		known = sessionClient(who, c.ses)
	}
	known.streams, known.scope = true, c.listener.id
	return known
}

// handle has mcp-go handle a message, and sends what it answers unless the
// exchange, if there is one, has its answer.
func (c *stdioConn) handle(ctx context.Context, text []byte, id json.RawMessage, x *exchange) {
	if exact := standInFor(id); exact != nil {
		text = exact.into(text)
		c.noteStandIn(exact, true)
		defer c.noteStandIn(exact, false)
	}
	ctx = withIdentity(c.at.mcp.WithContext(ctx, c.listener), c.at.who)
	answer := c.at.mcp.HandleMessage(ctx, text)
	if answer == nil {
		return
	}
	if x != nil && x.out.(*lineOutlet).isFinished() {
		return
	}
	if body, err := encode(answer); err == nil {
		_ = c.write(body)
	}
}

func (c *stdioConn) noteStandIn(s *standIn, stands bool) {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	if c.standIns == nil {
		c.standIns = map[*standIn]bool{}
	}
	if stands {
		c.standIns[s] = true
	} else {
		delete(c.standIns, s)
	}
}

func (c *stdioConn) write(message []byte) error {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	for id := range c.standIns {
		message = id.restore(message)
	}
	_, err := c.out.Write(append(message, '\n'))
	return err
}

// A lineOutlet is the outlet of a request on stdio.
type lineOutlet struct {
	c        *stdioConn
	mu       sync.Mutex
	finished bool
}

func (o *lineOutlet) event(_ string, message []byte) {
	if !o.isFinished() {
		_ = o.c.write(message)
	}
}

func (o *lineOutlet) header(string, string)       {}
func (o *lineOutlet) prime(string, time.Duration) {}
func (o *lineOutlet) comment()                    {}

func (o *lineOutlet) answer(_ string, _ int, message []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished {
		return false
	}
	o.finished = true
	return o.c.write(message) == nil
}

func (o *lineOutlet) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
}

func (o *lineOutlet) isFinished() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.finished
}
