package template

import (
	"fmt"
	"regexp"
	"strings"
)

// anOperand is a path, a text or a number.
const anOperand = `(\.?[A-Za-z_]\w*(?:\.\w+)*|'[^'"]*'|"[^"]*"|-?\d+(?:\.\d+)?)`

// aSubscript is an index or the name of a member, in brackets.
const aSubscript = `\[\s*(?:\d+|'[^'"\]]+'|"[^'"\]]+")\s*\]`

// Expressions of other languages.
var (
	infixed     = regexp.MustCompile(`^` + anOperand + `\s*(===?|!==?|[<>]=?|&&|\|\||\?\?|[-+*/%]|\bis not\b|\b[A-Za-z]+\b)\s*` + anOperand + `$`)
	negated     = regexp.MustCompile(`^!\s*` + anOperand + `$`)
	calledOf    = regexp.MustCompile(`^(?:` + anOperand + `\.)?(\w+)\(([^()]*)\)$`)
	perhaps     = regexp.MustCompile(`^` + anOperand + `\?\.(\w+)$`)
	chosen      = regexp.MustCompile(`^` + anOperand + ` if (.+) else ` + anOperand + `$`)
	filtered    = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^|'"])+`) // each part of x | f('y') | g
	filter      = regexp.MustCompile(`^(\w+)(?:\(([^()]*)\))?$`)
	subscripted = regexp.MustCompile(`^\.?[A-Za-z_]\w*(?:\.\w+|` + aSubscript + `)*` + aSubscript + `(?:\.\w+|` + aSubscript + `)*$`)
	rawContent  = regexp.MustCompile(`^\.?steps\.(\w+)\.(?:(?:output|result)\.)?content\[(\d+)\]\.text$`)
	indexing    = regexp.MustCompile(`\.?\w+|` + aSubscript)
	ofInput     = regexp.MustCompile(`^\$(?:input|params|inputs)\.(?:params\.)?(\w+)$`)
)

// binary are functions, by the operators of other languages.
var binary = map[string]string{
	"==": "eq", "===": "eq", "!=": "ne", "!==": "ne", ">": "gt", "<": "lt", ">=": "ge", "<=": "le", "&&": "and", "and": "and", "||": "or", "or": "or", "??": "or",
	"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "in": "has",
}

// nothing are the names of no value in other languages.
var nothing = map[string]bool{"None": true, "null": true, "nil": true, "undefined": true, "empty": true}

// translated is an expression of another language, without the braces; "" = not known.
func translated(action string) string {
	if m := infixed.FindStringSubmatch(action); m != nil {
		return translatedInfix(m[1], m[2], m[3])
	}
	if m := rawContent.FindStringSubmatch(action); m != nil {
		return ".steps." + m[1] + ".output.text" + strings.TrimPrefix("_"+m[2], "_0")
	}
	if subscripted.MatchString(action) {
		return translatedIndex(indexing.FindAllString(action, -1))
	}
	if m := negated.FindStringSubmatch(action); m != nil {
		return "not " + operand(m[1])
	}
	if m := calledOf.FindStringSubmatch(action); m != nil {
		switch of, name := m[1], m[2]; {
		case of == "JSON" && name == "parse":
			return called("fromJson", m[3])
		case of == "" || of == "JSON":
			return called(name, m[3])
		case strings.ContainsAny(of, `'"`): // the separator of join
			return called(name, of+","+m[3])
		default:
			return called(name, m[3], of)
		}
	}
	if m := perhaps.FindStringSubmatch(action); m != nil {
		return operand(m[1]) + "." + m[2]
	}
	if m := ofInput.FindStringSubmatch(action); m != nil {
		return ".params." + m[1]
	}
	if m := chosen.FindStringSubmatch(action); m != nil {
		condition := dataOf(m[2])
		if c := infixed.FindStringSubmatch(m[2]); c != nil {
			condition = "(" + translatedInfix(dataOf(c[1]), c[2], dataOf(c[3])) + ")"
		}
		return "ternary " + dataOf(m[1]) + " " + dataOf(m[3]) + " " + condition
	}
	return translatedFilters(filtered.FindAllString(action, -1))
}

// translatedIndex is the same for names and subscripts in turn.
func translatedIndex(parts []string) string {
	written := ""
	for _, part := range parts {
		key, subscript := strings.CutPrefix(part, "[")
		key = strings.Trim(key, " ]")
		name := strings.Trim(key, `'"`)
		switch {
		case !subscript:
			written += part
		case bareName.MatchString(name):
			written += "." + name
		default:
			written = "(index " + dataOf(written) + " " + operand(key) + ")"
		}
	}
	if inner, ok := strings.CutPrefix(written, "("); ok && strings.HasSuffix(inner, ")") {
		return strings.TrimSuffix(inner, ")")
	}
	return dataOf(written)
}

// Meant is a template for a text that has the expression of another language in it, or
// around its actions; "" = not known.
func Meant(text string) string {
	written := translated(strings.TrimSpace(strings.NewReplacer("{{", "", "}}", "").Replace(text)))
	if !parses(written) {
		return ""
	}
	for _, word := range strings.Fields(texts.ReplaceAllString(written, "")) {
		name := strings.Trim(word, "()")
		if root, _, _ := strings.Cut(name, "."); bareName.MatchString(root) && !isFunction(name) && name != "true" && name != "false" {
			return "" // nobody knows what it is
		}
	}
	return "{{" + written + "}}"
}

// texts are constants in double quotes.
var texts = regexp.MustCompile(`"[^"]*"`)

// translatedFilters is the same for a value and the filters through which it goes.
func translatedFilters(parts []string) string {
	if len(parts) < 2 {
		return ""
	}
	written := []string{dataOf(parts[0])}
	for _, part := range parts[1:] {
		m := filter.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return ""
		}
		function := called(m[1], m[2])
		name, _, _ := strings.Cut(function, " ")
		if function == "" || arity(name, len(argumentsOf.FindAllString(m[2], -1))+1) != "" {
			return ""
		}
		written = append(written, function)
	}
	return strings.Join(written, " | ")
}

// dataOf is an operand whose name, if templates do not know it, is that of a parameter.
func dataOf(text string) string {
	text = operand(text)
	root, below, _ := strings.Cut(text, ".")
	switch {
	case !bareName.MatchString(root) || isFunction(root) || root == "true" || root == "false":
		return text
	case otherRoots[root] != "":
		return "." + strings.TrimSuffix(otherRoots[root]+"."+below, ".")
	}
	return ".params." + text
}

// translatedInfix is the same for an operator, or a function, between two operands.
func translatedInfix(x, operator, y string) string {
	function := binary[operator]
	switch {
	case nothing[y] && (operator == "is" || function == "eq"):
		return "not " + operand(x)
	case nothing[y] && (operator == "is not" || function == "ne"):
		return "if " + operand(x)
	case function == "add" && strings.ContainsAny(x+y, `'"`):
		return "print " + operand(x) + " " + operand(y)
	case function != "":
		return function + " " + operand(x) + " " + operand(y)
	}
	return called(operator, x+","+y)
}

// called is a call of a function in the notation of other languages, whose subject may
// stand before it.
func called(name, arguments string, subject ...string) string {
	if other := otherNames[name]; other != "" {
		name = other
	}
	if !isFunction(name) {
		return ""
	}
	words := []string{name}
	for _, argument := range append(argumentsOf.FindAllString(arguments, -1), subject...) {
		if argument = strings.TrimSpace(argument); argument != "" {
			words = append(words, operand(argument))
		}
	}
	if len(words) == 3 && strings.HasPrefix(words[1], ".") && subjectLast[name] {
		words[1], words[2] = words[2], words[1]
	}
	return strings.Join(words, " ")
}

// argumentsOf are the arguments of a call, which commas separate.
var argumentsOf = regexp.MustCompile(`'[^']*'|"[^"]*"|[^,\s]+`)

// subjectLast are functions of two arguments whose last is the text or list that they
// are about.
var subjectLast = map[string]bool{"join": true, "split": true, "splitList": true, "contains": true, "has": true, "hasPrefix": true, "hasSuffix": true, "trimPrefix": true, "trimSuffix": true}

// operand writes an operand of another language as templates have it.
func operand(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "'") {
		return `"` + strings.Trim(text, "'") + `"`
	}
	root, _, _ := strings.Cut(text, ".")
	for _, known := range Roots {
		if root == known {
			return "." + text
		}
	}
	return text
}

// inAction is what stands between the braces around an offset.
func inAction(text string, offset int) string {
	start := strings.LastIndex(text[:min(len(text), offset+len("{{"))], "{{")
	if start < 0 {
		return ""
	}
	action, _, closed := strings.Cut(text[start+len("{{"):], "}}")
	if !closed {
		return ""
	}
	return strings.TrimSpace(strings.Trim(strings.TrimSpace(action), "-"))
}

// meantExpression says what to write for the expression of another language around an
// offset, as words that follow a message; "" = not known. What it says to write parses.
func meantExpression(text string, offset int) string {
	action := inAction(text, offset)
	if written := translated(action); parses(written) {
		if needle, isHas := strings.CutPrefix(written, "has "); isHas {
			return fmt.Sprintf("; write {{%s}} for a list, {{contains %s}} for a text", written, needle)
		}
		return fmt.Sprintf("; write {{%s}}%s", written, map[bool]string{true: "…{{end}}"}[strings.HasPrefix(written, "if ")])
	}
	switch {
	case loopInBrackets.MatchString(action), loopByFunction.MatchString(action):
		return "; a loop is {{range $x := .params.list}}{{$x}}{{end}}, a step of type forEach, or a script"
	case foreignVariable.MatchString(action):
		return "; data is .params.NAME of the call, and .steps.ID.output of a step"
	case strings.HasPrefix(action, "="):
		return "; an action has no = before its expression"
	}
	return ""
}

// parses reports whether an action has the form of the language.
func parses(action string) bool {
	if action == "" {
		return false
	}
	if strings.HasPrefix(action, "if ") {
		action += "}}{{end"
	}
	_, _, err := parsed("{{" + action + "}}")
	return err == nil
}

var (
	bareName        = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	loopInBrackets  = regexp.MustCompile(`^\[.*\bfor\b.*\bin\b`)
	loopByFunction  = regexp.MustCompile(`\.(map|filter|forEach|reduce|find|some|every)\(`)
	foreignVariable = regexp.MustCompile(`^\$(json|node|input|context|vars|item|workflow|secrets|\()`)
)
