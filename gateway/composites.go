package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
)

// Composites answer the calls of composite tools: each starts a run, or finds the
// one that it belongs to, and is answered from its events.
type composites struct {
	runs        Runs
	starts      *starts
	calls       *calls
	served      *served
	attendance  *attendance
	disconnects *disconnects
	streams     *streams
	views       *taskViews
	results     *results
	questions   *questions
	tokens      *sealer
	log         *slog.Logger
}

// call starts a run, or finds the one that the call belongs to, and
// renders it.
func (cs *composites) call(ctx context.Context, x *exchange, c *composite) {
	x.name = cmp.Or(x.dialect.requestName(x.client, x.id), newNonce())
	x.setOutlives(cs.calls.outlive(c.def.OnDisconnect))
	defer cs.calls.begin(x)()
	if x.params.RequestState != "" {
		cs.nextRound(ctx, x)
		return
	}
	if asked := x.dialect.taskRequest(x.client, x.params); asked != nil {
		cs.asTask(ctx, x, c, asked)
		return
	}
	started, err := cs.starts.start(ctx, x, c)
	if err != nil {
		cs.notStarted(ctx, x, c.def.Name, err)
		return
	}
	if started.Owner == "" && x.bind(started.ID) {
		cs.calls.cancelRun(ctx, started.ID)
	}
	cs.served.begin(started.ID, x)
	cs.follows(ctx, x, x.cursorFor(started), renderOptions{})
}

// follows answers a call from the events of its run. After that its client waits for
// the run no more, also if answering panics.
func (cs *composites) follows(ctx context.Context, x *exchange, at cursor, how renderOptions) {
	x.release()
	defer cs.disconnects.release(x, at.Run)
	cs.streams.render(ctx, x, at, how)
	cs.disconnects.settle(ctx, x, at.Run)
}

// notStarted answers a call that started no run. A task has no result then, so the same
// is sent as an error.
func (cs *composites) notStarted(ctx context.Context, x *exchange, tool string, err error) {
	cs.log.InfoContext(ctx, "call was not started", "tool", tool, "caller", x.caller.Subject, "error", err)
	why := errorResult("", err)
	var full *QuotaError
	if errors.As(err, &full) {
		x.out.header("Retry-After", full.retryAfter())
	}
	if x.dialect.taskRequest(x.client, x.params) == nil {
		x.respond("", cs.results.finish(x.client, why))
		return
	}
	x.failWith(why.asError(err))
}

// asTask answers a call with a task as soon as its run is durable. A call
// that is not accepted is an error, as the result must be a task.
func (cs *composites) asTask(ctx context.Context, x *exchange, c *composite, asked json.RawMessage) {
	if err := checkTaskRequest(asked); err != nil {
		x.fail(mcp.INVALID_PARAMS, err.Error())
		return
	}
	started, err := cs.starts.start(ctx, x, c)
	if err != nil {
		cs.notStarted(ctx, x, c.def.Name, err)
		return
	}
	run, err := cs.runs.Get(ctx, started.ID)
	if err != nil {
		cs.results.failed(x, started.ID, err)
		return
	}
	t := sessionTask{taskState: cs.views.describe(x, run), TTL: cs.views.ttl(run), Poll: pollRunning.Milliseconds()}
	x.respond("", map[string]any{"task": t, "_meta": map[string]any{
		metaRun: runState{ID: run.ID, Status: string(run.Status), Attached: started.Attached},
		metaImmediate: fmt.Sprintf("%s was started as run %s and continues in the background. Do not call it again for the same purpose.",
			run.Tool, run.ID),
	}})
}

// dryRun answers a call that has perdure/dry-run in its _meta with the plan of
// the run that it would start. Nothing is started or called, and what cannot
// be planned is refused rather than called; c is nil unless the tool is a
// composite one.
func (cs *composites) dryRun(ctx context.Context, x *exchange, c *composite) {
	if c == nil {
		cs.results.refuse(x, fmt.Sprintf("%s is not a composite tool, and only composite tools have a dry run; nothing was called", x.params.Name))
		return
	}
	r, err := cs.starts.plan(ctx, x, c.def)
	if err != nil {
		cs.log.Info("dry run failed", "tool", c.def.Name, "caller", x.caller.Subject, "error", err)
		r = errorResult("", err)
	}
	x.respond("", cs.results.finish(x.client, r))
}
