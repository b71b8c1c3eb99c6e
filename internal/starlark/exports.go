package starlark

import (
	"strings"

	"go.starlark.net/syntax"
)

// An Export is a name that a module exports.
type Export struct {
	Name     string
	Function bool // it is defined by def
	Params   []Param
}

// String writes an export as one would call it: double(n, digits=…).
func (e Export) String() string {
	if !e.Function {
		return e.Name
	}
	written := make([]string, len(e.Params))
	for i, p := range e.Params {
		written[i] = p.String()
	}
	return e.Name + "(" + strings.Join(written, ", ") + ")"
}

// A Param is a parameter of a function.
type Param struct {
	Name     string // "" of a * by itself
	Optional bool   // it has a default
	Prefix   string // * or **
}

func (p Param) String() string {
	if p.Optional {
		return p.Name + "=…"
	}
	return p.Prefix + p.Name
}

// Exports gives the names that a module exports, in the order of the text; none if it
// cannot be parsed.
func Exports(file, text string) []Export {
	tree, mistakes := parse(file, text, Limits{}.WithDefaults())
	if mistakes != nil {
		return nil
	}
	var all []Export
	for _, s := range tree.Stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			all = exported(all, Export{Name: s.Name.Name, Function: true, Params: paramsOf(s)})
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok {
				all = exported(all, Export{Name: id.Name})
			}
		}
	}
	return all
}

// exported adds an export, or replaces the one that it redefines.
func exported(all []Export, e Export) []Export {
	if strings.HasPrefix(e.Name, "_") {
		return all
	}
	for i := range all {
		if all[i].Name == e.Name {
			all[i] = e
			return all
		}
	}
	return append(all, e)
}

func paramsOf(def *syntax.DefStmt) []Param {
	var params []Param
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			params = append(params, Param{Name: p.Name})
		case *syntax.BinaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				params = append(params, Param{Name: id.Name, Optional: true})
			}
		case *syntax.UnaryExpr:
			one := Param{Prefix: p.Op.String()}
			if id, ok := p.X.(*syntax.Ident); ok {
				one.Name = id.Name
			}
			params = append(params, one)
		}
	}
	return params
}
