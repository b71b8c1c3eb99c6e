package workflows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// An Attempt is one attempt of a tool call. Its methods classify an outcome without
// success, and decide whether the call is repeated because of it: the effect contract.
// Report translates both for Temporal.
type Attempt struct {
	Call   ToolCall
	Number int // 1 = first
	// EarlierUnknown: an earlier attempt of a keyed call may have been executed.
	EarlierUnknown bool
	// Unsent: the attempt before was not sent, or was refused unexecuted.
	Unsent bool
}

// lossAttempts bounds the attempts of a call that gets lost on its way or takes its
// worker down, and that may be repeated, where onError gives no number.
const lossAttempts = 4

// WorthRepeating reports whether the attempt is among those that follow the loss of the
// one before. Where more follow, each must come after one that was not sent.
func (a Attempt) WorthRepeating() bool {
	return a.Number <= max(a.Call.MaxAttempts, lossAttempts)
}

// Parts of a message: between the name of a tool and the reason of its failure, and
// after it where the outcome is unknown.
const (
	answeredWords    = " failed: "
	refusedWords     = " was refused: "
	lostWords        = " gave no answer: "
	unavailableWords = " was not called, backend "
	unreachableWords = " cannot be reached: "
	credentialsWords = " needs a credential for backend "
	deniedWords      = " was not called: "
	heldWords        = " was not called yet: it "
	unknownWords     = "; whether %s was executed is not known, so it is not called again"
)

// invalidArguments begins the message of a tool that was called with arguments that do not
// fit its schema.
const invalidArguments = "MCP error -32602"

// Answered is the failure of a call that the backend answered with an error: a known
// outcome, repeated as often as onError allows. An empty message represents an answer
// without one. Calling again with the same arguments may help unless the message says, as
// the SDKs of servers write it, that these are what is wrong.
func (a Attempt) Answered(message string) (e *Error, repeat bool) {
	if message == "" {
		message = "the backend gave no reason"
	}
	e = a.error(codes.ToolError, codes.CategoryTool, answeredWords+message)
	e.Retryable = !strings.HasPrefix(message, invalidArguments)
	return e, a.Number < a.Call.MaxAttempts
}

// Refused is the failure of a call that the backend did not execute because of
// what it was asked.
func (a Attempt) Refused(reason string) (e *Error, repeat bool) {
	return a.error(codes.Refused, codes.CategoryTool, refusedWords+reason), a.Number < a.Call.MaxAttempts
}

// Unavailable is the failure of a call that was never sent. It is repeated until the
// step's time is up, unless onError gives a number.
func (a Attempt) Unavailable(reason string) (e *Error, repeat bool) {
	e = a.error(codes.BackendUnavailable, codes.CategoryTool, unavailableWords+a.Call.Backend+unreachableWords+reason)
	e.Retryable = true
	return e, true
}

// Denied is the failure of a call to which the caller of the run, or the
// composite tool where that calls in its own right, has no right. Nothing is
// sent.
func (a Attempt) Denied() (e *Error, repeat bool) {
	who := "the caller of the run"
	if a.Call.As != "" {
		who = "the composite tool " + a.Call.As
	}
	return a.error(codes.PermissionDenied, codes.CategoryPermission, deniedWords+who+" may not call it"), false
}

// Unruled is the failure of a call whose run has started where there are rules
// about who may call what, at a worker that knows none. Nothing is sent, and
// another worker may make the call.
func (a Attempt) Unruled() (e *Error, repeat bool) {
	e = a.error(codes.WorkerWithoutRules, codes.CategoryPermission, deniedWords+"its run has started where there are rules, and this worker knows none: "+
		"give each worker the configuration of the gateways, with its authorization")
	e.Retryable = true
	return e, true
}

// Unauthorized is the failure of a call that was not executed for lack of a
// credential that only a person can bring: the run waits for it.
func (a Attempt) Unauthorized(reason string) (e *Error, repeat bool) {
	e = a.error(codes.CredentialsNeeded, codes.CategoryCredentials, credentialsWords+a.Call.Backend+": "+reason)
	e.Retryable = true
	return e, false
}

// Held is the failure of a call that the limits of its backend hold back; why is
// that of a Hold. Nothing was sent: the run makes the same call later.
func (a Attempt) Held(why string) (e *Error, repeat bool) {
	e = a.error(codes.Held, codes.CategoryHeld, heldWords+Hold{Why: why}.what(a.Call.Backend))
	e.Retryable = true
	return e, false
}

// Lost is the failure of a call that was sent and got no answer: an unknown outcome.
// Repeatable calls are repeated a few times only, since the call may be what takes its
// backend down.
func (a Attempt) Lost(reason string) (e *Error, repeat bool) {
	e, repeat = a.TurnedDown(reason)
	next := a
	next.Number++
	return e, repeat && (next.WorthRepeating() || a.Unsent)
}

// TurnedDown is the failure of a call that was answered, by the backend or something
// before it, with the report that the backend is unavailable or overloaded. Its outcome
// is unknown; repeatable calls are repeated until the step's time is up.
func (a Attempt) TurnedDown(reason string) (e *Error, repeat bool) {
	return a.unknown(a.error(codes.ConnectionLost, codes.CategoryTool, lostWords+reason))
}

// Oversized is the failure of a call whose answer is over a limit of its backend, and is
// not read to its end. For a call that may be repeated, only its output is missing; that
// an unsafe call was executed, such an answer does not prove.
func (a Attempt) Oversized(reason string) (e *Error, repeat bool) {
	if !Repeatable(a.Call.Effect) {
		return a.Lost(reason)
	}
	return a.unusable(codes.OutputTooLarge, codes.CategoryLimit, reason+": ask the tool for less")
}

// WorkerLost is the failure of a call that is not made any more, since attempts
// before have ended with their workers.
func (a Attempt) WorkerLost() (e *Error, repeat bool) {
	e = a.error(codes.WorkerLost, codes.CategoryTool, "")
	e.Message = workerLost(a.Call.StepPath, a.Call.Tool)
	e.Attempt--
	e, _ = a.unknown(e)
	return e, false
}

// workerLost is the message about a call whose worker reported nothing any more.
func workerLost(path record.StepPath, tool string) string {
	return fmt.Sprintf("step %s: the worker that called %s ended, or was cut off from Temporal", path, tool)
}

// SentBefore is the failure of a call that is not made, since the run had made it
// before it was reset, with an outcome that is unknown. No key helps: what the step did may
// have been undone since, or done with other arguments.
func (a Attempt) SentBefore() (e *Error, repeat bool) {
	return a.error(codes.SentBefore, codes.CategoryOutcomeUnknown, " was called before the run was reset"+fmt.Sprintf(unknownWords, a.Call.Tool)), false
}

// UndoneSince is the failure of a call that is not made, since a step was undone that the run
// takes for done, as it was reset to behind it.
func (a Attempt) UndoneSince(step record.StepPath) (e *Error, repeat bool) {
	return a.error(codes.UndoneSince, codes.CategoryTool, deniedWords+undoneSince(step)), false
}

func undoneSince(step record.StepPath) string {
	return fmt.Sprintf("step %s was undone, or may have been, after the point to which the run was reset; resume the run, and it is done again", step)
}

// TimedOut is the failure of a call whose time was up before an answer came: an
// unknown outcome.
func (a Attempt) TimedOut() (e *Error, repeat bool) {
	e = a.error(codes.StepTimeout, codes.CategoryTimeout, "")
	e.Message = fmt.Sprintf("step %s: timed out waiting for %s", a.Call.StepPath, a.Call.Tool)
	return a.unknown(e)
}

// Cancelled is the failure of a call that was cancelled while it was under way.
func (a Attempt) Cancelled() (e *Error, repeat bool) {
	return a.error(codes.Cancelled, codes.CategoryCancelled, " was cancelled"), false
}

// Succeeded is the result of a call that the backend executed, or the failure
// that its output is not one.
func (a Attempt) Succeeded(structured json.RawMessage, content []ContentBlock) (ToolResult, error) {
	output, err := output(structured, content, a.Call.Beside)
	if err != nil {
		return ToolResult{}, Report(a.unusable(codes.InvalidOutput, codes.CategoryTool, err.Error()))
	}
	limit := cmp.Or(a.Call.MaxExpansion, MaxResultSize)
	if size := record.PayloadSize(output); size > limit {
		return ToolResult{}, Report(a.unusable(codes.OutputTooLarge, codes.CategoryLimit,
			fmt.Sprintf("the output has %d bytes; the limit is %d: ask the tool for less", size, limit)))
	}
	return ToolResult{Output: output}, nil
}

// NoRoom is the failure of a call that was executed and whose result does not fit
// into the history of its run, which has so many bytes. A result that fits gives nil.
func (a Attempt) NoRoom(history int64, result ToolResult) (e *Error) {
	size := int64(record.PayloadSize(result.Output))
	if history+size <= maxSize+MaxResultSize {
		return nil
	}
	e, _ = a.unusable(codes.OutputTooLarge, codes.CategoryLimit, fmt.Sprintf(
		"the output has %d bytes and the history of the run %d; the limit is %d: let the run do less, or return less from its tools", size, history, maxSize))
	return e
}

// TooLargeHere is what becomes of a call within a workflow task whose result
// does not fit there. It is no failure: the call is made again on its own.
func (a Attempt) TooLargeHere() error {
	e, _ := a.unusable(codes.OutputTooLargeHere, codes.CategoryLimit, "the output does not fit into the workflow task")
	return Report(e, true)
}

// unusable is the failure of a call that was executed and whose output cannot
// be used. Repeating it cannot help.
func (a Attempt) unusable(code codes.Code, category codes.Category, what string) (e *Error, repeat bool) {
	return a.error(code, category, ": "+what), false
}

// Reason takes the message of a failure apart: the code of the failure and what
// the backend, or the way to it, gave as the reason. Of a call that timed out or
// was cancelled both are empty.
func (a Attempt) Reason(message string) (code codes.Code, reason string) {
	message = strings.TrimPrefix(message, "step "+Summary(a.Call.StepPath, a.Call.Tool))
	message = strings.TrimSuffix(message, fmt.Sprintf(unknownWords, a.Call.Tool))
	if rest, ok := strings.CutPrefix(message, unavailableWords); ok {
		_, reason, _ = strings.Cut(rest, unreachableWords)
		return codes.BackendUnavailable, reason
	}
	if rest, ok := strings.CutPrefix(message, credentialsWords); ok {
		_, reason, _ = strings.Cut(rest, ": ")
		return codes.CredentialsNeeded, reason
	}
	for code, words := range map[codes.Code]string{codes.ToolError: answeredWords, codes.Refused: refusedWords, codes.ConnectionLost: lostWords} {
		if reason, ok := strings.CutPrefix(message, words); ok {
			return code, reason
		}
	}
	return "", ""
}

// error makes an error whose message begins with the step and the tool.
func (a Attempt) error(code codes.Code, category codes.Category, what string) *Error {
	return &Error{
		Code: code, Category: category, Message: fmt.Sprintf("step %s: %s%s", a.Call.StepPath, a.Call.Tool, what),
		StepID: a.Call.StepID, StepPath: a.Call.StepPath, Tool: a.Call.Tool, Attempt: a.Number, RunID: a.Call.RunID, EarlierUnknown: a.EarlierUnknown,
	}
}

// unknown marks an error after which the call may or may not have been executed.
func (a Attempt) unknown(e *Error) (*Error, bool) {
	e.Retryable = Repeatable(a.Call.Effect)
	if !e.Retryable {
		e.Category = codes.CategoryOutcomeUnknown
		e.Message += fmt.Sprintf(unknownWords, a.Call.Tool)
	}
	return e, e.Retryable
}

// Report is a failure as Temporal knows it. A call that must not be repeated is not
// retryable for Temporal, even if the client may retry.
func Report(e *Error, repeat bool) error { return ReportAfter(e, repeat, 0) }

// ReportAfter is Report with the pause before the call is repeated; 0 = as the
// retry policy has it.
func ReportAfter(e *Error, repeat bool, pause time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category),
		temporal.ApplicationErrorOptions{NonRetryable: !repeat, NextRetryDelay: pause, Details: []any{*e}})
}

// KnownOutcome reports whether a failure of a category that an attempt has reported
// means that the call was not executed, or was answered. It is false for what is no
// category.
func KnownOutcome(c codes.Category) bool {
	switch c {
	case codes.CategoryTool, codes.CategoryPermission, codes.CategoryLimit, codes.CategoryCredentials:
		return true
	}
	return false
}

// A ContentBlock is a content block of a tool's result.
type ContentBlock struct {
	Type string // text, image, audio, resource, resource_link
	Text string // of a text, or of a resource that is text
	Data string // base64, of an image or of a resource that is not text
}

// output is a tool's result as steps see it: the structured content if it is an object,
// with the wanted content blocks whose names it does not have; otherwise all content
// blocks, or the empty object. Structured content that is no object, as 2026-07-28
// allows, must also be in a block: without any block that has a name it fails.
func output(structured json.RawMessage, content []ContentBlock, beside []string) (json.RawMessage, error) {
	blocks := blocksByName(content)
	structured = bytes.TrimSpace(structured)
	if !bytes.HasPrefix(structured, []byte("{")) {
		if len(structured) > 0 && len(blocks) == 0 {
			return nil, errors.New("its structured content is no object, and no text has it as well: let the tool give an object, or a text block with the same JSON")
		}
		return template.EncodeValue(blocks)
	}
	beside = slices.DeleteFunc(slices.Clone(beside), func(name string) bool { return blocks[name] == nil })
	if len(beside) == 0 {
		return structured, nil
	}
	members, err := template.DecodeValue(structured)
	if err != nil {
		return nil, err
	}
	out := members.(map[string]any)
	for _, name := range beside {
		if _, has := out[name]; !has {
			out[name] = blocks[name]
		}
	}
	return template.EncodeValue(out)
}

// blocksByName gives content blocks by name: text, text_1, …, image_0, …, resource,
// resource_1, …. Audio and links have no name and are omitted.
func blocksByName(content []ContentBlock) map[string]any {
	out := map[string]any{}
	var texts, images, resources int
	for _, block := range content {
		switch block.Type {
		case "text":
			out[numbered("text", texts)] = block.Text
			texts++
		case "image":
			out[fmt.Sprintf("image_%d", images)] = block.Data
			images++
		case "resource":
			out[numbered("resource", resources)] = block.Text + block.Data
			resources++
		}
	}
	return out
}

func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, n)
}
