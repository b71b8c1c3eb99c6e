package definitions

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// A Code is the script of a definition, or of a step of type script.
type Code struct {
	Script string `yaml:"script,omitempty" json:"script,omitempty" meant:"code,source,python,starlark"` // Starlark

	// ScriptFile is where the script is, relative to the file of the
	// definition. Pin reads it into Script.
	ScriptFile string `yaml:"scriptFile,omitempty" json:"scriptFile,omitempty"`

	// Modules are the texts that the script loads, by the name in load. Pin adds those
	// that are files beside the definition.
	Modules map[string]string `yaml:"modules,omitempty" json:"modules,omitempty"`

	// Pinned has the versions of published modules. WithModules writes it.
	Pinned map[string]*Pin `yaml:"pinned,omitempty" json:"pinned,omitempty"`

	// Tools are the tools that the script may call by a computed name: names, or
	// patterns such as github_*.
	Tools []string `yaml:"tools,omitempty" json:"tools,omitempty"`
}

// ScriptID is the id of the only step of a definition that is a script.
const ScriptID = "script"

// IsScript reports whether the definition is a script instead of steps.
func (d *Definition) IsScript() bool { return d.Code.given() }

func (c *Code) given() bool { return c.Script != "" || c.ScriptFile != "" }

// AllSteps gives the steps of the definition. A script is one step of type script,
// which gets the arguments of the call.
func (d *Definition) AllSteps() []*Step {
	if !d.IsScript() {
		return d.Steps
	}
	return append([]*Step{{ID: ScriptID, Type: ScriptStep, Code: d.Code}}, d.Steps...)
}

// Pin reads the files of the definition's scripts, and those that they load, into the
// definition, so that its source has everything that a run needs. Names are relative
// to the file of the definition.
func (d *Definition) Pin(read func(name string) (string, error)) Diagnostics {
	c := newSubject(d)
	for _, placed := range d.Scripts().all {
		code, at := placed.code, template.AtMember(placed.path, "scriptFile")
		if code.ScriptFile != "" && code.Script == "" {
			text, err := read(code.ScriptFile)
			switch {
			case err != nil:
				c.errorf(at, "script-file", "scriptFile %s cannot be read: %v", code.ScriptFile, err)
				continue
			case strings.TrimSpace(text) == "":
				c.errorf(at, "script-file", "scriptFile %s is empty", code.ScriptFile)
				continue
			}
			code.Script = text
		}
		code.pinModules(read)
	}
	return c.diags
}

// pinModules reads what the script loads. Check reports what cannot be read, at the
// load.
func (c *Code) pinModules(read func(name string) (string, error)) {
	texts := []string{c.Script}
	for len(texts) > 0 && len(c.Modules) < maxModules {
		loads := starlark.Loads(c.ScriptFile, texts[0])
		texts = texts[1:]
		for _, load := range loads {
			name := load.Module
			if _, known := c.Modules[name]; known || starlark.IsPublished(name) {
				continue
			}
			text, err := read(name)
			if err != nil {
				continue
			}
			if c.Modules == nil {
				c.Modules = map[string]string{}
			}
			c.Modules[name] = text
			texts = append(texts, text)
		}
	}
}

const maxModules = 100 // of one script

// file is the name of the script in positions.
func (c *Code) file() string {
	if c.ScriptFile != "" {
		return c.ScriptFile
	}
	return "script"
}

// Whole reports whether the node is a definition that is a script.
func (n *Node) Whole() bool { return n.whole }

// NewScript makes a definition that is a script, which is not read from a file.
// Check finds what is wrong with it.
func NewScript(name, description, source string) *Definition {
	return &Definition{
		Name: name, Description: description, Code: Code{Script: source},
		arguments: &lazySchema{}, compiler: &compiler{},
	}
}

// Identifier is the name of a tool or backend as an identifier of a script.
func Identifier(name string) string { return starlark.Identifier(name) }

// FunctionName is the name of a tool's function in scripts; ok is false if that is no
// valid name there.
func FunctionName(tool string) (name string, ok bool) {
	name = starlark.Identifier(tool)
	return name, ScriptLanguage.Callable(name)
}

// Spellings are the names of a tool as scripts spell it, in which letters that no identifier
// has are underscores: github.pull_request for pull-request.
func Spellings(tool, backend, original string) []string {
	spelled := []string{Identifier(backend) + "." + Identifier(original), Identifier(tool)}
	if tool == backend+"."+original { // it has no name of its own
		return spelled[:1]
	}
	return spelled
}

// MatchesTool reports whether one of the names and patterns matches the name of a tool.
func MatchesTool(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// fromScript gives the output block of a definition that is a script: a property
// without a value is the member of that name in the script's result.
func (o *Output) fromScript() *Output {
	if o == nil {
		return nil
	}
	return &Output{Properties: membersOf(o.Properties, nil), Required: o.Required}
}

func membersOf(properties map[string]*Property, within []string) map[string]*Property {
	filled := make(map[string]*Property, len(properties))
	for _, name := range template.SortedKeys(properties) {
		p := properties[name]
		at := append(slices.Clone(within), name)
		if p != nil {
			member := *p
			switch {
			case p.Properties != nil:
				member.Properties = membersOf(p.Properties, at)
			case p.Value == "":
				member.Value = memberOf(at)
			}
			p = &member
		}
		filled[name] = p
	}
	return filled
}

// memberOf is the template that gives a member of the script's result.
func memberOf(path []string) string {
	var b strings.Builder
	b.WriteString("{{index .steps." + ScriptID + ".output")
	for _, name := range path {
		fmt.Fprintf(&b, " %q", name)
	}
	return b.String() + "}}"
}
