package script

import (
	"encoding/json"
	"iter"

	"go.starlark.net/syntax"
)

// arguments notes the names of a call's arguments, and their values as far as
// they are literals. Dict is where a dict of them may stand among the positional
// ones.
func (c *Call) arguments(args []syntax.Expr, dict int) {
	for i, arg := range args {
		switch a := arg.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				name := a.X.(*syntax.Ident).Name
				c.Args = append(c.Args, name)
				c.keep(name, a.Y)
				continue
			}
		case *syntax.UnaryExpr:
			c.Rest = true
			continue
		}
		if i == dict {
			c.Rest = !c.members(arg) || c.Rest
		}
	}
}

// members notes the arguments of a dict; false = not all of them can be seen.
func (c *Call) members(e syntax.Expr) bool {
	display, ok := unparen(e).(*syntax.CallExpr)
	if !ok {
		return false
	}
	if id, ok := display.Fn.(*syntax.Ident); !ok || id.Name != opDict {
		return false
	}
	for name, value := range pairsOf(display.Args) {
		if name == "" {
			return false
		}
		c.Args = append(c.Args, name)
		c.keep(name, value)
	}
	return true
}

// keep notes an argument that is a literal.
func (c *Call) keep(name string, e syntax.Expr) {
	if e == nil {
		return
	}
	value, ok := literalValue(e)
	if !ok {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		return
	}
	if c.Literals == nil {
		c.Literals = map[string]json.RawMessage{}
	}
	c.Literals[name] = text
}

// literalValue is the value of an expression that is a literal all through; the
// displays of dicts have been rewritten.
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
	case *syntax.CallExpr:
		if id, ok := e.Fn.(*syntax.Ident); ok && id.Name == opDict {
			return literalDict(e.Args)
		}
	}
	return nil, false
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

func literalDict(args []syntax.Expr) (any, bool) {
	dict := map[string]any{}
	for name, value := range pairsOf(args) {
		v, known := literalValue(value)
		if name == "" || !known {
			return nil, false
		}
		dict[name] = v
	}
	return dict, true
}

// pairsOf gives the names and values of a display of a dict as it was rewritten;
// "" is the name of a key that is no literal text.
func pairsOf(args []syntax.Expr) iter.Seq2[string, syntax.Expr] {
	return func(yield func(string, syntax.Expr) bool) {
		if len(args) != 1 {
			return
		}
		t, ok := args[0].(*syntax.TupleExpr)
		for i := 0; ok && i+1 < len(t.List); i += 2 {
			if !yield(literal(t.List[i]), t.List[i+1]) {
				return
			}
		}
	}
}
