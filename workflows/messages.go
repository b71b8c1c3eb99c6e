// Package workflows interprets definitions as Temporal workflow code.
//
// A run is one execution of a workflow whose type is the name of its composite tool. All that it depends on
// is in its input (RunInput) or in its history; what it asks of the world goes
// through Activities, and a person's answer to an elicitation is a signal.
package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows/record"
)

// Names in histories; they must never change.
const (
	TaskQueue      = "perdure"
	AnswerSignal   = "elicitation-answer"
	QuestionSignal = "elicitation-asked"
	AttachSignal   = "request-attached"
	ChildSignal    = "child-report"       // to a run from one that it has called, a ChildReport
	AdoptSignal    = "child-adopted"      // to a run from the one that has called it, an Adopted
	MemoState      = "perdure"            // memo field that holds a State
	MemoResumption = "perdure-resumption" // memo field of a resumed run that holds a Resumption without its maps
	MemoStarted    = "perdure-started"    // memo field with the time.Time at which the first execution of a run began
	MemoParent     = "perdure-parent"     // memo field of a run that a step has called: a Parent
	CallToolName   = "CallTool"
	ResolveName    = "ResolveDefinition"
	OutcomeName    = "RunOutcome"
	LatestName     = "LatestExecution"
	TimesAnewName  = "TimesAnew"
	UndoneName     = "UndoneSteps"
)

// Search attributes, all of type Keyword.
const (
	AttrTool    = "PerdureTool"
	AttrVersion = "PerdureVersion"
	AttrStatus  = "PerdureStatus" // Waiting or TimedOut; unset = Temporal's own status says it all
	AttrCaller  = "PerdureCaller"
	AttrRequest = "PerdureRequest" // the request that waits for the run
	AttrWaiting = "PerdureWaiting" // what the run waits for: approval, compensation, reconciliation, credentials, key, payload, parent, backend, breaker, rate, concurrency; unset = nothing
)

// WaitingKinds are the values of AttrWaiting in this build.
var WaitingKinds = append([]string{
	WaitsFor(ForCaller), string(Credentials), string(Reconciliation), string(Compensation),
}, HeldKinds...)

// HeldKinds are those of WaitingKinds that are not about a person; what lasts
// longest comes first.
var HeldKinds = []string{HeldByKey, HeldByPayload, HeldByParent, HeldByBackend, HeldByBreaker, HeldByRate, HeldByConcurrency}

// A Status is the state of a run.
type Status string

// The statuses. Waiting is running with something that a person must do. A quarantined
// run kills its workers, so it is not executed; like a run terminated at Temporal it
// cannot set its status itself.
const (
	Running     Status = "running"
	Waiting     Status = "waiting"
	Quarantined Status = "quarantined"
	Completed   Status = "completed"
	Failed      Status = "failed"
	Cancelled   Status = "cancelled"
	Terminated  Status = "terminated"
	TimedOut    Status = "timed_out"
)

// Pinned is a definition as a run carries it, so that a later change of the
// definition never reaches a run under way.
type Pinned struct {
	Name    string          `json:"name"`
	Version string          `json:"version,omitempty"`
	Digest  string          `json:"digest"` // sha256:… of Source
	Source  json.RawMessage `json:"source"` // definitions.Definition as canonical JSON
}

// Pin pins a definition as it is now.
func Pin(d *definitions.Definition) Pinned {
	source := d.Source()
	return Pinned{Name: d.Name, Version: d.Version, Digest: definitions.DigestOf(source), Source: source}
}

// A Caller is who called the tool.
type Caller struct {
	Subject string   `json:"subject"`
	Groups  []string `json:"groups,omitempty"`
	Client  string   `json:"client,omitempty"` // name and version that the client gave
	// Forwarded names the headers and _meta of the caller's request that are kept for the
	// run, elsewhere; "" = none are.
	Forwarded string `json:"forwarded,omitempty"`
}

// RunInput is everything that a run depends on at its start. What people look for in
// Temporal's Web UI comes first.
type RunInput struct {
	Arguments      json.RawMessage             `json:"arguments"` // object, defaults applied, validated
	Caller         Caller                      `json:"caller"`
	Definition     Pinned                      `json:"definition"`
	Ruled          bool                        `json:"ruled,omitempty"`          // whether the installation has rules about who may call what, which its workers must have as well
	Lineage        string                      `json:"lineage"`                  // the same for all executions that continue each other; effect keys derive from it
	Depth          int                         `json:"depth,omitempty"`          // nesting of called workflows
	Tools          map[string]definitions.Tool `json:"tools,omitempty"`          // by the name that steps use
	Journal        map[StepPath]record.Entry   `json:"journal,omitempty"`        // by step path; results that are reused
	Open           []Elicitation               `json:"open,omitempty"`           // elicitations that were open when the run continued as new
	Continued      bool                        `json:"continued,omitempty"`      // whether this execution continues a run, so that the journal counts even if its templates would give other values now
	Resumption     *Resumption                 `json:"resumption,omitempty"`     // nil = this is no resumption
	WasReset       bool                        `json:"wasReset,omitempty"`       // an earlier execution was reset, so that calls may have been made that are not in the journal
	Round          string                      `json:"round,omitempty"`          // names the execution to which the run was reset, also in those that continue it; "" = it was not reset, or this is that execution
	Unread         map[StepPath]bool           `json:"unread,omitempty"`         // by step path: calls of unsafe tools that workers could not read, and that wait
	EarlierUnknown map[StepPath]string         `json:"earlierUnknown,omitempty"` // by step path: keyed tools whose call may have been executed
	Unchecked      []UncheckedSignal           `json:"unchecked,omitempty"`      // signals that wait for a worker with the key with which they were signed
	Asked          map[StepPath]int            `json:"asked,omitempty"`          // by step path: how often earlier executions have asked, where neither Journal nor Open has it
	MaxValue       int                         `json:"maxValue,omitempty"`       // bytes of the arguments and the output of a tool, and of the result, where large values are kept elsewhere; 0 = MaxResultSize
	MaxJournal     int                         `json:"maxJournal,omitempty"`     // bytes of this input, with its journal, where large values are kept elsewhere; 0 = MaxResultSize
	Started        time.Time                   `json:"started,omitzero"`         // from when the timeout counts; zero = now
	Parent         *Parent                     `json:"parent,omitempty"`         // the run whose step has called this one; nil = a caller started it
	Within         string                      `json:"within,omitempty"`         // prefix of step paths in effect keys: the steps of the lineage that this run is part of
	As             string                      `json:"as,omitempty"`             // composite tool in whose right a step has called this one; "" = in that of the caller
	Limit          time.Duration               `json:"limit,omitempty"`          // timeout that the step gives, which counts instead of that of the definition; 0 = none
	AboveEnds      time.Time                   `json:"aboveEnds,omitzero"`       // when what has called this run is over, as far as that was known; zero = never

	ScriptLimits *ScriptLimits `json:"scriptLimits,omitempty"` // of each script; nil = the defaults
	MaxDepth     int           `json:"maxDepth,omitempty"`     // how deep composite tools may call each other; 0 = definitions.MaxWorkflowDepth
	Tree         Tree          `json:"tree,omitzero"`
}

// WorkflowType is the type of the workflow that executes the run: what Temporal's Web UI
// lists it under. It is the name of the composite tool.
func (in RunInput) WorkflowType() string { return in.Definition.Name }

// ownTypes begins the types of the workflows that are no runs, as no name of a composite
// tool does.
const ownTypes = "perdure/"

// ExecutesRun reports whether workflows of a type execute runs: those of the tool of
// that name.
func ExecutesRun(workflowType string) bool { return !strings.HasPrefix(workflowType, ownTypes) }

// A Parent is the run whose step has called another run.
type Parent struct {
	RunID    string   `json:"runId"`
	StepPath StepPath `json:"stepPath"`
	Adopted  bool     `json:"adopted,omitempty"` // Temporal does not report to it how this run ends, so this one does
}

// A Resumption reports that an execution repeats one that has ended: what that one
// completed is in the journal.
type Resumption struct {
	Of     string           `json:"of"`               // Temporal's run ID of the execution that is repeated
	By     string           `json:"by,omitempty"`     // who resumes it
	Token  string           `json:"token,omitempty"`  // of the plan of this resumption; in the memo only
	Number int              `json:"time"`             // 1 = the first resumption of the run
	Asked  map[StepPath]int `json:"asked,omitempty"`  // by step path: how often it has asked before, so that no ID of an elicitation comes twice
	Undone map[StepPath]int `json:"undone,omitempty"` // by step path: how often it was undone; executed again, it has a key of its own
}

// RunResult is what a completed run returns.
type RunResult struct {
	Output json.RawMessage `json:"output"`           // null when every step was skipped
	Errors []Error         `json:"errors,omitempty"` // of steps that failed under failureMode best_effort, in the order of failing

	Skipped []SkippedStep `json:"skipped,omitempty"` // of a run that no step has called, in the order of the definition, maxSkipped at most

	Effects *Effects `json:"effects,omitempty"` // of a run that a step has called; nil = none

	Kept int `json:"kept,omitempty"` // bytes of the result of a run that a step has called, which is in its history only (see Kept); 0 = it is here
}

// A SkippedStep is a step of the definition that was skipped.
type SkippedStep struct {
	ID  string `json:"id"`
	Why string `json:"why"` // one line, bounded in length
}

// A Failure is the detail of the application error with which a run fails.
type Failure struct {
	Error   Error                        `json:"error"`
	Partial map[StepPath]json.RawMessage `json:"partial,omitempty"` // outputs of completed steps, by step id, bounded in size

	// Omitted are the paths of completed steps whose outputs do not fit into
	// Partial, maxOmitted of them at most.
	Omitted []StepPath `json:"omitted,omitempty"`

	// Compensated are the paths of steps that were undone, in the order of undoing,
	// also by called runs that did not complete, as far as maxUndoneBelow has room.
	Compensated   []StepPath `json:"compensated,omitempty"`
	Uncompensated []StepPath `json:"uncompensated,omitempty"` // paths of steps that a person decided to leave as they are

	Skipped []SkippedStep `json:"skipped,omitempty"` // as of a RunResult

	Effects *Effects `json:"effects,omitempty"` // calls that calling again would or might repeat, also of called runs; nil = none

	Kept int `json:"kept,omitempty"` // as of a RunResult: here is the error only
}

// What a run records and also reports, on the whole way from the activity to the client.
type (
	Error       = record.Error
	Effects     = record.Effects
	EffectCall  = record.EffectCall
	UnknownCall = record.UnknownCall
	ParkedCall  = record.ParkedCall
)

// Activities are what workflows ask of the world.
//
// An error that CallTool returns is a *temporal.ApplicationError whose type is the
// Category and whose detail is an Error; it is non-retryable exactly where repeating
// the call could execute an effect twice or cannot help. The same holds for the errors
// of ResolveDefinition. RunOutcome fails with a retryable error for as long as the run
// continues. LatestExecution gives Temporal's ID of the execution of a run that was started
// last; "" = there is none.
type Activities interface {
	CallTool(ctx context.Context, call ToolCall) (ToolResult, error)
	ResolveDefinition(ctx context.Context, ref DefinitionRef) (ResolvedDefinition, error)
	RunOutcome(ctx context.Context, runID string) (ChildOutcome, error)
	LatestExecution(ctx context.Context, runID string) (string, error)
	TimesAnew(ctx context.Context, step StepPath) (int, error)
	UndoneSteps(ctx context.Context, runID string) ([]StepPath, error)
}

// A DefinitionRef is what a step calls.
type DefinitionRef struct {
	RunID    string   `json:"runId"`
	StepPath StepPath `json:"stepPath"`
	From     string   `json:"from"`     // name of the definition whose step it is
	Workflow string   `json:"workflow"` // as it is written: name, or name@constraint
	Caller   Caller   `json:"caller"`
	As       string   `json:"as,omitempty"` // composite tool that calls in its own right; "" = its caller does
}

// A ResolvedDefinition is the definition that a reference means now, and what
// its tools are now.
type ResolvedDefinition struct {
	Definition Pinned                      `json:"definition"`
	Tools      map[string]definitions.Tool `json:"tools,omitempty"` // by the name that steps use
}

// A ChildOutcome is how a called run has ended. One of the two is set.
type ChildOutcome struct {
	Result  *RunResult `json:"result,omitempty"`
	Failure *Failure   `json:"failure,omitempty"`
}

// A ToolCall is one call of a backend tool.
type ToolCall struct {
	RunID          string             `json:"runId"`
	StepID         string             `json:"stepId"`
	StepPath       StepPath           `json:"stepPath"`
	Tool           string             `json:"tool"`     // exposed name
	Backend        string             `json:"backend"`  // name of the backend
	Original       string             `json:"original"` // name at the backend
	Arguments      json.RawMessage    `json:"arguments"`
	Effect         definitions.Effect `json:"effect,omitempty"`
	IdempotencyKey string             `json:"idempotencyKey"` // sent in _meta as perdure/idempotency-key
	KeyArgument    string             `json:"keyArgument,omitempty"`
	MaxAttempts    int                `json:"maxAttempts,omitempty"` // of a call that is answered with an error; 0 = 1
	Caller         Caller             `json:"caller"`
	Ruled          bool               `json:"ruled,omitempty"`         // see RunInput
	As             string             `json:"as,omitempty"`            // composite tool that calls in its own right; "" = its caller does
	Limit          time.Duration      `json:"limit,omitempty"`         // of the call from when it is sent, where the backend has limits; 0 = the activity's own
	MaxExpansion   int                `json:"maxResult,omitempty"`     // bytes of the output; 0 = MaxResultSize
	SearchHistory  bool               `json:"searchHistory,omitempty"` // an earlier execution may have made the call: look for it in its history
	Execution      string             `json:"execution,omitempty"`     // Temporal's ID of the one that has decided to call an unsafe or keyed tool; "" = that does not matter
	Beside         []string           `json:"beside,omitempty"`        // content blocks that the output has beside structured content, by name
	Anew           time.Time          `json:"anew,omitzero"`           // with SearchHistory: what was decided until then is known not to have been executed
	Decided        time.Time          `json:"decided,omitzero"`        // when the run had seen what had happened to it and made up its mind, by Temporal's clock
	Parent         string             `json:"parent,omitempty"`        // ID of the run that has called this one, which may have been stopped; "" = none, or the call undoes another
	Ends           time.Time          `json:"ends,omitzero"`           // when the run, or one above it, is over, whether it has noticed or not; zero = never, or the call undoes another
	Unread         bool               `json:"unread,omitempty"`        // workers could not read the call; the last of them may have got it after it was made, which its history shows
	Waits          bool               `json:"waits,omitempty"`         // the run shows that it waits for the backend, so the call is repeated without a report
}

// A CallBefore is what became of the call of a step before its run was reset. Neither a
// result, nor a failure, nor unknown: it can be made.
type CallBefore struct {
	Result  *ToolResult // nil = there is none
	Failure *Error      // with which it fails as it did: the script has made it once more after that; nil = it does not
	Unknown bool        // it may have been executed, or undone since, or the step has made another one
	Other   bool        // and a key does not help: the step may have made another one, or it is not known whether what it did was undone
	Anew    int         // how often what the step does was done after it was undone, this call included
	Undone  StepPath    // a step that was undone though the run takes it for done, as it was reset to behind it; "" = there is none
}

// KeyAnew is the key of a call of a step that was done so often after it was undone, or of
// one that undoes that, from the key of the first.
func KeyAnew(key string, times int) string {
	if times == 0 || key == "" {
		return key
	}
	return idempotencyKey(key, "anew", strconv.Itoa(times))
}

// StepProgress is the last progress of the backend of a call under way. It is the
// details of the activity's heartbeats, so it exists only as long as the call, and is
// not in history.
type StepProgress struct {
	StepPath StepPath `json:"stepPath"`
	Progress float64  `json:"progress,omitempty"` // 0 = none reported
	Total    float64  `json:"total,omitempty"`    // 0 = unknown
	Message  string   `json:"message,omitempty"`  // shortened to MaxProgressMessage bytes
}

// MaxProgressMessage is how much of a backend's message is kept, in bytes.
const MaxProgressMessage = 500

// A StepPath reports where in a run something is executed.
type StepPath = definitions.StepPath

// A ToolResult is the output of a tool as a step sees it: structuredContent
// where that is an object, with those content blocks that the call wants beside it;
// otherwise the content blocks by name (text, text_1, image_0, resource, …).
type ToolResult struct {
	Output json.RawMessage `json:"output"`         // an object
	Took   time.Duration   `json:"took,omitempty"` // of a call inside a workflow task: history has only its end
}

// Summary of an activity, timer or local activity: "STEPPATH: WHAT". Who
// follows a run reads the step path from it; see ReadSummary.
func Summary(path StepPath, what string) string { return string(path) + ": " + what }

// WaitsForAnswer is the Summary of a timer of a question; for a step that waits for
// anything else it begins with "waits" as well.
const WaitsForAnswer = "waits for an answer"

// WaitsUntil begins the Summary of a timer for which a step waits, or a line of a
// script.
const WaitsUntil = "waits until "

// callSummary is the Summary of a call: the tool, and what calling it may do.
func callSummary(path StepPath, tool definitions.Tool) string {
	return Summary(path, tool.Name+effectMark(tool.Effect))
}

// effectMark is how a tool's effect class is shown beside its name.
func effectMark(e definitions.Effect) string {
	return " [" + string(cmp.Or(e, definitions.Unsafe)) + "]"
}

// ReadSummary takes a Summary apart; of a call, what is the tool. Histories of
// earlier releases do not have the effect class.
func ReadSummary(text string) (path StepPath, what string, ok bool) {
	at, what, ok := strings.Cut(text, ": ")
	for _, e := range []definitions.Effect{definitions.Read, definitions.Idempotent, definitions.Keyed, definitions.Unsafe} {
		what = strings.TrimSuffix(what, effectMark(e))
	}
	return StepPath(at), what, ok
}
