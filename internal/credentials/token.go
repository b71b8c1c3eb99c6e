package credentials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/backends"
)

const (
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693 section 2.1
	grantRefresh       = "refresh_token"                                   // RFC 6749 section 6
	grantClient        = "client_credentials"                              // RFC 6749 section 4.4

	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token" // RFC 8693 section 3

	maxTokenAnswer = 1 << 20 // bytes
)

// A token is the answer of a token endpoint.
type token struct {
	access  backends.Secret
	refresh backends.Secret // "" = none
	expires time.Time       // of access; zero = unknown
}

// A refusal is a token endpoint's error about the request, which repeating does not help.
type refusal struct{ code string }

func (e *refusal) Error() string { return "refused by the token endpoint (" + e.code + ")" }

// An outage is an error of a token endpoint that passes.
type outage struct{ what string }

func (e *outage) Error() string { return "the token endpoint " + e.what }

// request sends a request to the token endpoint of a client. Its error is a *refusal, an
// *outage, or a *backends.CredentialsError about the client's own secret.
func (b *Broker) request(ctx context.Context, c Client, grantType string, form url.Values) (token, error) {
	secret, err := c.Secret.Read()
	if err != nil {
		return token{}, &backends.CredentialsError{Reason: "the secret of client " + c.ID + ": " + err.Error()}
	}
	form.Set("grant_type", grantType)
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	if secret == "" && c.ID != "" {
		form.Set("client_id", c.ID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return token{}, &refusal{"its URL is none"}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" { // RFC 6749 section 2.3.1
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(string(secret)))
	}
	asked := b.now()
	resp, err := b.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return token{}, &outage{fmt.Sprintf("at %s cannot be reached: %s", req.URL.Host, err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	if err != nil {
		return token{}, &outage{fmt.Sprintf("at %s gave half an answer", req.URL.Host)}
	}
	return c.read(resp.StatusCode, body, asked)
}

// read reads the answer of a token endpoint. Errors contain its error code only:
// descriptions may repeat what was sent.
func (c Client) read(status int, body []byte, asked time.Time) (token, error) {
	var answer struct {
		Access    backends.Secret `json:"access_token"`
		Refresh   backends.Secret `json:"refresh_token"`
		Type      string          `json:"token_type"`
		ExpiresIn json.Number     `json:"expires_in"`
		Error     string          `json:"error"`
	}
	err := json.Unmarshal(body, &answer)
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return token{}, &outage{fmt.Sprintf("answers with HTTP status %d", status)}
	case status != http.StatusOK && answer.Error == "invalid_client" || status == http.StatusUnauthorized:
		return token{}, &backends.CredentialsError{Reason: "the token endpoint refuses client " + c.ID + ": " + c.Secret.where()}
	case status != http.StatusOK && isCode(answer.Error):
		return token{}, &refusal{answer.Error}
	case status != http.StatusOK:
		return token{}, &refusal{fmt.Sprintf("HTTP status %d", status)}
	case len(answer.Access)+len(answer.Refresh) > maxSecret:
		return token{}, &refusal{"its answer has a token of more than 64 KB"}
	case err != nil || answer.Access == "" || strings.ContainsAny(string(answer.Access), "\r\n\x00"):
		return token{}, &refusal{"its answer holds no access token"}
	case answer.Type != "" && !strings.EqualFold(answer.Type, "Bearer") && answer.Type != "N_A":
		return token{}, &refusal{"it gives a token that is no bearer token"}
	}
	t := token{access: answer.Access, refresh: answer.Refresh}
	if seconds, err := answer.ExpiresIn.Float64(); err == nil && seconds > 0 {
		t.expires = asked.Add(time.Duration(min(seconds, 1e9) * float64(time.Second)))
	}
	return t, nil
}

// isCode reports whether a text looks like an error code of OAuth.
func isCode(text string) bool {
	return text != "" && len(text) <= 40 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// refreshed gets a new token with a refresh token.
func (b *Broker) refreshed(ctx context.Context, x TokenExchange, refresh backends.Secret) (token, error) {
	t, err := b.request(ctx, x.Client, grantRefresh, url.Values{"refresh_token": {string(refresh)}})
	if err == nil && t.refresh == "" {
		t.refresh = refresh // RFC 6749 section 6: it stays good
	}
	return t, err
}

// exchanged gets a token for that of a caller.
func (b *Broker) exchanged(ctx context.Context, x TokenExchange, subject backends.Secret) (token, error) {
	form := url.Values{
		"subject_token":        {string(subject)},
		"subject_token_type":   {cmp.Or(x.SubjectTokenType, typeAccessToken)},
		"requested_token_type": {cmp.Or(x.RequestedTokenType, typeAccessToken)},
	}
	if x.Audience != "" {
		form.Set("audience", x.Audience)
	}
	return b.request(ctx, x.Client, grantTokenExchange, form)
}

// ownToken gets a token for the client itself.
func (b *Broker) ownToken(ctx context.Context, c Client) (token, error) {
	form := url.Values{}
	if c.Audience != "" {
		form.Set("audience", c.Audience)
	}
	return b.request(ctx, c, grantClient, form)
}
