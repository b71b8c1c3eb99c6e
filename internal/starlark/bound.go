package starlark

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Names of the functions that replace operations of the interpreter. No script can
// write them.
const (
	opBinary   = "$op" // + the operator
	opInplace  = "$in" // + the operator of an augmented assignment
	opAugment  = "$aug"
	opSlice    = "$slice"
	opDict     = "$dict"
	opPairs    = "$pairs"
	opIter     = "$iter"
	opAttr     = "$attr"
	opStar     = "$star"
	opStarStar = "$starstar"
	opEnter    = "$enter"
	opSecond   = "$second"
	opNone     = "$none"
	opResult   = "$result"
)

// bound rewrites a tree so that nothing in it allocates or takes long in one step of
// the interpreter without being charged. Operations with a constant cost stay: names,
// indexing, calls, and arithmetic and comparison with a literal number.
//
//	x + y        $op+(x, y)           {k: v}            $dict((k, v))
//	x += y       x = $in+(x, y)       {k: v for …}      $pairs([(k, v) for …])
//	x[i] += y    $aug(x, i, "+", y)   for a in x        for a in $iter(x)
//	x[i:j]       $slice(x, i, j)      x.join, not x.y   $attr(x, "join")
//	f(*a, **k)   f(*$star(a), **$starstar(k))
//	def f(**k)   k = $pairs(k) first  return x, at the top  return $result(x)
//
// The body of a script becomes a function, since only a function can return.
func bound(file string, tree *syntax.File, isMain bool) Diagnostics {
	b := &binder{file: file, returns: isMain}
	tree.Stmts = b.stmts(tree.Stmts)
	if isMain {
		tree.Stmts = asFunction(tree.Stmts)
	}
	return b.diagnostics
}

// asFunction puts all statements but load into the function mainName.
func asFunction(stmts []syntax.Stmt) []syntax.Stmt {
	var loads, body []syntax.Stmt
	for _, s := range stmts {
		if _, ok := s.(*syntax.LoadStmt); ok {
			loads = append(loads, s)
		} else {
			body = append(body, s)
		}
	}
	if len(body) == 0 {
		body = []syntax.Stmt{&syntax.BranchStmt{Token: syntax.PASS}}
	}
	start := syntax.Start(body[0])
	return append(loads, &syntax.DefStmt{Def: start, Name: &syntax.Ident{NamePos: start, Name: mainName}, Body: body})
}

type binder struct {
	file        string
	returns     bool // a return gives the result of the script
	diagnostics Diagnostics
}

func (b *binder) refuse(pos syntax.Position, format string, args ...any) {
	b.diagnostics = append(b.diagnostics, diagnosticAt(b.file, pos, CheckSyntax, format, args...))
}

func (b *binder) stmts(list []syntax.Stmt) []syntax.Stmt {
	for i, s := range list {
		list[i] = b.stmt(s)
	}
	return list
}

func (b *binder) stmt(s syntax.Stmt) syntax.Stmt {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		return b.assign(s)
	case *syntax.LoadStmt:
		b.names(s.From...)
	case *syntax.DefStmt:
		b.names(s.Name)
		b.params(s.Params)
		weight := weigh(s.Body)
		returns := b.returns
		b.returns = false
		s.Body = b.stmts(s.Body)
		b.returns = returns
		s.Body = append(b.prologue(s, weight), s.Body...)
	case *syntax.ExprStmt:
		s.X = b.expr(s.X)
	case *syntax.ForStmt:
		b.target(s.Vars)
		s.X = call(opIter, s.For, b.expr(s.X))
		s.Body = b.stmts(s.Body)
	case *syntax.WhileStmt:
		s.Cond = b.expr(s.Cond)
		s.Body = b.stmts(s.Body)
	case *syntax.IfStmt:
		s.Cond = b.expr(s.Cond)
		s.True = b.stmts(s.True)
		s.False = b.stmts(s.False)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = b.expr(s.Result)
			if b.returns {
				s.Result = call(opResult, s.Return, s.Result)
			}
		}
	}
	return s
}

// assign rewrites x = y, x += y and x[i] += y.
func (b *binder) assign(s *syntax.AssignStmt) syntax.Stmt {
	s.RHS = b.expr(s.RHS)
	if s.Op == syntax.EQ {
		b.target(s.LHS)
		return s
	}
	op := s.Op - syntax.PLUS_EQ + syntax.PLUS
	switch lhs := unparen(s.LHS).(type) {
	case *syntax.Ident:
		if isSum(op) && isNumber(s.RHS) {
			return s
		}
		s.RHS = call(opInplace+op.String(), s.OpPos, &syntax.Ident{NamePos: lhs.NamePos, Name: lhs.Name}, s.RHS)
		s.Op = syntax.EQ
		return s
	case *syntax.IndexExpr:
		return &syntax.ExprStmt{X: call(opAugment, s.OpPos, b.expr(lhs.X), b.expr(lhs.Y), text(s.OpPos, op.String()), s.RHS)}
	}
	b.target(s.LHS)
	return s
}

// target rewrites the expressions within the left side of an assignment.
func (b *binder) target(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.Ident:
		b.names(e)
	case *syntax.ParenExpr:
		b.target(e.X)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			b.target(x)
		}
	case *syntax.ListExpr:
		for _, x := range e.List {
			b.target(x)
		}
	case *syntax.IndexExpr:
		e.X, e.Y = b.expr(e.X), b.expr(e.Y)
	case *syntax.SliceExpr:
		b.refuse(e.Lbrack, "a slice cannot be assigned to")
	case *syntax.DotExpr:
		b.refuse(e.Dot, "a field cannot be assigned to: structs never change; use a dict")
	}
}

// names refuses to redefine a constant, on which isShort relies.
func (b *binder) names(ids ...*syntax.Ident) {
	for _, id := range ids {
		if isConstant(id.Name) {
			b.refuse(id.NamePos, "%s is a constant", id.Name)
		}
	}
}

func isConstant(name string) bool { return name == "None" || name == "True" || name == "False" }

// prologue charges for the frame of a function with many variables or long displays,
// and replaces its **kwargs by our dict.
func (b *binder) prologue(s *syntax.DefStmt, weight int) []syntax.Stmt {
	var first []syntax.Stmt
	if weight > lightFunction {
		first = append(first, &syntax.ExprStmt{X: call(opEnter, s.Def, number(s.Def, weight))})
	}
	if id := starStar(s.Params); id != nil {
		first = append(first, &syntax.AssignStmt{OpPos: s.Def, Op: syntax.EQ,
			LHS: &syntax.Ident{NamePos: id.NamePos, Name: id.Name},
			RHS: call(opPairs, s.Def, &syntax.Ident{NamePos: id.NamePos, Name: id.Name})})
	}
	return first
}

// starStar is the name of **kwargs among parameters, or nil.
func starStar(params []syntax.Expr) *syntax.Ident {
	for _, p := range params {
		if u, ok := p.(*syntax.UnaryExpr); ok && u.Op == syntax.STARSTAR {
			return u.X.(*syntax.Ident)
		}
	}
	return nil
}

func (b *binder) params(params []syntax.Expr) {
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			b.names(p)
		case *syntax.BinaryExpr:
			b.target(p.X)
			p.Y = b.expr(p.Y)
		case *syntax.UnaryExpr:
			if p.X != nil {
				b.target(p.X)
			}
		}
	}
}

func call(name string, pos syntax.Position, args ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: pos, Name: name}, Lparen: pos, Args: args, Rparen: pos}
}

func text(pos syntax.Position, s string) *syntax.Literal {
	return &syntax.Literal{Token: syntax.STRING, TokenPos: pos, Raw: starlark.String(s).String(), Value: s}
}

func number(pos syntax.Position, n int) *syntax.Literal {
	return &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: fmt.Sprint(n), Value: int64(n)}
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

func isSum(op syntax.Token) bool { return op == syntax.PLUS || op == syntax.MINUS }

// isNumber reports whether an expression is a literal number of a word's size.
func isNumber(e syntax.Expr) bool {
	l, ok := unparen(e).(*syntax.Literal)
	if !ok {
		return false
	}
	switch l.Value.(type) {
	case int64, float64:
		return true
	}
	return false
}

// isShort reports whether comparing with an expression takes negligible time.
func isShort(e syntax.Expr) bool {
	switch e := unparen(e).(type) {
	case *syntax.Literal:
		s, isText := e.Value.(string)
		return !isText || len(s) <= stepWork
	case *syntax.Ident:
		return isConstant(e.Name)
	}
	return false
}
