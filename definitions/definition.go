// Package definitions is the language of composite tools: what a definition says,
// whether it can run, and the values of its templates.
//
// It is pure: no I/O, no clock, no randomness, no Temporal. The same code
// checks a definition when it is loaded and expands its templates inside a
// workflow, so what was checked is what runs.
package definitions

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Limits of the language. Each is reported by its name when it is hit.
const (
	MaxSteps       = 100      // steps of one definition
	MaxDescription = 16 << 10 // bytes of its description
	MaxOutputDepth = 10       // nesting of an output block
	MaxIterations  = 1000     // items of a forEach
	MaxParallel    = 50       // items of a forEach at a time
	MaxRetries     = 10       // retries of a step after its first attempt

	MaxSchemaSize      = 100 << 10          // bytes of an elicitation schema
	MaxSchemaDepth     = 10                 // nesting of an elicitation schema
	MaxAnswerSize      = 1 << 20            // bytes of an answer to an elicitation
	MaxWait            = 87_600 * time.Hour // of a wait, ten years
	DefaultTimeout     = 30 * time.Minute   // of a run
	DefaultStepTimeout = 5 * time.Minute    // of a step, elicitations included
	DefaultRetryDelay  = time.Second        // before the first retry
	DefaultIterations  = 100                // maxIterations of a forEach
	DefaultParallel    = 10                 // maxParallel of a forEach
	MaxScriptCalls     = 1000               // of a script: of tools and workflows, and elicitations
	MaxCalledRuns      = 10_000             // runs that a run calls; those below another have a part of it
	MaxWorkflowDepth   = 10                 // nesting of called workflows where maxWorkflowDepth says nothing else
)

// A StepType says what a step does.
type StepType string

// The step types. A step without a type is a tool step.
const (
	ToolStep        StepType = "tool"
	ElicitationStep StepType = "elicitation"
	ForEachStep     StepType = "forEach"
	WaitStep        StepType = "wait"
	WorkflowStep    StepType = "workflow"
	ScriptStep      StepType = "script"
)

// An Action says what follows a failed step (abort, continue, retry) or an
// elicitation that was not accepted (abort, continue, skip_remaining).
type Action string

// The actions.
const (
	Abort         Action = "abort"
	Continue      Action = "continue"
	Retry         Action = "retry"
	SkipRemaining Action = "skip_remaining"
)

// A FailureMode says what the failure of a step that does not continue means for the
// others. Steps that depend on it never run.
type FailureMode string

// The failure modes. "" means FailFast.
const (
	FailFast   FailureMode = "abort"       // everything stops at once
	FailLate   FailureMode = "continue"    // other branches run to their ends; then the run fails
	BestEffort FailureMode = "best_effort" // other branches run to their ends; the run completes with their outputs
)

// A RunAs says whose permission a run needs to call tools.
type RunAs string

// The values of RunAs. "" means AsCaller.
const (
	AsCaller    RunAs = "caller"    // the caller's
	AsComposite RunAs = "composite" // the composite tool's, for any caller
)

// A Mode says where an elicitation is answered, in MCP's words.
type Mode string

// The modes. "" means FormMode.
const (
	FormMode Mode = "form" // in the client of the call, or by any other channel
	URLMode  Mode = "url"  // on the approvals page; a client is only given the link
)

// A Definition is one composite tool as written.
//
// Both written forms, an entry of compositeTools in a configuration and the
// spec of a VirtualMCPCompositeToolDefinition resource, become this type.
type Definition struct {
	Name        string         `yaml:"name" json:"name"`
	Description string         `yaml:"description" json:"description" meant:"summary,title,desc,descr"`
	Version     string         `yaml:"version,omitempty" json:"version,omitempty"` // semver; "" = not versioned
	Parameters  map[string]any `yaml:"parameters,omitempty" json:"parameters,omitempty" meant:"inputs,input,args,arguments,params,inputSchema"`
	Timeout     Duration       `yaml:"timeout,omitempty" json:"timeout,omitempty"` // of the whole run; 0 = DefaultTimeout
	FailureMode FailureMode    `yaml:"failureMode,omitempty" json:"failureMode,omitempty"`
	RunAs       RunAs          `yaml:"runAs,omitempty" json:"runAs,omitempty"`
	Expose      Expose         `yaml:"expose,omitempty" json:"expose,omitzero"`

	// BusinessKey is a template over the parameters. Calls of any callers with the same
	// key mean the same run. "" = each call is a run of its own.
	BusinessKey string      `yaml:"businessKey,omitempty" json:"businessKey,omitempty"`
	OnDuplicate OnDuplicate `yaml:"onDuplicate,omitempty" json:"onDuplicate,omitempty"` // "" = Attach

	OnDisconnect OnDisconnect `yaml:"onDisconnect,omitempty" json:"onDisconnect,omitempty"` // "" = as the server says

	// Either steps or a script. A script has all arguments as its data.
	Code  `yaml:",inline"`
	Steps []*Step `yaml:"steps,omitempty" json:"steps,omitempty" meant:"jobs,tasks,workflow,nodes,do,stages,states,States,actions"`

	Output      *Output      `yaml:"output,omitempty" json:"output,omitempty" meant:"outputs,return,returns,result,results,outputSchema"`
	Annotations *Annotations `yaml:"annotations,omitempty" json:"annotations,omitempty"`

	Metadata map[string]any `yaml:"metadata,omitempty" json:"metadata,omitempty"` // of the author; without effect

	Written `yaml:"-" json:"-"` // not part of the source

	arguments *lazySchema // of Parameters; nil if it was made in Go
	compiler  *compiler   // of its scripts; nil if it was made in Go
}

// Expose says who sees a composite tool, and under which name. It narrows the policy
// of a server, except for Callers. The zero value is for everybody.
type Expose struct {
	Hidden   bool     `yaml:"hidden,omitempty" json:"hidden,omitempty"`     // only Callers see and call it
	As       string   `yaml:"as,omitempty" json:"as,omitempty"`             // "" = the server's prefix and the name of the definition
	Groups   []string `yaml:"groups,omitempty" json:"groups,omitempty"`     // whose members see and call it; none, without Subjects = everybody
	Subjects []string `yaml:"subjects,omitempty" json:"subjects,omitempty"` // who see and call it, too
	Callers  []string `yaml:"callers,omitempty" json:"callers,omitempty"`   // composite tools, or patterns of their names, that may call it for any caller
}

// HiddenBut is e for a tool that these composite tools may call, and those that e names
// itself.
func (e Expose) HiddenBut(callers []string) Expose {
	e.Hidden, e.Callers = true, slices.Concat(e.Callers, callers)
	return e
}

// Admits reports whether a composite tool is among Callers.
func (e Expose) Admits(caller string) bool { return MatchesTool(e.Callers, caller) }

// Name is the name of a composite tool for clients of a server with a prefix for names.
func (e Expose) Name(prefix, tool string) string { return cmp.Or(e.As, prefix+tool) }

// A Step is one node of a definition. Which fields may be set depends on Type.
type Step struct {
	ID        string   `yaml:"id,omitempty" json:"id,omitempty" meant:"name,key,task_id"` // optional on the inner step of a forEach
	Type      StepType `yaml:"type,omitempty" json:"type,omitempty" meant:"kind"`
	DependsOn []string `yaml:"dependsOn,omitempty" json:"dependsOn,omitempty" meant:"needs,depends_on,depends,after,requires,upstream,upstream_task_ids,runAfter,dependencies"`
	Condition string   `yaml:"condition,omitempty" json:"condition,omitempty" meant:"if,when,only_if"`                                                      // a template that gives true or false
	Timeout   Duration `yaml:"timeout,omitempty" json:"timeout,omitempty" meant:"startToCloseTimeout,scheduleToCloseTimeout,time_limit,timeLimit,deadline"` // all attempts together; 0 = DefaultStepTimeout
	OnError   *OnError `yaml:"onError,omitempty" json:"onError,omitempty" meant:"on_error,onFailure,on_failure,retry,retries,catch,except,rescue"`

	Metadata map[string]any `yaml:"metadata,omitempty" json:"metadata,omitempty"` // of the author; without effect

	// DefaultResults replace the output if the step is skipped, or fails and continues.
	DefaultResults Optional `yaml:"defaultResults,omitempty" json:"defaultResults,omitzero" meant:"default,defaults,default_results,fallback"`

	// tool
	Tool      string         `yaml:"tool,omitempty" json:"tool,omitempty" meant:"uses,call,activity,activityType,action,function,operator,resource,Resource,toolName,tool_name"` // exposed name, or backend.originalName
	Arguments map[string]any `yaml:"arguments,omitempty" json:"arguments,omitempty" meant:"with,args,params,parameters,input,inputs,op_kwargs,Parameters,argument"`              // strings at any depth are templates

	// workflow, with Arguments and Compensate
	Workflow string `yaml:"workflow,omitempty" json:"workflow,omitempty"` // the composite tool to call: name, or name@constraint

	// OnUnknown says what follows an unknown outcome. "" = as configured for the tool.
	OnUnknown OnUnknown `yaml:"onUnknown,omitempty" json:"onUnknown,omitempty"`

	// Probe finds out whether a call of unknown outcome was executed.
	// nil = as configured for the tool.
	Probe *Probe `yaml:"probe,omitempty" json:"probe,omitempty"`

	// Compensate undoes a completed step of type tool or workflow when the run
	// fails, is cancelled or is declined after it. nil = nothing to undo.
	Compensate *Compensation `yaml:"compensate,omitempty" json:"compensate,omitempty" meant:"rollback,undo,compensation,compensateWith,onRollback"`

	// elicitation
	Message   string     `yaml:"message,omitempty" json:"message,omitempty" meant:"prompt,question,text,title,ask"`                    // a template
	Schema    FormSchema `yaml:"schema,omitempty" json:"schema,omitempty" meant:"form,fields,requestedSchema,options,choices,answers"` // flat JSON Schema; nil = no fields
	Mode      Mode       `yaml:"mode,omitempty" json:"mode,omitempty"`                                                                 // "" = FormMode
	OnDecline *Handler   `yaml:"onDecline,omitempty" json:"onDecline,omitempty"`
	OnCancel  *Handler   `yaml:"onCancel,omitempty" json:"onCancel,omitempty"`

	// forEach
	Collection    string `yaml:"collection,omitempty" json:"collection,omitempty" meant:"items,loop,over,in,for_each,forEach,foreach,with_items,withItems,itemsPath,itemsExpr"` // a template that gives an array or an object
	ItemVar       string `yaml:"itemVar,omitempty" json:"itemVar,omitempty" meant:"item,as,each,loop_var,iterator"`                                                             // "" = item
	MaxParallel   int    `yaml:"maxParallel,omitempty" json:"maxParallel,omitempty" meant:"parallel,concurrency,parallelism"`
	MaxIterations int    `yaml:"maxIterations,omitempty" json:"maxIterations,omitempty"`
	Step          *Step  `yaml:"step,omitempty" json:"step,omitempty" meant:"do,body,steps"`

	// Collect is a template that is expanded for each completed item, with
	// .forEach and .output of that item; its values become .output.collected,
	// in the order of the collection. "" = nothing is collected.
	Collect string `yaml:"collect,omitempty" json:"collect,omitempty"`

	// script, whose data are its Arguments
	Code `yaml:",inline"`

	// wait: one of the two, both templates
	For   string `yaml:"for,omitempty" json:"for,omitempty" meant:"duration,delay,sleep"` // a duration such as 90m or 72h
	Until string `yaml:"until,omitempty" json:"until,omitempty"`                          // an RFC 3339 timestamp

	Pos Position `yaml:"-" json:"-"`
}

// ItemName is the name of the item of a forEach after .forEach.
func (s *Step) ItemName() string { return cmp.Or(s.ItemVar, "item") }

// Continues reports whether the run continues if the step fails.
func (s *Step) Continues() bool { return s.OnError != nil && s.OnError.Action == Continue }

// A Compensation is a tool call that undoes a step. Its templates see the step's own
// output besides the data of the step.
type Compensation struct {
	Tool      string         `yaml:"tool" json:"tool"`
	Arguments map[string]any `yaml:"arguments,omitempty" json:"arguments,omitempty"`
	Timeout   Duration       `yaml:"timeout,omitempty" json:"timeout,omitempty"` // all attempts together; 0 = DefaultStepTimeout
	OnError   *OnError       `yaml:"onError,omitempty" json:"onError,omitempty"` // retry, or nothing
}

// OnError says what follows when a step fails. The zero value aborts.
type OnError struct {
	Action     Action   `yaml:"action,omitempty" json:"action,omitempty"`
	RetryCount int      `yaml:"retryCount,omitempty" json:"retryCount,omitempty" also:"maxRetries" meant:"retry,retries,attempts,maxAttempts,max_retries,count,times"` // retries after the first attempt
	RetryDelay Duration `yaml:"retryDelay,omitempty" json:"retryDelay,omitempty" meant:"delay,backoff,interval,retry_delay"`                                           // before the first retry; 0 = DefaultRetryDelay
}

// A Handler says what follows an elicitation that was declined or cancelled.
type Handler struct {
	Action Action `yaml:"action" json:"action"`
}

// Output describes the result of a composite.
type Output struct {
	Properties map[string]*Property `yaml:"properties" json:"properties" holds:"members"`
	Required   []string             `yaml:"required,omitempty" json:"required,omitempty"`
}

// A Property is one member of the result: a template (Value) or, for objects,
// properties of its own.
type Property struct {
	Type        string               `yaml:"type" json:"type"`
	Description string               `yaml:"description,omitempty" json:"description,omitempty"`
	Value       string               `yaml:"value,omitempty" json:"value,omitempty" meant:"from,source,expression,expr,template"`
	Properties  map[string]*Property `yaml:"properties,omitempty" json:"properties,omitempty"`
	Default     any                  `yaml:"default,omitempty" json:"default,omitempty"`
}

// Annotations are the hints that a tool gives to clients (MCP ToolAnnotations).
// A nil hint is not stated.
type Annotations struct {
	Title           string `yaml:"title,omitempty" json:"title,omitempty"`
	ReadOnlyHint    *bool  `yaml:"readOnlyHint,omitempty" json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `yaml:"destructiveHint,omitempty" json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `yaml:"idempotentHint,omitempty" json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `yaml:"openWorldHint,omitempty" json:"openWorldHint,omitempty"`
}

// OnUnknown says what follows an unknown outcome of a call of an unsafe tool.
type OnUnknown string

// The values of OnUnknown. "" means FailUnknown.
const (
	FailUnknown OnUnknown = "fail" // the step fails
	Ask         OnUnknown = "ask"  // the run waits for a person to reconcile it
)

// An Effect is the effect class of a tool, set by the operator. It decides what may
// follow an unknown outcome.
type Effect string

// The effect classes. The empty class means Unsafe.
const (
	Read       Effect = "read"       // changes nothing
	Idempotent Effect = "idempotent" // repeating it is harmless
	Keyed      Effect = "keyed"      // the backend de-duplicates by a key
	Unsafe     Effect = "unsafe"     // anything else; never repeated after an unknown outcome
)

// A Tool is a tool that steps can call. A run carries the tools that it uses as they
// were when it started.
type Tool struct {
	Name         string          `json:"name"`     // as exposed, after conflict resolution
	Backend      string          `json:"backend"`  // name of the backend
	Original     string          `json:"original"` // name at the backend
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`
	Effect       Effect          `json:"effect,omitempty"`
	KeyArgument  string          `json:"keyArgument,omitempty"` // of a keyed tool; "" = _meta only
	OnUnknown    OnUnknown       `json:"onUnknown,omitempty"`   // of an unsafe tool, unless the step has one
	Probe        *Probe          `json:"probe,omitempty"`       // the same
	Limited      bool            `json:"limited,omitempty"`     // its backend has limits, which one process applies for all
	ForProbe     bool            `json:"forProbe,omitempty"`    // only the probe of another tool: scripts cannot call it

	Description string `json:"-"` // the backend's; runs do not carry it
}

// Tools finds a tool by the name that a step uses: the exposed name,
// backend.originalName, or either as scripts spell it.
type Tools func(name string) (Tool, bool)

// ToolsByName finds tools in a map; nil = no tool is known.
func ToolsByName(tools map[string]Tool) Tools {
	return func(name string) (Tool, bool) {
		t, ok := tools[name]
		return t, ok
	}
}

// RunTimeout is how long a run of a definition may take.
func RunTimeout(d *Definition) Duration { return cmp.Or(d.Timeout, Duration(DefaultTimeout)) }
