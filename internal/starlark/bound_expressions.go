package starlark

import (
	"math/big"

	"go.starlark.net/syntax"
)

func (b *binder) exprs(list []syntax.Expr) []syntax.Expr {
	for i, e := range list {
		list[i] = b.expr(e)
	}
	return list
}

func (b *binder) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return b.binary(e)
	case *syntax.CallExpr:
		return b.call(e)
	case *syntax.Comprehension:
		return b.comprehension(e)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = b.expr(e.Cond), b.expr(e.True), b.expr(e.False)
	case *syntax.DictExpr:
		pairs := &syntax.TupleExpr{Lparen: e.Lbrace, Rparen: e.Rbrace}
		for _, x := range e.List {
			entry := x.(*syntax.DictEntry)
			pairs.List = append(pairs.List, b.expr(entry.Key), b.expr(entry.Value))
		}
		return call(opDict, e.Lbrace, pairs)
	case *syntax.DotExpr:
		e.X = b.expr(e.X)
		if boundMethods[e.Name.Name] {
			attr := call(opAttr, e.Dot, e.X, text(e.NamePos, e.Name.Name))
			attr.Fn.(*syntax.Ident).NamePos = syntax.Start(e.X)
			return attr
		}
	case *syntax.IndexExpr:
		e.X, e.Y = b.expr(e.X), b.expr(e.Y)
	case *syntax.LambdaExpr:
		b.lambda(e)
	case *syntax.ListExpr:
		e.List = b.exprs(e.List)
	case *syntax.TupleExpr:
		e.List = b.exprs(e.List)
	case *syntax.ParenExpr:
		e.X = b.expr(e.X)
	case *syntax.UnaryExpr:
		if e.X != nil {
			e.X = b.expr(e.X)
		}
	case *syntax.SliceExpr:
		return call(opSlice, e.Lbrack, b.expr(e.X), b.optional(e.Lo), b.optional(e.Hi), b.optional(e.Step))
	case *syntax.Literal:
		b.literal(e)
	}
	return e
}

func (b *binder) optional(e syntax.Expr) syntax.Expr {
	if e == nil {
		return &syntax.Ident{Name: opNone}
	}
	return b.expr(e)
}

func (b *binder) literal(e *syntax.Literal) {
	switch v := e.Value.(type) {
	case *big.Int:
		if v.BitLen() > maxIntBits {
			b.refuse(e.TokenPos, "an integer has at most %d bits", maxIntBits)
		}
	default:
		if e.Token == syntax.BYTES {
			b.refuse(e.TokenPos, "there are no bytes: use a string")
		}
	}
}

func (b *binder) lambda(e *syntax.LambdaExpr) {
	b.params(e.Params)
	if starStar(e.Params) != nil {
		b.refuse(e.Lambda, "a lambda cannot take **kwargs: use def")
	}
	weight := weigh([]syntax.Stmt{&syntax.ExprStmt{X: e.Body}})
	e.Body = b.expr(e.Body)
	if weight > lightFunction {
		e.Body = call(opSecond, e.Lambda, call(opEnter, e.Lambda, number(e.Lambda, weight)), e.Body)
	}
}

// binary leaves operations with a literal operand as they are.
func (b *binder) binary(e *syntax.BinaryExpr) syntax.Expr {
	e.X, e.Y = b.expr(e.X), b.expr(e.Y)
	switch e.Op {
	case syntax.AND, syntax.OR:
		return e
	case syntax.PLUS, syntax.MINUS:
		if isNumber(e.X) || isNumber(e.Y) {
			return e
		}
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		if isShort(e.X) || isShort(e.Y) {
			return e
		}
	}
	return call(opBinary+e.Op.String(), e.OpPos, e.X, e.Y)
}

func (b *binder) call(e *syntax.CallExpr) syntax.Expr {
	e.Fn = b.expr(e.Fn)
	for i, arg := range e.Args {
		switch a := arg.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ { // name=value
				a.Y = b.expr(a.Y)
				continue
			}
		case *syntax.UnaryExpr:
			switch a.Op {
			case syntax.STAR:
				a.X = call(opStar, a.OpPos, b.expr(a.X))
				continue
			case syntax.STARSTAR:
				a.X = call(opStarStar, a.OpPos, b.expr(a.X))
				continue
			}
		}
		e.Args[i] = b.expr(arg)
	}
	return e
}

func (b *binder) comprehension(e *syntax.Comprehension) syntax.Expr {
	for _, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			b.target(c.Vars)
			c.X = call(opIter, c.For, b.expr(c.X))
		case *syntax.IfClause:
			c.Cond = b.expr(c.Cond)
		}
	}
	entry, isDict := e.Body.(*syntax.DictEntry)
	switch {
	case isDict:
		e.Body = &syntax.TupleExpr{Lparen: entry.Colon, List: []syntax.Expr{b.expr(entry.Key), b.expr(entry.Value)}, Rparen: entry.Colon}
		e.Curly = false
		return call(opPairs, e.Lbrack, e)
	case e.Curly:
		b.refuse(e.Lbrack, "there are no sets: use a dict, or unique(list)")
	}
	e.Body = b.expr(e.Body)
	return e
}

// lightFunction is the weight up to which a function's frame costs nothing.
const lightFunction = 256

// weigh estimates how many values the frame of a function holds: its variables, and
// the stack while a display or a call is built.
func weigh(body []syntax.Stmt) int {
	weight := 0
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ListExpr:
				weight += len(n.List)
			case *syntax.TupleExpr:
				weight += len(n.List)
			case *syntax.DictExpr:
				weight += 2 * len(n.List)
			case *syntax.CallExpr:
				weight += len(n.Args)
			case *syntax.AssignStmt, *syntax.ForStmt, *syntax.ForClause, *syntax.DefStmt:
				weight++
			case *syntax.LambdaExpr:
				return false
			}
			return true
		})
	}
	return weight
}
