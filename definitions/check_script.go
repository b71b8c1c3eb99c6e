package definitions

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// wholeScript checks a definition that is a script.
func (c *checker) wholeScript() {
	step := c.def.AllSteps()[0]
	n := node{step: step, label: "the script", outer: step}
	c.steps[ScriptID] = step
	c.nodes = append(c.nodes, n)
	c.script(n)
}

// script checks the script of a definition or of a step.
func (c *checker) script(n node) {
	code := &n.step.Code
	at, file := template.AtMember(n.path, "script"), template.AtMember(n.path, "scriptFile")
	switch {
	case !code.given():
		c.stepErrorf(n, "script", "required", "script or scriptFile is required: what the step does")
		return
	case c.isWritten(at) && code.ScriptFile != "":
		c.errorf(file, "script", "%s: give script or scriptFile, not both", n.label)
		return
	case code.Script == "": // Pin has reported it, or was not called
		return
	}
	for i, pattern := range code.Tools {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			c.stepErrorf(n, template.AtElement("tools", i), "tool-name", "tools: %q is no name or pattern of tools, such as github_*", pattern)
		}
	}
	c.pinned(n)
	program, mistakes := c.def.compiler.compile(code)
	for _, m := range mistakes {
		c.scriptMistake(n, m)
	}
	if program != nil {
		c.neverCalled(n, code.Script)
		c.scriptNames(n, program)
		(&callCheck{c.subject, c.surroundings}).scriptCalls(n, program)
		for _, name := range program.Pending() {
			if _, err := ParseModule(name); err != nil {
				c.stepErrorf(n, "script", "script-load", "load: %v", err)
			}
		}
	}
}

// mainFunctions are functions that other systems call, alone or one of them in a script.
var mainFunctions = regexp.MustCompile(`(?m)^def (main|run|handler|handle|execute|lambda_handler)\(`)

var returnsAtTop = regexp.MustCompile(`(?m)^return\b`)

// neverCalled warns of a script that does nothing but define such a function: a script is
// executed from its first line, and gives what is returned outside of functions.
func (c *checker) neverCalled(n node, script string) {
	m := mainFunctions.FindStringSubmatchIndex(script)
	if m == nil {
		return
	}
	name := script[m[2]:m[3]]
	if strings.Count(script, name) > 1 || returnsAtTop.MatchString(script) {
		return
	}
	pos := c.scriptPosition(n, n.step.file(), strings.Count(script[:m[0]], "\n")+1, 1)
	c.report(template.AtMember(n.path, "script"), pos, SeverityWarning, "never-called", "%s: nothing calls %s: end the script with return %s(…)", n.label, name, name)
}

func (c *subject) isWritten(path string) bool {
	if c.def.written == nil {
		return false
	}
	_, ok := c.def.written.places[path]
	return ok
}

// scriptChecks are the checks of mistakes that compiling a script finds.
var scriptChecks = map[string]string{
	starlark.CheckSyntax: "script-syntax",
	starlark.CheckName:   "script-name",
	starlark.CheckLoad:   "script-load",
	starlark.CheckLimit:  "script-limit",
}

// scriptMistake reports a mistake that the compiler has found.
func (c *checker) scriptMistake(n node, m starlark.Diagnostic) {
	at, pos := template.AtMember(n.path, "script"), c.scriptPosition(n, m.File, m.Line, m.Column)
	c.report(at, pos, SeverityError, scriptChecks[m.Check], "%s: %s", n.label, m.Message)
}

// scriptPosition gives the position, in its file, of a place in a script or a module
// that it loads.
func (c *subject) scriptPosition(n node, file string, line, column int) Position {
	if c.def.written == nil {
		return Position{file, line, column}
	}
	code, home := &n.step.Code, c.def.written.file
	if file != code.file() || code.ScriptFile != "" {
		if text, ok := code.Modules[file]; ok && c.isWritten(template.AtMember(template.AtMember(n.path, "modules"), file)) {
			return c.inText(template.AtMember(template.AtMember(n.path, "modules"), file), text, line, column)
		}
		if starlark.IsPublished(file) {
			return Position{file, line, column}
		}
		return Position{path.Join(path.Dir(home), file), line, column}
	}
	return c.inText(template.AtMember(n.path, "script"), code.Script, line, column)
}

// inText gives the position of a line and column of a text of several lines.
func (c *subject) inText(at, text string, line, column int) Position {
	d := c.def
	p, ok := d.written.places[at]
	if !ok || p.style&yaml.LiteralStyle == 0 {
		return d.within(at, text, c.offsetOf(at, text, line, column))
	}
	for _, first := range d.written.lines[min(p.line, len(d.written.lines)):] {
		if strings.TrimSpace(first) != "" {
			return Position{d.written.file, p.line + line, leading(first) - leading(strings.TrimLeft(text, "\n")) + column}
		}
	}
	return d.At(at)
}

// leading counts the spaces that a text begins with.
func leading(text string) int {
	return len(text) - len(strings.TrimLeft(text, " "))
}

// offsetOf is the offset of a line and column of the text at a place; -1 = it has none.
func (c *subject) offsetOf(at, text string, line, column int) int {
	if c.starts[at] == nil {
		starts := []int{0}
		for i := range len(text) {
			if text[i] == '\n' {
				starts = append(starts, i+1)
			}
		}
		c.starts[at] = starts
	}
	if line < 1 || line > len(c.starts[at]) {
		return -1
	}
	offset := c.starts[at][line-1]
	for i := range text[offset:] {
		if column--; column == 0 {
			return offset + i
		}
	}
	return -1
}

// ParseQuestion reads the schema of a script's elicitation. The error says why it makes
// no form.
func ParseQuestion(schema []byte) (FormSchema, error) {
	parsed, err := NewFormSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := &schemaCheck{newSubject(&Definition{})}
	c.elicitationSchema(node{step: &Step{Schema: parsed}, label: "elicit"})
	if len(c.diags) > 0 {
		return nil, errors.New(strings.TrimPrefix(c.diags[0].Message, "elicit: "))
	}
	return parsed, nil
}
