package codes

// Codes of errors, stable for programs. The table describes each.
const (
	InvalidArguments     Code = "invalid_arguments"
	InvalidDefinition    Code = "invalid_definition"
	InvalidWorkflow      Code = "invalid_workflow"
	KeyReused            Code = "key_reused"
	Quota                Code = "quota"
	RunNotFound          Code = "run_not_found"
	RunLost              Code = "run_lost"
	TemplateFailed       Code = "template_failed"
	OutputFailed         Code = "output_failed"
	ToolError            Code = "tool_error"
	NotSent              Code = "not_sent"
	NoAnswer             Code = "no_answer"
	OutcomeUnknown       Code = "outcome_unknown"
	Refused              Code = "refused"
	CredentialsNeeded    Code = "credentials_needed"
	Held                 Code = "held"
	WorkerWithoutRules   Code = "worker_without_rules"
	PermissionDenied     Code = "permission_denied"
	SentBefore           Code = "sent_before"
	UndoneSince          Code = "undone_since"
	BackendUnavailable   Code = "backend_unavailable"
	ConnectionLost       Code = "connection_lost"
	WorkerLost           Code = "worker_lost"
	UnderWay             Code = "under_way"
	UnknownTool          Code = "unknown_tool"
	ToolUnavailable      Code = "tool_unavailable"
	ToolDrift            Code = "tool_drift"
	UnknownVersion       Code = "unknown_version"
	UnknownWorkflow      Code = "unknown_workflow"
	WorkflowUnavailable  Code = "workflow_unavailable"
	WorkflowCancelled    Code = "workflow_cancelled"
	WorkflowTerminated   Code = "workflow_terminated"
	CalledRunGone        Code = "called_run_gone"
	WorkflowTooDeep      Code = "workflow_too_deep"
	ParentGone           Code = "parent_gone"
	InvalidOutput        Code = "invalid_output"
	StepTimeout          Code = "step_timeout"
	RunTimeout           Code = "run_timeout"
	RunTooLong           Code = "run_too_long"
	ElicitationSchema    Code = "elicitation_schema"
	ElicitationTimeout   Code = "elicitation_timeout"
	Cancelled            Code = "cancelled"
	Terminated           Code = "terminated"
	Quarantined          Code = "quarantined"
	Declined             Code = "declined"
	Duplicate            Code = "duplicate"
	ElicitationCancelled Code = "elicitation_cancelled"
	TooManyItems         Code = "too_many_items"
	TooManyRuns          Code = "too_many_runs"
	ScriptFailed         Code = "script_failed"
	ScriptError          Code = "script_error"
	ScriptSteps          Code = "script_steps"
	ScriptMemory         Code = "script_memory"
	ScriptCalls          Code = "script_calls"
	ScriptWidth          Code = "script_width"
	ScriptValue          Code = "script_value"
	ScriptNesting        Code = "script_nesting"
	ScriptDepth          Code = "script_depth"
	ScriptInteger        Code = "script_integer"
	ScriptTime           Code = "script_time"
	ElicitationTooLarge  Code = "elicitation_too_large"
	ArgumentsTooLarge    Code = "arguments_too_large"
	InputTooLarge        Code = "input_too_large"
	OutputTooLarge       Code = "output_too_large"
	OutputTooLargeHere   Code = "output_too_large_here"
	ResultTooLarge       Code = "result_too_large"
	Unavailable          Code = "unavailable"
	StartUnknown         Code = "start_unknown"
	Internal             Code = "internal"
	InvalidResult        Code = "invalid_result"
)

// table has every code, in the order of the page.
var table = []Entry{
	{Code: InvalidArguments, Categories: []Category{CategoryValidation},
		When: "the arguments do not fit `parameters`"},
	{Code: InvalidDefinition, Categories: []Category{CategoryValidation}, Hint: "Correct the definition; perdure validate says where.",
		When: "this version of perdure cannot read the definition of the run"},
	{Code: InvalidWorkflow, Categories: []Category{CategoryValidation}, Hint: "Correct the script.",
		When: "the name in a script's `call_workflow` is not NAME or NAME@VERSION"},
	{Code: KeyReused, Categories: []Category{CategoryValidation}, Hint: "Use another key, or the same arguments as before.",
		When: "an idempotency key or a `businessKey` was used before with other arguments, or an idempotency key with other forwarded headers or `_meta`"},
	{Code: Quota, Categories: []Category{CategoryLimit}, Retryable: true, Hint: "Wait as long as the message says, and call again.",
		When: "the caller has reached a [quota](operations.md#quotas) of runs; nothing was started"},
	{Code: RunNotFound, Categories: []Category{CategoryValidation}, Hint: "Look for the run in the list of your runs.",
		When: "the run does not exist, or no longer, since [runs are kept](operations.md#retention) for some time after their end; or the caller may not see it"},
	{Code: TemplateFailed, Categories: []Category{CategoryTemplate},
		When: "a template of a step failed, or gave nothing where a value is required"},
	{Code: OutputFailed, Categories: []Category{CategoryTemplate},
		When: "a template of the output block failed, or its value has the wrong type"},
	{Code: ToolError, Categories: []Category{CategoryTool}, Retryable: true,
		When: "the tool answered with an error; calling again does not help if that is about the arguments (`-32602`)"},
	{Code: NotSent, Categories: []Category{CategoryTool}, Retryable: true,
		When: "direct call of a backend tool: nothing was sent to the backend"},
	{Code: NoAnswer, Categories: []Category{CategoryTool}, Retryable: true,
		When: "direct call of a backend tool: the response was lost, and the tool may be called again"},
	{Code: OutcomeUnknown, Categories: []Category{CategoryOutcomeUnknown},
		When: "direct call of a backend tool: the response was lost, and the tool may have been executed"},
	{Code: Refused, Categories: []Category{CategoryTool},
		When: "the backend refused the request: a JSON-RPC error, HTTP 4xx"},
	{Code: CredentialsNeeded, Categories: []Category{CategoryCredentials}, Retryable: true,
		When: "a backend requires credentials of the caller, and none are valid"},
	{Code: Held, Categories: []Category{CategoryHeld}, Retryable: true,
		When: "a limit of the backend delays the call; appears only in the history of a run"},
	{Code: WorkerWithoutRules, Categories: []Category{CategoryPermission}, Retryable: true, Hint: "Calling again helps once all workers have the same configuration as the gateway; an operator must see to it.",
		When: "permission rules applied when the run started, and the worker that took the step has none configured; nothing was sent"},
	{Code: PermissionDenied, Categories: []Category{CategoryPermission},
		When: "the caller of the run, or the composite tool with `runAs: composite`, may not call the tool; nothing was sent"},
	{Code: SentBefore, Categories: []Category{CategoryOutcomeUnknown},
		When: "a run that was reset reached a call that had been sent before the reset, or whose step had made another one; it is not sent again"},
	{Code: UndoneSince, Categories: []Category{CategoryTool}, Hint: "An operator must resume the run, which does that step again.",
		When: "a run was reset to a point behind a step that had been undone since; it calls nothing more that is not a read, undoes what it did, and does not complete"},
	{Code: BackendUnavailable, Categories: []Category{CategoryTool}, Retryable: true,
		When: "the backend cannot be reached; nothing was executed"},
	{Code: ConnectionLost, Categories: []Category{CategoryTool, CategoryOutcomeUnknown}, Retryable: true,
		When: "the connection broke before the response arrived"},
	{Code: WorkerLost, Categories: []Category{CategoryTool, CategoryOutcomeUnknown}, Retryable: true,
		When: "the worker that made the call ended, or was cut off from Temporal"},
	{Code: UnderWay, Categories: []Category{CategoryOutcomeUnknown},
		When: "the run ended during a call of a tool that must not be called twice"},
	{Code: UnknownTool, Categories: []Category{CategoryTool}, Retryable: true, Hint: "Calling again helps once a backend offers the tool.",
		When: "no backend offered the tool when the run started"},
	{Code: ToolUnavailable, Categories: []Category{CategoryTool}, Retryable: true, Hint: "Calling again helps once a backend offers the tool.",
		When: "no backend offers a tool that the definition needs"},
	{Code: ToolDrift, Categories: []Category{CategoryTool}, Hint: "The definition must be published again, for the tools as they are now.",
		When: "a tool has changed since the version was [published](publishing.md), and `publishing.drift` is `fail`; nothing was called"},
	{Code: UnknownVersion, Categories: []Category{CategoryValidation}, Hint: "Call it without a version, or with one that exists.",
		When: "no version of the composite tool matches `perdure/version`"},
	{Code: UnknownWorkflow, Categories: []Category{CategoryTool}, Retryable: true,
		When: "no composite tool had this name and version when the step called it"},
	{Code: WorkflowUnavailable, Categories: []Category{CategoryTool}, Retryable: true, Hint: "Calling again helps once a backend offers the tool.",
		When: "the composite tool that a step calls is not available: a tool that it needs is missing"},
	{Code: WorkflowCancelled, Categories: []Category{CategoryTool},
		When: "the run that a step called was cancelled"},
	{Code: WorkflowTerminated, Categories: []Category{CategoryTool},
		When: "the run that a step called was terminated; nothing of it was undone"},
	{Code: CalledRunGone, Categories: []Category{CategoryOutcomeUnknown},
		When: "the run that a step called was deleted at Temporal before its result was read"},
	{Code: WorkflowTooDeep, Categories: []Category{CategoryLimit}, Hint: "The definition of the tool needs fewer nested calls, or an operator must raise maxWorkflowDepth.",
		When: "calls of composite tools are nested deeper than `maxWorkflowDepth` of the configuration, 10 by default"},
	{Code: ParentGone, Categories: []Category{CategoryCancelled},
		When: "the run whose step called this one ended without waiting for it"},
	{Code: InvalidOutput, Categories: []Category{CategoryTool, CategoryInternal},
		When: "the tool's output is not JSON"},
	{Code: StepTimeout, Categories: []Category{CategoryTimeout, CategoryOutcomeUnknown}, Retryable: true,
		When: "a step took longer than its `timeout`"},
	{Code: RunTimeout, Categories: []Category{CategoryTimeout}, Retryable: true,
		When: "the run took longer than the definition's `timeout`"},
	{Code: RunTooLong, Categories: []Category{CategoryLimit},
		When: "the history of the run is close to the limits of Temporal; make fewer calls, or return less from tools"},
	{Code: ElicitationSchema, Categories: []Category{CategoryValidation}, Hint: "Correct the script.",
		When: "a script's `elicit` has a schema that MCP does not allow for elicitations"},
	{Code: ElicitationTimeout, Categories: []Category{CategoryTimeout}, Retryable: true,
		When: "the elicitation expired without an answer"},
	{Code: Cancelled, Categories: []Category{CategoryCancelled},
		When: "the run was cancelled"},
	{Code: Terminated, Categories: []Category{CategoryTerminated},
		When: "the run was terminated: by `perdure runs terminate`, in the Web UI, or by Temporal at one of its limits"},
	{Code: Quarantined, Categories: []Category{CategoryInternal},
		When: "the run took its workers down, was [quarantined](security.md#runs-that-kill-their-worker), and was failed by an operator"},
	{Code: Declined, Categories: []Category{CategoryDeclined},
		When: "a person declined the elicitation"},
	{Code: Duplicate, Categories: []Category{CategoryValidation}, Hint: "Do not call it again for the same business key.",
		When: "a run with the same `businessKey` exists, and `onDuplicate` is `reject` or the caller may not see that run"},
	{Code: ElicitationCancelled, Categories: []Category{CategoryDeclined},
		When: "a person cancelled the elicitation"},
	{Code: TooManyItems, Categories: []Category{CategoryLimit},
		When: "a collection has more than `maxIterations` items"},
	{Code: TooManyRuns, Categories: []Category{CategoryLimit}, Hint: "The definition of the tool must call fewer composite tools.",
		When: "a run calls more composite tools than `MaxCalledRuns` leaves to it, among all [that call each other](language.md#workflows)"},
	{Code: ScriptFailed, Categories: []Category{CategoryTool},
		When: "a script called `fail`"},
	{Code: ScriptError, Categories: []Category{CategoryTemplate},
		When: "a script failed; the message and the backtrace show where"},
	{Code: ScriptSteps, Categories: []Category{CategoryLimit},
		When: "a script computes for too long; do less per run"},
	{Code: ScriptMemory, Categories: []Category{CategoryLimit},
		When: "a script allocates too much memory, in total or at once"},
	{Code: ScriptCalls, Categories: []Category{CategoryLimit},
		When: "a script makes too many calls"},
	{Code: ScriptWidth, Categories: []Category{CategoryLimit},
		When: "a `parallel` or `map_parallel` has too many branches"},
	{Code: ScriptValue, Categories: []Category{CategoryLimit},
		When: "a value that enters or leaves a script is too large"},
	{Code: ScriptNesting, Categories: []Category{CategoryLimit},
		When: "a value that enters or leaves a script is nested too deeply"},
	{Code: ScriptDepth, Categories: []Category{CategoryLimit},
		When: "calls of functions in a script, or values shared with branches, are nested too deeply"},
	{Code: ScriptInteger, Categories: []Category{CategoryLimit},
		When: "an integer has more than 512 bits, or a number has too many digits"},
	{Code: ScriptTime, Categories: []Category{CategoryLimit},
		When: "a script takes longer than `scripts.limits.time` of the [configuration](operations.md#scripts)"},
	{Code: ElicitationTooLarge, Categories: []Category{CategoryLimit},
		When: "the message and the schema of an elicitation are too large"},
	{Code: ArgumentsTooLarge, Categories: []Category{CategoryLimit},
		When: "the arguments of a call are too large"},
	{Code: InputTooLarge, Categories: []Category{CategoryLimit},
		When: "the definition, the arguments and the schemas of the tools are too large together"},
	{Code: OutputTooLarge, Categories: []Category{CategoryLimit},
		When: "a tool's output is too large"},
	{Code: OutputTooLargeHere, Categories: []Category{CategoryLimit},
		When: "the output of a read is too large for a workflow task; the read is repeated as an activity, so clients never see this code"},
	{Code: ResultTooLarge, Categories: []Category{CategoryLimit},
		When: "the result of the run is too large; select less in the output block"},
	{Code: Unavailable, Categories: []Category{CategoryInternal}, Retryable: true,
		When: "Temporal cannot be reached; call again"},
	{Code: StartUnknown, Categories: []Category{CategoryOutcomeUnknown},
		When: "Temporal became unreachable while the run was started, so it is not known whether it started. Calls with an idempotency key or a business key, and clients of 2026-07-28, get `unavailable` instead, because calling again finds the run"},
	{Code: RunLost, Categories: []Category{CategoryOutcomeUnknown}, Hint: "Look at the backends what was done before calling again, and tell an operator.",
		When: "Temporal lost the run while a client waited for it, such as by [a failover](operations.md#backup-and-restore) of its database to a standby that lagged"},
	{Code: Internal, Categories: []Category{CategoryInternal},
		When: "a fault of perdure or of Temporal"},
	{Code: InvalidResult, Categories: []Category{CategoryInternal},
		When: "the result of the run cannot be read"},
}
