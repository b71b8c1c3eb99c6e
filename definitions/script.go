package definitions

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// A Code is the script of a definition, or of a step of type script.
type Code struct {
	Script string `yaml:"script,omitempty" json:"script,omitempty"` // Starlark

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

// codes gives the scripts of the definition with their paths; "" for its own.
func (d *Definition) codes() []placedCode {
	var all []placedCode
	if d.given() {
		all = append(all, placedCode{"", &d.Code})
	}
	for i, s := range d.Steps {
		at := fmt.Sprintf("steps[%d]", i)
		for ; s != nil; s, at = s.Step, at+".step" {
			if s.given() {
				all = append(all, placedCode{at, &s.Code})
			}
		}
	}
	return all
}

type placedCode struct {
	path string // of the step
	code *Code
}

// Pin reads the files of the definition's scripts, and those that they load, into the
// definition, so that its source has everything that a run needs. Names are relative
// to the file of the definition.
func (d *Definition) Pin(read func(name string) (string, error)) Diagnostics {
	c := newSubject(d)
	for _, placed := range d.codes() {
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

// PinnedFiles names the files that Pin reads, relative to the definition's.
func (d *Definition) PinnedFiles() []string {
	var files []string
	for _, placed := range d.codes() {
		if placed.code.ScriptFile != "" {
			files = append(files, placed.code.ScriptFile)
		}
		for _, name := range template.SortedKeys(placed.code.Modules) {
			name, _, _ = strings.Cut(name, "@") // a file may replace a published module
			files = append(files, name)
		}
	}
	return files
}

// pinModules reads what the script loads. Check reports what cannot be read, at the
// load.
func (c *Code) pinModules(read func(name string) (string, error)) {
	texts := []string{c.Script}
	for len(texts) > 0 && len(c.Modules) < maxModules {
		loads, _ := starlark.Loads(c.ScriptFile, texts[0])
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

// A compiledCode is a compiled script with its mistakes.
type compiledCode struct {
	program     *starlark.Program
	diagnostics starlark.Diagnostics
}

// A codeCache keeps the compiled scripts of a definition, by their texts.
type codeCache struct {
	mu       sync.Mutex
	compiled map[string]compiledCode
}

// compileCode compiles a script of the definition, once.
func (d *Definition) compileCode(c *Code) (*starlark.Program, starlark.Diagnostics) {
	source := starlark.Source{File: c.file(), Text: c.Script, Modules: c.Modules}
	if d.scripts == nil { // made in Go
		return ScriptLanguage.Compile(source, starlark.Limits{})
	}
	d.scripts.mu.Lock()
	defer d.scripts.mu.Unlock()
	key := c.key()
	known, ok := d.scripts.compiled[key]
	if !ok {
		known.program, known.diagnostics = ScriptLanguage.Compile(source, starlark.Limits{})
		if d.scripts.compiled == nil {
			d.scripts.compiled = map[string]compiledCode{}
		}
		d.scripts.compiled[key] = known
	}
	return known.program, known.diagnostics
}

// key identifies a script by all that compiling it depends on.
func (c *Code) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q%q", c.file(), c.Script)
	for _, name := range template.SortedKeys(c.Modules) {
		fmt.Fprintf(&b, "%q%q", name, c.Modules[name])
	}
	return b.String()
}

func (d *Definition) compileScript(c *Code) (*starlark.Program, error) {
	if c.Script == "" {
		return nil, fmt.Errorf("there is no script, or the file %q was not read", c.ScriptFile)
	}
	program, mistakes := d.compileCode(c)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return program, nil
}

// Whole reports whether the node is a definition that is a script.
func (n *Node) Whole() bool { return n.whole }

// codeTools gives the names of tools that a script uses, as written.
func (d *Definition) codeTools(c *Code) []string {
	program, mistakes := d.compileCode(c)
	if len(mistakes) > 0 || program == nil {
		return nil
	}
	var names []string
	for _, call := range seenCalls(program) {
		if call.isTool() && call.name != "" {
			names = append(names, call.name)
		}
	}
	for _, global := range program.Globals() {
		name := global.Name
		if global.Member != "" {
			name += "." + global.Member
		}
		names = append(names, name)
	}
	return names
}

// ToolPatterns gives the names and patterns of the tools and composite tools that
// scripts of the definition may call besides ToolNames and WorkflowNames, sorted,
// once each.
func (d *Definition) ToolPatterns() []string {
	var patterns []string
	for _, placed := range d.codes() {
		patterns = append(patterns, placed.code.Tools...)
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// NewScript makes a definition that is a script, which is not read from a file.
// Check finds what is wrong with it.
func NewScript(name, description, source string) *Definition {
	return &Definition{
		Name: name, Description: description, Code: Code{Script: source},
		arguments: &lazySchema{}, scripts: &codeCache{},
	}
}

// CallsDynamically reports whether a script of the definition calls a tool, or a
// composite tool, by a computed name.
func (d *Definition) CallsDynamically() bool {
	for _, placed := range d.codes() {
		program, mistakes := d.compileCode(placed.code)
		if len(mistakes) > 0 || program == nil {
			continue
		}
		if slices.ContainsFunc(seenCalls(program), func(c seenCall) bool { return c.computed() }) {
			return true
		}
	}
	return false
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
	return []string{Identifier(tool), Identifier(backend) + "." + Identifier(original)}
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
