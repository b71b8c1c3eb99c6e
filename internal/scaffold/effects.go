package scaffold

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
)

// A Proposal is an effect class for a tool, and why. A person confirms it.
type Proposal struct {
	Backend     string             `json:"backend"`
	Tool        string             `json:"tool"` // the backend's own name
	Class       definitions.Effect `json:"class"`
	KeyArgument string             `json:"keyArgument,omitempty"` // of class keyed
	Reason      string             `json:"reason"`
}

// Classes are the effect classes, by how little can go wrong.
var Classes = []string{string(definitions.Read), string(definitions.Idempotent), string(definitions.Keyed), string(definitions.Unsafe)}

// Propose proposes an effect class for a tool, from its annotations, its name and its
// schema. Where they disagree, or say nothing, it is unsafe: then nothing is called
// twice.
func Propose(t backends.Tool) Proposal {
	class, key, reason := propose(t)
	return Proposal{Backend: t.Backend, Tool: t.Original, Class: class, KeyArgument: key, Reason: reason}
}

func propose(t backends.Tool) (class definitions.Effect, key, reason string) {
	verb, arguments := verbOf(t.Original), argumentsOf(t.InputSchema)
	readOnly, idempotent := t.Annotations.ReadOnlyHint, t.Annotations.IdempotentHint
	writes := slices.Contains(writingVerbs, verb)
	code := firstOf(arguments, codeArguments)
	switch {
	case isTrue(readOnly) && writes:
		return definitions.Unsafe, "", "annotated as read-only, but its name says " + verb
	case isTrue(readOnly):
		return definitions.Read, "", "annotation readOnlyHint"
	case readOnly == nil && slices.Contains(readingVerbs, verb) && code == "" && !isTrue(t.Annotations.DestructiveHint):
		return definitions.Read, "", "its name says " + verb
	}
	if key := firstOf(arguments, keyArguments); key != "" {
		return definitions.Keyed, key, "it takes " + key
	}
	switch {
	case isTrue(idempotent) && code == "":
		return definitions.Idempotent, "", "annotation idempotentHint"
	case isTrue(t.Annotations.DestructiveHint):
		return definitions.Unsafe, "", "annotation destructiveHint"
	case readOnly != nil:
		return definitions.Unsafe, "", "annotated as writing"
	case code != "":
		return definitions.Unsafe, "", "argument " + code + " may do anything"
	case writes:
		return definitions.Unsafe, "", "its name says " + verb
	}
	return definitions.Unsafe, "", "nothing says that it only reads"
}

func isTrue(hint *bool) bool { return hint != nil && *hint }

// What the names of tools and of their arguments say.
var (
	readingVerbs = []string{"get", "list", "read", "search", "find", "describe", "show", "view", "count", "lookup", "fetch",
		"query", "browse", "inspect", "stat", "status", "diff", "logs", "tail", "tree", "explain", "validate", "resolve", "whoami", "ping", "compare"}
	writingVerbs = []string{"create", "add", "insert", "update", "set", "put", "write", "edit", "delete", "remove", "drop", "move",
		"rename", "send", "post", "publish", "push", "merge", "commit", "close", "open", "start", "stop", "restart", "run", "execute",
		"exec", "apply", "deploy", "install", "upload", "cancel", "approve", "assign", "invite", "pay", "refund", "trigger", "toggle", "fork", "scale", "patch"}
	codeArguments = []string{"sql", "command", "cmd", "code", "script", "statement", "expression", "shell", "mutation"}
	keyArguments  = []string{"idempotency_key", "idempotencykey", "idempotency-key", "client_token", "clienttoken", "client_request_id"}
)

var firstWord = regexp.MustCompile(`^[A-Z]*[a-z0-9]*`)

// verbOf is the first word of a name: get of get_issue, get-issue, getIssue and
// issues.get.
func verbOf(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("_-./: ", r) })
	if len(words) == 0 {
		return ""
	}
	first := strings.ToLower(firstWord.FindString(words[0]))
	last := strings.ToLower(words[len(words)-1])
	if !isVerb(first) && isVerb(last) {
		return last
	}
	return first
}

func isVerb(word string) bool {
	return slices.Contains(readingVerbs, word) || slices.Contains(writingVerbs, word)
}

// argumentsOf gives the names of the arguments that a schema describes.
func argumentsOf(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // one that cannot be read describes none
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// firstOf gives the first name that is one of some words, whatever its case; "" = none.
func firstOf(names, words []string) string {
	for _, name := range names {
		if slices.Contains(words, strings.ToLower(name)) {
			return name
		}
	}
	return ""
}

// rank orders classes by how little can go wrong.
func rank(class definitions.Effect) int {
	return cmp.Or(slices.Index(Classes, string(class)), 0)
}
