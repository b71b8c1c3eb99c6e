package backends

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A dialer opens sessions with one server.
type dialer struct {
	cfg    Config
	logger *slog.Logger
	meter  *meter
}

// begin starts a session with the credentials of a caller, and lists the
// tools. A server that turns out to speak only revisions before 2026-07-28 is
// spoken to in these, over a connection of its own.
func (d *dialer) begin(ctx context.Context, who Caller, visitor bool) (*session, *listing, error) {
	s, err := d.dial(ctx, who, visitor, false)
	if err == nil {
		var listed *listing
		if listed, err = s.list(ctx); err == nil {
			return s, listed, nil
		}
		s.close()
	}
	if !speaksOlder(err) {
		return nil, nil, err
	}
	d.logger.Debug("falling back to a revision before 2026-07-28", "because", err)
	s, again := d.dial(ctx, who, visitor, true)
	if again != nil {
		return nil, nil, fmt.Errorf("%w; and no revision before 2026-07-28 either: %w", err, again)
	}
	listed, err := s.list(ctx)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, listed, nil
}

// dial starts a session. If the backend refuses the credentials, it is tried
// again with renewed ones.
func (d *dialer) dial(ctx context.Context, who Caller, visitor, older bool) (*session, error) {
	var refused Headers
	for renewals := 0; ; renewals++ {
		headers, err := d.headersFor(ctx, who, refused)
		if err != nil {
			return nil, err
		}
		s := &session{cfg: &d.cfg, lost: make(chan struct{}), changed: make(chan struct{}, 1), flow: newFlow(), visitor: visitor, older: older || d.cfg.Transport == SSE}
		s.headers.Store(&headers)
		err = s.hide(d.open(ctx, s))
		switch {
		case err == nil:
			return s, nil
		case s.refused.Load() == nil || d.cfg.Credentials == nil:
			return nil, err
		case renewals == maxRenewals:
			return nil, fmt.Errorf("connecting: %w", errStillRefused)
		}
		refused = orNone(headers)
	}
}

// open opens a session: transport, handshake, and the stream of change notifications.
func (d *dialer) open(ctx context.Context, s *session) error {
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	wire, err := d.transport(s)
	if err != nil {
		s.cancel()
		return err
	}
	s.wire = wire
	options := []client.ClientOption{client.WithDiscoverTimeout(discoverTimeout)}
	if s.older {
		options = append(options, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	s.client = client.NewClient(wire, options...)
	s.client.OnNotification(s.notified)
	s.client.OnConnectionLost(func(error) { s.lose() })
	if err := s.handshake(ctx); err != nil {
		s.close()
		return err
	}
	if mcp.IsModernProtocol(s.version) && !s.visitor {
		s.spawn(s.listen)
	}
	if c, ok := wire.(*child); ok {
		s.spawn(func() {
			<-c.done
			s.lose()
		})
	}
	return nil
}

// transport makes the transport that the configuration names. mcp-go's own log lines
// are omitted: the same comes back as errors.
func (d *dialer) transport(s *session) (transport.Interface, error) {
	quiet := slog.New(slog.DiscardHandler)
	switch d.cfg.Transport {
	case Stdio:
		return newChild(d.cfg, d.meter.budget, d.logger), nil
	case SSE:
		t, err := transport.NewSSE(d.cfg.URL,
			transport.WithHTTPClient(d.client(s)),
			transport.WithResponseTimeout(math.MaxInt64), // the caller's context alone counts
			transport.WithSSELogger(quiet))
		return &sseWire{SSE: t, s: s}, err
	}
	options := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(d.client(s)), transport.WithHTTPLogger(quiet)}
	if !s.visitor {
		//lint:ignore SA1019 session-based servers tell of changes on this stream
		options = append(options, transport.WithContinuousListening())
	}
	t, err := transport.NewStreamableHTTP(d.cfg.URL, options...)
	return &httpWire{StreamableHTTP: t, s: s}, err
}

// headersFor gives the headers of a request: those with credentials, and those that are
// forwarded and that the configuration does not set.
func (d *dialer) headersFor(ctx context.Context, who Caller, refused Headers) (Headers, error) {
	own, err := d.credentials(ctx, who, refused)
	if err != nil || len(who.Forwarded.Headers) == 0 || d.cfg.Transport == Stdio {
		return own, err
	}
	headers := maps.Clone(who.Forwarded.Headers)
	for _, ours := range []Headers{d.cfg.Headers, own} {
		for name := range ours {
			delete(headers, http.CanonicalHeaderKey(name))
		}
	}
	maps.Copy(headers, own)
	return headers, nil
}

// credentials asks for the headers with credentials; none if the backend wants none.
func (d *dialer) credentials(ctx context.Context, who Caller, refused Headers) (Headers, error) {
	if d.cfg.Credentials == nil {
		return nil, nil
	}
	headers, err := d.cfg.Credentials.Headers(ctx, who, refused)
	var needed *CredentialsError
	switch {
	case errors.As(err, &needed):
		return nil, needed
	case err != nil:
		return nil, fmt.Errorf("getting a credential: %w", err)
	}
	for name := range headers {
		switch http.CanonicalHeaderKey(name) {
		case "Idempotency-Key", "X-Idempotency-Key": // see meter
			return nil, fmt.Errorf("header %s is not allowed, because it would make requests idempotent; calls carry their key in _meta", name)
		}
	}
	return headers, nil
}

// identityOf is the identity whose session a call for the caller takes.
func (d *dialer) identityOf(who Caller) (identity string) {
	if d.cfg.Credentials != nil {
		identity = d.cfg.Credentials.Identity(who)
	}
	if forwarded := who.Forwarded.identity(); forwarded != "" && d.cfg.Transport != Stdio {
		identity = fmt.Sprintf("%q with headers %s", identity, forwarded)
	}
	return identity
}

// client returns an HTTP client without a timeout of its own, whose requests
// carry the credentials of a session.
func (d *dialer) client(s *session) *http.Client {
	to, err := url.Parse(d.cfg.URL)
	if err != nil {
		to = &url.URL{} // Config.check knows better
	}
	return &http.Client{
		Transport:     &bearer{meter: d.meter, to: to, s: s},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
