package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// Limits of what a run is started with, in bytes.
const (
	MaxArguments = 1500 << 10
	maxInput     = 1900 << 10 // arguments, definition and schemas of its tools, what was done before; Temporal refuses 2 MiB

	// MaxLargeArguments is what MaxArguments is where large values are kept
	// elsewhere.
	MaxLargeArguments = 32 << 20

	maxKeyword = 255 // of a search attribute's value
	maxSummary = 200
	maxShown   = 2 << 10 // of the arguments in the details of a run
)

// A starter starts runs.
type starter struct {
	*archive
	maxValue int // Config.MaxValue
}

// Start starts a run, or attaches to the one that has the ID already, running
// or finished.
//
// Arguments that are too large are an *Error of category limit. ErrMayHaveStarted
// reports that the run may exist.
func (s starter) Start(ctx context.Context, req StartRequest) (Started, error) {
	id := req.ID
	if id == "" {
		id = NewID(req.Definition.Name)
	}
	if req.Lacks != nil {
		return s.onlyAttach(ctx, req)
	}
	input := newInput(id, req)
	input.MaxValue, input.MaxJournal = s.maxValue, s.maxValue
	if err := checkSize(id, input); err != nil {
		return Started{}, err
	}
	drop := func() {}
	if req.Keep != nil {
		var err error
		if input.Caller.Forwarded, drop, err = req.Keep(ctx, id); err != nil {
			return Started{}, fmt.Errorf("starting run %s: %w: %w", id, ErrUnavailable, err)
		}
	}
	news := s.news.subscribe(id)
	run, err := s.temporal.ExecuteWorkflow(ctx, s.options(id, req, input), input.WorkflowType(), input)
	if err != nil {
		news.cancel()
	}
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &exists) {
		drop()
		return Started{ID: id, Attached: true}, nil
	}
	if err != nil {
		return s.startedAnyway(ctx, req, id, failure(ctx, "starting", id, err))
	}
	s.fresh.add(id, run.GetRunID(), news)
	return Started{ID: id}, nil
}

// options are how Temporal starts a run.
func (s starter) options(id RunID, req StartRequest, input workflows.RunInput) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:        string(id),
		TaskQueue: workflows.TaskQueue,
		// An ID names one run for as long as the run is kept, so that a call
		// that is repeated finds it.
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         true,
		WorkflowTaskTimeout:                      s.taskLimit(),
		Memo:                                     map[string]any{workflows.MemoStarted: time.Now().UTC().Truncate(time.Millisecond)},
		StaticSummary:                            summary(req),
		StaticDetails:                            details(req, input.Definition),
		TypedSearchAttributes:                    searchAttributes(req),
	}
}

// onlyAttach attaches to the run that has the ID of a request.
func (s starter) onlyAttach(ctx context.Context, req StartRequest) (Started, error) {
	if req.ID == "" {
		return Started{}, req.Lacks
	}
	_, err := s.describe(ctx, req.ID)
	var none *serviceerror.NotFound
	switch {
	case err == nil:
		return Started{ID: req.ID, Attached: true}, nil
	case errors.As(err, &none):
		return Started{}, req.Lacks
	}
	return Started{}, failure(ctx, "looking for", req.ID, err)
}

// startedAnyway looks for a run whose start has failed: the answer of Temporal may have
// been lost.
func (s starter) startedAnyway(ctx context.Context, req StartRequest, id RunID, failed error) (Started, error) {
	if ctx.Err() == nil && (!errors.Is(failed, ErrUnavailable) || shutOut(failed)) {
		return Started{}, failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAfterStart)
	defer cancel()
	_, err := s.describe(ctx, id)
	var none *serviceerror.NotFound
	switch {
	case err == nil:
		return Started{ID: id, Attached: req.ID != ""}, nil
	case errors.As(err, &none):
		return Started{}, failed
	}
	return Started{}, fmt.Errorf("%w: %w", ErrMayHaveStarted, failed)
}

// lookAfterStart is for how long a run is looked for whose start has failed.
const lookAfterStart = 3 * time.Second

// taskLimit is how long a workflow task may take; 0 = Temporal's 10 s.
func (s starter) taskLimit() time.Duration { return taskLimit(s.maxValue) }

func taskLimit(maxValue int) time.Duration {
	if maxValue == 0 {
		return 0
	}
	return workflows.LongTask
}

func newInput(id RunID, req StartRequest) workflows.RunInput {
	arguments := req.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return workflows.RunInput{
		Definition: workflows.Pin(req.Definition),
		Arguments:  arguments,
		Caller:     req.Caller,
		Ruled:      req.Ruled,
		Lineage:    string(id),
		Tools:      req.Tools,

		ScriptLimits: req.ScriptLimits,
		MaxDepth:     req.MaxDepth,
	}
}

func checkSize(id RunID, in workflows.RunInput) error {
	most, whole := MaxArguments, maxInput
	if in.MaxValue > 0 {
		most, whole = MaxLargeArguments, in.MaxValue
	}
	if n := len(in.Arguments); n > most {
		return &Error{Code: codes.ArgumentsTooLarge, Category: codes.CategoryLimit, RunID: string(id),
			Message: fmt.Sprintf("the arguments of %s have %d bytes; the limit is %d", in.Definition.Name, n, most)}
	}
	total := record.PayloadSize(in.Arguments) + record.PayloadSize(in.Definition.Source)
	for _, tool := range in.Tools {
		total += record.PayloadSize(tool.InputSchema) + record.PayloadSize(tool.OutputSchema)
	}
	if total > whole {
		return &Error{Code: codes.InputTooLarge, Category: codes.CategoryLimit, RunID: string(id),
			Message: fmt.Sprintf("the arguments of %s, its definition and the schemas of its tools have %d bytes together; the limit is %d", in.Definition.Name, total, whole)}
	}
	return nil
}

// summary is the line with which the Web UI lists the run.
func summary(req StartRequest) string {
	line := req.Definition.Name + " called by " + callerName(req.Caller)
	return clip(view.Line(line), maxSummary)
}

func callerName(c Caller) string {
	if c.Subject == "" {
		return "anonymous"
	}
	return c.Subject
}

// details are the markdown that the Web UI shows of the run.
func details(req StartRequest, pinned workflows.Pinned) string {
	var b strings.Builder
	version := pinned.Version
	if version == "" {
		version = "unversioned"
	}
	fmt.Fprintf(&b, "- **tool** %s\n", req.Definition.Name)
	fmt.Fprintf(&b, "- **definition** %s, `%s`\n", version, shortDigest(pinned.Digest))
	fmt.Fprintf(&b, "- **caller** %s\n", view.Line(callerName(req.Caller)))
	if req.Caller.Client != "" {
		fmt.Fprintf(&b, "- **client** %s\n", view.Line(req.Caller.Client))
	}
	// A fence longer than any in the arguments cannot be closed by them.
	fence := "```"
	for strings.Contains(string(req.Arguments), fence) {
		fence += "`"
	}
	fmt.Fprintf(&b, "\n%sjson\n%s\n%s\n", fence, clip(view.JSON(req.Arguments), maxShown), fence)
	return b.String()
}

func shortDigest(digest string) string {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return digest
	}
	return algorithm + ":" + hex[:12]
}

// clip shortens text to a number of bytes without cutting a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:limit-len(mark)], "") + mark
}

var (
	toolKey    = temporal.NewSearchAttributeKeyKeyword(workflows.AttrTool)
	versionKey = temporal.NewSearchAttributeKeyKeyword(workflows.AttrVersion)
	callerKey  = temporal.NewSearchAttributeKeyKeyword(workflows.AttrCaller)
	requestKey = temporal.NewSearchAttributeKeyKeyword(workflows.AttrRequest)
)

func searchAttributes(req StartRequest) temporal.SearchAttributes {
	set := []temporal.SearchAttributeUpdate{
		toolKey.ValueSet(keyword(req.Definition.Name)),
		callerKey.ValueSet(keyword(callerName(req.Caller))),
	}
	if v := req.Definition.Version; v != "" {
		set = append(set, versionKey.ValueSet(keyword(v)))
	}
	if req.Request != "" {
		set = append(set, requestKey.ValueSet(req.Request))
	}
	return temporal.NewSearchAttributes(set...)
}
