package definitions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// scriptNames checks the arguments that a script gives by name to functions of the
// language, and what it reads of data and run.
func (c *checker) scriptNames(n node, program *starlark.Program) {
	at := template.AtMember(n.path, "script")
	for _, call := range program.Calls() {
		known := scriptFunctions[call.Func]
		if call.Value || known == nil {
			continue
		}
		for _, arg := range call.Args {
			if arg.Name != "" && !slices.Contains(known, arg.Name) {
				pos := c.scriptPosition(n, call.File, call.Line, call.Column)
				c.report(at, pos, SeverityError, "unknown-argument", "%s: %s takes no %s%s%s", n.label, call.Func, arg.Name, template.DidYouMean(arg.Name, known), knownArguments(known))
			}
		}
	}
	for _, read := range program.Reads() {
		c.scriptRead(n, at, read)
	}
}

func knownArguments(known []string) string {
	if len(known) == 0 {
		return "; it takes no arguments by name"
	}
	return "; known arguments: " + strings.Join(known, ", ")
}

// dataMethods are what data has as a dict.
var dataMethods = []string{"get", "items", "keys", "values"}

// scriptRead checks what a script reads of one of the values of the language.
func (c *checker) scriptRead(n node, at string, read starlark.Read) {
	pos := c.scriptPosition(n, read.File, read.Line, read.Column)
	known := c.dataNames(n)
	switch {
	case read.Name.Name == "run" && !read.IsKey && !slices.Contains(runFields, read.Member):
		c.report(at, pos, SeverityError, "unknown-field", "%s: run has no %q%s; known fields: %s", n.label, read.Member, template.DidYouMean(read.Member, runFields), strings.Join(runFields, ", "))
	case c.moduleRead(n, at, read, pos), read.Name.Name != "data":
	case !read.IsKey && slices.Contains(dataMethods, read.Member):
	case !read.IsKey:
		c.report(at, pos, SeverityError, "unknown-field", "%s: data is a dict, which has no field %s: write data[%q]%s", n.label, read.Member, read.Member, hintOf(read.Member, known))
	case known != nil && !slices.Contains(known, read.Member):
		c.report(at, pos, SeverityWarning, "unknown-parameter", "%s: data[%q]: %s is not declared%s", n.label, read.Member, read.Member, template.DidYouMean(read.Member, known))
	}
}

// foreignMembers are what functions of modules are called in other languages.
var foreignMembers = map[string]string{
	"json.loads": "json.decode", "json.load": "json.decode", "json.parse": "json.decode", "json.dumps": "json.encode", "json.dump": "json.encode", "json.stringify": "json.encode",
	"time.sleep": "sleep", "time.now": "now", "time.strptime": "time.parse_time", "math.random": "run.id, since a run has no chance",
}

// moduleRead checks what a script reads of a module of the language, and reports whether
// it is one.
func (c *subject) moduleRead(n node, at string, read starlark.Read, pos Position) bool {
	module := read.Name.Name
	known := starlark.ModuleMembers(module)
	if known != nil && !read.IsKey && !slices.Contains(known, read.Member) {
		meant := template.DidYouMean(read.Member, known)
		if other := foreignMembers[module+"."+read.Member]; other != "" {
			meant = ": write " + other
		}
		c.report(at, pos, SeverityError, "unknown-field", "%s: %s has no %s%s; known members: %s", n.label, module, read.Member, meant, strings.Join(known, ", "))
	}
	return known != nil
}

// foreignNames are names in the scripts of other systems, by what to write.
var foreignNames = map[string][]string{
	"approve(\"…\"), or elicit(\"…\", {…}) for an answer with fields": {"input", "ask", "confirm", "prompt", "question", "approval", "wait_for_approval"},
	"call_tool(\"NAME\", argument = value), or the name of the tool":  {"call", "tool", "invoke", "run_tool", "mcp", "client", "session"},
	"run.id":                            {"ctx", "context", "workflow", "self", "run_id"},
	"log(…)":                            {"console", "logging", "logger"},
	"now(), or time.parse_time of text": {"datetime", "date"},
	"parallel([fn, …]), or map_parallel(fn, items)":                                   {"asyncio", "gather", "concurrent", "threading", "Promise"},
	"json.encode(value) or json.decode(text)":                                         {"JSON"},
	"a comprehension, such as [f(y) for y in x if y]":                                 {"map", "filter", "reduce"},
	"a call of a tool, since a script reaches nothing else":                           {"requests", "urllib", "http", "httpx", "fetch", "axios", "open", "os", "sys", "subprocess", "pathlib", "exec", "eval"},
	"run.id where something unlike any other run is needed, since there is no chance": {"random", "uuid", "secrets"},
	"methods of text, such as find, split and startswith, or template(…)":             {"re", "regex"},
	"int(x + 0.5)": {"round"},
}

// foreignName says what may be meant by a name that nothing has, as words that follow a
// message; "" = not known.
func (c *subject) foreignName(n node, name string) string {
	if of := c.meansData(n, name); of != "" {
		return fmt.Sprintf(": write data[%q]", of)
	}
	root, member, _ := strings.Cut(name, ".")
	switch {
	case root == "tools" && member != "":
		return ": write " + member
	case root == "steps":
		return ": a script has no steps; keep what a call gives in a variable"
	}
	if meant := meantBy(foreignNames, root); meant != "" {
		return ": write " + meant
	}
	return ""
}

// meansData is the member of data that may be meant by a name that nothing has; "" = none.
func (c *subject) meansData(n node, name string) string {
	root, member, _ := strings.Cut(name, ".")
	switch {
	case root == "tools" && member != "":
		return ""
	case member == "" && slices.Contains(c.dataNames(n), root):
		return root
	case slices.Contains([]string{"params", "inputs", "args", "arguments", "kwargs", "parameters", "event", "payload"}, root):
		return cmp.Or(member, "NAME")
	}
	return ""
}

// hintOf is the name that may be meant, unless the name is known; nil knows all.
func hintOf(name string, known []string) string {
	if known == nil || slices.Contains(known, name) {
		return ""
	}
	return template.DidYouMean(name, known)
}

// dataNames are the members of data; nil = not known. A definition that is a script has
// the parameters of the call, a step its arguments.
func (c *subject) dataNames(n node) []string {
	if c.def.IsScript() && n.step.ID == ScriptID {
		return c.parameterNames()
	}
	return template.SortedKeys(n.step.Arguments)
}

// meantBy is what to write for a word, in a table of words by what to write; "" = it has
// none for that.
func meantBy(table map[string][]string, word string) string {
	for _, meant := range template.SortedKeys(table) {
		if slices.Contains(table[meant], word) {
			return meant
		}
	}
	return ""
}
