package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/web"
)

const sessionHeader = server.HeaderKeySessionID

// serveMCP is the front of the MCP endpoint. It answers by itself what mcp-go
// cannot answer without memory that only one replica has: sessions, the
// client's answers to questions, cancellation, and streams that are resumed.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *http.Request) {
	who, ok := g.admit(w, r)
	if !ok {
		return
	}
	leave, ok := g.enter(w, r, who)
	if !ok {
		return
	}
	defer leave()
	r = r.WithContext(withIdentity(r.Context(), who))
	switch r.Method {
	case http.MethodPost:
		g.post(w, r, who)
	case http.MethodGet:
		g.get(w, r, who)
	default: // DELETE as well: sessions end by expiring
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, r.Method+" is not supported", http.StatusMethodNotAllowed)
	}
}

// admit finds out who sends a request, or answers it.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request) (auth.Identity, bool) {
	if g.shared(w, r) {
		return auth.Identity{}, false
	}
	who, err := g.opts.Authenticate(r)
	if err == nil && who.Subject == "" {
		err = errors.New("identity without a subject")
	}
	if err != nil {
		g.log.Info("refusing a request", "remote", r.RemoteAddr, "error", err)
		auth.Refuse(w, err)
		return auth.Identity{}, false
	}
	return who, true
}

// shared lets pages read what they get, and answers the question whether they may
// ask. Requests of pages that may not do not come here.
func (g *Gateway) shared(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", sessionHeader+", WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

func (g *Gateway) post(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, free, err := g.opts.Bodies.Read(w, r, web.Caller(who.Known(), r), g.opts.MaxRequest)
	if err != nil {
		g.log.Info("refusing a request", "remote", r.RemoteAddr, "error", err)
		web.RefuseBody(w, err)
		return
	}
	defer free()
	var m message
	readable := json.Unmarshal(body, &m) == nil && !m.hasLongID()
	if invalid := invalidRequest(body, &m); invalid != nil {
		noRequest(w, invalid)
		return
	}
	id := standInFor(m.ID)
	unread := bytes.NewReader(id.into(body))
	w, r.Body = id.writer(w), io.NopCloser(unread)
	if !readable {
		g.http.ServeHTTP(w, r) // which says what is wrong with it
		return
	}
	var p params
	badParams := json.Unmarshal(orEmpty(m.Params), &p)
	c, ok := g.identify(w, r, who, &m, &p)
	if !ok {
		return
	}
	c.overHTTP, c.streams = true, acceptsStream(r)
	if m.Method == string(mcp.MethodSubscriptionsListen) && len(body) > largeBody { // it lasts, and would hold the room as long
		web.RefuseBody(w, &http.MaxBytesError{Limit: largeBody})
		return
	}
	c.letGo = func() { // of the request, while its answer is waited for
		m.Params, p.Arguments = nil, nil
		unread.Reset(nil)
		free()
	}
	g.dispatch(w, r, c, &m, &p, badParams)
}

// largeBody is the size up to which a request may last as long as its sender
// likes.
const largeBody = 1 << 20

func orEmpty(raw json.RawMessage) json.RawMessage {
	if isNull(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

func acceptsStream(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "*/*")
}

// identify finds out which era a request is of and whose it is. It answers
// requests of the session era that have no session.
func (g *Gateway) identify(w http.ResponseWriter, r *http.Request, who auth.Identity, m *message, p *params) (*client, bool) {
	if mcp.IsModernProtocol(p.Meta.ProtocolVersion) || mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		return modernClient(who, p), true
	}
	if m.Method == string(mcp.MethodInitialize) {
		s := newSession(principalOf(who), newNonce(), p)
		s.Expires = g.tokens.now().Add(sessionLife).Unix()
		w.Header().Set(sessionHeader, g.tokens.seal(sessionPurpose, s))
		return sessionClient(who, s), true
	}
	s, ok := g.sessionOf(w, r, who)
	if !ok {
		return nil, false
	}
	return sessionClient(who, s), true
}

// sessionOf opens the session of a request, or answers that there is none: the
// client then makes a new one.
func (g *Gateway) sessionOf(w http.ResponseWriter, r *http.Request, who auth.Identity) (*session, bool) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		http.Error(w, "missing "+sessionHeader+" header: send initialize first", http.StatusBadRequest)
		return nil, false
	}
	var s session
	if err := g.tokens.open(sessionPurpose, id, principalOf(who), &s); err != nil {
		g.log.Debug("refusing a session", "error", err)
		http.Error(w, "session not found: send initialize again", http.StatusNotFound)
		return nil, false
	}
	return &s, true
}

func (g *Gateway) dispatch(w http.ResponseWriter, r *http.Request, c *client, m *message, p *params, badParams error) {
	g.observed(r.Context(), c, m, p, func(ctx context.Context) *exchange {
		return g.handle(w, r.WithContext(ctx), c, m, p, badParams)
	})
}

// acknowledge answers a client's response with a status. One that is refused gets
// an error without an id, as the transport has it for what is no request.
func acknowledge(w http.ResponseWriter, status int) {
	if status != http.StatusBadRequest {
		w.WriteHeader(status)
		return
	}
	noRequest(w, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, Error: &rpcError{
		Code: mcp.INVALID_PARAMS, Message: "the id is that of no question that you were asked; no answer was taken"}}))
}

// noRequest answers what is no request with an error.
func noRequest(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(body) // nobody is there
}

// handle answers a message. It returns the exchange in which it did, nil where
// mcp-go has answered or there is no answer.
func (g *Gateway) handle(w http.ResponseWriter, r *http.Request, c *client, m *message, p *params, badParams error) *exchange {
	if m.isRequest() {
		g.leaveCredentials(r.Context(), c.who)
	}
	switch {
	case m.isResponse() && c.dialect.converses():
		acknowledge(w, g.replied(r.Context(), c, m))
	case m.Method == string(mcp.MethodNotificationCancelled):
		if c.dialect.converses() {
			g.cancelled(r.Context(), c, p)
		}
		w.WriteHeader(http.StatusAccepted)
	case m.isCall() && c.dialect.admits(r, p):
		x := newExchange(r.Context(), c, m.ID, p, newSink(w, r, c.streams))
		x.badParams = badParams
		g.serveCall(r.Context(), x, func() error { return c.dialect.misrouted(g, r, m, p) })
		return x
	case isTaskMethod(m) && c.dialect.admits(r, p):
		x := newExchange(r.Context(), c, m.ID, p, newSink(w, r, c.streams))
		x.badParams = badParams
		if err := c.dialect.misrouted(g, r, m, p); err != nil {
			x.fail(mcp.HEADER_MISMATCH, err.Error())
			return x
		}
		g.serveTasks(r.Context(), x, m.Method)
		return x
	case listensToTasks(c, m, p):
		x := newExchange(r.Context(), c, m.ID, p, newSink(w, r, c.streams))
		x.failWith(missingTasks)
		return x
	case c.dialect.admits(r, p) && g.missingResult(r.Context(), c, m, p):
		x := newExchange(r.Context(), c, m.ID, p, newSink(w, r, c.streams))
		x.failWith(noResource(c))
		return x
	case m.Method == string(mcp.MethodSubscriptionsListen):
		ctx, stop := g.untilDrain(r.Context())
		defer stop()
		keepLive(ctx, w, g.opts.KeepAlive, func(w http.ResponseWriter) { g.http.ServeHTTP(w, r.WithContext(ctx)) })
	default:
		g.http.ServeHTTP(w, r)
	}
	return nil
}

func (g *Gateway) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-g.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// get serves the two streams that clients of the session era open by GET: one
// that goes on where another broke, and one for what belongs to no request.
func (g *Gateway) get(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		w.Header().Set("Allow", "POST")
		http.Error(w, "GET is not supported in "+mcp.ProtocolVersion20260728+": use subscriptions/listen", http.StatusMethodNotAllowed)
		return
	}
	if !acceptsStream(r) {
		http.Error(w, "Accept must include text/event-stream", http.StatusNotAcceptable)
		return
	}
	s, ok := g.sessionOf(w, r, who)
	if !ok {
		return
	}
	c := sessionClient(who, s)
	c.overHTTP, c.streams = true, true
	if last := r.Header.Get(mcp.HeaderLastEventID); last != "" {
		g.resume(w, r, c, last)
		return
	}
	g.listen(w, r)
}

// resume rebuilds the stream of a call from the run, after the event that the
// client saw last.
func (g *Gateway) resume(w http.ResponseWriter, r *http.Request, c *client, last string) {
	var at cursor
	if err := g.tokens.open(eventPurpose, last, c.principal, &at); err != nil {
		g.log.Debug("refusing to resume a stream", "error", err)
		http.Error(w, "unknown "+mcp.HeaderLastEventID, http.StatusBadRequest)
		return
	}
	g.leaveCredentials(r.Context(), c.who)
	out := newSink(w, r, true)
	x := newExchange(r.Context(), c, at.ID, &params{Name: at.Tool, Meta: meta{ProgressToken: at.Token}}, out)
	x.name = newNonce()
	defer g.calls.begin(x)()
	how := manner{goesOn: true}
	switch {
	case at.Task != "":
		how = asTaskResult(at)
	case at.Tool == awaitTool:
		wait := defaultWait * time.Second
		how.patience = &wait
		if at.Owner != "" {
			x.watch()
		}
	case at.Owner == "": // a run of somebody else's does not end with this call
		x.bind(at.Run)
	}
	g.render(r.Context(), x, at, how)
}

// listen serves the standalone stream: it carries notifications/tools/list_changed.
func (g *Gateway) listen(w http.ResponseWriter, r *http.Request) {
	ctx, stop := g.untilDrain(r.Context())
	defer stop()
	listener := newListener()
	if err := g.mcp.RegisterSession(ctx, listener); err != nil {
		http.Error(w, "stream cannot be opened", http.StatusInternalServerError)
		return
	}
	defer g.mcp.UnregisterSession(context.WithoutCancel(ctx), listener.id)
	out := newSink(w, r, true)
	out.comment()
	listener.forward(ctx, out, g.opts.KeepAlive)
}
