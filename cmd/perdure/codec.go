package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

type codecCommand struct {
	logFlags        `embed:""`
	connectionFlags `embed:""`
	payloadFlags    `embed:""`
	databaseFlags   `embed:""`

	Config    string        `help:"Configuration file, the same as the gateway's: it says who callers are and what they may see." required:"" placeholder:"FILE"`
	KeyFile   string        `help:"File with the signing key of the gateways: who has signed in at their approvals page, on the same host, is then known here. Default: the keys in PERDURE_KEY, else only tokens are taken." placeholder:"FILE"`
	PublicURL webURL        `help:"URL at which clients reach the gateway, without /mcp: tokens are for it, where the configuration does not say what for, and people sign in there." placeholder:"URL"`
	Listen    string        `help:"Address of the codec endpoint." default:"127.0.0.1:4485" placeholder:"ADDR"`
	UIOrigin  []webURL      `help:"Origin of Temporal's Web UI, e.g. https://temporal.example.com: its pages may ask, and no others. Repeatable. Default: the Web UI of the dev whose data directory --data is." placeholder:"ORIGIN"`
	Data      dataDir       `help:"Data directory of the dev whose runs they are, for its Temporal, key and large values, where no flag says otherwise." placeholder:"DIR"`
	Grace     time.Duration `help:"How long requests under way get to end at a stop." default:"5s" hidden:""`
}

func (codecCommand) Help() string {
	return `Opens sealed values for Temporal's Web UI, and fetches large ones. Its address goes
into the Web UI's settings, Codec Server: with "include cross-origin credentials",
people are known here who have signed in at the approvals page of this host; with
"pass the user access token", those whom the Web UI itself has had sign in. Each
value is opened only for who may see its run: its caller, operators and approvers
of its tool. For everybody else it stays sealed.
` + whereTemporalIs + ` Example:

    perdure codec --config perdure.yaml --payload-key-file payload.keys --key-file key \
      --public-url https://perdure.example.com --ui-origin https://temporal.example.com`
}

func (d codecCommand) Run(ctx context.Context, c *console) error {
	found, diags := load(sources{Config: d.Config, CallersOnly: true})
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return errReported
	}
	log := d.logger(c.err, found.LogLevel)
	server, done, err := d.server(ctx, found, log)
	if err != nil {
		return err
	}
	defer done()
	listener, err := listen(d.Listen, "--listen")
	if err != nil {
		return err
	}
	log.Info("ready", "codec", "http://"+reachable(listener.Addr()))
	return web.New(web.Options{
		Handler: server.handler(), Origins: server.policyOfOrigins(d.PublicURL), MaxBody: maxDecoded, Logger: log,
	}).Run(ctx, listener, d.Grace)
}

// server is what answers; done ends what it uses.
func (d codecCommand) server(ctx context.Context, found *loaded, log *slog.Logger) (_ *codecServer, done func(), err error) {
	s := &codecServer{policy: &found.Auth.Policy, bodies: web.NewBodies(2*maxDecoded, web.Patience)}
	if s.origins, err = d.origins(); err != nil {
		return nil, nil, err
	}
	if s.keys, err = d.keys(ctx); err != nil {
		return nil, nil, err
	}
	if s.callers, err = found.Auth.callers(d.PublicURL, log); err != nil {
		return nil, nil, err
	}
	if s.login, err = d.login(found, s.callers, log); err != nil {
		return nil, nil, err
	}
	options, err := temporalFlags{connectionFlags: d.connectionFlags, Data: d.Data}.where()
	if err != nil {
		return nil, nil, err
	}
	options.Logger = sdklog.NewStructuredLogger(quiet(log))
	payloads.Seal(&options, s.keys)
	values, closeValues, err := findValues(ctx, d.databaseFlags, d.Data.String())
	if err != nil {
		return nil, nil, err
	}
	if values != nil {
		s.values = values
		payloads.Fetch(&options, values)
		options.DataConverter = payloads.Reader(options.DataConverter, values)
	}
	if s.keys == nil && s.values == nil {
		closeValues()
		return nil, nil, usagef("there is nothing to open without keys: say where they are by --payload-key-file, --payload-key-command or %s", payloadKeysVar)
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		closeValues()
		return nil, nil, err
	}
	s.namespace = options.Namespace
	s.runs = runs.New(runs.Config{Client: temporal, Namespace: options.Namespace, DataConverter: options.DataConverter, Logger: log})
	return s, func() { temporal.Close(); closeValues() }, nil
}

// origins are those of the pages that may ask.
func (d codecCommand) origins() ([]webURL, error) {
	if len(d.UIOrigin) > 0 {
		return d.UIOrigin, nil
	}
	const ask = "say where Temporal's Web UI is, whose pages may ask, by --ui-origin, e.g. --ui-origin https://temporal.example.com"
	dev, err := d.Data.running()
	if err != nil {
		return nil, usagef("%s (%v)", ask, err)
	}
	if dev == nil || dev.UI == "" {
		return nil, usagef(ask)
	}
	return []webURL{webURL(dev.UI), webURL(strings.Replace(dev.UI, "//127.0.0.1:", "//localhost:", 1))}, nil
}

// login knows who has signed in at the approvals page; nil = nobody can be known
// so.
func (d codecCommand) login(found *loaded, callers auth.Authenticator, log *slog.Logger) (*auth.Login, error) {
	flags := keyFlags{KeyFile: d.KeyFile}
	if own := keyOf(d.Data.String()); flags.KeyFile == "" && environ.Secret(keyVar) == "" {
		if _, err := os.Stat(own); err != nil {
			return nil, nil
		}
		flags.KeyFile = own
	}
	k, err := flags.keys()
	if err != nil {
		return nil, err
	}
	options, err := found.Auth.loginOptions(callers, d.PublicURL, k, log)
	if err != nil {
		return nil, err
	}
	return auth.NewLogin(options)
}

// A codecServer opens payloads for who may see their runs.
type codecServer struct {
	runs      *runs.Client
	namespace string
	keys      *payloads.Keys  // nil = nothing is sealed
	values    payloads.Values // nil = none are kept elsewhere
	callers   auth.Authenticator
	login     *auth.Login // nil = people show tokens
	policy    *auth.Policy
	origins   []webURL
	bodies    *web.Bodies // that large requests, and what they fetch, share
}

// maxDecoded is the largest request, in bytes.
const maxDecoded = 64 << 20

func (s *codecServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("POST /decode", s.open)
	mux.HandleFunc("POST /download", s.open)
	mux.HandleFunc("POST /encode", s.refuseToSeal)
	mux.Handle("/codec/", http.StripPrefix("/codec", mux)) // as proxies pass it on that leave paths as they are
	return s.shared(mux)
}

// policyOfOrigins has the endpoint called by its public name, and by pages of the
// Web UI, which is on another origin.
func (s *codecServer) policyOfOrigins(public webURL) web.OriginPolicy {
	p := web.OriginPolicy{Hosts: []string{public.host()}}
	for _, o := range s.origins {
		p.Origins = append(p.Origins, o.origin())
	}
	return p
}

// shared lets the pages of the Web UI ask, and no others, also none of this
// machine.
func (s *codecServer) shared(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin != "" {
			if !slices.ContainsFunc(s.origins, func(o webURL) bool { return o.origin() == origin }) {
				http.Error(w, "this origin is not the Web UI's; --ui-origin allows one", http.StatusForbidden)
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

// refuseToSeal answers the Web UI where it would start or signal a workflow. What
// is to be sealed does not say for which run, to which each value is bound; and
// what the Web UI sends is checked by nobody.
func (s *codecServer) refuseToSeal(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "perdure opens values here and seals none: start runs by their tools, and answer them on the approvals page or with perdure runs answer", http.StatusForbidden)
}

// open answers what the Web UI wants to show: payloads as histories have them, or
// to download one that is kept elsewhere.
func (s *codecServer) open(w http.ResponseWriter, r *http.Request) {
	who, err := s.visitor(r)
	if err != nil {
		auth.Refuse(w, err)
		return
	}
	if of := r.Header.Get("X-Namespace"); of != "" && of != s.namespace {
		http.Error(w, "this endpoint opens values of the namespace "+s.namespace, http.StatusForbidden)
		return
	}
	may := s.seen(r.Context(), who)
	fetches := r.URL.Path == "/download" || !strings.EqualFold(r.URL.Query().Get("preserveStorageRefs"), "true")
	var codecs []converter.PayloadCodec
	if s.values != nil && fetches {
		codecs = append(codecs, payloads.Fetcher(s.values, may))
	}
	if s.keys != nil {
		codecs = append(codecs, &payloads.Codec{Keys: s.keys, May: may})
	}
	caller := web.Caller(who.Known(), r)
	body, free, err := s.bodies.Read(w, r, caller, maxDecoded)
	if err == nil && s.values != nil && fetches { // what is fetched is larger than what asks for it
		free()
		free, err = s.bodies.Work(r.Context(), caller, payloads.MaxValue)
	}
	if err != nil {
		web.RefuseBody(w, err)
		return
	}
	defer free()
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Path = "/decode" // which both are to the handler
	converter.NewPayloadCodecHTTPHandler(codecs...).ServeHTTP(w, r)
}

// visitor says who asks: by a token, else by having signed in.
func (s *codecServer) visitor(r *http.Request) (auth.Identity, error) {
	who, err := s.callers.Authenticate(r)
	if err == nil || s.login == nil || r.Header.Get("Authorization") != "" {
		return who, err
	}
	who, err = s.login.Authenticate(r)
	if errors.Is(err, auth.ErrNotSignedIn) {
		return who, &auth.Refusal{Message: "sign in at the approvals page of this host, /approvals, and reload the page of the Web UI", Err: err}
	}
	return who, err
}

// seen says of runs whether somebody may see them, and asks once about each.
func (s *codecServer) seen(ctx context.Context, who auth.Identity) func(run string) bool {
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

// may says whether somebody may see a run: the same as everywhere.
func (s *codecServer) may(ctx context.Context, who auth.Identity, id string) bool {
	if !strings.Contains(id, "/") { // of something else than a run
		return false
	}
	run, err := s.runs.Get(ctx, runs.RunID(id))
	return err == nil && s.policy.May(who, auth.See, auth.Object{Tool: run.Tool, Owner: run.Caller})
}
