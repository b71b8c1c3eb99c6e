package definitions

import ()

// A keyword describes one key of the language, or one of its mappings: its purpose,
// and keywords of JSON Schema besides those of the Go type.
type keyword struct {
	doc   string
	facts map[string]any
}

// facts are keywords of JSON Schema.
type facts = map[string]any

func anyOf(actions ...Action) facts {
	enum := make([]any, len(actions))
	for i, a := range actions {
		enum[i] = string(a)
	}
	return facts{"enum": enum}
}

func texts(words []string) []any {
	list := make([]any, len(words))
	for i, word := range words {
		list[i] = word
	}
	return list
}

const templateHint = " A template in {{ }}, which reads .params, .steps.ID.output and the like."

// keywords describes every mapping (by the name of its Go type) and every key
// of the language. A test holds it against the types.
var keywords = map[string]keyword{
	"Definition": {"A composite tool: steps that call tools, ask people and wait, or a script that does, offered as one tool.", facts{
		"required": texts([]string{"name", "description"}),
		"oneOf": []any{
			facts{"required": texts([]string{"steps"})}, facts{"required": texts([]string{"script"})}, facts{"required": texts([]string{"scriptFile"})},
		},
	}},
	"Definition.name":        {"Name of the tool, unique among all definitions.", facts{"pattern": namePattern.String()}},
	"Definition.description": {"What the tool does; clients choose tools by it.", facts{"minLength": 1}},
	"Definition.version":     {"Semantic version, such as 1.4.0. Runs that are under way keep the version that they started with.", facts{"pattern": versionPattern.String()}},
	"Definition.parameters": {"Parameters of a call: a JSON Schema of type object, or each parameter with its type (string, integer = 10, \"[string]?\"). Calls are checked against it; defaults of top-level properties are applied.", facts{
		"if": facts{"anyOf": []any{facts{"properties": facts{"type": facts{"const": "object"}}, "required": []any{"type"}}, facts{"properties": facts{"properties": facts{"type": "object"}}, "required": []any{"properties"}}}},
		"then": facts{
			"required": texts([]string{"type"}),
			"properties": facts{
				"type":       facts{"const": "object"},
				"properties": facts{"type": "object", "additionalProperties": facts{"type": texts([]string{"object", "boolean"})}},
				"required":   facts{"type": "array", "items": facts{"type": "string"}},
			},
		},
		"else": facts{"additionalProperties": facts{"anyOf": []any{
			facts{"type": "string", "pattern": lightType.String()},
			facts{"type": "array", "items": facts{"enum": texts(lightTypes)}, "minItems": 1, "maxItems": 1},
			facts{"type": "object"},
		}}},
	}},
	"Definition.timeout": {"How long a run may take, including waits and elicitations.", facts{"default": Duration(DefaultTimeout).Brief()}},
	"Definition.failureMode": {"What the failure of a step without onError: continue means for the others: abort stops everything, continue lets the other branches end before the run fails, best_effort completes the run with what there is.", facts{
		"enum": texts([]string{string(FailFast), string(FailLate), string(BestEffort)}), "default": string(FailFast),
	}},
	"Definition.runAs": {"Whose permissions the calls of the steps have: those of the caller, or those of the composite tool, for every caller.", facts{
		"enum": texts([]string{string(AsCaller), string(AsComposite)}), "default": string(AsCaller),
	}},
	"Definition.expose": {"Who sees the tool, and under which name. Default: everybody whom the rules of the server allow to call it.", nil},

	"Expose":          {"Who sees a tool, and under which name.", nil},
	"Expose.hidden":   {"Not offered to clients: only the composite tools in callers can call it.", facts{"default": false}},
	"Expose.as":       {"Name that clients see. Steps and runs use the name of the definition.", facts{"pattern": namePattern.String()}},
	"Expose.groups":   {"Groups whose members see and call it.", facts{"minItems": 1}},
	"Expose.subjects": {"Who sees and calls it.", facts{"minItems": 1}},
	"Expose.callers":  {"Composite tools whose steps and scripts may call it, for every caller: names, or patterns such as release_*. Required if it is hidden.", facts{"minItems": 1}},

	"Definition.businessKey": {"Calls with the same value, of any caller, share one run. A template in {{ }}, which reads .params.", facts{"minLength": 1}},
	"Definition.onDuplicate": {"What happens to a call whose businessKey another run already has: it gets the result of that run, or is refused.", facts{
		"enum": texts([]string{string(Attach), string(Reject)}), "default": string(Attach),
	}},
	"Definition.onDisconnect": {"What happens to a run when its client cancels the call or is gone: it is cancelled, unless the client comes back soon, or continues. Default: that of the configuration.", facts{
		"enum": texts([]string{string(CancelRun), string(ContinueRun)}),
	}},
	"Definition.script":      {"A Starlark script instead of steps. It reads the arguments of the call as data, and its return value is the result.", facts{"minLength": 1}},
	"Definition.scriptFile":  {"File of the script, relative to the file of the definition.", facts{"minLength": 1}},
	"Definition.modules":     {"Texts of the modules that the script loads, by name. Default: files beside the definition.", nil},
	"Definition.pinned":      {"Published version of each module, by the name in load. Written by perdure.", nil},
	"Definition.tools":       {"Tools that the script may call by a name that is computed: names, or patterns such as github_*. Tools that it calls by name need not be listed.", nil},
	"Definition.steps":       {"Steps of the run. A step starts as soon as the steps that it depends on have ended.", facts{"minItems": 1, "maxItems": MaxSteps, "items": facts{"$ref": "#/$defs/step", "required": texts([]string{"id"})}}},
	"Definition.output":      {"Result of the tool. Default: the output of the last step.", nil},
	"Definition.metadata":    {"Notes of the author, without effect.", nil},
	"Definition.annotations": {"Hints for clients. Missing hints follow from the tools of the steps; no hint may promise more than these.", nil},

	"Step":                {"One node of the graph. Its type decides which keys it may have.", nil},
	"Step.id":             {"Name by which other steps and templates refer to it. Optional on the inner step of a forEach.", facts{"pattern": idPattern.String()}},
	"Step.type":           {"What the step does: call a tool, ask a person (elicitation), execute a step for each item of a collection (forEach), wait, call another composite tool (workflow), or run a script.", facts{"default": string(ToolStep)}},
	"Step.dependsOn":      {"Steps that must have ended before. The step also waits for steps that its templates read.", facts{"uniqueItems": true}},
	"Step.condition":      {"Whether the step runs: a template that renders true or false. If false, the step is skipped.", nil},
	"Step.timeout":        {"How long the step may take, all attempts together; for an elicitation, how long to wait for an answer; for a workflow, less than its own timeout.", facts{"default": Duration(DefaultStepTimeout).Brief()}},
	"Step.metadata":       {"Notes of the author, without effect.", nil},
	"Step.onError":        {"What happens when the step fails.", nil},
	"Step.defaultResults": {"The output when the step is skipped, or failed with onError: continue. Taken literally, without templates.", nil},
	"Step.tool":           {"The tool to call: its name as it is offered, or backend.originalName.", facts{"pattern": toolPattern.String()}},
	"Step.workflow":       {"The composite tool to call: its name, or name@version.", facts{"pattern": workflowPattern.String()}},
	"Step.arguments":      {"Arguments of the call. Texts at any depth are templates; a text that is exactly one {{ }} keeps its value's type where the tool's schema asks for it.", nil},
	"Step.onUnknown":      {"What happens when the outcome of an unsafe call is unknown: the step fails, or the run waits for a person to decide. Default: that of the tool in the configuration.", facts{"enum": texts([]string{string(FailUnknown), string(Ask)})}},
	"Step.probe":          {"How to find out whether a call with unknown outcome was executed. Default: that of the tool in the configuration.", nil},
	"Step.compensate":     {"A call that undoes this step when the run fails, is cancelled or is declined after it.", nil},
	"Step.message":        {"What the person is asked." + templateHint, facts{"minLength": 1}},
	"Step.schema": {"JSON Schema of the answer: an object of simple fields, which clients show as a form.", facts{
		"properties": facts{
			"type":       facts{"const": "object"},
			"properties": facts{"type": "object", "additionalProperties": facts{"type": "object"}},
			"required":   facts{"type": "array", "items": facts{"type": "string"}},
		},
	}},
	"Step.mode": {"Where the elicitation is answered: form, in the client of the call or in any other place; url, on the approvals page only, whose link the client gets.", facts{
		"enum": texts([]string{string(FormMode), string(URLMode)}), "default": string(FormMode),
	}},
	"Step.onDecline":     {"What happens when the person declines. Default: the run is aborted.", nil},
	"Step.onCancel":      {"What happens when the person cancels the elicitation, or it expires. Default: the run is aborted.", nil},
	"Step.collection":    {"Items: a template that gives an array or an object.", facts{"minLength": 1}},
	"Step.itemVar":       {"Name of the item in templates: item is .forEach.item.", facts{"pattern": varPattern.String(), "default": "item"}},
	"Step.maxParallel":   {"Maximum number of items under way at a time.", facts{"minimum": 0, "maximum": MaxParallel, "default": DefaultParallel}},
	"Step.maxIterations": {"Maximum number of items; more fail the step.", facts{"minimum": 0, "maximum": MaxIterations, "default": DefaultIterations}},
	"Step.step":          {"Step to execute for each item. Its templates read .forEach.item, .forEach.index and, of an object, .forEach.key.", facts{"properties": facts{"dependsOn": false}}},
	"Step.collect":       {"What to keep of each completed item, from .output and .forEach. The values become output.collected, in the order of the collection.", facts{"minLength": 1}},
	"Step.script":        {"A Starlark script. It reads the arguments as data, and its return value is the output.", facts{"minLength": 1}},
	"Step.scriptFile":    {"File of the script, relative to the file of the definition.", facts{"minLength": 1}},
	"Step.modules":       {"Texts of the modules that the script loads, by name. Default: files beside the definition.", nil},
	"Step.pinned":        {"Published version of each module, by the name in load. Written by perdure.", nil},

	"Pin":         {"Published version of a module.", nil},
	"Pin.version": {"Its version.", nil},
	"Pin.digest":  {"Its digest, as perdure definitions show prints it.", nil},
	"Step.tools":  {"Tools that the script may call by a name that is computed: names, or patterns such as github_*. Tools that it calls by name need not be listed.", nil},
	"Step.for":    {"How long to wait, such as 90m or 72h, up to ten years. May be a template.", facts{"minLength": 1}},
	"Step.until":  {"Until when to wait: a timestamp such as 2026-01-31T09:00:00Z. May be a template.", facts{"minLength": 1}},

	"Probe":             {"A call of a read tool that finds out whether another call was executed.", facts{"required": texts([]string{"tool"}), "anyOf": []any{facts{"required": texts([]string{"happened"})}, facts{"required": texts([]string{"notHappened"})}}}},
	"Probe.tool":        {"The tool to call, of class read: its name as it is offered, or backend.originalName.", facts{"pattern": toolPattern.String()}},
	"Probe.arguments":   {"Arguments of the call. Templates read .call.key, .call.arguments and .call.sent besides all that the step reads.", nil},
	"Probe.delay":       {"How long to wait before: a call whose response was lost may still be executing.", facts{"default": Duration(DefaultProbeDelay).Brief()}},
	"Probe.timeout":     {"How long the call may take, all attempts together.", facts{"default": Duration(DefaultStepTimeout).Brief()}},
	"Probe.happened":    {"Whether the step's call was executed: a template that renders true or false and reads .output.", facts{"minLength": 1}},
	"Probe.notHappened": {"Whether it was not executed, so that it is repeated. If neither is true, onUnknown decides.", facts{"minLength": 1}},
	"Probe.result":      {"The output of the step if its call was executed: a template that gives an object. Default: {}.", facts{"minLength": 1}},

	"Compensation":           {"A call that undoes a step. Compensations run in reverse order of completion.", facts{"required": texts([]string{"tool"})}},
	"Compensation.tool":      {"The tool to call: its name as it is offered, or backend.originalName.", facts{"pattern": toolPattern.String()}},
	"Compensation.arguments": {"Arguments of the call. Templates read .output, that of the step, besides all that the step could read.", nil},
	"Compensation.timeout":   {"How long the call may take, all attempts together.", facts{"default": Duration(DefaultStepTimeout).Brief()}},
	"Compensation.onError":   {"Retry, or nothing. If a compensation fails in the end, a person must decide.", facts{"properties": facts{"action": facts{"const": string(Retry)}}, "required": texts([]string{"action"})}},

	"OnError": {"What happens when a step fails.", facts{
		"if":   facts{"properties": facts{"action": facts{"const": string(Retry)}}, "required": texts([]string{"action"})},
		"then": facts{"required": texts([]string{"retryCount"})},
	}},
	"OnError.action":     {"abort ends the run; continue proceeds without the step; retry tries again and then aborts.", with(anyOf(Abort, Continue, Retry), "default", string(Abort))},
	"OnError.retryCount": {"Retries after the first attempt.", facts{"minimum": 0, "maximum": MaxRetries}},
	"OnError.retryDelay": {"Pause before the first retry; those after it are longer.", facts{"default": Duration(DefaultRetryDelay).Brief()}},

	"Handler":        {"What happens after an answer other than accept.", facts{"required": texts([]string{"action"})}},
	"Handler.action": {"abort ends the run; continue proceeds; skip_remaining skips all steps that have not started and completes the run.", anyOf(Abort, Continue, SkipRemaining)},

	"Output":            {"The result of the tool.", facts{"required": texts([]string{"properties"})}},
	"Output.properties": {"Members of the result.", facts{"minProperties": 1}},
	"Output.required":   {"Members without which the run fails.", nil},

	"Property": {"One member of the result: a value, or for an object properties of its own. In a definition with a script, a property without either is that member of its return value.", facts{
		"required": texts([]string{"type", "description"}),
		"if":       facts{"required": texts([]string{"properties"})},
		"then":     facts{"properties": facts{"type": facts{"const": "object"}, "value": false}},
	}},
	"Property.type":        {"Type of the value. What the template renders to is read as this.", facts{"enum": texts(propertyTypes)}},
	"Property.description": {"What the value is, for clients.", facts{"minLength": 1}},
	"Property.value":       {"The value." + templateHint, nil},
	"Property.properties":  {"Members of the object.", facts{"minProperties": 1}},
	"Property.default":     {"Stands in for a value that is missing, or that is not of the type.", nil},

	"Annotations":                 {"Hints for clients about what the tool does.", nil},
	"Annotations.title":           {"Name for people.", nil},
	"Annotations.readOnlyHint":    {"Whether the tool changes nothing.", nil},
	"Annotations.destructiveHint": {"Whether the tool may destroy something.", nil},
	"Annotations.idempotentHint":  {"Whether calling the tool again with the same arguments changes nothing more.", nil},
	"Annotations.openWorldHint":   {"Whether the tool reaches beyond a closed world, such as to the web.", nil},

	"resource":            {"A definition as a Kubernetes resource.", facts{"required": texts([]string{"apiVersion", "kind", "metadata", "spec"})}},
	"resource.apiVersion": {"Version of the resource.", facts{"enum": texts([]string{apiGroup + "v1beta1", apiGroup + "v1alpha1"})}},
	"resource.kind":       {"Kind of the resource.", facts{"const": Kind}},
	"resource.metadata":   {"Metadata of the resource.", nil},
	"resource.spec":       {"The definition.", facts{"$ref": "#/$defs/definition"}},
	"resource.status":     {"Written by the cluster; not looked at.", nil},

	"metadata":                   {"Metadata of a resource. What only a cluster writes is not looked at.", nil},
	"metadata.name":              {"Name of the resource, by which compositeToolRefs find it.", nil},
	"metadata.namespace":         {"Namespace of the resource; not looked at.", nil},
	"metadata.labels":            {"Labels of the resource; not looked at.", nil},
	"metadata.annotations":       {"Annotations of the resource; not looked at.", nil},
	"metadata.creationTimestamp": {"Written by the cluster.", nil},
	"metadata.finalizers":        {"Written by the cluster.", nil},
	"metadata.generateName":      {"Written by the cluster.", nil},
	"metadata.generation":        {"Written by the cluster.", nil},
	"metadata.managedFields":     {"Written by the cluster.", nil},
	"metadata.ownerReferences":   {"Written by the cluster.", nil},
	"metadata.resourceVersion":   {"Written by the cluster.", nil},
	"metadata.uid":               {"Written by the cluster.", nil},
}

// with gives facts and one more.
func with(f facts, name string, value any) facts {
	f[name] = value
	return f
}
