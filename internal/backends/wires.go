package backends

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// An httpWire is mcp-go's streamable HTTP transport that records the exchange of each
// request and sends cancellations to session-based servers.
type httpWire struct {
	*transport.StreamableHTTP
	s *session

	older atomic.Pointer[olderError] // of the server; nil = none
}

// RequiresLegacyProtocol lets the client negotiate: the listening stream is opened if
// the server turns out to be session-based, and not opened otherwise.
func (w *httpWire) RequiresLegacyProtocol() bool { return false }

func (w *httpWire) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	if older := w.older.Load(); older != nil { // mcp-go would continue with initialize, but listens to no notifications any more
		return nil, older
	}
	answer, err := w.StreamableHTTP.SendRequest(ctx, req)
	answer, older := heedVersions(req, answer)
	if older != nil {
		w.older.Store(older)
		return nil, older
	}
	if err != nil && ctx.Err() != nil && !mcp.IsModernProtocol(w.s.version) {
		w.s.cancelRequest(x, req.ID, ctx.Err())
	}
	return x.capture(req, answer, err)
}

// An sseWire does the same for the older transport, and ends the requests whose answers
// cannot come any more because the stream has ended.
type sseWire struct {
	*transport.SSE
	s *session
}

func (w *sseWire) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	// Without its deadline, before which mcp-go would end the request with its own error.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	go func() {
		select {
		case <-w.s.lost:
			cancel()
		case <-waiting.Done():
		}
	}()
	defer w.s.holders.expect(ctx, req.ID.String(), x.held)()
	answer, err := w.SSE.SendRequest(waiting, req)
	if x.held != nil && x.held.refused() != nil && ctx.Err() == nil {
		return nil, x.held.refused()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		w.s.cancelRequest(x, req.ID, ctx.Err())
	case waiting.Err() != nil:
		err = errors.New("the stream of answers broke off")
	}
	return x.capture(req, answer, err)
}
