package convert

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"
)

// ordering are functions that are operators of Starlark, for numbers.
var ordering = map[string]string{"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

// arithmetic are functions that are operators of Starlark, for integers.
var arithmetic = map[string]string{"add": "+", "sub": "-", "mul": "*"}

// methods are functions that are methods of their last argument, a text, with the
// arguments before.
var methods = map[string]string{"upper": "upper", "lower": "lower", "trim": "strip", "replace": "replace",
	"hasPrefix": "startswith", "hasSuffix": "endswith", "trimPrefix": "removeprefix", "trimSuffix": "removesuffix"}

// function is a call of a function of scripts, an operator, or a template that calls
// the function.
func (d *translation) function(name string, nodes []parse.Node, args []expression) (expression, bool) {
	for _, f := range []func(string, []expression) (expression, bool){d.comparison, d.logic, d.onText, d.onValue} {
		if e, ok := f(name, args); ok {
			return e, true
		}
	}
	if name == "index" && len(args) > 1 {
		if e, ok := d.indexed(args); ok {
			return e, true
		}
	}
	if name == "printf" && len(nodes) > 0 {
		if format, ok := nodes[0].(*parse.StringNode); ok {
			if e, ok := d.formatted(format.Text, args[1:]); ok {
				return e, true
			}
		}
	}
	return d.called(name, args)
}

// called is a template with only the call of a function, for use in a larger
// expression.
func (d *translation) called(name string, args []expression) (expression, bool) {
	if d.alone || len(args) > len("abcdefgh") {
		return d.cannot("%s", name)
	}
	d.converter.comment("{{%s}} stays a template: a script has no such function.", name)
	call, data := name, make([]string, len(args))
	for i, e := range args {
		member := "abcdefgh"[i : i+1]
		call += " ." + member
		data[i] = fmt.Sprintf("%q: %s", member, e.code)
	}
	return expression{code: fmt.Sprintf("template(%s, {%s}, %q)", starlarkText("{{"+call+"}}"), strings.Join(data, ", "), "any")}, true
}

func (d *translation) comparison(name string, args []expression) (e expression, ok bool) {
	if len(args) != 2 {
		return e, false
	}
	a, b := args[0], args[1]
	switch {
	case name == "eq":
		return known(d.equal(a, b), "bool"), true
	case name == "ne":
		if code := d.equal(a, b); !strings.HasPrefix(code, "(") {
			return known("(not "+code+")", "bool"), true
		}
		return known(fmt.Sprintf("(%s != %s)", a.code, b.code), "bool"), true
	case ordering[name] != "" && (a.isNumber() || b.isNumber()):
		return known(fmt.Sprintf("(%s %s %s)", d.number(a), ordering[name], d.number(b)), "bool"), true
	case arithmetic[name] != "" && a.kind == "int" && b.kind == "int":
		return known(fmt.Sprintf("(%s %s %s)", a.code, arithmetic[name], b.code), "int"), true
	}
	return e, false
}

// isNumber reports whether the value is certainly a number.
func (e expression) isNumber() bool { return e.sure && (e.kind == "number" || e.kind == "int") }

// number is the expression for a value that must be a number.
func (d *translation) number(e expression) string {
	if e.isNumber() {
		return e.code
	}
	return fmt.Sprintf("number(%s)", e.code)
}

// equal is eq; in brackets if the operator will do.
func (d *translation) equal(a, b expression) string {
	if a.kind != "" && a.kind == b.kind {
		return fmt.Sprintf("(%s == %s)", a.code, b.code)
	}
	return fmt.Sprintf("same(%s, %s)", a.code, b.code)
}

func (d *translation) logic(name string, args []expression) (e expression, ok bool) {
	switch {
	case (name == "and" || name == "or") && len(args) > 0:
		codes, all := make([]string, len(args)), true
		for i, e := range args {
			codes[i] = e.code
			all = all && e.kind == "bool" && e.sure
		}
		e.code = "(" + strings.Join(codes, " "+name+" ") + ")"
		if all {
			e.kind, e.sure = "bool", true
		}
		return e, true
	case name == "not" && len(args) == 1:
		return known(fmt.Sprintf("(not %s)", args[0].code), "bool"), true
	case name == "empty" && len(args) == 1:
		return known(fmt.Sprintf("(not %s)", args[0].code), "bool"), true
	case name == "default" && len(args) == 2:
		e.code = fmt.Sprintf("(%s or %s)", args[1].code, args[0].code)
		if args[0].kind == args[1].kind && args[0].sure {
			e.kind, e.sure = args[0].kind, true
		}
		return e, true
	}
	return e, false
}

func (d *translation) onText(name string, args []expression) (e expression, ok bool) {
	if len(args) == 0 || slices.ContainsFunc(args[:len(args)-1], func(e expression) bool { return e.kind != "string" || !e.sure }) {
		return e, false
	}
	last := args[len(args)-1]
	text := last.code
	if last.kind != "string" || !last.sure {
		text = fmt.Sprintf("only_text(%s)", last.code)
	}
	var before []string
	for _, e := range args[:len(args)-1] {
		before = append(before, e.code)
	}
	kind := "string"
	switch {
	case name == "contains":
		return known(fmt.Sprintf("(%s in %s)", before[0], text), "bool"), true
	case name == "join" && len(args) == 2:
		return known(fmt.Sprintf("joined(%s, %s)", before[0], last.code), kind), true
	case methods[name] == "":
		return e, false
	case strings.HasPrefix(name, "has"):
		kind = "bool"
	}
	return known(fmt.Sprintf("%s.%s(%s)", text, methods[name], strings.Join(before, ", ")), kind), true
}

// onValue translates functions of values of any kind.
func (d *translation) onValue(name string, args []expression) (e expression, ok bool) {
	switch {
	case name == "list":
		codes := make([]string, len(args))
		for i, e := range args {
			codes[i] = e.code
		}
		return expression{code: "[" + strings.Join(codes, ", ") + "]", sure: true}, true
	case len(args) != 1:
		return e, false
	case name == "len":
		return known(fmt.Sprintf("size(%s)", args[0].code), "int"), true
	case name == "json" || name == "toJson" || name == "toRawJson":
		e = known(fmt.Sprintf("to_json(%s)", args[0].code), "string")
		e.json = &args[0]
		return e, true
	case name == "fromJson":
		return expression{code: fmt.Sprintf("from_json(%s)", args[0].code)}, true
	}
	return e, false
}

// indexed is index with keys that certainly exist.
func (d *translation) indexed(args []expression) (expression, bool) {
	keys := make([]string, len(args)-1)
	for i, e := range args[1:] {
		if keys[i] = e.code; !e.sure || e.kind != "string" && !e.isNumber() {
			return expression{}, false
		}
	}
	return within(args[0], keys), true
}

// formatted is printf with only %s, %v and integers as %d.
func (d *translation) formatted(format string, args []expression) (e expression, ok bool) {
	parts := strings.Split(strings.ReplaceAll(format, "%%", "\x00"), "%")
	if len(parts) != len(args)+1 {
		return e, false
	}
	pieces := []piece{{text: strings.ReplaceAll(parts[0], "\x00", "%")}}
	for i, part := range parts[1:] {
		if part == "" || !strings.Contains("svd", part[:1]) || part[0] == 'd' && args[i].kind != "int" {
			return e, false
		}
		pieces = append(pieces, piece{code: printed(args[i])}, piece{text: strings.ReplaceAll(part[1:], "\x00", "%")})
	}
	pieces = slices.DeleteFunc(pieces, func(p piece) bool { return p == piece{} })
	return known("("+joined(pieces)+")", "string"), true
}

// known is an expression of a kind that is never None.
func known(code, kind string) expression { return expression{code: code, kind: kind, sure: true} }
