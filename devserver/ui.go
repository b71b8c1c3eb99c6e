package devserver

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
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
)

// A webUI serves Temporal's Web UI.
type webUI struct {
	address string
	server  *http.Server
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

func serveUI(l net.Listener, frontend, namespace, codec string) (*webUI, error) {
	handler, err := uiHandler(l.Addr().(*net.TCPAddr), frontend, namespace, codec)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("starting the Web UI: %w", err)
	}
	u := &webUI{
		address: l.Addr().String(),
		server: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          log.New(io.Discard, "", 0),
		},
	}
	go u.server.Serve(l)
	return u, nil
}

// ServeUI serves the Web UI of the Temporal at frontend, host:port, by itself
// until the context ends.
func ServeUI(ctx context.Context, listen, frontend, namespace string) error {
	l, err := listenUI(listen)
	if err != nil {
		return err
	}
	u, err := serveUI(l, frontend, namespace, "")
	if err != nil {
		return err
	}
	<-ctx.Done()
	u.close()
	return nil
}

// close lets requests that are nearly done finish.
func (u *webUI) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
	defer cancel()
	if u.server.Shutdown(ctx) != nil {
		u.server.Close()
	}
}

// uiHandler is what uiserver.NewServer builds. That server cannot be given a
// listener and ends the process when its port is taken, so it is put together
// here from its own parts.
func uiHandler(addr *net.TCPAddr, frontend, namespace, codec string) (http.Handler, error) {
	provider, err := config.NewConfigProviderWithRefresh(&config.Config{
		Host:                addr.IP.String(),
		Port:                addr.Port,
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    namespace,
		CORS:                config.CORS{CookieInsecure: true}, // loopback has no TLS
		Codec:               config.Codec{Endpoint: codec, IncludeCredentials: codec != ""},
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
	if addr.IP.IsLoopback() {
		e.Use(loopbackHost)
	}
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

func uiAssets() (fs.FS, error) {
	all, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	return fs.Sub(all, "local")
}

// loopbackHost refuses requests for other hosts. A web page whose name was
// made to point here (DNS rebinding) could otherwise act in the user's name.
func loopbackHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		host := c.Request().Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			return next(c)
		}
		return echo.NewHTTPError(http.StatusForbidden, "this address only answers as localhost")
	}
}
