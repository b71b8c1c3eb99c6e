package backends

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Secret is text that is never shown: printing, logging or marshalling it gives a
// placeholder. Code that needs the text converts it to string.
type Secret string

const hidden = "[secret]"

// String, GoString, LogValue and MarshalText give the placeholder.
func (Secret) String() string               { return hidden }
func (Secret) GoString() string             { return hidden }
func (Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// A Caller is the caller for whom a backend is called.
type Caller struct {
	// Name is issuer and subject in one, as in runs; "" = no caller: perdure itself
	// lists the tools.
	Name string
	// Token is the bearer token of the request that makes the call. "" = none, or the
	// request may be over.
	Token   Secret
	Expires time.Time // of Token; zero = not known
	// Forwarded is what the request of the caller has for backends.
	Forwarded Forwarded
	// Run is that for which Forwarded is kept, by the name that the run knows it by; "" =
	// none. Pool does not look it up.
	Run string
}

// Credentials authenticate calls of one backend.
type Credentials interface {
	// Identity names the credentials of requests for a caller. Requests of the same
	// identity share a session, which is never used for another. "" = the same
	// credentials for all callers.
	Identity(who Caller) string
	// Headers are those of a request for the caller. refused are the headers that the
	// backend has just answered with 401, nil = none: they are not given again unless they
	// may work now.
	//
	// The error is a *CredentialsError unless ctx has ended. It contains no secret.
	Headers(ctx context.Context, who Caller, refused Headers) (Headers, error)
}

// Headers are HTTP headers by name. They hold secrets.
type Headers map[string]Secret

// secretsOf are secrets for a call with headers.
func (c *Config) secretsOf(call Call, h Headers) secrets {
	return c.secrets(h, call.Caller.Forwarded.texts()...)
}

// secrets are the values given to a backend in confidence: the headers of a request, other
// texts of it, the configured variables of its process, and what its address or command line
// has of ours.
func (c *Config) secrets(h Headers, texts ...string) secrets {
	var all []string
	for _, given := range []Headers{c.Headers, h} {
		for _, value := range given {
			_, token, _ := strings.Cut(string(value), " ") // Bearer TOKEN
			all = append(all, string(value), token)
		}
	}
	texts = slices.AppendSeq(texts, maps.Values(c.Env))
	for _, value := range c.Secrets {
		texts = append(texts, string(value))
	}
	for _, value := range texts {
		if len(value) >= minVariable {
			all = append(all, value)
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // before what is a part of it
	var pairs []string
	for _, secret := range all {
		pairs = append(pairs, secret, hidden)
	}
	return secrets{strings.NewReplacer(pairs...)}
}

// secrets are removed from a backend's texts, which go to callers, logs and histories. They may
// be thousands, as texts of _meta, without that removing them takes longer.
type secrets struct{ in *strings.Replacer }

func (s secrets) hide(err error) error {
	if err == nil {
		return nil
	}
	var refused *RPCError
	if errors.As(err, &refused) {
		data, _ := json.Marshal(refused.Data)
		clean := &RPCError{Code: refused.Code, Message: s.without(refused.Message), Data: refused.Data}
		contains := !bytes.Equal(s.withoutIn(data), data)
		if contains {
			clean.Data = nil
		}
		if contains || clean.Message != refused.Message {
			return clean
		}
	}
	if text := err.Error(); s.without(text) != text {
		return errors.New(s.without(text))
	}
	return err
}

// hideIn removes secrets from a result that is an error.
func (s secrets) hideIn(r *Result) (*Result, error) {
	raw := s.withoutIn(r.Raw)
	if bytes.Equal(raw, r.Raw) {
		return r, nil
	}
	return parseResult(raw)
}

// withoutIn removes secrets from the texts in JSON, however their characters are escaped.
func (s secrets) withoutIn(raw json.RawMessage) json.RawMessage {
	var clean []byte
	for rest := []byte(raw); ; {
		before, _, found := bytes.Cut(rest, []byte(`"`))
		clean = append(clean, before...)
		if !found {
			return clean
		}
		rest = rest[len(before):]
		end := valueEnd(rest)
		written := rest[:end]
		var text string
		if json.Unmarshal(written, &text) == nil && s.without(text) != text {
			written, _ = json.Marshal(s.without(text)) // a string is always JSON
		}
		clean, rest = append(clean, written...), rest[end:]
	}
}

// minSecret is the least length of a value that is searched for, in bytes: shorter ones
// occur everywhere.
const minSecret = 6

// minVariable is the same for what is no header: shorter values are modes and levels.
const minVariable = 8

// without removes secrets from a text. One that has JSON in it, in which characters of a
// secret are escaped, is given without its escapes.
func (s secrets) without(text string) string {
	clean := s.replaced(text)
	plain := escape.ReplaceAllStringFunc(clean, unescaped)
	if replaced := s.replaced(plain); replaced != plain {
		return replaced
	}
	return clean
}

func (s secrets) replaced(text string) string { return s.in.Replace(text) }

// escape matches a character that is escaped in JSON.
var escape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|["\\/])`)

func unescaped(escape string) (character string) {
	_ = json.Unmarshal([]byte(`"`+escape+`"`), &character) // it is JSON
	return character
}

// A CredentialsError reports that a backend cannot be called because a credential is
// missing, expired, refused or temporarily unavailable, and what to do.
type CredentialsError struct {
	// Reason reports what is missing, without naming the backend.
	Reason string
	// Caller: the caller must bring a new credential, by any authenticated request;
	// otherwise the operator must.
	Caller bool
}

func (e *CredentialsError) Error() string { return e.Reason }

// maxRenewals is how often credentials are renewed for one request: once, and once more to
// report that the renewed ones were refused, too.
const maxRenewals = 2

// errStillRefused is the error of a call whose credentials were refused and cannot be
// renewed.
var errStillRefused = &CredentialsError{Reason: "the backend refuses the credential (HTTP status 401)"}

// orNone makes empty headers distinct from nil, which means none were sent.
func orNone(h Headers) Headers {
	if h == nil {
		return Headers{}
	}
	return h
}

// A bearer is an http.RoundTripper that adds the headers of a session to each of its
// requests, and records a refusal. It sends them only to the configured server.
type bearer struct {
	*meter
	to *url.URL
	s  *session
}

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != b.to.Scheme || req.URL.Host != b.to.Host {
		return nil, fmt.Errorf("the server names the address %s://%s, which is not its own: nothing is sent there", req.URL.Scheme, req.URL.Host)
	}
	x := exchangeOf(req.Context())
	headers := x.headers
	if headers == nil {
		headers = *b.s.headers.Load()
	}
	if len(headers) > 0 || len(x.traced) > 0 || len(b.s.cfg.Headers) > 0 {
		req = req.Clone(req.Context())
		for _, set := range []Headers{b.s.cfg.Headers, headers} {
			for name, value := range set {
				req.Header.Set(name, string(value))
			}
		}
		for name, value := range x.traced {
			req.Header.Set(name, value)
		}
	}
	resp, err := b.meter.roundTrip(req, b.s)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		b.s.refused.Store(&headers)
	}
	return resp, err
}
