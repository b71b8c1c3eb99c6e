package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/payloads"
	"github.com/perdure/perdure/runs"
)

type codecCommand struct {
	logFlags        `embed:""`
	connectionFlags `embed:""`
	payloadFlags    `embed:""`

	Config    string        `help:"Configuration file, the same as the gateway's: it says who callers are and what they may see." required:"" placeholder:"FILE"`
	PublicURL webURL        `help:"URL at which clients reach the gateway, without /mcp: tokens are for it, where the configuration does not say what for." placeholder:"URL"`
	Listen    string        `help:"Address of the codec endpoint." default:"127.0.0.1:4485" placeholder:"ADDR"`
	UIOrigin  []webURL      `help:"Origin of Temporal's Web UI, e.g. https://temporal.example.com. Repeatable." default:"http://127.0.0.1:8233,http://localhost:8233" placeholder:"ORIGIN"`
	Grace     time.Duration `help:"How long requests under way get to end at a stop." default:"5s" hidden:""`
}

func (codecCommand) Help() string {
	return `Opens sealed values for Temporal's Web UI, in which its address goes into
Settings, Codec Server, with "pass the user access token" where callers have to
show who they are. Each value is opened only for who may see its run: its caller,
operators and approvers of its tool. For everybody else it stays sealed.
` + whereTemporalIs + ` Example:

    perdure codec --config perdure.yaml --payload-key-file payload.keys \
      --ui-origin https://temporal.example.com`
}

func (d codecCommand) Run(ctx context.Context, c *console) error {
	found, diags := load(sources{Config: d.Config})
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return errReported
	}
	log := d.logger(c.err, found.LogLevel)
	keys, err := d.keys(ctx)
	if err != nil {
		return err
	}
	if keys == nil {
		return usagef("there is nothing to open without keys: say where they are by --payload-key-file, --payload-key-command or %s", payloadKeysVar)
	}
	callers, err := found.Auth.callers(d.PublicURL, log)
	if err != nil {
		return err
	}
	options, err := d.clientOptions()
	if err != nil {
		return err
	}
	options.Logger = sdklog.NewStructuredLogger(quiet(log))
	payloads.Seal(&options, keys)
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	listener, err := listen(d.Listen, "--listen")
	if err != nil {
		return err
	}
	o := codecServer{
		runs: runs.New(runs.Config{Client: temporal, Namespace: options.Namespace, DataConverter: options.DataConverter, Logger: log}),
		keys: keys, callers: callers, policy: &found.Auth.Policy, origins: d.UIOrigin,
	}
	web := &http.Server{Handler: o.handler(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), d.Grace)
		defer cancel()
		_ = web.Shutdown(grace)
	})
	log.Info("ready", "codec", "http://"+reachable(listener.Addr()))
	if err := web.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// A codecServer opens payloads for who may see their runs.
type codecServer struct {
	runs    *runs.Client
	keys    *payloads.Keys
	callers auth.Authenticator
	policy  *auth.Policy
	origins []webURL
}

// maxDecoded is the largest request, in bytes.
const maxDecoded = 64 << 20

func (s codecServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("POST /decode", s.decode)
	return s.shared(mux)
}

// shared lets the pages of the Web UI ask, and no others.
func (s codecServer) shared(next http.Handler) http.Handler {
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
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s codecServer) decode(w http.ResponseWriter, r *http.Request) {
	who, err := s.callers.Authenticate(r)
	if err != nil {
		auth.Refuse(w, err)
		return
	}
	known := map[string]bool{}
	may := func(run string) bool {
		allowed, asked := known[run]
		if !asked {
			allowed = s.may(r.Context(), who, run)
			known[run] = allowed
		}
		return allowed
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxDecoded)
	converter.NewPayloadCodecHTTPHandler(&payloads.Codec{Keys: s.keys, May: may}).ServeHTTP(w, r)
}

// may says whether somebody may see a run: the same as everywhere.
func (s codecServer) may(ctx context.Context, who auth.Identity, id string) bool {
	if !strings.Contains(id, "/") { // of something else than a run
		return false
	}
	run, err := s.runs.Get(ctx, runs.RunID(id))
	return err == nil && s.policy.May(who, auth.See, auth.Object{Tool: run.Tool, Owner: run.Caller})
}
