package definitions

import (
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
	case read.Name.Name != "data":
	case !read.IsKey && slices.Contains(dataMethods, read.Member):
	case !read.IsKey:
		c.report(at, pos, SeverityError, "unknown-field", "%s: data is a dict, which has no field %s: write data[%q]%s", n.label, read.Member, read.Member, hintOf(read.Member, known))
	case known != nil && !slices.Contains(known, read.Member):
		c.report(at, pos, SeverityWarning, "unknown-parameter", "%s: data[%q]: %s is not declared%s", n.label, read.Member, read.Member, template.DidYouMean(read.Member, known))
	}
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
func (c *checker) dataNames(n node) []string {
	if c.def.IsScript() && n.step.ID == ScriptID {
		return c.parameterNames()
	}
	return template.SortedKeys(n.step.Arguments)
}
