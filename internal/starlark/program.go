package starlark

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Source is a program as written.
type Source struct {
	File    string            // its name in positions; "" = script.star
	Text    string            // of the program itself
	Modules map[string]string // texts that load finds, in modules as well, by the name it uses
}

// A Program is compiled. It never changes, and several executions may use it at
// the same time.
type Program struct {
	language *Language
	main     *module
	modules  map[string]*module // by the name that load uses
	pending  []string           // published modules that were not given, by the name that load uses
	calls    []Call
	globals  []Name
	reads    []Read
	names    map[string]bool // that the program defines
}

// A module is the program itself or a file that it loads.
type module struct {
	file    string
	program *starlark.Program
	defines []string // names that others can load, sorted
}

// mainName is the function that the body of a program becomes, so that it can
// return its result. No program can write the name.
const mainName = "$main"

var fileOptions = syntax.FileOptions{While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// IsPublished reports whether a name that load uses is that of a published
// module, NAME.star@VERSION, and not of a file.
func IsPublished(module string) bool { return strings.Contains(module, "@") }

// File is the name of the program itself in positions.
func (p *Program) File() string { return p.main.file }

// Pending names the published modules that the program loads and that its source
// did not have. Such a program can be inspected; an execution of it fails.
func (p *Program) Pending() []string { return slices.Clone(p.pending) }

// Compile makes a program of a source and of what it loads. Of the limits, Source
// and Nesting count. A program with mistakes can be inspected, not executed; it is nil
// if they leave nothing to inspect.
func (l *Language) Compile(source Source, limits Limits) (*Program, Diagnostics) {
	return l.compile(source, limits, true)
}

// CompileModule makes a program of a module by itself, which cannot be executed:
// it shows what is wrong with the module, and what it calls.
func (l *Language) CompileModule(source Source, limits Limits) (*Program, Diagnostics) {
	return l.compile(source, limits, false)
}

func (l *Language) compile(source Source, limits Limits, isMain bool) (*Program, Diagnostics) {
	if source.File == "" {
		source.File = "script.star"
	}
	program := &Program{language: l, modules: map[string]*module{}, names: map[string]bool{}}
	c := &compiler{language: l, source: source, limits: limits.WithDefaults(), program: program}
	if ds := c.checkSize(); ds != nil {
		return nil, ds
	}
	c.program.main = c.compile(source.File, source.Text, isMain)
	if c.program.main == nil {
		return nil, c.diagnostics
	}
	return c.program, c.diagnostics
}

type compiler struct {
	language    *Language
	source      Source
	limits      Limits
	program     *Program
	diagnostics Diagnostics
	loading     []string // modules that are being compiled, outermost first
}

func (c *compiler) report(file string, pos syntax.Position, check, format string, args ...any) {
	c.diagnostics = append(c.diagnostics, diagnosticAt(file, pos, check, format, args...))
}

func (c *compiler) checkSize() Diagnostics {
	size := len(c.source.Text)
	//workflowcheck:ignore a sum
	for _, text := range c.source.Modules {
		size += len(text)
	}
	if size <= c.limits.Source {
		return nil
	}
	return Diagnostics{diagnosticAt(c.source.File, syntax.Position{Line: 1, Col: 1}, CheckLimit,
		"the script and its modules have %d bytes; the limit is %d", size, c.limits.Source)}
}

// compile makes a module of a text; nil where there were mistakes.
func (c *compiler) compile(file, text string, isMain bool) *module {
	tree, ds := parse(file, text, c.limits)
	c.diagnostics = append(c.diagnostics, ds...)
	if tree == nil {
		return nil
	}
	m := &module{file: file}
	for _, l := range loadStatements(tree) {
		c.load(file, l)
	}
	if ds := bound(file, tree, isMain); ds != nil {
		c.diagnostics = append(c.diagnostics, ds...)
		return nil
	}
	// A name that neither the program nor the language defines is the host's to give.
	program, err := starlark.FileProgram(tree, func(string) bool { return true })
	if err != nil {
		c.diagnostics = append(c.diagnostics, diagnose(file, err)...)
		return nil
	}
	m.program, m.defines = program, defined(tree)
	c.inspect(file, tree)
	return m
}

// load compiles a module that is loaded.
func (c *compiler) load(file string, l *syntax.LoadStmt) {
	name := l.ModuleName()
	text, ok := c.source.Modules[name]
	switch {
	case c.program.modules[name] != nil:
	case !ok && IsPublished(name):
		if !slices.Contains(c.program.pending, name) {
			c.program.pending = append(c.program.pending, name)
		}
		return
	case !ok:
		c.report(file, l.Load, CheckLoad, "module %q not found: there is no such file; a published module is loaded as NAME.star@VERSION", name)
	case slices.Contains(c.loading, name):
		c.report(file, l.Load, CheckLoad, "%q loads itself: %s", name, strings.Join(append(c.loading, name), " → "))
	default:
		c.loading = append(c.loading, name)
		c.program.modules[name] = c.compile(name, text, false)
		c.loading = c.loading[:len(c.loading)-1]
	}
	if m := c.program.modules[name]; m != nil {
		c.names(file, l, m)
	}
}

// names checks what a load takes of a module.
func (c *compiler) names(file string, l *syntax.LoadStmt, m *module) {
	for _, id := range l.From {
		if _, ok := slices.BinarySearch(m.defines, id.Name); ok || strings.HasPrefix(id.Name, "_") { // which the resolver reports
			continue
		}
		c.report(file, id.NamePos, CheckLoad, "%q has no %s; known names: %s", l.ModuleName(), id.Name, listed(m.defines))
	}
}

func listed(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "nothing to load"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// defined gives what a resolved tree has at its top level for others, sorted.
func defined(tree *syntax.File) []string {
	var names []string
	resolved, ok := tree.Module.(*resolve.Module)
	if !ok {
		return nil
	}
	for _, global := range resolved.Globals {
		if name := global.First.Name; !strings.HasPrefix(name, "_") && !strings.HasPrefix(name, "$") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
