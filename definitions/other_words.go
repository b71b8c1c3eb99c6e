package definitions

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// An Advice is what to do about what people write who know other systems. The zero Advice
// is none.
type Advice struct {
	Says  string   // such as "write x"
	Means []string // keys of the mapping that are meant, and so are not missing in it
}

// Say is advice in words.
func Say(words string) Advice { return Advice{Says: words} }

// WriteKey is the advice to write another key of the mapping, with what follows it.
func WriteKey(key, rest string) Advice { return Advice{"write " + key + rest, []string{key}} }

// notAStep is advice about a mapping that is no step, and lacks nothing of one.
func notAStep(words string) Advice { return Advice{words, []string{"id", "tool"}} }

// after is the advice as the end of a message.
func (a Advice) after() string {
	if a.Says == "" {
		return ""
	}
	return ": " + a.Says
}

// A KeyAdviser is a struct that Decode reads a mapping into, and that knows what people
// mean who write keys of other systems.
type KeyAdviser interface {
	// AdviseKey is about a key that the mapping does not have. It is called when the mapping
	// has been read, but for its mistakes.
	AdviseKey(key string, value *yaml.Node) Advice
}

// A ValueAdviser is the same for values.
type ValueAdviser interface {
	// AdviseValue is about a value of another form than its key has, or about an element of
	// its list; see AdviseKey.
	AdviseValue(key string, value *yaml.Node) Advice
}

// PlainKey is a key in lower case, without punctuation: one and the same however people
// spell it.
func PlainKey(key string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
}

// advised are keys of other systems for which there is no key here, as PlainKey has them.
type advised map[string]Advice

func (a advised) key(key string) Advice {
	return a[PlainKey(key)]
}

var (
	adviseOrder    = Say("a step begins when the steps in its dependsOn have ended; without one, at once")
	adviseContinue = WriteKey("onError", ": {action: continue}")
	adviseEnv      = Say("write it in the configuration, where a backend has env and passEnv")
	adviseShell    = Say("perdure runs no commands; call a tool of a backend, or write type: script with a script in Starlark")
	adviseAnswer   = Say("the configuration says who may answer, under authorization.approvers")
	adviseStart    = Say("leave it out; a composite tool runs when a client calls it")
	adviseFailure  = Say("each step has onError, and compensate to undo it")
	adviseBranch   = notAStep("write a condition in each step, as in condition: '{{eq .params.env \"test\"}}'")
	adviseBeside   = notAStep("leave it out, and list its steps by themselves; they run side by side unless one depends on another")
	adviseOutput   = Say("the output of a step is .steps.ID.output")
	adviseTool     = Say("the name of a tool has that of its backend, as in github_create_issue")
	adviseNothing  = Say("leave it out")
	adviseForEach  = Say("write a step of type forEach")
	adviseRetry    = Say("write onError: {action: retry, retryCount: 3} in each step that is to be retried")
	adviseValues   = WriteKey("parameters", " with defaults, and compute in templates or in a step of type script")
)

var stepAdvice = advised{
	"next": adviseOrder, "then": adviseOrder, "transition": adviseOrder, "onsuccess": adviseOrder, "end": adviseOrder, "branches": adviseOrder, "downstream": adviseOrder,
	"switch": adviseBranch, "case": adviseBranch, "cases": adviseBranch, "match": adviseBranch, "else": adviseBranch, "elseif": adviseBranch, "otherwise": adviseBranch,
	"continueonerror": adviseContinue, "ignoreerrors": adviseContinue, "ignoreerror": adviseContinue, "allowfailure": adviseContinue, "failonerror": adviseContinue, "continueonfail": adviseContinue,
	"unless":      {"write the contrary as condition, as in condition: '{{not .params.x}}'", []string{"condition"}},
	"triggerrule": WriteKey("onError", ": {action: continue} in the steps that may fail"),
	"retrydelay":  WriteKey("onError", ": {action: retry, retryCount: 3, retryDelay: 5s}"),
	"retrypolicy": WriteKey("onError", ": {action: retry, retryCount: 3}"),
	"env":         adviseEnv, "environment": adviseEnv, "secrets": adviseEnv,
	"run": adviseShell, "shell": adviseShell, "command": adviseShell, "cmd": adviseShell, "bash": adviseShell,
	"register": adviseOutput, "outputs": adviseOutput, "output": adviseOutput, "resultpath": adviseOutput,
	"approvers": adviseAnswer, "assignee": adviseAnswer, "assignees": adviseAnswer, "reviewers": adviseAnswer,
	"set": adviseValues, "vars": adviseValues, "variables": adviseValues, "assign": adviseValues,
	"required":    WriteKey("schema", ": {type: object, properties: {…}, required: […]}"),
	"wait":        WriteKey("for", ": 5m, or until with a time"),
	"finally":     adviseFailure,
	"description": Say("leave it out, or write metadata: {description: …}"), "note": Say("leave it out, or write metadata: {note: …}"),
	"server": adviseTool, "backend": adviseTool,
}

// waits reports whether a step is one that waits, also by a name that other systems have for
// it.
func (s *Step) waits() bool {
	return s.Type == WaitStep || slices.Contains([]string{"sleep", "delay", "pause", "timer"}, PlainKey(string(s.Type)))
}

// AdviseKey is that of [KeyAdviser].
func (s *Step) AdviseKey(key string, value *yaml.Node) Advice {
	plain := PlainKey(key)
	if isNumber(value) {
		if advice := s.adviseNumber(plain, value.Value); advice.Says != "" {
			return advice
		}
	}
	called := PlainKey(string(s.Type))
	switch list := value.Kind == yaml.SequenceNode; {
	case plain == "name" && value.Kind == yaml.ScalarNode && slices.Contains([]string{"workflow", "composite", "subworkflow", "composition", "compositetool"}, called):
		return WriteKey("workflow", ": "+value.Value)
	case plain == "name" && s.ID != "" && s.Tool == "" && (s.Type == "" || s.Type == ToolStep):
		return WriteKey("tool", " for the name of the tool; the name of a step is its id")
	case plain == "retry" && value.Kind == yaml.MappingNode:
		return WriteKey("onError", ": {action: retry, retryCount: 3, retryDelay: 5s}")
	case list && slices.Contains([]string{"parallel", "inparallel", "concurrently", "all"}, plain):
		return adviseBeside
	case list && slices.Contains([]string{"options", "choices", "answers"}, key):
		return WriteKey("schema", ": {type: object, properties: {choice: {type: string, enum: […]}}}")
	}
	return stepAdvice.key(key)
}

// adviseNumber is advice about a key whose value is a number.
func (s *Step) adviseNumber(plain, number string) Advice {
	switch {
	case slices.Contains([]string{"retries", "retry", "attempts", "maxretries", "maxattempts", "retrycount"}, plain):
		return WriteKey("onError", fmt.Sprintf(": {action: retry, retryCount: %s}", number))
	case s.waits() && strings.HasPrefix(plain, "second"):
		return WriteKey("for", ": "+number+"s")
	case s.waits() && strings.HasPrefix(plain, "minute"):
		return WriteKey("for", ": "+number+"m")
	case slices.Contains([]string{"timeoutminutes", "timeoutmins"}, plain):
		return WriteKey("timeout", ": "+number+"m")
	case slices.Contains([]string{"timeoutseconds", "timeoutsecs", "timeouts"}, plain):
		return WriteKey("timeout", ": "+number+"s")
	}
	return Advice{}
}

// GuessKey is what AdviseKey is for keys that no other system is known to have.
func (s *Step) GuessKey(key string, value *yaml.Node) Advice {
	if value.Kind != yaml.MappingNode || s.Tool != "" {
		return Advice{}
	}
	for inner := range Members(value) {
		if slices.Contains([]string{"tool", "call", "uses", "type"}, inner.Value) {
			return Say(fmt.Sprintf("write a step as {id: %s, tool: …, arguments: {…}}", key))
		}
	}
	return Say(fmt.Sprintf("write a step as {id: …, tool: %s, arguments: {…}}", key))
}

// AdviseValue is that of [ValueAdviser].
func (s *Step) AdviseValue(key string, value *yaml.Node) Advice {
	switch {
	case key == "collection" && value.Kind != yaml.ScalarNode:
		return Say("write it as JSON in quotes, as in '[1, 2]'")
	case (key == "onDecline" || key == "onCancel") && value.Kind == yaml.ScalarNode:
		return Say("write {action: " + meantAnswer(Action(value.Value)) + "}")
	case key == "arguments" && value.Kind == yaml.SequenceNode:
		return Say("write NAME: VALUE for each, without a dash")
	case key == "tool" && value.Kind == yaml.SequenceNode:
		return Say("write a step for each tool")
	}
	return Advice{}
}

// KnownKeys are those of steps of its type; of an unknown one, those that all steps have.
func (s *Step) KnownKeys(all []string) []string {
	kind, known := KindOf(s.Type)
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		i := slices.IndexFunc(stepKeys, func(k stepKey) bool { return k.name == name })
		return i >= 0 && (!known || !stepKeys[i].of(kind))
	})
}

var definitionAdvice = advised{
	"on": adviseStart, "triggers": adviseStart, "trigger": adviseStart, "schedule": adviseStart, "scheduleinterval": adviseStart, "cron": adviseStart, "startdate": adviseStart, "start": adviseStart, "startat": adviseStart, "entrypoint": adviseStart,
	"document": adviseNothing, "dsl": adviseNothing, "specversion": adviseNothing,
	"env": adviseEnv, "environment": adviseEnv, "secrets": adviseEnv,
	"vars": adviseValues, "variables": adviseValues,
	"retries": adviseRetry, "retry": adviseRetry, "retrydelay": Say("write it in onError of each step that is to be retried"),
	"permissions": Say("the configuration says who may call what, under authorization"),
	"concurrency": Say("businessKey makes calls that mean the same share one run, and a forEach has maxParallel"),
	"strategy":    adviseForEach, "matrix": adviseForEach,
	"connections": adviseOrder, "edges": adviseOrder, "dependencies": adviseOrder,
	"onfailure": adviseFailure, "onerror": adviseFailure, "finally": adviseFailure, "catch": adviseFailure, "errorhandler": adviseFailure,
}

// AdviseKey is that of [KeyAdviser].
func (d *Definition) AdviseKey(key string, _ *yaml.Node) Advice { return definitionAdvice.key(key) }

// AdviseKey is that of [KeyAdviser].
func (o *Output) AdviseKey(key string, _ *yaml.Node) Advice {
	if slices.Contains([]string{"type", "additionalProperties", "$schema"}, key) {
		return Say("leave it out; the output is an object")
	}
	return Advice{}
}

// AdviseKey is that of [KeyAdviser].
func (p *Property) AdviseKey(key string, _ *yaml.Node) Advice {
	if isKeyword(key) {
		return Say("leave it out; an output property has no other keywords of a schema than its type, description and default")
	}
	return Advice{}
}

// AdviseValue is that of [ValueAdviser].
func (p *Property) AdviseValue(key string, value *yaml.Node) Advice {
	if key == "value" && value.Kind == yaml.MappingNode {
		return Say("write properties, each with type, description and value")
	}
	if key == "value" && value.Kind == yaml.SequenceNode {
		return Say("write it as JSON in quotes, with templates in it")
	}
	return Advice{}
}

// meantAnswer is the action that follows an answer, which people may call otherwise.
func meantAnswer(a Action) string {
	switch strings.ToLower(string(a)) {
	case string(Abort), "fail", "stop", "error", "throw":
		return string(Abort)
	case string(Continue), "ignore", "proceed":
		return string(Continue)
	case string(SkipRemaining), "skip", "end", "skipremaining", "exit", "finish":
		return string(SkipRemaining)
	}
	return "abort, continue or skip_remaining"
}
