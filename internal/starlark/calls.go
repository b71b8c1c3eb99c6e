package starlark

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// A Call is a visible call of a function of the host, or of a name that only the host
// can define.
type Call struct {
	Func string     // the host's function; "" = a free name is called
	Free string     // a name that the program does not define, also with a member: github.get_issue
	Args []Argument // in the order of the source
	Open bool       // there may be more arguments: *args or **kwargs

	Value      bool     // it is only named here: something else may call it, with any arguments
	InLoop     bool     // it may be made several times
	Maybe      bool     // it is behind a condition
	InFunction string   // the function that it is in, lambda if it has no name; "" = the body
	Inside     []string // the host's functions among whose arguments it is, outermost first
	File       string
	Line       int
	Column     int
}

// Arg is the argument of a name, or at a position; the zero Argument without one.
func (c *Call) Arg(name string, position int) Argument {
	i := slices.IndexFunc(c.Args, func(a Argument) bool { return a.Name == name })
	if i < 0 && position >= 0 && position < len(c.Args) && c.Args[position].Name == "" {
		i = position
	}
	if i < 0 {
		return Argument{}
	}
	return c.Args[i]
}

// A Name is a use of a name that neither the program nor the language defines.
type Name struct {
	Name   string
	Member string // of name.member; "" = none
	File   string
	Line   int
	Column int
}

// Calls are the visible calls, in the order of the source; those of modules come before
// those of the program itself.
func (p *Program) Calls() []Call { return slices.Clone(p.calls) }

// Names are the names that the program, its modules and the language define.
func (p *Program) Names() []string {
	return append(slices.Sorted(maps.Keys(p.names)), p.language.Names()...)
}

// A Read is a use of a part of one of the host's values.
type Read struct {
	Name       // its Member is the field or the key
	IsKey bool // it is value["key"] or value.get("key")
}

// Reads are the parts that the program reads of the host's values, and of the modules of
// the language, by names that it has as literals, in the order of the source.
func (p *Program) Reads() []Read { return slices.Clone(p.reads) }

// Globals are the names that the host must define for the program to run.
func (p *Program) Globals() []Name { return slices.Clone(p.globals) }

// inspect collects calls and names of a resolved tree.
func (c *compiler) inspect(file string, tree *syntax.File) {
	i := &inspector{compiler: c, file: file}
	i.body(tree.Stmts)
}

// An inspector walks a tree and keeps its place in the program.
type inspector struct {
	*compiler
	file     string
	loops    int
	maybe    int // conditions
	function string
	inside   []string
}

// node inspects one node and its children.
func (i *inspector) node(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Ident:
			i.value(n)
			i.name(n, "")
		case *syntax.DotExpr:
			i.value(n)
			i.read(n.X, n.Name.Name, false)
			i.member(n.X, n.Name.Name)
		case *syntax.IndexExpr:
			i.read(n.X, literalText(n.Y), true)
			return true
		case *syntax.LambdaExpr:
			i.lambda(n)
		case *syntax.IfStmt:
			i.node(n.Cond)
			i.perhaps(func() { i.body(n.True); i.body(n.False) })
		case *syntax.CondExpr:
			i.node(n.Cond)
			i.perhaps(func() { i.node(n.True); i.node(n.False) })
		case *syntax.BinaryExpr:
			i.node(n.X)
			if n.Op == syntax.AND || n.Op == syntax.OR {
				i.perhaps(func() { i.node(n.Y) })
			} else {
				i.node(n.Y)
			}
		case *syntax.CallExpr:
			i.call(n)
		case *syntax.DefStmt:
			i.def(n)
		case *syntax.ForStmt:
			i.node(n.X)
			i.inLoop(func() { i.body(n.Body) })
		case *syntax.WhileStmt:
			i.inLoop(func() { i.node(n.Cond); i.body(n.Body) })
		case *syntax.Comprehension:
			i.inLoop(func() { i.comprehension(n) })
		default:
			return true
		}
		return false
	})
}

func (i *inspector) comprehension(n *syntax.Comprehension) {
	for _, clause := range n.Clauses {
		switch clause := clause.(type) {
		case *syntax.ForClause:
			i.node(clause.X)
		case *syntax.IfClause:
			i.node(clause.Cond)
		}
	}
	i.node(n.Body)
}

func (i *inspector) body(list []syntax.Stmt) {
	for _, s := range list {
		i.node(s)
	}
}

func (i *inspector) inLoop(f func()) {
	i.loops++
	f()
	i.loops--
}

func (i *inspector) perhaps(f func()) {
	i.maybe++
	f()
	i.maybe--
}

func (i *inspector) def(n *syntax.DefStmt) {
	i.defaults(n.Params)
	if n.Name.Name == mainName {
		i.body(n.Body)
		return
	}
	outer, loops := i.function, i.loops
	i.function, i.loops = n.Name.Name, 0
	i.body(n.Body)
	i.function, i.loops = outer, loops
}

func (i *inspector) lambda(n *syntax.LambdaExpr) {
	i.defaults(n.Params)
	outer := i.function
	i.function = cmp.Or(outer, "lambda")
	i.node(n.Body)
	i.function = outer
}

func (i *inspector) defaults(params []syntax.Expr) {
	for _, p := range params {
		if d, ok := p.(*syntax.BinaryExpr); ok {
			i.node(d.Y)
		}
	}
}

// seen begins a call at the inspector's place.
func (i *inspector) seen(at syntax.Expr) Call {
	pos := syntax.Start(at)
	return Call{InLoop: i.loops > 0, Maybe: i.maybe > 0, InFunction: i.function, Inside: slices.Clone(i.inside),
		File: i.file, Line: int(pos.Line), Column: int(pos.Col)}
}

// note records a call of the host's.
func (i *inspector) note(c Call) {
	if c.Func != "" || c.Free != "" {
		i.program.calls = append(i.program.calls, c)
	}
}

// value records a name that is used but not called there.
func (i *inspector) value(e syntax.Expr) {
	c := i.seen(e)
	c.Value, c.InLoop, c.Open = true, true, true
	if c.Free = i.freeName(e); c.Free == "" {
		c.Func = i.hostFunction(e)
	}
	i.note(c)
}

// isFree reports whether neither the program nor the language defines a name.
func (i *inspector) isFree(id *syntax.Ident) bool {
	return isGlobal(id) && !strings.HasPrefix(id.Name, "$") && !i.language.has(id.Name)
}

func isGlobal(id *syntax.Ident) bool {
	b, ok := id.Binding.(*resolve.Binding)
	return ok && (b.Scope == resolve.Predeclared || b.Scope == resolve.Universal)
}

// hostFunction is the host's function that an expression names; "" = none.
func (i *inspector) hostFunction(e syntax.Expr) string {
	if id, ok := unparen(e).(*syntax.Ident); ok && isGlobal(id) && i.language.hosts(id.Name) {
		return id.Name
	}
	return ""
}

// freeName is the free name of an expression, perhaps with a member; "" = none.
func (i *inspector) freeName(e syntax.Expr) string {
	x, member := e, ""
	switch e := unparen(e).(type) {
	case *syntax.DotExpr:
		x, member = e.X, "."+e.Name.Name
	case *syntax.CallExpr:
		if !isAttribute(e) {
			return ""
		}
		x, member = e.Args[0], "."+literalText(e.Args[1])
	}
	if id, ok := unparen(x).(*syntax.Ident); ok && i.isFree(id) {
		return id.Name + member
	}
	return ""
}

// name records the use of a name.
func (i *inspector) name(id *syntax.Ident, member string) {
	switch {
	case i.isFree(id) && unavailable[id.Name] != "":
		i.report(i.file, id.NamePos, CheckName, "%s is not available: %s", id.Name, unavailable[id.Name])
	case i.isFree(id):
		i.program.globals = append(i.program.globals, Name{Name: id.Name, Member: member,
			File: i.file, Line: int(id.NamePos.Line), Column: int(id.NamePos.Col)})
	case !isGlobal(id) && id.Binding != nil && !strings.HasPrefix(id.Name, "$"):
		i.program.names[id.Name] = true
	}
}

func (i *inspector) member(x syntax.Expr, name string) {
	if id, ok := unparen(x).(*syntax.Ident); ok {
		i.name(id, name)
		return
	}
	i.node(x)
}

// call records a call of the host's, and inspects the arguments of any call.
func (i *inspector) call(n *syntax.CallExpr) {
	if isAttribute(n) { // it is not called
		i.value(n)
		i.member(n.Args[0], literalText(n.Args[1]))
		return
	}
	if of, method := methodOf(n.Fn); method == "get" && len(n.Args) > 0 {
		i.read(of, literalText(n.Args[0]), true)
	}
	c := i.seen(n)
	if c.Func = i.hostFunction(n.Fn); c.Func == "" {
		c.Free = i.freeName(n.Fn)
		i.callee(n.Fn)
	}
	if c.Func != "" || c.Free != "" {
		i.arguments(&c, n.Args)
	}
	i.note(c)
	if c.Func != "" {
		i.inside = append(i.inside, c.Func)
		defer func() { i.inside = i.inside[:len(i.inside)-1] }()
	}
	for _, arg := range n.Args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			arg = b.Y
		}
		if c.Func != "" && i.freeName(arg) != "" { // which Argument.Free reports
			i.callee(arg)
			continue
		}
		i.node(arg)
	}
}

// read records the use of a part of one of the host's values.
func (i *inspector) read(of syntax.Expr, part string, isKey bool) {
	id, ok := unparen(of).(*syntax.Ident)
	if ok && part != "" && isGlobal(id) && (slices.Contains(i.language.Values, id.Name) || ModuleMembers(id.Name) != nil) {
		name := Name{Name: id.Name, Member: part, File: i.file, Line: int(id.NamePos.Line), Column: int(id.NamePos.Col)}
		i.program.reads = append(i.program.reads, Read{name, isKey})
	}
}

// callee inspects what is called: a name, or an expression.
func (i *inspector) callee(fn syntax.Expr) {
	if id, ok := unparen(fn).(*syntax.Ident); ok {
		i.name(id, "")
		return
	}
	if of, name := methodOf(fn); name != "" {
		i.read(of, name, false)
		i.member(of, name)
		return
	}
	i.node(fn)
}

// methodOf is what an expression takes a method of, and the name of that.
func methodOf(fn syntax.Expr) (of syntax.Expr, name string) {
	switch fn := unparen(fn).(type) {
	case *syntax.DotExpr:
		return fn.X, fn.Name.Name
	case *syntax.CallExpr:
		if isAttribute(fn) {
			return fn.Args[0], literalText(fn.Args[1])
		}
	}
	return nil, ""
}

// isAttribute reports whether a call is x.name, of a name that is a method's.
func isAttribute(n *syntax.CallExpr) bool {
	id, ok := unparen(n.Fn).(*syntax.Ident)
	return ok && id.Name == opAttr && len(n.Args) == 2
}

func literalText(e syntax.Expr) string {
	if l, ok := unparen(e).(*syntax.Literal); ok {
		s, _ := l.Value.(string)
		return s
	}
	return ""
}
