package codes

// Codes of errors, stable for machines. What there is to know of each is in the
// table.
const (
	InvalidArguments    Code = "invalid_arguments"
	InvalidDefinition   Code = "invalid_definition"
	InvalidWorkflow     Code = "invalid_workflow"
	KeyReused           Code = "key_reused"
	Quota               Code = "quota"
	RunNotFound         Code = "run_not_found"
	TemplateFailed      Code = "template_failed"
	OutputFailed        Code = "output_failed"
	ToolError           Code = "tool_error"
	NotSent             Code = "not_sent"
	NoAnswer            Code = "no_answer"
	OutcomeUnknown      Code = "outcome_unknown"
	Refused             Code = "refused"
	CredentialsNeeded   Code = "credentials_needed"
	Held                Code = "held"
	WorkerWithoutRules  Code = "worker_without_rules"
	PermissionDenied    Code = "permission_denied"
	SentBefore          Code = "sent_before"
	BackendUnavailable  Code = "backend_unavailable"
	ConnectionLost      Code = "connection_lost"
	WorkerLost          Code = "worker_lost"
	UnderWay            Code = "under_way"
	UnknownTool         Code = "unknown_tool"
	ToolUnavailable     Code = "tool_unavailable"
	ToolDrift           Code = "tool_drift"
	UnknownVersion      Code = "unknown_version"
	UnknownWorkflow     Code = "unknown_workflow"
	WorkflowUnavailable Code = "workflow_unavailable"
	WorkflowCancelled   Code = "workflow_cancelled"
	CalledRunGone       Code = "called_run_gone"
	WorkflowTooDeep     Code = "workflow_too_deep"
	ParentGone          Code = "parent_gone"
	InvalidOutput       Code = "invalid_output"
	StepTimeout         Code = "step_timeout"
	RunTimeout          Code = "run_timeout"
	RunTooLong          Code = "run_too_long"
	ElicitationSchema   Code = "elicitation_schema"
	ElicitationTimeout  Code = "elicitation_timeout"
	Cancelled           Code = "cancelled"
	Terminated          Code = "terminated"
	Quarantined         Code = "quarantined"
	Declined            Code = "declined"
	Duplicate           Code = "duplicate"
	Dismissed           Code = "dismissed"
	TooManyItems        Code = "too_many_items"
	ScriptFailed        Code = "script_failed"
	ScriptError         Code = "script_error"
	ScriptSteps         Code = "script_steps"
	ScriptMemory        Code = "script_memory"
	ScriptCalls         Code = "script_calls"
	ScriptWidth         Code = "script_width"
	ScriptValue         Code = "script_value"
	ScriptNesting       Code = "script_nesting"
	ScriptDepth         Code = "script_depth"
	ScriptInteger       Code = "script_integer"
	ScriptTime          Code = "script_time"
	ElicitationTooLarge Code = "elicitation_too_large"
	ArgumentsTooLarge   Code = "arguments_too_large"
	InputTooLarge       Code = "input_too_large"
	OutputTooLarge      Code = "output_too_large"
	OutputTooLargeHere  Code = "output_too_large_here"
	ResultTooLarge      Code = "result_too_large"
	Unavailable         Code = "unavailable"
	StartUnknown        Code = "start_unknown"
	Internal            Code = "internal"
	InvalidResult       Code = "invalid_result"
)

// table has every code, in the order of the page.
var table = []Entry{
	{Code: InvalidArguments, Categories: []Category{CategoryValidation},
		When: "the arguments do not fit `parameters`"},
	{Code: InvalidDefinition, Categories: []Category{CategoryValidation}, Hint: "Correct the definition; perdure validate says where.",
		When: "the definition that a run carries cannot be read by this version"},
	{Code: InvalidWorkflow, Categories: []Category{CategoryValidation},
		When: "what a script calls names no composite tool: NAME, or NAME@VERSION, is one"},
	{Code: KeyReused, Categories: []Category{CategoryValidation},
		When: "an idempotency key, or a `businessKey`, was used before with other arguments"},
	{Code: Quota, Categories: []Category{CategoryLimit}, Retryable: true, Hint: "Wait for as long as the message says, and call again.",
		When: "a caller has as many runs as one [may have](operations.md#quotas); nothing was started, and the error says when to try again"},
	{Code: RunNotFound, Categories: []Category{CategoryValidation}, Hint: "Look for the run in the list of your runs.",
		When: "there is no such run, or it is somebody else's"},
	{Code: TemplateFailed, Categories: []Category{CategoryTemplate},
		When: "a template of a step failed, or gave nothing where something is needed"},
	{Code: OutputFailed, Categories: []Category{CategoryTemplate},
		When: "a property of the output has no value of its type"},
	{Code: ToolError, Categories: []Category{CategoryTool}, Retryable: true,
		When: "the tool answered with an error"},
	{Code: NotSent, Categories: []Category{CategoryTool}, Retryable: true,
		When: "a backend tool that a client called directly: nothing was sent to the backend"},
	{Code: NoAnswer, Categories: []Category{CategoryTool}, Retryable: true,
		When: "the same: no answer came, and the tool may be called again"},
	{Code: OutcomeUnknown, Categories: []Category{CategoryOutcomeUnknown},
		When: "the same: no answer came, and the tool may have been executed"},
	{Code: Refused, Categories: []Category{CategoryTool},
		When: "the backend refused the request: a JSON-RPC error, HTTP 4xx"},
	{Code: CredentialsNeeded, Categories: []Category{CategoryCredentials}, Retryable: true,
		When: "a backend wants credentials of the caller, and there are none that it takes"},
	{Code: Held, Categories: []Category{CategoryHeld}, Retryable: true,
		When: "a limit of the backend holds the call back; seen in the history of a run only"},
	{Code: WorkerWithoutRules, Categories: []Category{CategoryPermission}, Retryable: true,
		When: "the run has started where there are rules about who may call what, and no worker that knows them took the step; nothing was sent"},
	{Code: PermissionDenied, Categories: []Category{CategoryPermission},
		When: "the caller of the run, or the composite tool that calls in its own right, may not call the tool; nothing was sent"},
	{Code: SentBefore, Categories: []Category{CategoryOutcomeUnknown}, Retryable: true,
		When: "a run that was reset came to a call that had been sent before the reset; it is not sent again"},
	{Code: BackendUnavailable, Categories: []Category{CategoryTool}, Retryable: true,
		When: "the backend cannot be reached; nothing was executed"},
	{Code: ConnectionLost, Categories: []Category{CategoryTool, CategoryOutcomeUnknown}, Retryable: true,
		When: "the connection broke before the answer came"},
	{Code: WorkerLost, Categories: []Category{CategoryTool, CategoryOutcomeUnknown}, Retryable: true,
		When: "the process that made the call died"},
	{Code: UnderWay, Categories: []Category{CategoryOutcomeUnknown},
		When: "the run ended while a tool that may not be called twice was called"},
	{Code: UnknownTool, Categories: []Category{CategoryTool}, Retryable: true,
		When: "no backend had the tool when the run started"},
	{Code: ToolUnavailable, Categories: []Category{CategoryTool}, Retryable: true,
		When: "a tool that the definition needs is gone"},
	{Code: ToolDrift, Categories: []Category{CategoryTool},
		When: "a tool is not what it was when the version was [published](publishing.md), and `publishing.drift` is `fail`; nothing was called"},
	{Code: UnknownVersion, Categories: []Category{CategoryValidation}, Hint: "Call it without a version, or with one that exists.",
		When: "the composite tool has no version that `perdure/version` means"},
	{Code: UnknownWorkflow, Categories: []Category{CategoryTool}, Retryable: true,
		When: "there was no composite tool of the name and version when the step called it"},
	{Code: WorkflowUnavailable, Categories: []Category{CategoryTool}, Retryable: true,
		When: "the composite tool that a step calls cannot be had at the moment: a tool that it needs is gone"},
	{Code: WorkflowCancelled, Categories: []Category{CategoryTool},
		When: "somebody cancelled or terminated the run that a step has called"},
	{Code: CalledRunGone, Categories: []Category{CategoryOutcomeUnknown},
		When: "the run that a step has called, before the run continued as new, is deleted at Temporal; what it has done is not known"},
	{Code: WorkflowTooDeep, Categories: []Category{CategoryLimit},
		When: "composite tools call each other deeper than `maxWorkflowDepth` of the configuration, 10 by default"},
	{Code: ParentGone, Categories: []Category{CategoryCancelled},
		When: "the run whose step has called this one has ended without it"},
	{Code: InvalidOutput, Categories: []Category{CategoryTool, CategoryInternal},
		When: "the tool's output is not JSON"},
	{Code: StepTimeout, Categories: []Category{CategoryTimeout, CategoryOutcomeUnknown}, Retryable: true,
		When: "a step took longer than its `timeout`"},
	{Code: RunTimeout, Categories: []Category{CategoryTimeout}, Retryable: true,
		When: "the run took longer than the definition's `timeout`"},
	{Code: RunTooLong, Categories: []Category{CategoryLimit},
		When: "the run has nearly as much in its history as Temporal keeps; let it do less, or return less from its tools"},
	{Code: ElicitationSchema, Categories: []Category{CategoryValidation},
		When: "a script asks with a schema that has no form"},
	{Code: ElicitationTimeout, Categories: []Category{CategoryTimeout}, Retryable: true,
		When: "nobody answered in time"},
	{Code: Cancelled, Categories: []Category{CategoryCancelled},
		When: "the run was cancelled"},
	{Code: Terminated, Categories: []Category{CategoryCancelled},
		When: "the run was ended by force, at Temporal"},
	{Code: Quarantined, Categories: []Category{CategoryInternal},
		When: "the run took its worker down again and again, was [quarantined](security.md#runs-that-kill-their-worker), and an operator has ended it"},
	{Code: Declined, Categories: []Category{CategoryDeclined},
		When: "a person declined"},
	{Code: Duplicate, Categories: []Category{CategoryValidation}, Hint: "Do not call it again for this.",
		When: "a run with the same `businessKey` is there already, and `onDuplicate` is `reject` or the caller may not see it"},
	{Code: Dismissed, Categories: []Category{CategoryDeclined},
		When: "a person dismissed the question"},
	{Code: TooManyItems, Categories: []Category{CategoryLimit},
		When: "a collection has more than `maxIterations` items"},
	{Code: ScriptFailed, Categories: []Category{CategoryTool},
		When: "a script has called `fail`"},
	{Code: ScriptError, Categories: []Category{CategoryTemplate},
		When: "a script does what Starlark does not allow; the message and the backtrace say where"},
	{Code: ScriptSteps, Categories: []Category{CategoryLimit},
		When: "a script computes for too long; let it do less, or in more calls"},
	{Code: ScriptMemory, Categories: []Category{CategoryLimit},
		When: "a script allocates too much, in all or at once; let it keep and build less"},
	{Code: ScriptCalls, Categories: []Category{CategoryLimit},
		When: "a script makes too many calls"},
	{Code: ScriptWidth, Categories: []Category{CategoryLimit},
		When: "a `parallel` or `map_parallel` has too many branches"},
	{Code: ScriptValue, Categories: []Category{CategoryLimit},
		When: "a value that comes into a script, or goes out of it, is too large"},
	{Code: ScriptNesting, Categories: []Category{CategoryLimit},
		When: "a value that comes into a script, or goes out of it, is nested too deeply"},
	{Code: ScriptDepth, Categories: []Category{CategoryLimit},
		When: "functions of a script call each other too deeply, or values that branches see are nested too deeply"},
	{Code: ScriptInteger, Categories: []Category{CategoryLimit},
		When: "an integer has more than 512 bits, or a number too many digits"},
	{Code: ScriptTime, Categories: []Category{CategoryLimit},
		When: "a script takes longer than `scripts.limits.time` of the [configuration](operations.md#scripts)"},
	{Code: ElicitationTooLarge, Categories: []Category{CategoryLimit},
		When: "a question and its schema are too large together"},
	{Code: ArgumentsTooLarge, Categories: []Category{CategoryLimit},
		When: "the arguments of a call are too large"},
	{Code: InputTooLarge, Categories: []Category{CategoryLimit},
		When: "definition, arguments and tools are too large together"},
	{Code: OutputTooLarge, Categories: []Category{CategoryLimit},
		When: "a tool's output is too large"},
	{Code: OutputTooLargeHere, Categories: []Category{CategoryLimit},
		When: "the same of a read inside a workflow task; it is made again as an activity of its own, so no client sees this"},
	{Code: ResultTooLarge, Categories: []Category{CategoryLimit},
		When: "the result of the run is too large; let the output block select"},
	{Code: Unavailable, Categories: []Category{CategoryInternal}, Retryable: true,
		When: "runs cannot be reached at the moment; call again"},
	{Code: StartUnknown, Categories: []Category{CategoryOutcomeUnknown},
		When: "runs cannot be reached at the moment, and whether the call was started is not known; with an idempotency key, a business key or a client of 2026-07-28 a call finds its run, so that this is `unavailable` there"},
	{Code: Internal, Categories: []Category{CategoryInternal},
		When: "a fault of perdure or of Temporal"},
	{Code: InvalidResult, Categories: []Category{CategoryInternal},
		When: "the result of the run cannot be read"},
}
