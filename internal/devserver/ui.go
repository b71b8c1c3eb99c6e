package devserver

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/auth"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/cors"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"

	"github.com/perdure/perdure/internal/web"
)

// A webUI serves Temporal's Web UI.
type webUI struct {
	address string
	server  *web.Server
}

// listenUI opens the port of the Web UI; it returns nil for an empty address.
func listenUI(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s for the Web UI: %w", address, err)
	}
	return l, nil
}

// uiOptions are those of the Web UI.
type uiOptions struct {
	frontend  string // of Temporal, host:port
	pair      []byte // certificate and key for it, as PEM; nil = none
	namespace string
	codec     string // URL; "" = none
	write     bool   // it may also act on runs
	log       *slog.Logger
}

func serveUI(l net.Listener, o uiOptions) (*webUI, error) {
	handler, err := uiHandler(l.Addr().(*net.TCPAddr), o)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("starting the Web UI: %w", err)
	}
	u := &webUI{
		address: l.Addr().String(),
		server:  web.New(web.Options{Handler: handler, MaxBody: maxUIBody, Logger: o.log}),
	}
	go u.server.Serve(l)
	return u, nil
}

// ServeUI serves the Web UI of the Temporal at frontend, host:port, until the context
// ends.
func ServeUI(ctx context.Context, listen, frontend, namespace string) error {
	l, err := listenUI(listen)
	if err != nil {
		return err
	}
	u, err := serveUI(l, uiOptions{frontend: frontend, namespace: namespace, write: true, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	<-ctx.Done()
	u.close()
	return nil
}

// maxUIBody is the largest body of a request to the Web UI, in bytes: of one that
// starts or signals a workflow, with the largest payload that Temporal takes.
const maxUIBody = 4 << 20

// close gives requests a moment to end.
func (u *webUI) close() {
	u.server.End(250 * time.Millisecond)
}

// uiHandler is the handler of uiserver.NewServer, made of its parts: that server takes
// no listener, and ends the process if its port is taken.
func uiHandler(addr *net.TCPAddr, o uiOptions) (http.Handler, error) {
	provider, err := config.NewConfigProviderWithRefresh(&config.Config{
		Host:                addr.IP.String(),
		Port:                addr.Port,
		TemporalGRPCAddress: o.frontend,
		TLS:                 o.tls(),
		EnableUI:            true,
		DisableWriteActions: !o.write,
		DefaultNamespace:    o.namespace,
		CORS:                config.CORS{CookieInsecure: true}, // loopback has no TLS
		Codec:               config.Codec{Endpoint: o.codec, IncludeCredentials: o.codec != ""},
		DisableNewsFetch:    true,
		HideLogs:            true,
	})
	if err != nil {
		return nil, err
	}
	assets, err := uiAssets()
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.Recover(), middleware.Gzip())
	e.Use(cors.CORSMiddleware(cors.CORSConfig{
		AllowHeaders: []string{
			echo.HeaderOrigin, echo.HeaderContentType, echo.HeaderAccept, echo.HeaderXCSRFToken,
			echo.HeaderAuthorization, auth.AuthorizationExtrasHeader, "Caller-Type",
		},
		AllowCredentials: true,
		ConfigProvider:   provider,
	}))
	e.Use(middleware.Secure(), csrf.EnsureTokenCookie(false), middleware.CSRFWithConfig(csrf.MiddlewareConfig(provider, false)))
	e.Pre(route.PublicPath(""))
	if !o.write {
		e.Use(readOnly)
	}
	route.SetHealthRoute(e)
	forward := headers.WithForwardHeaders([]string{auth.AuthorizationExtrasHeader, "Caller-Type"})
	if err := route.SetAPIRoutes(e, provider, []api.Middleware{forward}); err != nil {
		return nil, err
	}
	if err := route.SetUIRoutes(e, "", assets, provider); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, nil
}

// readOnly refuses what may change a run. That of the package route, by which the page
// knows what to offer, looks for parts of names anywhere in a path, so it takes the
// start of a workflow with the ID a/query/b for a query.
func readOnly(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			return next(c)
		case http.MethodPost:
			if query, _ := path.Match("/api/v1/namespaces/*/workflows/*/query/*", r.URL.EscapedPath()); query {
				return next(c)
			}
		}
		return echo.ErrMethodNotAllowed
	}
}

// tls is the configuration of the connection to Temporal.
func (o uiOptions) tls() config.TLS {
	if o.pair == nil {
		return config.TLS{}
	}
	pair := base64.StdEncoding.EncodeToString(o.pair)
	return config.TLS{CaData: pair, CertData: pair, KeyData: pair, EnableHostVerification: true, ServerName: "localhost"}
}

func uiAssets() (fs.FS, error) {
	all, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	return fs.Sub(all, "local")
}
