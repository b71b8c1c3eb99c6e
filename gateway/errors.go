package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

var (
	errToolGone  = errors.New("no backend offers it at the moment")
	errKeyReused = errors.New("the idempotency key was used before for a call with other arguments, or other forwarded headers or _meta: use a new key")
)

const badState = "requestState is not valid for this call, or has expired: repeat the request with the arguments that it had"

// errorResult is the result of a call that did not come as far as a run's own
// outcome. id is empty if no run was started.
func errorResult(id runs.RunID, err error) *result {
	e := &runs.Error{Code: codes.Internal, Category: codes.CategoryInternal, Message: "internal error", RunID: string(id)}
	var bad *definitions.ArgumentsError
	var known *runs.Error
	var unknown *registry.NotFoundError
	var drifted *registry.DriftError
	var full *QuotaError
	var unseen *unseenError
	var crowded *web.FullError
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
	case errors.As(err, &crowded):
		e.Code, e.Retryable, e.Message = codes.Unavailable, true, crowded.Error()
	case errors.Is(err, errKeyReused):
		e.Code, e.Category, e.Message = codes.KeyReused, codes.CategoryValidation, err.Error()
	case errors.As(err, &unseen):
		e.Code, e.Category, e.Retryable, e.Tool, e.Message = codes.BackendUnavailable, codes.CategoryTool, true, unseen.tool, unseen.Error()
	case errors.Is(err, errToolGone):
		e.Code, e.Category, e.Retryable, e.Message = codes.ToolUnavailable, codes.CategoryTool, true, err.Error()
	case errors.Is(err, runs.ErrMayHaveStarted):
		e.Code, e.Category, e.Message = codes.StartUnknown, codes.CategoryOutcomeUnknown, "runs cannot be reached at the moment, and whether the call was started is not known: look at your runs before calling again"
	case errors.Is(err, runs.ErrUnavailable):
		e.Code, e.Retryable, e.Message = codes.Unavailable, true, "runs cannot be reached at the moment, nothing is lost"
	case errors.Is(err, runs.ErrUnread):
		e.Code, e.Retryable, e.Message = codes.Unavailable, true, "the run has ended, and its result cannot be read at the moment, nothing is lost"
	case errors.Is(err, runs.ErrLost):
		e.Code, e.Category, e.Message = codes.RunLost, codes.CategoryOutcomeUnknown, "Temporal had this run and has it no more: its database was set back, or somebody deleted the run; what it has done is not known here"
	case errors.Is(err, runs.ErrNotFound):
		e.Code, e.Category, e.Message = codes.RunNotFound, codes.CategoryValidation, "no such run of yours: it belongs to another caller, or was deleted after its retention time"
	}
	return failure(e)
}

// asError is an error result as an error of JSON-RPC, where a result would not
// do.
func (res *result) asError(err error) *rpcError {
	return &rpcError{Code: errorCode(err), Message: res.Content[0].Text, Data: map[string]any{metaError: res.Meta[metaError]}}
}

// errorCode is the JSON-RPC code of an error.
func errorCode(err error) int {
	var bad *definitions.ArgumentsError
	if errors.As(err, &bad) || errors.Is(err, errKeyReused) {
		return mcp.INVALID_PARAMS
	}
	return mcp.INTERNAL_ERROR
}

// callFailed is the result of a direct call of a backend tool that gave none.
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
	shown := *e
	shown.Hint = runs.Hint(e, effects)
	if shown.Hint != "" {
		b.WriteString(" " + shown.Hint)
	}
	if e.RunID != "" {
		fmt.Fprintf(&b, " (run %s)", e.RunID)
	}
	if e.Backtrace != "" {
		b.WriteString("\n" + strings.TrimSpace(e.Backtrace))
	}
	r := &result{IsError: true, Content: text(view.Text(b.String()))}
	if !effects.Repeatable() {
		r.set(metaEffects, effects)
	}
	return r.set(metaError, reported{Error: &shown, Step: e.StepID})
}

// reported is an error with the step's ID also as the publishing document has it.
type reported struct {
	*runs.Error
	Step string `json:"step_id,omitempty"`
}

func place(e *runs.Error) string {
	path := cmp.Or(string(e.StepPath), e.StepID)
	switch {
	case path == "":
		return ""
	case e.Tool != "":
		return fmt.Sprintf("step %q (tool %s)", path, e.Tool)
	}
	return fmt.Sprintf("step %q", path)
}
