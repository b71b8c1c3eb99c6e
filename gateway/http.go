package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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

// An endpoint serves MCP over streamable HTTP.
type endpoint struct {
	admission *admission
	requests  *requests
	questions *questions
	calls     *calls
	streams   *streams
	deposits  *deposits
	tokens    *sealer
	mcp       *server.MCPServer // of sessions that listen
	http      *server.StreamableHTTPServer
	keepAlive time.Duration
	drain     *drain
	log       *slog.Logger
}

// serve is the front of the MCP endpoint. It answers by itself what mcp-go
// cannot answer without memory that only one replica has: sessions, the
// client's answers to questions, cancellation, and streams that are resumed.
func (f *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	ctx, who, leave, ok := f.admission.open(w, r)
	if !ok {
		return
	}
	defer leave()
	r = r.WithContext(withIdentity(ctx, who))
	switch r.Method {
	case http.MethodPost:
		f.post(w, r, who)
	case http.MethodGet:
		f.get(w, r, who)
	default: // DELETE as well: sessions end by expiring
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, r.Method+" is not supported", http.StatusMethodNotAllowed)
	}
}

func (f *endpoint) post(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, free, err := f.admission.read(w, r, who)
	if err != nil {
		f.log.Info("refusing a request", "remote", r.RemoteAddr, "error", err)
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
		f.http.ServeHTTP(w, r) // which reports what is wrong with it
		return
	}
	var p params
	badParams := json.Unmarshal(orEmpty(m.Params), &p)
	c, ok := f.identify(w, r, who, &m, &p)
	if !ok {
		return
	}
	c.overHTTP, c.streams = true, acceptsStream(r)
	if m.Method == string(mcp.MethodSubscriptionsListen) && !web.IsSmall(body) {
		http.Error(w, errLargeListen.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	x := newExchange(r.Context(), c, m.ID, &p, newSink(w, r, c.streams))
	x.badParams = badParams
	f.requests.forward(x, r.Header, m.Params)
	x.release = func() {
		m.Params = nil
		p.shed()
		unread.Reset(nil)
		free()
	}
	f.requests.observed(r.Context(), x, &m, func(ctx context.Context) { f.handle(w, r.WithContext(ctx), x, &m) })
}

// errLargeListen refuses a request that lasts as long as its sender likes, and would
// hold its part of the budget as long.
var errLargeListen = fmt.Errorf("a subscriptions/listen has at most %d bytes, and no more values than that allows; nothing was done", web.SmallBody)

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
func (f *endpoint) identify(w http.ResponseWriter, r *http.Request, who auth.Identity, m *message, p *params) (*client, bool) {
	if mcp.IsModernProtocol(p.Meta.ProtocolVersion) || mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		return modernClient(who, p), true
	}
	if m.Method == string(mcp.MethodInitialize) {
		s := newSession(callerIDOf(who), newNonce(), p)
		s.Expires = f.tokens.time().Add(sessionLife).Unix()
		w.Header().Set(sessionHeader, f.tokens.seal(sessionPurpose, s))
		return sessionClient(who, s), true
	}
	s, ok := f.sessionOf(w, r, who)
	if !ok {
		return nil, false
	}
	return sessionClient(who, s), true
}

// sessionOf opens the session of a request, or answers 400 where it names none and 404
// where there is no such session: the client then opens a new one.
func (f *endpoint) sessionOf(w http.ResponseWriter, r *http.Request, who auth.Identity) (*session, bool) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		http.Error(w, "missing "+sessionHeader+" header: send initialize first", http.StatusBadRequest)
		return nil, false
	}
	var s session
	if err := f.tokens.open(sessionPurpose, id, callerIDOf(who), &s); err != nil {
		f.log.Debug("refusing a session", "error", err)
		http.Error(w, "session not found: send initialize again", http.StatusNotFound)
		return nil, false
	}
	return &s, true
}

// acknowledge answers a client's response with a status. One that is refused gets
// an error without an id, as the transport has it for what is no request.
func acknowledge(w http.ResponseWriter, status int) {
	if status != http.StatusBadRequest {
		w.WriteHeader(status)
		return
	}
	noRequest(w, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, Error: &rpcError{
		Code: mcp.INVALID_PARAMS, Message: "the ID is not that of an elicitation of yours; no answer was accepted"}}))
}

// noRequest answers what is no request with an error.
func noRequest(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(body) // the client is gone
}

// handle answers a message, or has mcp-go answer it.
func (f *endpoint) handle(w http.ResponseWriter, r *http.Request, x *exchange, m *message) {
	if m.isRequest() {
		f.deposits.deposit(r.Context(), x.who)
	}
	switch {
	case m.isResponse() && x.dialect.converses():
		acknowledge(w, f.questions.replied(r.Context(), x.client, m))
	case m.Method == string(mcp.MethodNotificationCancelled):
		if x.dialect.converses() {
			f.calls.cancelled(r.Context(), x.client, x.params)
		}
		w.WriteHeader(http.StatusAccepted)
	case f.requests.serve(r.Context(), x, m, r):
	case m.Method == string(mcp.MethodSubscriptionsListen):
		ctx, stop := f.drain.until(r.Context())
		defer stop()
		keepLive(ctx, w, f.keepAlive, func(w http.ResponseWriter) { f.http.ServeHTTP(w, r.WithContext(ctx)) })
	default:
		f.http.ServeHTTP(w, r)
	}
}

// get serves the two streams that clients of the session era open by GET: one that
// continues where another broke, and one for what belongs to no request.
func (f *endpoint) get(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		w.Header().Set("Allow", "POST")
		http.Error(w, "GET is not supported in "+mcp.ProtocolVersion20260728+": use subscriptions/listen", http.StatusMethodNotAllowed)
		return
	}
	if !acceptsStream(r) {
		http.Error(w, "Accept must include text/event-stream", http.StatusNotAcceptable)
		return
	}
	s, ok := f.sessionOf(w, r, who)
	if !ok {
		return
	}
	c := sessionClient(who, s)
	c.overHTTP, c.streams = true, true
	if last := r.Header.Get(mcp.HeaderLastEventID); last != "" {
		f.resume(w, r, c, last)
		return
	}
	f.listen(w, r)
}

// resume rebuilds the stream of a call from the run, after the event that the
// client saw last.
func (f *endpoint) resume(w http.ResponseWriter, r *http.Request, c *client, last string) {
	var at cursor
	if err := f.tokens.open(eventPurpose, last, c.callerID, &at); err != nil {
		f.log.Debug("refusing to resume a stream", "error", err)
		http.Error(w, "unknown "+mcp.HeaderLastEventID, http.StatusBadRequest)
		return
	}
	f.deposits.deposit(r.Context(), c.who)
	out := newSink(w, r, true)
	x := newExchange(r.Context(), c, at.ID, &params{Name: at.Tool, Meta: meta{ProgressToken: at.Token}}, out)
	x.name = newNonce()
	defer f.calls.begin(x)()
	how := renderOptions{resumed: true}
	switch {
	case at.Task != "":
		how = asTaskResult(at)
	case at.Tool == awaitTool:
		wait := defaultWait * time.Second
		how.patience = &wait
		x.watch(at.Owner)
	case at.Owner == "": // a run of another caller's does not end with this call
		x.bind(at.Run)
	}
	f.streams.render(r.Context(), x, at, how)
}

// listen serves the standalone stream: it carries notifications/tools/list_changed.
func (f *endpoint) listen(w http.ResponseWriter, r *http.Request) {
	ctx, stop := f.drain.until(r.Context())
	defer stop()
	listener := newListener()
	if err := f.mcp.RegisterSession(ctx, listener); err != nil {
		http.Error(w, "stream cannot be opened", http.StatusInternalServerError)
		return
	}
	defer f.mcp.UnregisterSession(context.WithoutCancel(ctx), listener.id)
	out := newSink(w, r, true)
	out.comment()
	listener.forward(ctx, out, f.keepAlive)
}
