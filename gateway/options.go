package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

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
	Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error]
	Progress(ctx context.Context, id runs.RunID) ([]runs.StepProgress, error)
	Get(ctx context.Context, id runs.RunID) (*runs.Run, error)
	Show(ctx context.Context, id runs.RunID) (*runs.Detail, error)
	Answer(ctx context.Context, id runs.RunID, answer runs.Answer) (runs.Decision, error)
	Attach(ctx context.Context, id runs.RunID, a runs.Attended) (noted bool, err error)
	Deliver(ctx context.Context, caller string, all []runs.RunID) error
	Delivered(ctx context.Context, caller string, id runs.RunID, since time.Time) (bool, error)
	ReportQuestion(ctx context.Context, id runs.RunID, elicitation string, became runs.Question) error
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
	// OnChange has f called after every change of Tools, or of the result of Unseen.
	OnChange(f func())
	// Unseen reports which backend may offer a tool that Find does not find: one that
	// has not answered yet. ok = there is one.
	Unseen(name string) (backend string, ok bool)
	// Await tries a backend that has not answered yet with the current credentials, and
	// reports whether its tools are known.
	Await(ctx context.Context, backend string) bool
}

// Options of a gateway. Runs and Catalogue are required.
type Options struct {
	Name    string // of the server, as clients see it; "" = perdure
	Prefix  string // before the names of composite tools without their own; "" = none
	Version string // "" = dev

	Runs      Runs
	Catalogue Catalogue
	// Registry knows the versions of composite tools, and publishes others. nil =
	// there are only those of SetOffers.
	Registry *registry.Registry
	// Credentials receive the token of each request. nil = no backend wants those of
	// callers.
	Credentials Credentials
	// Forwarding names what backends get of requests; it needs Credentials. Zero =
	// nothing.
	Forwarding backends.Forwarding

	Keys
	Access
	Timing
	Limits
	Scripting

	// Answers keep what was answered for the next process on this machine. nil =
	// where a gateway is killed in the moment after it has answered, the same call
	// is given the result again.
	Answers Answers
	// OnDisconnect sets what becomes of a run when the request that it was started
	// by is cancelled, which closing its stream is in 2026-07-28, where the definition
	// does not. "" = definitions.CancelRun.
	OnDisconnect definitions.OnDisconnect
	// RunURL is the page on which a person can answer for a run, given to
	// clients that cannot ask. nil = there is none.
	RunURL func(runs.RunID) string
	// NoRunTools omits perdure_run_await, perdure_run_cancel and perdure_run_list.
	NoRunTools bool

	// Observe is called when a request begins; the returned end is called when it has
	// been answered, with the kind of error, "" = none. The request continues with the
	// returned context. nil = none.
	Observe func(ctx context.Context, op Operation) (_ context.Context, end func(failure string))

	Logger *slog.Logger // nil = slog.Default()
}

// Keys sign what clients carry from one request to the next. Replicas share them.
type Keys struct {
	// Key signs. nil = a random one: then sessions, open questions and request
	// states do not survive this process, and no other replica takes them.
	Key []byte
	// RetiredKeys still open tokens, but sign no new ones. nil = none.
	RetiredKeys [][]byte
}

// Access is who may send requests, and do what.
type Access struct {
	// Authenticate returns the sender of a request; an error is answered 401, and its
	// text is not shown. The Subject must not be empty. nil = auth.Everybody.
	Authenticate func(*http.Request) (auth.Identity, error)
	// StdioIdentity is who sends what ServeStdio reads. Zero = auth.Anonymous.
	StdioIdentity auth.Identity
	// Policy decides who may do what. nil = the zero one.
	Policy *auth.Policy
	// Metadata is the document with which clients find where to get tokens (RFC 9728);
	// served at auth.WellKnown and below. nil = none.
	Metadata http.Handler
}

// Timing is how long clients are waited for, and wait.
type Timing struct {
	// Patience is how long a call blocks for a client that cannot be asked,
	// before it is given a handle on the run instead of its result.
	// 0 = 50 s; negative = for ever.
	Patience time.Duration
	// TaskPatience is how long a call blocks for a client that declares the
	// extension io.modelcontextprotocol/tasks, before it is given a task. One
	// that waits for an answer is given it at once. 0 = 500 ms; negative = until
	// there is a result or a question.
	TaskPatience time.Duration
	// Retention is how long runs are kept after their end; tasks report it to clients.
	// 0 = unknown.
	Retention time.Duration
	// ReattachWindow is for how long after its end a run whose answer was lost is
	// given to a caller of 2026-07-28 who sends the same call again, with the same
	// tool and arguments; one that has not ended is in any case. 0 = 10 min;
	// negative = each call without a key is a run of its own. At most 12 h.
	ReattachWindow time.Duration
	// DisconnectGrace is how long a client that closed its stream has to come back
	// before the run is cancelled. 0 = 60 s; negative = no time.
	DisconnectGrace time.Duration
	// KeepAlive is the longest time without a message on a stream. 0 = 15 s.
	KeepAlive time.Duration
	// ReaskAfter is how long a stream waits for the answer to a question until it
	// asks again: an answer that was lost with a replica is then given once more. An
	// answer to any of the questions counts. 0 = 10 min.
	ReaskAfter time.Duration
	// StreamRetry is how long clients are asked to wait before they resume a broken
	// stream. They try twice by default, so a server may be down for less than twice as
	// long. 0 = 5 s; at most 1 min.
	StreamRetry time.Duration
	// Now is the time by the clock that replicas share, by which they know how long ago a
	// run has ended. nil = that of this process.
	Now func() time.Time
}

// Limits of what is sent and answered.
type Limits struct {
	// LinkOver is the size from which on the output of a run is given as a link,
	// in bytes, to clients that take one: resources/read gives it to who may see
	// the run. 0 = never.
	LinkOver int
	// MaxRequest is the size of the largest request body. 0 = DefaultMaxRequest.
	MaxRequest int64
	// Bodies are what the requests of all callers share. nil = web.Work().
	Bodies *web.Bodies
	// Quotas are what one caller may have. Default: DefaultQuotas.
	Quotas Quotas
}

// Scripting is about scripts and the depth of calls.
type Scripting struct {
	// Scripts lets agents send scripts, as far as Policy lets them call
	// execute_tool_script. Default: there is no such tool.
	Scripts bool
	// ScriptLimits are those of every script, also of definitions; they can only
	// be lower than the defaults. nil = the defaults.
	ScriptLimits *runs.ScriptLimits
	// MaxDepth is how deep composite tools may call each other. Default:
	// definitions.MaxWorkflowDepth.
	MaxDepth int
}

// DefaultMaxRequest is the size of the largest request body in bytes without
// Options.MaxRequest.
const DefaultMaxRequest = 8 << 20

// check reports what is wrong with options.
func (o Options) check() error {
	switch {
	case o.Runs == nil || o.Catalogue == nil:
		return errors.New("gateway: Runs and Catalogue are required")
	case !o.Forwarding.Nothing() && o.Credentials == nil:
		return errors.New("gateway: Forwarding needs Credentials")
	case o.ReattachWindow > maxWindow:
		return fmt.Errorf("gateway: ReattachWindow is %s; the limit is %s; use idempotency keys to repeat a call later", o.ReattachWindow, maxWindow)
	case o.StreamRetry < 0 || o.StreamRetry > maxRetry:
		return fmt.Errorf("gateway: StreamRetry is %s; it must be from 0 to %s", o.StreamRetry, maxRetry)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "perdure")
	o.Version = cmp.Or(o.Version, "dev")
	o.Patience = cmp.Or(o.Patience, 50*time.Second)
	o.TaskPatience = cmp.Or(o.TaskPatience, 500*time.Millisecond)
	o.ReattachWindow = cmp.Or(o.ReattachWindow, 10*time.Minute)
	o.DisconnectGrace = cmp.Or(o.DisconnectGrace, time.Minute)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.ReaskAfter = cmp.Or(o.ReaskAfter, 10*time.Minute)
	o.StreamRetry = cmp.Or(o.StreamRetry, 5*time.Second)
	o.MaxRequest = cmp.Or(o.MaxRequest, DefaultMaxRequest)
	o.StdioIdentity.Subject = cmp.Or(o.StdioIdentity.Subject, auth.Anonymous)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Quotas = o.Quotas.withDefaults()
	o.Runs = newQuotaRuns(o.Runs, o.Quotas, o.ofCallers)
	if o.Bodies == nil {
		o.Bodies = web.NewBodies(web.Work(), web.Patience)
	}
	if o.Authenticate == nil {
		o.Authenticate = auth.Everybody{}.Authenticate
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Key) == 0 {
		o.Key = make([]byte, 32)
		_, _ = rand.Read(o.Key) // never fails
	}
	return o
}

// maxRetry bounds Options.StreamRetry.
const maxRetry = time.Minute

// listLife is how long clients of 2026-07-28 may keep lists without a look
// again. Those that listen hear of changes at once.
const listLife = 30 * time.Second

// cacheScope reports who may share one caller's lists: everybody, if
// callers need no authentication and see the same tools.
func (o Options) cacheScope() mcp.CacheScope {
	if o.Authenticate == nil && !o.Policy.Ruled() {
		return mcp.CacheScopePublic
	}
	return mcp.CacheScopePrivate
}

// ofCallers reports whether a backend wants the credentials of callers.
func (o *Options) ofCallers(backend string) bool {
	return o.Credentials != nil && o.Credentials.OfCallers(backend)
}
