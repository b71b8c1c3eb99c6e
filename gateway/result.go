package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/visible"
)

// Keys of _meta.
const (
	metaRun     = "perdure/run"     // runState
	metaError   = "perdure/error"   // reported
	metaPartial = "perdure/partial" // outputs of completed steps, by step id
	metaOmitted = "perdure/omitted" // paths of completed steps whose outputs do not fit into perdure/partial
	metaErrors  = "perdure/errors"  // []runs.Error: steps that failed without failing the run
	metaUndone  = "perdure/undone"  // {compensated, uncompensated}: paths of steps
	metaEffects = "perdure/effects" // runs.Effects: calls that calling again would or might repeat
	metaDryRun  = "perdure/dry-run" // true: the result is a plan, and nothing was called
	metaRefused = "perdure/refused" // keys of answers to what was never asked, in the acknowledgement of tasks/update
	metaStep    = "perdure/step"    // path of the step that asks, with metaRun where progress says that an answer is waited for

	metaUnchecked = "perdure/unchecked" // true, of a question: content need not fit the schema that is asked with
)

// A result is a CallToolResult, exact to the digit.
type result struct {
	ResultType    string                  `json:"resultType,omitempty"`
	Meta          map[string]any          `json:"_meta,omitempty"`
	Content       []textBlock             `json:"content,omitzero"`
	Structured    json.RawMessage         `json:"structuredContent,omitempty"`
	IsError       bool                    `json:"isError,omitempty"`
	InputRequests map[string]inputRequest `json:"inputRequests,omitempty"`
	RequestState  string                  `json:"requestState,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`

	link resourceLink // in the place of a text
}

type inputRequest struct {
	Method string       `json:"method"`
	Params elicitParams `json:"params"`
}

// elicitParams are those of elicitation/create, in form or in URL mode.
type elicitParams struct {
	Mode            definitions.Mode `json:"mode,omitempty"` // empty = form
	Message         string           `json:"message"`
	RequestedSchema json.RawMessage  `json:"requestedSchema,omitempty"`
	ElicitationID   string           `json:"elicitationId,omitempty"`
	URL             string           `json:"url,omitempty"`
	Meta            map[string]any   `json:"_meta,omitempty"`
}

func text(s string) []textBlock { return []textBlock{{Type: "text", Text: s}} }

func (r *result) set(key string, value any) *result {
	if r.Meta == nil {
		r.Meta = map[string]any{}
	}
	r.Meta[key] = value
	return r
}

// finish adds what a result must say to a client.
func (g *Gateway) finish(c *client, r *result) *result { return c.dialect.finish(g, r) }

// A runState is what every result says of the run that it comes from.
type runState struct {
	ID       runs.RunID `json:"id"`
	Status   string     `json:"status"`
	Attached bool       `json:"attached,omitempty"` // the call joined a run that was there already
	// ApprovalURL is where a person answers what the run asks. "" = the run asks
	// nothing, or the client itself, or there is no page.
	ApprovalURL string `json:"approvalUrl,omitempty"`
}

// outcome is the result of a run that has ended.
func outcome(id runs.RunID, o *runs.Outcome) *result {
	if o.Failure != nil {
		e := o.Failure.Error
		if e.RunID == "" {
			e.RunID = string(id)
		}
		r := failedRun(&e, o.Failure.Effects)
		if len(o.Failure.Partial) > 0 {
			r.set(metaPartial, o.Failure.Partial)
		}
		if len(o.Failure.Omitted) > 0 {
			r.set(metaOmitted, o.Failure.Omitted)
		}
		if len(o.Failure.Compensated)+len(o.Failure.Uncompensated) > 0 {
			r.set(metaUndone, undone{o.Failure.Compensated, o.Failure.Uncompensated})
		}
		return r
	}
	r := &result{Content: text("null")}
	switch {
	case isNull(o.Output):
	case isObject(o.Output):
		r = structured(o.Output)
	default: // of a script; structured content is an object
		r = &result{Content: text(plain(o.Output))}
	}
	if len(o.Errors) > 0 {
		r.set(metaErrors, o.Errors)
	}
	return r
}

// plain is a value that is no object as text: a text as it is.
func plain(output json.RawMessage) string {
	var s string
	if json.Unmarshal(output, &s) == nil {
		return s
	}
	return string(output)
}

// undone says which steps of a failed run were undone, and which a person
// decided to leave.
type undone struct {
	Compensated   []runs.StepPath `json:"compensated,omitempty"`
	Uncompensated []runs.StepPath `json:"uncompensated,omitempty"`
}

// structured is a result whose text is its structured content.
func structured(output json.RawMessage) *result {
	var compact bytes.Buffer
	_ = json.Compact(&compact, output) // an object, or what this program has encoded
	return &result{Content: text(compact.String()), Structured: compact.Bytes()}
}

// failure is the result of a call that has had no effects.
func failure(e *runs.Error) *result { return failedRun(e, nil) }

// failedRun is the one place where an error becomes something that a model can
// act on.
func failedRun(e *runs.Error, effects *runs.Effects) *result {
	var b strings.Builder
	if where := place(e); where != "" && !strings.Contains(e.Message, e.StepID) {
		fmt.Fprintf(&b, "%s failed: ", where)
	}
	b.WriteString(strings.TrimRight(e.Message, ". \n"))
	b.WriteString(".")
	told := *e
	told.Hint = runs.Hint(e, effects)
	if told.Hint != "" {
		b.WriteString(" " + told.Hint)
	}
	if e.RunID != "" {
		fmt.Fprintf(&b, " (run %s)", e.RunID)
	}
	if e.Backtrace != "" {
		b.WriteString("\n" + strings.TrimSpace(e.Backtrace))
	}
	r := &result{IsError: true, Content: text(visible.Text(b.String()))}
	if !effects.Repeatable() {
		r.set(metaEffects, effects)
	}
	return r.set(metaError, reported{Error: &told, Step: e.StepID})
}

// reported is an error with the step's ID also as the publishing document has it.
type reported struct {
	*runs.Error
	Step string `json:"step_id,omitempty"`
}

func place(e *runs.Error) string {
	path := string(e.StepPath)
	if path == "" {
		path = e.StepID
	}
	switch {
	case path == "":
		return ""
	case e.Tool != "":
		return fmt.Sprintf("step %q (tool %s)", path, e.Tool)
	}
	return fmt.Sprintf("step %q", path)
}

// trouble is the result of a call that did not come as far as a run's own
// outcome. id is empty if no run was started.
func trouble(id runs.RunID, err error) *result {
	e := &runs.Error{Code: codes.Internal, Category: codes.CategoryInternal, Message: "internal error", RunID: string(id)}
	var bad *definitions.ArgumentsError
	var known *runs.Error
	var unknown *registry.NotFoundError
	var drifted *registry.DriftError
	var full *QuotaError
	switch {
	case errors.As(err, &known):
		e = known
	case errors.As(err, &drifted):
		e.Code, e.Category, e.Tool, e.Message = codes.ToolDrift, codes.CategoryTool, drifted.Tool, drifted.Error()+"; nothing was started"
	case errors.As(err, &unknown):
		e.Code, e.Category, e.Message = codes.UnknownVersion, codes.CategoryValidation, unknown.Error()
	case errors.As(err, &bad):
		e.Code, e.Category, e.Message = codes.InvalidArguments, codes.CategoryValidation, bad.Error()
	case errors.As(err, &full):
		e.Code, e.Category, e.Retryable, e.Message = codes.Quota, codes.CategoryLimit, true, full.Error()
	case errors.Is(err, errKeyReused):
		e.Code, e.Category, e.Message = codes.KeyReused, codes.CategoryValidation, err.Error()
	case errors.Is(err, errToolGone):
		e.Code, e.Category, e.Retryable, e.Message = codes.ToolUnavailable, codes.CategoryTool, true, err.Error()
	case errors.Is(err, runs.ErrMayHaveStarted):
		e.Code, e.Category, e.Message = codes.StartUnknown, codes.CategoryOutcomeUnknown, "runs cannot be reached at the moment, and whether the call was started is not known: look at your runs before calling again"
	case errors.Is(err, runs.ErrUnavailable):
		e.Code, e.Retryable, e.Message = codes.Unavailable, true, "runs cannot be reached at the moment, nothing is lost"
	case errors.Is(err, runs.ErrNotFound):
		e.Code, e.Category, e.Message = codes.RunNotFound, codes.CategoryValidation, "no such run of yours"
	}
	return failure(e)
}

// asError is the result of trouble as an error of JSON-RPC, where a result would not
// do.
func (res *result) asError(err error) *rpcError {
	return &rpcError{Code: troubleCode(err), Message: res.Content[0].Text, Data: map[string]any{metaError: res.Meta[metaError]}}
}

// troubleCode is the JSON-RPC code of an error.
func troubleCode(err error) int {
	var bad *definitions.ArgumentsError
	if errors.As(err, &bad) || errors.Is(err, errKeyReused) {
		return mcp.INVALID_PARAMS
	}
	return mcp.INTERNAL_ERROR
}

// callFailed is the result of a direct call of a backend tool that came to no
// result.
func callFailed(t backends.Tool, err error) *result {
	e := &runs.Error{Category: codes.CategoryTool, Tool: t.Name, Message: err.Error()}
	var failed *backends.CallError
	switch {
	case !errors.As(err, &failed):
		e.Code, e.Category, e.Message = codes.Internal, codes.CategoryInternal, "internal error"
	case failed.Outcome == backends.CredentialsNeeded:
		e.Code, e.Category, e.Retryable = codes.CredentialsNeeded, codes.CategoryCredentials, true
	case failed.Outcome == backends.NotSent:
		e.Code, e.Retryable = codes.NotSent, true
		e.Message += "; it was not executed"
	case failed.Outcome == backends.Refused:
		e.Code = codes.Refused
		e.Message += "; the backend refused it"
	case t.Effect == "read" || t.Effect == "idempotent":
		e.Code, e.Retryable = codes.NoAnswer, true
	default:
		e.Code, e.Category = codes.OutcomeUnknown, codes.CategoryOutcomeUnknown
	}
	return failure(e)
}
