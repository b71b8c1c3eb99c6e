// Package script runs Starlark inside workflow code.
//
// A script is compiled once ([Compile]) and run by each execution of a workflow
// ([Program.Run]). What it asks of the world goes through a [Host]: a call
// blocks the coroutine of the script on a workflow future, so that all of the
// script's state is rebuilt by replay, and no call is repeated.
//
//	source ──Parse──► tree ──bound──► tree whose operators are charged ──► Program
//	Program + Host + data ──Run──► JSON, or an Error that says at which line
//
// Each call has a [Site] with a path that says where it stands in the script and
// never when it was reached. A host keeps results by path, so an execution that
// starts from the top again finds what was done.
//
// The interpreter of go.starlark.net counts steps and does not count memory.
// So before a script is compiled, what could allocate or take long in one step
// (an operator, a slice, a method) is replaced in the tree by a function that
// charges an [account] first; see bound.go.
package script

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Source is a script as written.
type Source struct {
	File    string            // its name in positions and paths; "" = script.star
	Text    string            //
	Modules map[string]string // text of what load may name, also in modules, by that name
}

// A Diagnostic is a mistake in a script that shows without running it.
type Diagnostic struct {
	File    string
	Line    int // from 1
	Column  int // from 1
	Check   string
	Message string
}

// The checks of a Diagnostic.
const (
	CheckSyntax = "script-syntax" // it cannot be parsed, or uses what is not offered
	CheckName   = "script-name"   // nothing has the name
	CheckLoad   = "script-load"   // a module is missing, or loads itself
	CheckLimit  = "script-limit"  // it is too long or nested too deeply
)

func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s [%s]", d.File, d.Line, d.Column, d.Message, d.Check)
}

// Diagnostics are in the order of the source.
type Diagnostics []Diagnostic

// Error gives one line for each diagnostic.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// A Program is a compiled script. It never changes, and several runs may use it
// at the same time.
type Program struct {
	main    *module
	modules map[string]*module // by the name that load uses
	pending []string           // published modules that it loads and that were not given, as load names them
	calls   []Call
	globals []Name
	names   map[string]bool // that are given to something
}

// A module is the script itself or a file that it loads.
type module struct {
	file    string
	program *starlark.Program
	defines []string // what it gives to who loads it, sorted
}

// mainName is the function that the body of a script becomes, so that it can
// return its result. No script can write the name.
const mainName = "$main"

var fileOptions = syntax.FileOptions{While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// IsPublished reports whether a name that load uses is that of a published
// module, NAME.star@VERSION, and not of a file.
func IsPublished(module string) bool { return strings.Contains(module, "@") }

// A Load is a module that a text loads, where it does so first.
type Load struct {
	Module string // as load names it
	Line   int
	Column int
}

// Loads gives what a script, or a module, loads itself, each once.
func Loads(file, text string) ([]Load, Diagnostics) {
	tree, ds := parse(file, text, Limits{}.withDefaults())
	if ds != nil {
		return nil, ds
	}
	var loads []Load
	for _, l := range loadStatements(tree) {
		if name := l.ModuleName(); !slices.ContainsFunc(loads, func(known Load) bool { return known.Module == name }) {
			loads = append(loads, Load{name, int(l.Load.Line), int(l.Load.Col)})
		}
	}
	return loads, nil
}

func loadStatements(tree *syntax.File) []*syntax.LoadStmt {
	var loads []*syntax.LoadStmt
	for _, s := range tree.Stmts {
		if l, ok := s.(*syntax.LoadStmt); ok {
			loads = append(loads, l)
		}
	}
	return loads
}

// Pending names the published modules that the script loads, and that were not
// among those of its source. Such a program can be looked at; a run of it fails.
func (p *Program) Pending() []string { return slices.Clone(p.pending) }

// Compile makes a program of a script and of what it loads. Of limits, those of
// the source count.
func Compile(source Source, limits Limits) (*Program, Diagnostics) {
	if source.File == "" {
		source.File = "script.star"
	}
	c := &compiler{source: source, limits: limits.withDefaults(), program: newProgram()}
	if ds := c.checkSize(); ds != nil {
		return nil, ds
	}
	c.program.main = c.compile(source.File, source.Text, true)
	if len(c.diagnostics) > 0 {
		return nil, c.diagnostics
	}
	return c.program, nil
}

func newProgram() *Program {
	return &Program{modules: map[string]*module{}, names: map[string]bool{}}
}

type compiler struct {
	source      Source
	limits      Limits
	program     *Program
	diagnostics Diagnostics
	loading     []string // modules that are being compiled, outermost first
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
	return Diagnostics{{File: c.source.File, Line: 1, Column: 1, Check: CheckLimit,
		Message: fmt.Sprintf("the script and what it loads have %d bytes; the limit is %d", size, c.limits.Source)}}
}

// compile makes a module of a text; nil where there were mistakes.
func (c *compiler) compile(file, text string, isMain bool) *module {
	tree, ds := parse(file, text, c.limits)
	if ds != nil {
		c.diagnostics = append(c.diagnostics, ds...)
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
	// A name that is neither the script's nor a builtin may be a tool.
	program, err := starlark.FileProgram(tree, func(string) bool { return true })
	if err != nil {
		c.diagnostics = append(c.diagnostics, diagnose(file, err)...)
		return nil
	}
	m.program, m.defines = program, defined(tree)
	c.look(file, tree)
	return m
}

// load compiles a module that is loaded.
func (c *compiler) load(file string, l *syntax.LoadStmt) {
	name := l.ModuleName()
	fail := func(format string, args ...any) {
		c.diagnostics = append(c.diagnostics, Diagnostic{File: file, Line: int(l.Load.Line), Column: int(l.Load.Col),
			Check: CheckLoad, Message: fmt.Sprintf(format, args...)})
	}
	text, ok := c.source.Modules[name]
	switch {
	case c.program.modules[name] != nil:
	case !ok && IsPublished(name):
		if !slices.Contains(c.program.pending, name) {
			c.program.pending = append(c.program.pending, name)
		}
		return
	case !ok:
		fail("there is no %q to load: there is no such file; what is published is loaded as NAME.star@VERSION", name)
	case slices.Contains(c.loading, name):
		fail("%q loads itself: %s", name, strings.Join(append(c.loading, name), " → "))
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
		if _, ok := slices.BinarySearch(m.defines, id.Name); ok || strings.HasPrefix(id.Name, "_") { // which the resolver tells
			continue
		}
		c.diagnostics = append(c.diagnostics, Diagnostic{File: file, Line: int(id.NamePos.Line), Column: int(id.NamePos.Col),
			Check: CheckLoad, Message: fmt.Sprintf("%q has no %s; it has %s", l.ModuleName(), id.Name, listed(m.defines))})
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

// parse makes a tree of a text that is not nested too deeply.
func parse(file, text string, limits Limits) (*syntax.File, Diagnostics) {
	if line, col, ok := tooDeep(text, limits.Nesting); ok {
		return nil, Diagnostics{{File: file, Line: line, Column: col, Check: CheckLimit,
			Message: fmt.Sprintf("brackets are nested more than %d deep", limits.Nesting)}}
	}
	options := fileOptions
	tree, err := options.Parse(file, text, 0)
	if err != nil {
		return nil, diagnose(file, err)
	}
	if ds := checkDepth(tree, limits.Nesting); ds != nil {
		return nil, ds
	}
	return tree, nil
}

// diagnose makes diagnostics of what the parser or the resolver says.
func diagnose(file string, err error) Diagnostics {
	switch err := err.(type) {
	case syntax.Error:
		check := CheckSyntax
		if err.Msg == "excessive nesting" {
			check = CheckLimit
		}
		return Diagnostics{{File: file, Line: int(err.Pos.Line), Column: int(err.Pos.Col), Check: check, Message: err.Msg}}
	case resolve.ErrorList:
		ds := make(Diagnostics, len(err))
		for i, e := range err {
			check := CheckSyntax
			if strings.HasPrefix(e.Msg, "undefined") {
				check = CheckName
			}
			ds[i] = Diagnostic{File: file, Line: int(e.Pos.Line), Column: int(e.Pos.Col), Check: check, Message: e.Msg}
		}
		return ds
	}
	return Diagnostics{{File: file, Line: 1, Column: 1, Check: CheckSyntax, Message: err.Error()}}
}

// tooDeep finds the bracket at which a text is nested more deeply than a limit,
// before the parser, which recurses, sees it.
func tooDeep(text string, limit int) (line, column int, found bool) {
	depth, start := 0, 0
	line = 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line, start = line+1, i+1
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := endOfString(text, i)
			if n := strings.Count(text[i:end], "\n"); n > 0 {
				line, start = line+n, i+strings.LastIndexByte(text[i:end], '\n')+1
			}
			i = end - 1
		case '(', '[', '{':
			if depth++; depth > limit {
				return line, i - start + 1, true
			}
		case ')', ']', '}':
			depth--
		}
	}
	return 0, 0, false
}

// endOfString is the index after a literal that begins at i. A literal that
// does not end is the parser's business.
func endOfString(text string, i int) int {
	quote := text[i : i+1]
	if strings.HasPrefix(text[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for j := i + len(quote); j < len(text); j++ {
		switch {
		case text[j] == '\\':
			j++
		case strings.HasPrefix(text[j:], quote):
			return j + len(quote)
		case text[j] == '\n' && len(quote) == 1:
			return j
		}
	}
	return len(text)
}

// Indent indents the lines of a script, but for those that go on with a text of
// several lines.
func Indent(text, by string) string {
	var b strings.Builder
	start := true
	for i := 0; i < len(text); {
		if start && text[i] != '\n' {
			b.WriteString(by)
		}
		start = false
		end := i + 1
		switch text[i] {
		case '#':
			for end < len(text) && text[end] != '\n' {
				end++
			}
		case '"', '\'':
			end = min(endOfString(text, i), len(text))
		case '\n':
			start = true
		}
		b.WriteString(text[i:end])
		i = end
	}
	return strings.TrimRight(b.String(), " \n")
}
