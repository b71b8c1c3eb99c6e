package script

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// A Call is something a script asks of the world that can be seen without
// running it.
type Call struct {
	Kind       string   // tool, workflow, elicit, approve, sleep, iterate, parallel, or probe or undo of a policy
	Name       string   // of the tool (github_get, or github.get as written) or workflow; "" = computed when the script runs
	Version    string   // of the workflow, where it is literal
	Message    string   // of a question, where it is literal
	Try        bool     // its failure does not end the script
	Args       []string // names of arguments that can be seen
	Rest       bool     // there may be more arguments: **kwargs, or a dict that is no literal
	InLoop     bool     // it may be made several times
	InBranch   bool     // it is in a function that parallel or map_parallel calls
	InFunction string   // the function in which it stands, lambda if it has no name; "" = the body
	Maybe      bool     // it stands behind a condition, so it may not be made
	Value      bool     // it is named and not called on the spot: something else may call it, with whatever arguments
	File       string
	Line       int
	Column     int
	// Literals are the arguments that are literals, as JSON; of a question its
	// schema, under that name.
	Literals map[string]json.RawMessage
}

// A Name is a use of a name that is neither the script's own nor a builtin: a
// tool, or the backend whose tools it gives.
type Name struct {
	Name      string
	Namespace bool   // it is written name.something
	Tool      string // something, after a namespace
	File      string
	Line      int
	Column    int
}

// Calls are the calls that can be seen, in the order of the source; those of
// the modules come before those of the script.
func (p *Program) Calls() []Call { return slices.Clone(p.calls) }

// Names are those that the script, and what it loads, gives to something, and
// builtins: what a name may have been meant for.
func (p *Program) Names() []string {
	names := append(slices.Sorted(maps.Keys(p.names)), Builtins()...)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "$") })
}

// Globals are the names that tools must have for the script to run.
func (p *Program) Globals() []Name { return slices.Clone(p.globals) }

// A Tool is a tool that a script may call.
type Tool struct {
	Name     string // by which it is known to clients, e.g. github_get_issue
	Backend  string // whose it is, e.g. github
	Original string // its name there, e.g. get_issue
}

// look collects what can be seen in a resolved tree.
func (c *compiler) look(file string, tree *syntax.File) {
	l := &looker{file: file, compiler: c}
	for _, s := range tree.Stmts {
		l.node(s)
	}
}

type looker struct {
	file     string
	compiler *compiler
	loops    int
	branches int
	maybe    int // conditions
	function string
}

// node looks at one node and at what is in it.
func (l *looker) node(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Ident:
			l.value(n, n)
			l.name(n, "")
		case *syntax.DotExpr:
			l.value(n, n.X)
			l.dot(n.X, n.Name.Name)
			return false
		case *syntax.LambdaExpr:
			l.lambda(n)
			return false
		case *syntax.IfStmt:
			l.node(n.Cond)
			l.perhaps(func() { l.body(n.True); l.body(n.False) })
			return false
		case *syntax.CondExpr:
			l.node(n.Cond)
			l.perhaps(func() { l.node(n.True); l.node(n.False) })
			return false
		case *syntax.BinaryExpr:
			if n.Op == syntax.AND || n.Op == syntax.OR {
				l.node(n.X)
				l.perhaps(func() { l.node(n.Y) })
				return false
			}
		case *syntax.CallExpr:
			l.call(n)
			return false
		case *syntax.DefStmt:
			l.def(n)
			return false
		case *syntax.ForStmt:
			l.node(n.X)
			l.inLoop(func() { l.body(n.Body) })
			return false
		case *syntax.WhileStmt:
			l.inLoop(func() { l.node(n.Cond); l.body(n.Body) })
			return false
		case *syntax.Comprehension:
			l.inLoop(func() {
				for _, clause := range n.Clauses {
					switch clause := clause.(type) {
					case *syntax.ForClause:
						l.node(clause.X)
					case *syntax.IfClause:
						l.node(clause.Cond)
					}
				}
				l.node(n.Body)
			})
			return false
		}
		return true
	})
}

func (l *looker) body(list []syntax.Stmt) {
	for _, s := range list {
		l.node(s)
	}
}

func (l *looker) inLoop(f func()) {
	l.loops++
	f()
	l.loops--
}

func (l *looker) perhaps(f func()) {
	l.maybe++
	f()
	l.maybe--
}

func (l *looker) def(n *syntax.DefStmt) {
	l.defaults(n.Params)
	if n.Name.Name == mainName {
		l.body(n.Body)
		return
	}
	outer, loops := l.function, l.loops
	l.function, l.loops = n.Name.Name, 0
	l.body(n.Body)
	l.function, l.loops = outer, loops
}

func (l *looker) lambda(n *syntax.LambdaExpr) {
	l.defaults(n.Params)
	outer := l.function
	l.function = cmp.Or(outer, "lambda")
	l.node(n.Body)
	l.function = outer
}

func (l *looker) defaults(params []syntax.Expr) {
	for _, p := range params {
		if d, ok := p.(*syntax.BinaryExpr); ok {
			l.node(d.Y)
		}
	}
}

// value notes that a tool, or a builtin that asks something of the world, is
// named and not called on the spot. Something else may call it.
func (l *looker) value(at, of syntax.Expr) {
	seen := l.seen(at)
	if name, ok := toolName(at); ok {
		seen.Kind, seen.Name = "tool", name
	} else if name, ok := ours(of); ok && at == of {
		l.builtin(name, &syntax.CallExpr{}, &seen)
	}
	if seen.Kind != "" {
		seen.Value, seen.InLoop, seen.Rest = true, true, true
		l.compiler.program.calls = append(l.compiler.program.calls, seen)
	}
}

// seen begins a call that stands where the looker is.
func (l *looker) seen(at syntax.Expr) Call {
	pos := syntax.Start(at)
	return Call{InLoop: l.loops > 0, InBranch: l.branches > 0, InFunction: l.function, Maybe: l.maybe > 0,
		File: l.file, Line: int(pos.Line), Column: int(pos.Col)}
}

// free says whether a name is neither bound by the script nor ours.
func free(id *syntax.Ident) bool {
	b, ok := id.Binding.(*resolve.Binding)
	return ok && (b.Scope == resolve.Predeclared || b.Scope == resolve.Universal) && !strings.HasPrefix(id.Name, "$") && predeclared[id.Name] == nil
}

func ours(e syntax.Expr) (string, bool) {
	id, ok := unparen(e).(*syntax.Ident)
	if !ok {
		return "", false
	}
	b, ok := id.Binding.(*resolve.Binding)
	return id.Name, ok && b.Scope == resolve.Predeclared && predeclared[id.Name] != nil
}

// name notes the use of a name that may be a tool, or a namespace of it.
func (l *looker) name(id *syntax.Ident, tool string) {
	if !free(id) {
		if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope != resolve.Predeclared && b.Scope != resolve.Universal {
			l.compiler.program.names[id.Name] = true
		}
		return
	}
	if why, ok := unavailable[id.Name]; ok {
		l.compiler.diagnostics = append(l.compiler.diagnostics, Diagnostic{File: l.file, Line: int(id.NamePos.Line),
			Column: int(id.NamePos.Col), Check: CheckName, Message: fmt.Sprintf("there is no %s: %s", id.Name, why)})
		return
	}
	p := l.compiler.program
	p.globals = append(p.globals, Name{Name: id.Name, Namespace: tool != "", Tool: tool,
		File: l.file, Line: int(id.NamePos.Line), Column: int(id.NamePos.Col)})
}

func (l *looker) dot(x syntax.Expr, name string) {
	if id, ok := unparen(x).(*syntax.Ident); ok {
		l.name(id, name)
		return
	}
	l.node(x)
}

// call notes what a call asks of the world.
func (l *looker) call(n *syntax.CallExpr) {
	name, isOurs := ours(n.Fn)
	seen := l.seen(n)
	switch {
	case isOurs:
		l.builtin(name, n, &seen)
	default:
		if tool, ok := toolName(n.Fn); ok {
			seen.Kind, seen.Name = "tool", tool
			seen.arguments(n.Args, 0)
		}
	}
	if seen.Kind != "" {
		l.compiler.program.calls = append(l.compiler.program.calls, seen)
	}
	if isAttribute(n) { // that is not called
		l.value(n, nil)
		l.dot(n.Args[0], literal(n.Args[1]))
		return
	}
	if !isOurs {
		l.named(n.Fn)
	}
	inBranch := isOurs && (name == "parallel" || name == "map_parallel")
	if inBranch {
		l.branches++
	}
	for i, arg := range n.Args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			arg = b.Y
		}
		if i == 0 && seen.Kind == "iterate" {
			l.named(arg) // it is what the call calls
			continue
		}
		l.node(arg)
	}
	if inBranch {
		l.branches--
	}
}

// named looks at what is called: a name, or an expression.
func (l *looker) named(fn syntax.Expr) {
	switch fn := unparen(fn).(type) {
	case *syntax.Ident:
		l.name(fn, "")
		return
	case *syntax.DotExpr:
		l.dot(fn.X, fn.Name.Name)
		return
	case *syntax.CallExpr:
		if isAttribute(fn) {
			l.dot(fn.Args[0], literal(fn.Args[1]))
			return
		}
	}
	l.node(fn)
}

// isAttribute says whether a call is an attribute that has the name of a method.
func isAttribute(n *syntax.CallExpr) bool {
	id, ok := unparen(n.Fn).(*syntax.Ident)
	return ok && id.Name == opAttr && len(n.Args) == 2
}

// builtin notes a call of a builtin that asks something of the world.
func (l *looker) builtin(name string, n *syntax.CallExpr, seen *Call) {
	first := ""
	if len(n.Args) > 0 {
		first = literal(n.Args[0])
	}
	switch name {
	case "call_tool", "try_call_tool", "tool_output":
		seen.Kind, seen.Name, seen.Try = "tool", first, name == "try_call_tool"
		seen.arguments(n.Args, 1)
	case "probe", "undo":
		seen.Kind, seen.Name = name, first
		if first == "" {
			seen.Name = literal(argument(n.Args, "tool"))
		}
	case "iterate":
		seen.Kind, seen.Name, seen.InLoop = "iterate", first, true
		if first == "" && len(n.Args) > 0 {
			seen.Name, _ = toolName(n.Args[0])
		}
		seen.Rest = true
	case "call_workflow":
		seen.Kind, seen.Name, seen.Version = "workflow", first, literal(argument(n.Args, "version"))
		seen.arguments(n.Args, 1)
		seen.Args = slices.DeleteFunc(seen.Args, func(arg string) bool { return arg == "version" })
	case "elicit", "approve":
		seen.Kind, seen.Message = name, first
		if first == "" {
			seen.Message = literal(argument(n.Args, "message"))
		}
		seen.keep("schema", argument(n.Args, "schema"))
	case "sleep":
		seen.Kind = name
	case "parallel", "map_parallel":
		seen.Kind = "parallel"
	}
}

// toolName is the name of a tool that is written as a function.
func toolName(fn syntax.Expr) (string, bool) {
	switch fn := unparen(fn).(type) {
	case *syntax.Ident:
		return fn.Name, free(fn)
	case *syntax.DotExpr:
		id, ok := unparen(fn.X).(*syntax.Ident)
		if ok && free(id) {
			return id.Name + "." + fn.Name.Name, true
		}
	case *syntax.CallExpr: // a name that is a method's, too
		if id, ok := fn.Fn.(*syntax.Ident); ok && id.Name == opAttr {
			if x, ok := unparen(fn.Args[0]).(*syntax.Ident); ok && free(x) {
				return x.Name + "." + literal(fn.Args[1]), true
			}
		}
	}
	return "", false
}

func literal(e syntax.Expr) string {
	if e == nil {
		return ""
	}
	if l, ok := unparen(e).(*syntax.Literal); ok {
		s, _ := l.Value.(string)
		return s
	}
	return ""
}

// argument is the argument of a name, or nil.
func argument(args []syntax.Expr, name string) syntax.Expr {
	for _, arg := range args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ && b.X.(*syntax.Ident).Name == name {
			return b.Y
		}
	}
	return nil
}
