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
	calls   []Call
	globals []Name
}

// A module is the script itself or a file that it loads.
type module struct {
	file    string
	program *starlark.Program
	loads   []string
}

// mainName is the function that the body of a script becomes, so that it can
// return its result. No script can write the name.
const mainName = "$main"

var fileOptions = syntax.FileOptions{While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// Loads names the modules that a script, or a module, loads itself.
func Loads(file, text string) ([]string, Diagnostics) {
	tree, ds := parse(file, text, Limits{}.withDefaults())
	if ds != nil {
		return nil, ds
	}
	return loadsOf(tree), nil
}

func loadsOf(tree *syntax.File) []string {
	var names []string
	for _, s := range tree.Stmts {
		if l, ok := s.(*syntax.LoadStmt); ok && !slices.Contains(names, l.ModuleName()) {
			names = append(names, l.ModuleName())
		}
	}
	return names
}

// Compile makes a program of a script and of what it loads. Of limits, those of
// the source count.
func Compile(source Source, limits Limits) (*Program, Diagnostics) {
	if source.File == "" {
		source.File = "script.star"
	}
	c := &compiler{source: source, limits: limits.withDefaults(), program: &Program{modules: map[string]*module{}}}
	if ds := c.checkSize(); ds != nil {
		return nil, ds
	}
	c.program.main = c.compile(source.File, source.Text, true)
	if len(c.diagnostics) > 0 {
		return nil, c.diagnostics
	}
	return c.program, nil
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
	m := &module{file: file, loads: loadsOf(tree)}
	for _, s := range tree.Stmts {
		if l, ok := s.(*syntax.LoadStmt); ok {
			c.load(file, l)
		}
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
	m.program = program
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
	case !ok:
		fail("there is no %q to load", name)
	case slices.Contains(c.loading, name):
		fail("%q loads itself: %s", name, strings.Join(append(c.loading, name), " → "))
	default:
		c.loading = append(c.loading, name)
		c.program.modules[name] = c.compile(name, text, false)
		c.loading = c.loading[:len(c.loading)-1]
	}
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
