package service

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// CodecOptions are those of a Codec. Runs, Callers and Policy are required.
type CodecOptions struct {
	Runs      *runs.Client
	Namespace string          // of Temporal
	Keys      *payloads.Keys  // nil = nothing is sealed
	Values    payloads.Values // nil = none are kept elsewhere
	Callers   auth.Authenticator
	Login     *auth.Login // of the approvals page; nil = people send tokens
	Policy    *auth.Policy
	Origins   []WebURL    // of the pages that may send requests
	Bodies    *web.Bodies // memory that large requests, and what they fetch, share; nil = enough for two of the largest
	Logger    *slog.Logger
}

// A Codec opens payloads for people who may see their runs.
type Codec struct{ CodecOptions }

// NewCodec makes a codec.
func NewCodec(o CodecOptions) *Codec {
	if o.Bodies == nil {
		o.Bodies = web.NewBodies(2*maxDecoded, web.Patience)
	}
	return &Codec{o}
}

// Serve answers requests until ctx ends, and those under way for the grace period
// after that. public is the URL of the gateway beside it; "" = none.
func (s *Codec) Serve(ctx context.Context, l net.Listener, public WebURL, grace time.Duration) error {
	return web.New(web.Options{
		Handler: s.Handler(), Origins: s.policyOfOrigins(public), MaxBody: maxDecoded, Logger: s.Logger,
	}).Run(ctx, l, grace)
}

// maxDecoded is the largest request, in bytes.
const maxDecoded = 64 << 20

// Handler answers the Web UI: /decode and /download, and /healthz.
func (s *Codec) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("POST /decode", s.open)
	mux.HandleFunc("POST /download", s.open)
	mux.HandleFunc("POST /encode", s.refuseToSeal)
	mux.Handle("/codec/", http.StripPrefix("/codec", mux)) // behind proxies that keep the path
	return s.shared(mux)
}

// policyOfOrigins allows the endpoint's public name, and pages of the Web UI, which has
// another origin.
func (s *Codec) policyOfOrigins(public WebURL) web.OriginPolicy {
	p := web.OriginPolicy{Hosts: []string{public.host()}}
	for _, o := range s.Origins {
		p.Origins = append(p.Origins, o.origin())
	}
	return p
}

// shared allows requests of the Web UI's pages only, not even others of this machine.
func (s *Codec) shared(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin != "" {
			if !slices.ContainsFunc(s.Origins, func(o WebURL) bool { return o.origin() == origin }) {
				http.Error(w, "this origin is not the Web UI; allow it with --ui-origin", http.StatusForbidden)
				return
			}
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Credentials", "true")
			w.Header().Add("Vary", "Origin")
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "POST")
			w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			w.Header().Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseToSeal answers the Web UI when it would start or signal a workflow. The request
// does not name the run that a sealed value is bound to, and nothing checks what the
// Web UI sends.
func (s *Codec) refuseToSeal(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this endpoint opens values and does not seal any; start runs by calling their tools, and answer on the approvals page or with perdure runs answer", http.StatusForbidden)
}

// open answers the Web UI with opened payloads of histories, or the download of one that
// is kept elsewhere.
func (s *Codec) open(w http.ResponseWriter, r *http.Request) {
	who, err := s.visitor(r)
	if err != nil {
		auth.Refuse(w, err)
		return
	}
	if of := r.Header.Get("X-Namespace"); of != "" && of != s.Namespace {
		http.Error(w, "this endpoint opens only values of the namespace "+s.Namespace, http.StatusForbidden)
		return
	}
	may := s.seen(r.Context(), who)
	fetches := r.URL.Path == "/download" || !strings.EqualFold(r.URL.Query().Get("preserveStorageRefs"), "true")
	var codecs []converter.PayloadCodec
	if s.Values != nil && fetches {
		codecs = append(codecs, payloads.Fetcher(s.Values, may))
	}
	if s.Keys != nil {
		codecs = append(codecs, &payloads.Codec{Keys: s.Keys, May: may})
	}
	caller := web.Caller(who.Known(), r)
	body, free, err := s.Bodies.Read(w, r, caller, maxDecoded)
	if err == nil && s.Values != nil && fetches { // the fetched value is larger than the request
		free()
		free, err = s.Bodies.Work(r.Context(), caller, payloads.MaxValue)
	}
	if err != nil {
		web.RefuseBody(w, err)
		return
	}
	defer free()
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Path = "/decode" // the handler knows only this
	converter.NewPayloadCodecHTTPHandler(codecs...).ServeHTTP(w, r)
}

// visitor is the identity of a request: by a token, else by the session.
func (s *Codec) visitor(r *http.Request) (auth.Identity, error) {
	who, err := s.Callers.Authenticate(r)
	if err == nil || s.Login == nil || r.Header.Get("Authorization") != "" {
		return who, err
	}
	who, err = s.Login.Authenticate(r)
	if errors.Is(err, auth.ErrNotSignedIn) {
		return who, &auth.Refusal{Message: "sign in at the approvals page of this host, /approvals, and reload the page of the Web UI", Err: err}
	}
	return who, err
}

// seen reports whether a visitor may see a run, and looks up each run once.
func (s *Codec) seen(ctx context.Context, who auth.Identity) func(run string) bool {
	known := map[string]bool{}
	return func(run string) bool {
		allowed, asked := known[run]
		if !asked {
			allowed = s.may(ctx, who, run)
			known[run] = allowed
		}
		return allowed
	}
}

// may reports whether a visitor may see a run, as on the approvals page.
func (s *Codec) may(ctx context.Context, who auth.Identity, id string) bool {
	if !strings.Contains(id, "/") { // of no run
		return false
	}
	run, err := s.Runs.Get(ctx, runs.RunID(id))
	return err == nil && s.Policy.May(who, auth.See, auth.Object{Tool: run.Tool, Owner: run.Caller})
}
