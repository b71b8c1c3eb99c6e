package service

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// An approvalsPage is where people answer with a browser.
type approvalsPage struct {
	handler http.Handler
	login   auth.LoginKind
	url     func(runs.RunID) string // of a run; nil = it cannot be opened
}

func (s *front) newApprovals(o GatewayOptions, all *runs.Client, bodies *web.Bodies) (approvalsPage, error) {
	options, err := LoginOptions(s.opts.Loaded.Auth, s.callers, o.PublicURL, o.Keys, s.opts.Logger)
	if err != nil {
		return approvalsPage{}, err
	}
	options.Link = o.SignInByLink && s.callers == (auth.Everybody{})
	login, err := auth.NewLogin(options)
	if err != nil {
		return approvalsPage{}, err
	}
	handler, err := approvals.New(approvals.Options{
		Runs: all, Login: login, Policy: &s.opts.Loaded.Auth.Policy, Key: o.Keys.Signing, RetiredKeys: o.Keys.Retired,
		Bodies: bodies, PublicURL: o.PublicURL.origin(), Logger: s.opts.Logger,
	})
	page := approvalsPage{handler: handler, login: login.Kind()}
	switch page.login {
	case auth.LoginClosed:
		s.warnOfClosedPage()
	case auth.LoginLink:
		if !web.OnLoopback(o.PublicURL.host()) {
			return page, err
		}
		fallthrough
	default:
		page.url = func(id runs.RunID) string { return o.PublicURL.origin() + approvals.Path(id) }
	}
	return page, err
}

// PageClosed is why the approvals page is closed, and what opens it, as the end of a sentence.
const PageClosed = "closed, because people cannot sign in; configure incomingAuth.oidc.clientId or approvals.tokenFile"

// warnOfClosedPage logs that the page is closed, and what cannot be answered then.
func (s *front) warnOfClosedPage() {
	const how = "the approvals page is " + PageClosed
	var unanswerable []string
	for _, d := range s.opts.Loaded.Definitions {
		if asksOnPage(d.Steps) {
			unanswerable = append(unanswerable, d.Name)
		}
	}
	if unanswerable == nil {
		s.opts.Logger.Warn(how)
		return
	}
	s.opts.Logger.Warn(how+"; elicitations with mode: url of these definitions cannot be answered", "definitions", strings.Join(unanswerable, ", "))
}

// asksOnPage reports whether a step asks something that only the approvals page can
// answer.
func asksOnPage(steps []*definitions.Step) bool {
	for _, s := range steps {
		if s.Mode == definitions.URLMode || s.Step != nil && asksOnPage([]*definitions.Step{s.Step}) {
			return true
		}
	}
	return false
}

// LoginOptions set how people sign in: at the issuer of clients' tokens, if perdure is
// a client of it as well; else with tokens of their own. Tokens of programs sign
// people in only if the configuration allows it.
func LoginOptions(a config.Auth, callers auth.Authenticator, public WebURL, k Keys, log *slog.Logger) (auth.LoginOptions, error) {
	options := auth.LoginOptions{
		PublicURL: public.origin(), Path: approvals.Prefix, Key: k.Signing, RetiredKeys: k.Retired, Logger: log,
	}
	if callers != (auth.Everybody{}) {
		options.Callers = callers
	}
	switch issuer := a.OIDC; {
	case issuer != nil && issuer.ClientID != "":
		options.OIDC = &auth.OIDCLogin{
			Issuer: issuer.Issuer, ClientID: issuer.ClientID, GroupsClaim: issuer.GroupsClaim, HTTP: issuer.Client,
			Required: issuer.Scopes,
			ClientSecret: func() (string, error) {
				secret, err := issuer.ClientSecret.Read()
				return string(secret), err
			},
		}
	case a.Approvals.CallerTokens:
		options.Tokens, options.Callers = callers, nil
	case a.Approvals.TokenFile != "":
		tokens, err := auth.OpenTokenFile(a.Approvals.TokenFile, log)
		if err != nil {
			return options, err
		}
		options.Tokens = tokens
	}
	return options, nil
}

// host is that of the site, with its port if it has one.
func (w WebURL) host() string {
	u, err := url.Parse(string(w))
	if err != nil {
		return "" // never: it was parsed before
	}
	return u.Host
}
