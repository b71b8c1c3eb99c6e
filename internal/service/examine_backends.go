package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/store"
)

// backends connects to each backend, as the processes do.
func (x *examination) backends(ctx context.Context) {
	if x.found == nil || len(x.found.Backends) == 0 {
		why := "none are configured"
		if x.Config.Config == "" {
			why = "not checked: no configuration is given"
		}
		x.add("backends", CheckSkipped, why, "set --config")
		return
	}
	byCaller := x.found.Delegating()
	own := *x.found
	own.Backends = slices.DeleteFunc(slices.Clone(x.found.Backends), func(b backends.Config) bool { return slices.Contains(byCaller, b.Name) })
	for _, name := range byCaller {
		x.add("backend "+name, CheckSkipped, "not checked: it needs credentials of a caller", "call one of its tools")
	}
	if len(own.Backends) == 0 {
		return
	}
	if len(byCaller) > 0 {
		own.Aggregation = backends.Aggregation{} // it may name the others
	}
	own.Outgoing = maps.Clone(own.Outgoing)
	maps.DeleteFunc(own.Outgoing, func(name string, _ credentials.Strategy) bool { return slices.Contains(byCaller, name) })
	pool, _, err := newPool(Options{Loaded: &own, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		x.add("backends", CheckFailed, err.Error(), "correct the configuration")
		return
	}
	defer pool.Close()
	began := time.Now()
	pool.Start(ctx)
	awaitTold(ctx, pool, patience, backends.ConnectTimeout, x.Starting)
	for _, s := range pool.Status() {
		switch {
		case !s.Tried:
			x.add("backend "+s.Name, CheckWarning, "it still starts; it has not answered within "+time.Since(began).Round(time.Second).String(), "wait, and check again; perdure dev keeps trying")
		case s.Up:
			x.ok("backend "+s.Name, "%s, MCP %s, connected in %s", Plural(s.Tools, "tool"), s.ProtocolVersion, max(s.Since.Sub(began), 0).Round(time.Millisecond))
		default:
			x.add("backend "+s.Name, CheckFailed, s.Error, "%s", backendFix(s.Err, isProgram(own.Backends, s.Name)))
		}
	}
	if len(byCaller) == 0 {
		x.tools(pool)
	}
	x.rules(x.found.Unmatched(pool.Tools(), x.offered(ctx)))
}

// rules warns of each rule of the configuration that matches no tool.
func (x *examination) rules(unmatched definitions.Diagnostics) {
	for _, d := range unmatched {
		x.add("rules", CheckWarning, d.Pos.String()+": "+d.Message, "correct the name")
	}
}

// offered are the names of composite tools besides those of files; nil = they are not
// known, since it is not given where they are.
func (x *examination) offered(ctx context.Context) []string {
	switch {
	case x.store != nil:
		return append(append([]string{}, x.Offered...), x.store.Published...)
	case x.Database != "" || len(x.Config.Definitions) == 0 && x.Offered == nil:
		return nil
	}
	offered := append([]string{}, x.Offered...)
	if _, err := os.Stat(registryFile(x.Data)); err != nil {
		return offered // nothing was published
	}
	published, err := OpenRegistryFile(x.Data)
	if err != nil {
		return nil
	}
	defer published.Close()
	news, _ := published.Versions(ctx, store.Mark{}) // a file that was opened is in memory
	for _, v := range news.Versions {
		offered = append(offered, v.Name)
	}
	return offered
}

// issuer fetches the keys with which tokens of callers are checked.
func (x *examination) issuer(ctx context.Context) {
	if x.found == nil || x.found.Auth.OIDC == nil {
		return
	}
	options := oidcAt(x.found.Auth.OIDC, "", slog.New(slog.DiscardHandler))
	issuer, err := auth.NewOIDC(options)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err = issuer.Probe(ctx)
	}
	if err != nil {
		x.add("issuer", CheckFailed, options.Issuer+": "+err.Error(), "bring it back, or correct incomingAuth.oidc; gateways check tokens with its keys of before for 15 minutes, then they answer 503")
		return
	}
	x.ok("issuer", "%s gives the keys with which tokens are checked", options.Issuer)
}

// backendFix is what to do about a backend that is down with an error.
func backendFix(err error, program bool) string {
	var turnedDown *backends.TurnedDownError
	var refused *backends.CredentialError
	var certificate *tls.CertificateVerificationError
	switch {
	case program:
		return "check that its program is in PATH, also in the image, and its command and variables in the configuration"
	case errors.As(err, &turnedDown):
		return "it is up, and takes no calls now: look at its load and at what it allows; runs wait and resume by themselves"
	case errors.As(err, &refused):
		return "it is up, and refuses the credentials: check its headers or outgoingAuth in the configuration, and the variables that they name"
	case errors.As(err, &certificate):
		return "renew its certificate, or set caBundlePath to the certificates of its CA and restart all gateways and workers"
	}
	return "start it, or check its address and credentials in the configuration"
}

// awaitTold waits for each backend at most for a limit, which is long: a program may have
// to be downloaded first. starting gets those that still start, again and again after a
// pause; nil = nothing does.
func awaitTold(ctx context.Context, pool *backends.Pool, pause, limit time.Duration, starting func([]string, time.Duration)) {
	for began := time.Now(); ; {
		awaitTried(ctx, pool, min(pause, limit-time.Since(began)))
		var names []string
		for _, s := range pool.Status() {
			if !s.Tried {
				names = append(names, s.Name)
			}
		}
		if len(names) == 0 || ctx.Err() != nil || time.Since(began) >= limit {
			return
		}
		if starting != nil {
			starting(names, time.Since(began))
		}
	}
}

// awaitTried waits until each backend is up or known to be down, at most for a limit.
func awaitTried(ctx context.Context, pool *backends.Pool, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tried := func() bool {
		return !slices.ContainsFunc(pool.Status(), func(s backends.Status) bool { return !s.Tried })
	}
	for ctx.Err() == nil && !tried() && !pool.WaitReady(ctx, 20*time.Millisecond) {
	}
}

// ListTools starts the backends of a configuration, lists their tools and ends them.
// What does not answer within limit is reported by its status, without tools; starting
// gets, now and then, what still starts, and for how long.
func ListTools(ctx context.Context, found *config.Loaded, limit time.Duration, starting func([]string, time.Duration)) ([]backends.Tool, []backends.Status, error) {
	pool, _, err := newPool(Options{Loaded: found, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	defer pool.Close()
	pool.Start(ctx)
	awaitTold(ctx, pool, patience, limit, starting)
	return pool.Tools(), pool.Status(), ctx.Err()
}

// isProgram reports whether a backend is a program that this process starts.
func isProgram(all []backends.Config, name string) bool {
	return slices.ContainsFunc(all, func(b backends.Config) bool { return b.Name == name && b.Command != "" })
}

// tools checks whether backends offer the tools of definitions, if all are up.
func (x *examination) tools(pool *backends.Pool) {
	if slices.ContainsFunc(pool.Status(), func(s backends.Status) bool { return !s.Up }) || len(x.found.Definitions) == 0 {
		return
	}
	var lacking []string
	for _, d := range x.found.Definitions {
		if _, err := gateway.Snapshot(d, gateway.StepTools(pool), pool.Unseen); err != nil {
			lacking = append(lacking, err.Error())
		}
	}
	if len(lacking) > 0 {
		x.add("tools", CheckFailed, lacking[0], "correct the definition or the backend; %s cannot be called; perdure tools lists the tools", Plural(len(lacking), "composite tool"))
		return
	}
	x.ok("tools", "backends offer all tools that definitions use")
}

// clock compares the clock with those of others, also with the Date of HTTP servers.
func (x *examination) clock(ctx context.Context) {
	if x.found != nil {
		for _, b := range x.found.Backends {
			x.dateOf(ctx, "backend "+b.Name, b.URL)
		}
		if x.found.Auth.OIDC != nil {
			x.dateOf(ctx, "the issuer", x.found.Auth.OIDC.Issuer)
		}
	}
	if len(x.clocks) == 0 {
		x.add("clock", CheckSkipped, "no other clock to compare with", "")
		return
	}
	worst := slices.MaxFunc(x.clocks, func(a, b remote) int { return cmp.Compare(a.ahead.Abs(), b.ahead.Abs()) })
	found := fmt.Sprintf("%s from that of %s", worst.ahead.Abs().Round(time.Millisecond), worst.of)
	switch {
	case worst.ahead.Abs() >= clockFailure:
		x.add("clock", CheckFailed, found, "synchronise the clocks (NTP)")
	case worst.ahead.Abs() >= clockWarning:
		x.add("clock", CheckWarning, found, "synchronise the clocks (NTP)")
	default:
		x.ok("clock", "%s at most", found)
	}
}

func (x *examination) dateOf(ctx context.Context, of, url string) {
	if url == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return
	}
	before := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // its own check reports it
	}
	_ = response.Body.Close()
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		x.clocks = append(x.clocks, remote{of, -aheadOf(date.Add(time.Second/2), before, time.Now())}) // it has no fractions
	}
}
