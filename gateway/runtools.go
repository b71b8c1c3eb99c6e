package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// Limits of perdure_run_await: common clients give up after 60 s.
const (
	defaultWait = 45 // seconds
	maxWait     = 55
)

// maxReason bounds the reason that is given to perdure_run_cancel, in characters.
const maxReason = 500

// runTools are the tools with which a model handles runs.
type runTools struct {
	runs       Runs
	rights     *rights
	results    *results
	calls      *calls
	composites *composites
	log        *slog.Logger
}

// all are the tools by name.
func (b *runTools) all() map[string]builtInTool {
	yes, no := true, false
	return map[string]builtInTool{
		awaitTool: {
			title: "Wait for a run",
			description: "Waits for a run that an earlier tool call started and that was not finished, " +
				"and returns its result as that call would have. If the run is still not finished after waitSeconds, " +
				"the result says status running, or waiting_for_approval where a person has to answer first: " +
				"tell the user, then call this again. This does not start anything and can be repeated freely.",
			input: fmt.Sprintf(`{"type":"object","properties":{`+
				`"runId":{"type":"string","description":"runId of an earlier result, e.g. deploy/k3v9x0a2qs"},`+
				`"waitSeconds":{"type":"integer","minimum":0,"maximum":%d,"default":%d,"description":"how long to wait for news at most; 0 = return its state now"}`+
				`},"required":["runId"],"additionalProperties":false}`, maxWait, defaultWait),
			hints: mcp.ToolAnnotation{ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no},
			call:  b.await,
		},
		cancelTool: {
			title: "Cancel a run",
			description: "Cancels a run that an earlier tool call started: no further step of it begins. What it has done " +
				"already is undone where its definition says how, and stays otherwise. Only for a run that the user no longer wants.",
			input: `{"type":"object","properties":{` +
				`"runId":{"type":"string","description":"runId of an earlier result"},` +
				`"reason":{"type":"string","maxLength":` + strconv.Itoa(maxReason) + `,"description":"why, for the record"}` +
				`},"required":["runId"],"additionalProperties":false}`,
			hints: mcp.ToolAnnotation{ReadOnlyHint: &no, DestructiveHint: &yes, IdempotentHint: &yes, OpenWorldHint: &no},
			call:  b.cancel,
		},
		listTool: {
			title: "List runs",
			description: "Lists the runs that your earlier tool calls started, newest first, with their status and what " +
				"they wait for. Use it to find the runId of a call whose answer was lost.",
			input: `{"type":"object","properties":{` +
				`"tool":{"type":"string","description":"only runs of this tool"},` +
				`"status":{"type":"string","enum":["running","waiting","quarantined","completed","failed","cancelled","terminated","timed_out"],"description":"only runs with this status"},` +
				`"limit":{"type":"integer","minimum":1,"maximum":100,"default":20}` +
				`},"additionalProperties":false}`,
			hints: mcp.ToolAnnotation{ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no},
			call:  b.list,
		},
	}
}

// runFor gets a run with which the caller may do something. To whom may not,
// it does not exist.
func (b *runTools) runFor(ctx context.Context, x *exchange, action auth.Action, id runs.RunID) (*runs.Run, bool) {
	if id == "" {
		b.results.refuse(x, "runId is missing")
		return nil, false
	}
	run, err := b.rights.permitted(ctx, x.who, action, id)
	if err != nil {
		if !errors.Is(err, runs.ErrNotFound) {
			b.log.Warn("reading a run", "run", id, "error", err)
		}
		x.respond("", b.results.finish(x.client, errorResult(id, err)))
		return nil, false
	}
	return run, true
}

func (b *runTools) await(ctx context.Context, x *exchange) {
	defer b.calls.begin(x)()
	x.name = newNonce()
	if x.params.RequestState != "" {
		b.composites.nextRound(ctx, x)
		return
	}
	var in struct {
		RunID       runs.RunID `json:"runId"`
		WaitSeconds *int       `json:"waitSeconds"`
	}
	if !b.results.decodeArguments(x, &in) {
		return
	}
	wait := defaultWait
	if in.WaitSeconds != nil {
		wait = *in.WaitSeconds
	}
	if wait < 0 || wait > maxWait {
		b.results.refuse(x, fmt.Sprintf("waitSeconds must be from 0 to %d", maxWait))
		return
	}
	run, ok := b.runFor(ctx, x, auth.See, in.RunID)
	if !ok {
		return
	}
	patience := time.Duration(wait) * time.Second
	if run.Closed != nil {
		patience = -1 // it only has to be read
	}
	at := x.cursorFor(runs.Started{ID: run.ID})
	if run.Caller != x.caller.Subject {
		at.Owner = run.Caller
	}
	x.watch(at.Owner)
	b.composites.follows(ctx, x, at, renderOptions{resumed: true, patience: &patience})
}

func (b *runTools) cancel(ctx context.Context, x *exchange) {
	var in struct {
		RunID  runs.RunID `json:"runId"`
		Reason string     `json:"reason"`
	}
	if !b.results.decodeArguments(x, &in) {
		return
	}
	run, ok := b.runFor(ctx, x, auth.Cancel, in.RunID)
	if !ok {
		return
	}
	if run.Closed != nil {
		b.results.refuse(x, fmt.Sprintf("run %s has already ended (%s)", run.ID, run.Status))
		return
	}
	if utf8.RuneCountInString(in.Reason) > maxReason { // it goes into the history of the run
		b.results.refuse(x, fmt.Sprintf("the reason is longer than %d characters", maxReason))
		return
	}
	if in.Reason == "" {
		in.Reason = cancelReason
	}
	ctx, done := detached(ctx)
	defer done()
	if err := b.runs.Cancel(ctx, run.ID, in.Reason); err != nil {
		b.log.Warn("cannot cancel a run", "run", run.ID, "error", err)
		x.respond("", b.results.finish(x.client, errorResult(run.ID, err)))
		return
	}
	x.respond("", b.results.finish(x.client, structured(mustEncode(map[string]any{"runId": run.ID, "status": "cancelling"}))))
}

// A listedRun is a run as perdure_run_list shows it.
type listedRun struct {
	RunID      runs.RunID     `json:"runId"`
	Tool       string         `json:"tool"`
	Status     runs.Status    `json:"status"`
	Started    time.Time      `json:"started"`
	Closed     *time.Time     `json:"closed,omitempty"`
	Cause      string         `json:"cause,omitempty"` // why it was terminated
	WaitingFor []openQuestion `json:"waitingFor,omitempty"`
}

func (b *runTools) list(ctx context.Context, x *exchange) {
	in := struct {
		Tool   string      `json:"tool"`
		Status runs.Status `json:"status"`
		Limit  int         `json:"limit"`
	}{Limit: 20}
	if !b.results.decodeArguments(x, &in) {
		return
	}
	filter := runs.Filter{Tool: in.Tool, Status: in.Status, Caller: x.caller.Subject, Limit: min(max(in.Limit, 1), 100)}
	found, err := b.runs.List(ctx, filter)
	if err != nil {
		b.log.Warn("listing runs", "error", err)
		x.respond("", b.results.finish(x.client, errorResult("", err)))
		return
	}
	listed := []listedRun{}
	for _, r := range found {
		if !b.rights.may(x.who, auth.See, &r) {
			continue
		}
		l := listedRun{RunID: r.ID, Tool: r.Tool, Status: r.Status, Started: r.Started, Closed: r.Closed, Cause: r.Cause}
		for _, e := range r.Open() {
			l.WaitingFor = append(l.WaitingFor, questionOf(e))
		}
		listed = append(listed, l)
	}
	x.respond("", b.results.finish(x.client, structured(mustEncode(map[string]any{"runs": listed}))))
}
