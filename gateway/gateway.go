// Package gateway answers: how does an MCP client, whatever it can do, call a
// composite tool and get its result?
//
// A composite call is a run that lives elsewhere (Runs). What happens here is
// translation: a call starts a run, and the events of the run become whatever
// the client of that call understands.
//
//	client                                what it sees while the run is under way
//	2025-11-25 and before, can be asked   one SSE stream: progress, elicitation/create, the result;
//	                                      resumable by Last-Event-ID
//	2026-07-28, can be asked              progress, then input_required with a requestState; the
//	                                      retry brings the answers
//	either, cannot be asked               after some patience a handle on the run, and tools with
//	                                      which a model waits for it
//	2025-11-25, wants a task              a task at once, then tasks/get, and tasks/result as the stream
//	2026-07-28, takes tasks               after a moment or at a question a task, then tasks/get and
//	                                      tasks/update
//
// Nothing that a later request needs is kept in memory. Session ids, event
// ids, the ids of questions, request states and task IDs are signed tokens that say what
// they stand for, so that any replica with the same key can go on where
// another one stopped.
//
// The protocol itself (handshakes, header checks, tools/list, subscriptions)
// is mcp-go in stateless mode; calls of tools write their answer past it, so
// that results are exact and each message goes out on the stream of its call.
package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Runs is what the gateway wants of runs; *runs.Client has it.
type Runs interface {
	Start(ctx context.Context, req runs.StartRequest) (runs.Started, error)
	Follow(ctx context.Context, id runs.RunID, after int64) iter.Seq2[runs.Event, error]
	Progress(ctx context.Context, id runs.RunID) ([]runs.StepProgress, error)
	Get(ctx context.Context, id runs.RunID) (*runs.Run, error)
	Show(ctx context.Context, id runs.RunID) (*runs.Detail, error)
	Answer(ctx context.Context, id runs.RunID, answer runs.Answer) (runs.Decision, error)
	Attach(ctx context.Context, id runs.RunID, a runs.Attended) (noted bool, err error)
	Deliver(ctx context.Context, caller string, all []runs.RunID) error
	Delivered(ctx context.Context, caller string, id runs.RunID, since time.Time) (bool, error)
	Asked(ctx context.Context, id runs.RunID, elicitation string, asking runs.Asking) error
	Cancel(ctx context.Context, id runs.RunID, reason string) error
	Result(ctx context.Context, id runs.RunID) (*runs.Outcome, error)
	List(ctx context.Context, filter runs.Filter) ([]runs.Run, error)
	ListPage(ctx context.Context, filter runs.Filter, from string) (page []runs.Run, next string, err error)
	Held(ctx context.Context, caller string) (runs.Held, error)
}

// A Catalogue is what the gateway wants of the backends; *backends.Pool has it.
type Catalogue interface {
	// Tools are all tools, hidden ones included.
	Tools() []backends.Tool
	// Find resolves an exposed name, or backend.originalName.
	Find(name string) (backends.Tool, bool)
	Call(ctx context.Context, call backends.Call) (*backends.Result, error)
	// OnChange has f called after every change of Tools.
	OnChange(f func())
}

// Options of a gateway. Runs and Catalogue are required.
type Options struct {
	Name    string // of the server, as clients see it; "" = perdure
	Prefix  string // before the names of composite tools that say no other; "" = none
	Version string // "" = dev

	Runs      Runs
	Catalogue Catalogue
	// Registry knows the versions of composite tools, and publishes others. nil =
	// there are only those of SetOffers.
	Registry *registry.Registry
	// Credentials are told the token of each request. nil = no backend wants
	// those of callers.
	Credentials Credentials

	// Key signs what clients carry from one request to the next. Replicas
	// share it. nil = a random one: then sessions, open questions and request
	// states do not survive this process, and no other replica takes them.
	Key []byte
	// RetiredKeys still open tokens, but sign no new ones. nil = none.
	RetiredKeys [][]byte

	// Authenticate says who sent a request; an error is answered 401, and its
	// text is not shown. The Subject must not be empty. nil = auth.Everybody.
	Authenticate func(*http.Request) (auth.Identity, error)
	// StdioIdentity is who sends what ServeStdio reads. Zero = auth.Anonymous.
	StdioIdentity auth.Identity
	// Policy says who may do what. nil = the zero one.
	Policy *auth.Policy
	// Metadata tells clients where to get tokens (RFC 9728); it is served at
	// auth.WellKnown and below. nil = there is none.
	Metadata http.Handler

	// Patience is how long a call blocks for a client that cannot be asked,
	// before it is given a handle on the run instead of its result.
	// 0 = 50 s; negative = for ever.
	Patience time.Duration
	// TaskPatience is how long a call blocks for a client that declares the
	// extension io.modelcontextprotocol/tasks, before it is given a task. One
	// that waits for an answer is given it at once. 0 = 500 ms; negative = until
	// there is a result or a question.
	TaskPatience time.Duration
	// Retention is how long runs are kept after their end: clients of tasks are
	// told. 0 = not known.
	Retention time.Duration
	// ReattachWindow is for how long after its end a run whose answer was lost is
	// given to a caller of 2026-07-28 who sends the same call again, with the same
	// tool and arguments; one that has not ended is in any case. 0 = 10 min;
	// negative = each call without a key is a run of its own. At most 12 h.
	ReattachWindow time.Duration
	// Answers keep what was answered for the next process on this machine. nil =
	// where a gateway is killed in the moment after it has answered, the same call
	// is given the result again.
	Answers Answers
	// OnDisconnect says what becomes of a run when the request that it was started by
	// is cancelled, which closing its stream is in 2026-07-28, where the definition
	// does not. "" = definitions.CancelRun.
	OnDisconnect definitions.OnDisconnect
	// DisconnectGrace is how long a client that closed its stream has to come back
	// before the run is cancelled. 0 = 60 s; negative = no time.
	DisconnectGrace time.Duration
	// KeepAlive is the longest time without a message on a stream. 0 = 15 s.
	KeepAlive time.Duration
	// ReaskAfter is how long a stream waits for the answer to a question until it
	// asks again: an answer that was lost with a replica is then given once more. An
	// answer to any asking counts. 0 = 10 min.
	ReaskAfter time.Duration
	// StreamRetry is how long clients are told to wait before they come back to a
	// stream that broke. They try twice by default, so a server may be away for
	// less than twice as long. 0 = 5 s; at most 1 min.
	StreamRetry time.Duration

	// RunURL is the page on which a person can answer for a run, given to
	// clients that cannot ask. nil = there is none.
	RunURL func(runs.RunID) string
	// NoRunTools leaves out perdure_run_await, perdure_run_cancel and
	// perdure_run_list.
	NoRunTools bool

	// Scripts lets agents send scripts, as far as Policy lets them call
	// execute_tool_script. Default: there is no such tool.
	Scripts bool
	// ScriptLimits are those of every script, also of definitions; they can only
	// be lower than the defaults. nil = the defaults.
	ScriptLimits *runs.ScriptLimits
	// MaxDepth is how deep composite tools may call each other. Default:
	// definitions.MaxWorkflowDepth.
	MaxDepth int

	// LinkOver is the size from which on the output of a run is given as a link,
	// in bytes, to clients that take one: resources/read gives it to who may see
	// the run. 0 = never.
	LinkOver int
	// MaxRequest is the size of the largest request body. 0 = DefaultMaxRequest.
	MaxRequest int64
	// Bodies are what the requests of all callers share. nil = web.DefaultWork.
	Bodies *web.Bodies

	// Quotas are what one caller may have. Default: DefaultQuotas.
	Quotas Quotas

	// Observe is told of each request when it begins, and by end when it has been
	// answered, with the kind of error that it was answered with; "" = none. The
	// request goes on with the context that it gives. nil = nobody wants to know.
	Observe func(ctx context.Context, op Operation) (_ context.Context, end func(failure string))

	Logger *slog.Logger // nil = slog.Default()
}

// DefaultMaxRequest is the size of the largest request body in bytes where Options
// do not say.
const DefaultMaxRequest = 8 << 20

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "perdure")
	setDefault(&o.Version, "dev")
	setDefault(&o.Patience, 50*time.Second)
	setDefault(&o.TaskPatience, 500*time.Millisecond)
	setDefault(&o.ReattachWindow, 10*time.Minute)
	setDefault(&o.DisconnectGrace, time.Minute)
	setDefault(&o.KeepAlive, 15*time.Second)
	setDefault(&o.ReaskAfter, 10*time.Minute)
	setDefault(&o.StreamRetry, 5*time.Second)
	setDefault(&o.MaxRequest, DefaultMaxRequest)
	setDefault(&o.StdioIdentity.Subject, auth.Anonymous)
	o.Quotas = o.Quotas.withDefaults()
	o.Runs = newQuotaRuns(o.Runs, o.Quotas)
	if o.Bodies == nil {
		o.Bodies = web.NewBodies(web.DefaultWork, web.Patience)
	}
	if o.Authenticate == nil {
		o.Authenticate = auth.Everybody{}.Authenticate
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if len(o.Key) == 0 {
		o.Key = make([]byte, 32)
		_, _ = rand.Read(o.Key) // never fails
	}
	return o
}

// maxRetry bounds Options.StreamRetry.
const maxRetry = time.Minute

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Gateway is an MCP server whose tools are composite tools and the tools of
// the backends. It is safe for concurrent use.
type Gateway struct {
	opts   Options
	log    *slog.Logger
	tokens *sealer
	mcp    *server.MCPServer
	http   *server.StreamableHTTPServer

	runTools  map[string]runTool // none with NoRunTools
	listing   atomic.Pointer[listing]
	rebuildMu sync.Mutex // guards what follows
	offers    []Offer
	reasons   map[string]string // what was logged last of tools that are not listed

	questions questions
	calls     calls
	served    served
	requests  counter
	looks     counter // for the runs of cancelled requests

	deliveries deliveries
	stops      sync.WaitGroup // of runs whose clients are gone
	leavers    leavers
	turns      turns

	drain    sync.Once
	draining chan struct{}
}

// New makes a gateway without composite tools; SetOffers gives it some.
func New(opts Options) (*Gateway, error) {
	if opts.Runs == nil || opts.Catalogue == nil {
		return nil, errors.New("gateway: Runs and Catalogue are required")
	}
	scope := opts.cacheScope()
	if opts.ReattachWindow > maxWindow {
		return nil, fmt.Errorf("gateway: ReattachWindow is %s; the limit is %s: use keys for repeating a call later", opts.ReattachWindow, maxWindow)
	}
	if opts.StreamRetry < 0 || opts.StreamRetry > maxRetry {
		return nil, fmt.Errorf("gateway: StreamRetry is %s; it must be from 0 to %s", opts.StreamRetry, maxRetry)
	}
	opts = opts.withDefaults()
	g := &Gateway{
		opts:     opts,
		log:      opts.Logger,
		tokens:   newSealer(opts.Key, opts.RetiredKeys),
		reasons:  map[string]string{},
		draining: make(chan struct{}),

		deliveries: deliveries{runs: opts.Runs, log: opts.Logger},
	}
	if !opts.NoRunTools {
		g.runTools = runTools()
	}
	if opts.Scripts {
		if g.runTools == nil {
			g.runTools = map[string]runTool{}
		}
		maps.Copy(g.runTools, scriptTools())
	}
	g.mcp = server.NewMCPServer(opts.Name, opts.Version,
		server.WithToolCapabilities(true),
		server.WithToolFilter(g.visible),
		server.WithCacheHints(listLife.Milliseconds(), scope),
		server.WithExtensions(map[string]any{tasksExtension: struct{}{}}),
		server.WithHooks(g.taskHooks()),
		server.WithRecovery(),
		server.WithInstructions(g.instructions()))
	g.http = server.NewStreamableHTTPServer(g.mcp,
		server.WithStateLess(true),
		server.WithDisableLocalhostProtection(true), // the web.Server does it, for every method
		server.WithStreamableHTTPLogger(opts.Logger))
	if opts.LinkOver > 0 {
		g.mcp.AddResourceTemplate(mcp.NewResourceTemplate(resultTemplate, "result of a run", mcp.WithTemplateMIMEType("application/json")), g.readResult)
	}
	g.rebuild()
	opts.Catalogue.OnChange(g.rebuild)
	return g, nil
}

// listLife is how long clients of 2026-07-28 may keep lists without asking
// again. Those that listen hear of changes at once.
const listLife = 30 * time.Second

// cacheScope says who may be given one caller's lists: everybody, if everybody
// may ask and sees the same tools.
func (o Options) cacheScope() mcp.CacheScope {
	if o.Authenticate == nil && (o.Policy == nil || o.Policy.Rules == nil) {
		return mcp.CacheScopePublic
	}
	return mcp.CacheScopePrivate
}

func (g *Gateway) instructions() string {
	if g.opts.NoRunTools {
		return ""
	}
	return "Some tools start runs that take long or wait for a person's approval. " +
		"Where a result says status waiting_for_approval or running, the run goes on: " +
		"call " + awaitTool + " with its runId instead of calling the tool again."
}

// Handler serves MCP over streamable HTTP at /mcp, Options.Metadata, and at
// RegistryPrefix what Options.Registry has. It wants a web.Server around it, which
// knows who may send requests, and has no WriteTimeout.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", g.serveMCP)
	if g.opts.Registry != nil {
		g.handleRegistry(mux)
	}
	if g.opts.Metadata != nil {
		mux.Handle(auth.WellKnown, g.opts.Metadata)
		mux.Handle(auth.WellKnown+"/", g.opts.Metadata)
	}
	return mux
}

// SetDefinitions replaces the composite tools by definitions of files.
func (g *Gateway) SetDefinitions(defs []*definitions.Definition) {
	offers := make([]Offer, len(defs))
	for i, d := range defs {
		offers[i] = Offer{Entry: registry.Entry{Definition: d}}
	}
	g.SetOffers(offers)
}

// SetOffers replaces the composite tools. Those that cannot be offered now are
// kept and offered when the catalogue has their tools.
func (g *Gateway) SetOffers(offers []Offer) {
	g.rebuildMu.Lock()
	g.offers = offers
	g.rebuildMu.Unlock()
	g.rebuild()
}

// Drain asks every open stream to end: those that can be resumed are cut, so
// that their clients come back to another replica; calls of other clients are
// answered with a handle on their run. It returns at once, and the requests
// end shortly after; runs are left alone.
func (g *Gateway) Drain() { g.drain.Do(func() { close(g.draining) }) }

// Close waits until all replicas can know what was answered here, for a few seconds at
// most. It comes after the last request has ended.
func (g *Gateway) Close() { g.deliveries.noting.Wait() }
