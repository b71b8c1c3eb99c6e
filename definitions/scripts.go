package definitions

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// Scripts are the scripts of a definition: its own, and those of its steps.
type Scripts struct {
	all      []placedCode
	compiler *compiler
}

type placedCode struct {
	path string // of the step; "" = the definition
	code *Code
}

// Scripts gives the scripts of the definition.
func (d *Definition) Scripts() Scripts {
	s := Scripts{compiler: d.compiler}
	if d.given() {
		s.all = append(s.all, placedCode{"", &d.Code})
	}
	for i, step := range d.Steps {
		at := fmt.Sprintf("steps[%d]", i)
		for ; step != nil; step, at = step.Step, at+".step" {
			if step.given() {
				s.all = append(s.all, placedCode{at, &step.Code})
			}
		}
	}
	return s
}

// Files names the files that Pin reads, relative to the definition's.
func (s Scripts) Files() []string {
	var files []string
	for _, placed := range s.all {
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

// Calls gives the visible calls of the scripts.
func (s Scripts) Calls() []ScriptCall {
	var calls []ScriptCall
	for _, program := range s.programs() {
		calls = append(calls, visibleCalls(program)...)
	}
	return calls
}

// toolNames gives the names of tools that the scripts use, as written.
func (s Scripts) toolNames() (names []string) {
	for _, placed := range s.all {
		names = append(names, s.compiler.toolNames(placed.code)...)
	}
	return names
}

// ToolPatterns gives the names and patterns of the tools and composite tools that
// the scripts may call besides the visible ones, sorted, once each.
func (s Scripts) ToolPatterns() []string {
	var patterns []string
	for _, placed := range s.all {
		patterns = append(patterns, placed.code.Tools...)
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// CallDynamically reports whether a script calls a tool, or a composite tool, by a
// computed name.
func (s Scripts) CallDynamically() bool {
	return slices.ContainsFunc(s.programs(), func(p *starlark.Program) bool {
		return slices.ContainsFunc(seenCalls(p), func(c seenCall) bool { return c.computed() })
	})
}

// programs are the scripts that compile.
func (s Scripts) programs() (programs []*starlark.Program) {
	for _, placed := range s.all {
		if program, mistakes := s.compiler.compile(placed.code); len(mistakes) == 0 && program != nil {
			programs = append(programs, program)
		}
	}
	return programs
}

// Pending names the published modules that scripts load and that WithModules has not
// added, sorted, once each. A definition with any cannot run.
func (s Scripts) Pending() []string {
	var pending []string
	for _, placed := range s.all {
		pending = append(pending, placed.code.pending()...)
	}
	slices.Sort(pending)
	return slices.Compact(pending)
}

// Loadable says which modules the scripts lack, and what to do; nil = none.
func (s Scripts) Loadable() error {
	if pending := s.Pending(); len(pending) > 0 {
		name, _, _ := strings.Cut(pending[0], "@")
		return fmt.Errorf("its script loads %s, which is not published: perdure publish %s", pending[0], name)
	}
	for _, placed := range s.all {
		if _, mistakes := s.compiler.compile(placed.code); len(mistakes) > 0 {
			return fmt.Errorf("its script cannot run with what it loads: %w", mistakes[:1])
		}
	}
	return nil
}

// A PinnedModule is a published module within a definition.
type PinnedModule struct {
	Load    string `json:"load"` // as scripts name it: text.star@^1.0
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// Published gives the published modules within the definition, by their names in
// scripts, once each.
func (s Scripts) Published() []PinnedModule {
	var all []PinnedModule
	for _, placed := range s.all {
		for _, load := range template.SortedKeys(placed.code.Pinned) {
			name, _, _ := strings.Cut(load, "@")
			pin := placed.code.Pinned[load]
			m := PinnedModule{load, name, pin.Version, pin.Digest}
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b PinnedModule) int { return strings.Compare(a.Load, b.Load) })
	return all
}

// Modules finds the published modules within the definition, for another version of it.
func (s Scripts) Modules() Modules {
	return func(ref Reference) (*Module, error) {
		for _, placed := range s.all {
			if pin := placed.code.Pinned[ref.String()]; pin != nil {
				return &Module{ref.Name, pin.Version, placed.code.Modules[ref.String()]}, nil
			}
		}
		return nil, fmt.Errorf("no script of the definition loads %s", ref)
	}
}

// A compiler compiles the scripts of a definition, each text once. A nil one keeps
// nothing.
type compiler struct {
	mu    sync.Mutex
	known map[string]compilation // by Code.key
}

// A compilation is a compiled script with its mistakes.
type compilation struct {
	program     *starlark.Program
	diagnostics starlark.Diagnostics
}

func (c *compiler) compile(code *Code) (*starlark.Program, starlark.Diagnostics) {
	source := starlark.Source{File: code.file(), Text: code.Script, Modules: code.Modules}
	if c == nil {
		return ScriptLanguage.Compile(source, starlark.Limits{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := code.key()
	known, ok := c.known[key]
	if !ok {
		known.program, known.diagnostics = ScriptLanguage.Compile(source, starlark.Limits{})
		if c.known == nil {
			c.known = map[string]compilation{}
		}
		c.known[key] = known
	}
	return known.program, known.diagnostics
}

// program is the script as it runs, or what hinders it.
func (c *compiler) program(code *Code) (*starlark.Program, error) {
	if code.Script == "" {
		return nil, fmt.Errorf("there is no script, or the file %q was not read", code.ScriptFile)
	}
	program, mistakes := c.compile(code)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return program, nil
}

// toolNames gives the names of tools that a script uses, as written.
func (c *compiler) toolNames(code *Code) []string {
	program, mistakes := c.compile(code)
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

// key identifies a script by all that compiling it depends on.
func (c *Code) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q%q", c.file(), c.Script)
	for _, name := range template.SortedKeys(c.Modules) {
		fmt.Fprintf(&b, "%q%q", name, c.Modules[name])
	}
	return b.String()
}
