package main

import (
	"log/slog"
	"net/http"
	"net/url"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/gateway/inbox"
	"github.com/perdure/perdure/runs"
)

// An approvalsPage is where people answer with a browser.
type approvalsPage struct {
	handler http.Handler
	url     func(runs.RunID) string // of a run; nil = nobody could open it
}

func (s *service) newApprovals(o gatewayOptions, all *runs.Client) (approvalsPage, error) {
	login, err := auth.NewLogin(s.opts.Loaded.Auth.loginOptions(s.callers, o.PublicURL, o.Keys, s.opts.Logger))
	if err != nil {
		return approvalsPage{}, err
	}
	handler, err := inbox.New(inbox.Options{
		Runs: all, Login: login, Policy: &s.opts.Loaded.Auth.Policy, Key: o.Keys.signing, RetiredKeys: o.Keys.retired,
		PublicURL: o.PublicURL.origin(), Logger: s.opts.Logger,
	})
	page := approvalsPage{handler: handler}
	if login.Kind() != auth.LoginLoopback || auth.OnLoopback(o.PublicURL.host()) {
		page.url = func(id runs.RunID) string { return o.PublicURL.origin() + inbox.Path(id) }
	}
	return page, err
}

// loginOptions say how people sign in: at the issuer whose tokens clients have,
// if perdure is a client of it as well; else with a token, where callers have to
// show who they are.
func (a authSettings) loginOptions(callers auth.Authenticator, public webURL, k keys, log *slog.Logger) auth.LoginOptions {
	options := auth.LoginOptions{
		PublicURL: public.origin(), Path: inbox.Prefix, Key: k.signing, RetiredKeys: k.retired, Logger: log,
	}
	if _, everybody := callers.(auth.Everybody); everybody {
		return options
	}
	options.Tokens = callers
	if issuer := a.OIDC; issuer != nil && issuer.ClientID != "" {
		options.OIDC = &auth.OIDCLogin{
			Issuer: issuer.Issuer, ClientID: issuer.ClientID, GroupsClaim: issuer.GroupsClaim, HTTP: issuer.Client,
			ClientSecret: func() (string, error) {
				secret, err := issuer.ClientSecret.Read()
				return string(secret), err
			},
		}
	}
	return options
}

// host is that of the site, with its port if it has one.
func (w webURL) host() string {
	u, err := url.Parse(string(w))
	if err != nil {
		return "" // it was read before
	}
	return u.Host
}
