package starlark

import (
	"encoding/json"
	"iter"

	"go.starlark.net/syntax"
)

// An Argument of a Call, as far as visible.
type Argument struct {
	Name    string          // "" = by position
	Literal json.RawMessage // its value; nil = it is no literal
	Free    string          // set if it is a free name, as in Call
	Members []Argument      // of the display of a dict, by literal keys
	Closed  bool            // it is the display of a dict, and Members has all its entries
	Line    int
	Column  int
}

// Text is the value of a literal string; "" = it is none.
func (a Argument) Text() string {
	var text string
	if json.Unmarshal(a.Literal, &text) != nil {
		return ""
	}
	return text
}

// arguments records those of a call.
func (i *inspector) arguments(c *Call, args []syntax.Expr) {
	for _, arg := range args {
		switch a := arg.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				c.Args = append(c.Args, i.argument(a.X.(*syntax.Ident).Name, a.Y))
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				c.Open = true
				continue
			}
		}
		c.Args = append(c.Args, i.argument("", arg))
	}
}

func (i *inspector) argument(name string, e syntax.Expr) Argument {
	a := seenArgument(name, e)
	a.Free = i.freeName(e)
	pairs, isDict := dictDisplay(e)
	a.Closed = isDict
	for name, value := range pairs {
		if name == "" {
			a.Closed = false
			continue
		}
		a.Members = append(a.Members, seenArgument(name, value))
	}
	return a
}

func seenArgument(name string, e syntax.Expr) Argument {
	pos := syntax.Start(e)
	a := Argument{Name: name, Line: int(pos.Line), Column: int(pos.Col)}
	if value, ok := literalValue(e); ok {
		if text, err := json.Marshal(value); err == nil {
			a.Literal = text
		}
	}
	return a
}

// literalValue is the value of an expression that is entirely literal; displays of
// dicts have been rewritten.
func literalValue(e syntax.Expr) (any, bool) {
	switch e := unparen(e).(type) {
	case *syntax.Literal:
		return e.Value, e.Token != syntax.BYTES
	case *syntax.Ident:
		constant, ok := map[string]any{"None": nil, "True": true, "False": false}[e.Name]
		return constant, ok
	case *syntax.UnaryExpr:
		return negative(e)
	case *syntax.ListExpr:
		return literalValues(e.List)
	case *syntax.TupleExpr:
		return literalValues(e.List)
	}
	pairs, isDict := dictDisplay(e)
	dict := map[string]any{}
	for name, value := range pairs {
		v, known := literalValue(value)
		if name == "" || !known {
			return nil, false
		}
		dict[name] = v
	}
	return dict, isDict
}

func negative(e *syntax.UnaryExpr) (any, bool) {
	if e.Op != syntax.MINUS {
		return nil, false
	}
	switch v, _ := literalValue(e.X); v := v.(type) {
	case int64:
		return -v, true
	case float64:
		return -v, true
	}
	return nil, false
}

func literalValues(list []syntax.Expr) (any, bool) {
	values := make([]any, len(list))
	for i, elem := range list {
		v, ok := literalValue(elem)
		if !ok {
			return nil, false
		}
		values[i] = v
	}
	return values, true
}

// dictDisplay gives the names and values of a rewritten display of a dict; "" is the
// name of a key that is no literal text.
func dictDisplay(e syntax.Expr) (pairs iter.Seq2[string, syntax.Expr], ok bool) {
	var elements []syntax.Expr
	if display, isCall := unparen(e).(*syntax.CallExpr); isCall && len(display.Args) == 1 {
		id, _ := display.Fn.(*syntax.Ident)
		t, isTuple := display.Args[0].(*syntax.TupleExpr)
		if ok = id != nil && id.Name == opDict && isTuple; ok {
			elements = t.List
		}
	}
	return func(yield func(string, syntax.Expr) bool) {
		for i := 0; i+1 < len(elements); i += 2 {
			if !yield(literalText(elements[i]), elements[i+1]) {
				return
			}
		}
	}, ok
}
