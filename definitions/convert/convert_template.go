package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/inorder"
)

// A dot is where a template stands: what its names mean there.
type dot struct {
	converter *converter
	where     string            // step deploy, for messages
	path      string            // of the step in the definition
	steps     map[string]string // expressions of their states, by step
	every     bool              // steps has all that have ended
	forEach   map[string]string // expressions, by the name after .forEach
	indexes   []string          // expressions: the indexes of the items around, outermost first
	name      string            // of the step in messages: a format of those
	output    string            // expression for .output; "" = there is none
	call      string            // expression for .call; "" = there is none
	timeless  bool              // what takes time may not be read: it is read at another time
	ended     bool              // in the output block
}

// fail says why a field cannot be converted, and what to do.
func (d *dot) fail(field, format string, args ...any) error {
	return d.converter.lacks(d.where+": "+field, template.AtMember(d.path, field), fmt.Sprintf(format, args...))
}

// inside is the dot of the inner step of a forEach, whose item is entry.
func (d *dot) inside(entry string, s *definitions.Step) *dot {
	in := *d
	in.forEach = maps.Clone(d.forEach)
	if in.forEach == nil {
		in.forEach = map[string]string{}
	}
	name := s.ItemVar
	if name == "" {
		name = "item"
	}
	key := entry + ".key"
	if outer := in.forEach["key"]; outer != "" { // an array has no keys that hide those around it
		key = fmt.Sprintf("(%s if %s == None else %s)", outer, key, key)
	}
	in.forEach[name], in.forEach["index"], in.forEach["key"] = entry+".item", entry+".index", key
	in.indexes = append(slices.Clone(d.indexes), entry+".index")
	in.name, in.path = d.name+"[%d]", template.AtMember(d.path, "step")
	return &in
}

// named is the expression for the name of the step in messages.
func (d *dot) named() string {
	if len(d.indexes) == 0 {
		return starlarkText(d.name)
	}
	return fmt.Sprintf("%s %% (%s,)", starlarkText(d.name), strings.Join(d.indexes, ", "))
}

// An expression is one of Starlark, and what is known of its value.
type expression struct {
	code string
	kind string // string, number, bool; "" = not known
	sure bool   // it is never None
}

// parsed is a template with its tree as it is written; nil for one that is its
// own text.
func (d *dot) parsed(field, text string) (*template.Template, *parse.Tree, error) {
	t, err := template.Parse(text)
	if err != nil {
		return nil, nil, d.fail(field, "%s", err)
	}
	return t, t.Tree(), nil
}

// text is the expression for what a template renders to.
func (d *dot) text(field, text string) (string, error) {
	t, tree, err := d.parsed(field, text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		return starlarkText(text), nil
	}
	if tree != nil {
		if e, ok := d.list(tree.Root); ok {
			return e, nil
		}
	}
	return d.expanded(field, t, "")
}

// expanded is a call of template with the text as it is.
func (d *dot) expanded(field string, t *template.Template, kinds string) (string, error) {
	scope, err := d.scope(field, t)
	if err != nil {
		return "", err
	}
	if kinds != "" {
		kinds = ", " + kinds
	}
	return fmt.Sprintf("template(%s, %s%s)", longText(t.Source()), scope, kinds), nil
}

// single is the expression for the value of a template that is one expression
// without anything around it.
func (d *dot) single(t *template.Template, tree *parse.Tree) (expression, bool) {
	if !t.IsSingleExpression() || t.Padded() {
		return expression{}, false
	}
	return d.only(tree)
}

// only is the expression for the value of the only expression of a tree.
func (d *dot) only(tree *parse.Tree) (expression, bool) {
	if tree == nil {
		return expression{}, false
	}
	for _, node := range tree.Root.Nodes {
		if action, ok := node.(*parse.ActionNode); ok {
			return d.pipe(action.Pipe)
		}
	}
	return expression{}, false
}

// condition is the expression for whether a template renders to true.
func (d *dot) condition(field, text string) (string, error) {
	if holds, err := definitions.Truth(text); err == nil {
		return literalOf(holds), nil
	}
	t, tree, err := d.parsed(field, text)
	if err != nil {
		return "", err
	}
	if tree != nil && t.IsSingleExpression() {
		if e, ok := d.only(tree); ok && e.kind == "bool" && e.sure {
			return e.code, nil
		}
	}
	rendered, err := d.text(field, text)
	return fmt.Sprintf("%s(%s, %s)", d.converter.helper("holds"), rendered, starlarkText(field)), err
}

// value is the expression for a template in a place that takes certain types;
// None where it has no value.
func (d *dot) value(field, text string, kinds []string) (string, error) {
	t, tree, err := d.parsed(field, text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		return literalOf(template.ReadAs(text, kinds)), nil
	}
	textual := len(kinds) == 0 || kinds[0] == "string"
	if e, ok := d.single(t, tree); ok {
		switch {
		case e.kind == "string" && textual:
			return e.code, nil
		case e.kind == "bool" && slices.Contains(kinds, "boolean"), e.kind == "number" && slices.Contains(kinds, "number"):
			return e.code, nil
		case len(kinds) == 0 || slices.Equal(kinds, []string{"string"}):
			return fmt.Sprintf("%s(%s)", d.converter.helper("as_text"), e.code), nil
		}
		return fmt.Sprintf("%s(%s, %s)", d.converter.helper("as_kind"), e.code, kindsText(kinds)), nil
	}
	if !t.IsSingleExpression() && textual {
		return d.text(field, text)
	}
	return d.expanded(field, t, kindsText(kinds))
}

// typed is value in a place of which only a run knows which types it takes.
func (d *dot) typed(field, text string) (string, error) {
	t, tree, err := d.parsed(field, text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		for _, kind := range []string{"integer", "number", "boolean", "array", "object"} {
			if _, ok := template.ReadKind(text, kind); ok {
				return "typed(" + starlarkText(text) + ")", nil
			}
		}
		return starlarkText(text), nil
	}
	if e, ok := d.single(t, tree); ok {
		return "typed(" + e.code + ")", nil
	}
	if t.IsSingleExpression() && t.Padded() {
		return "", d.fail(field, "there is white space around the expression, and what becomes of it depends on the tool: remove it, or say with --against where the tool is")
	}
	if t.IsSingleExpression() {
		value, err := d.expanded(field, t, `"any"`)
		return "typed(" + value + ")", err
	}
	rendered, err := d.text(field, text)
	return "typed(" + rendered + ")", err
}

func kindsText(kinds []string) string {
	if len(kinds) == 1 {
		return starlarkText(kinds[0])
	}
	return literalOf(anys(kinds))
}

// collect is the expression for what a forEach keeps of an item.
func (d *dot) collect(text string) (string, error) {
	t, tree, err := d.parsed("collect", text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		return literalOf(template.ReadAs(text, definitions.WrittenKinds(text))), nil
	}
	if t.IsSingleExpression() {
		if e, ok := d.only(tree); ok {
			return e.code, nil
		}
		return d.expanded("collect", t, `"any"`)
	}
	if kinds := definitions.WrittenKinds(text); kinds != nil {
		rendered, err := d.text("collect", text)
		return fmt.Sprintf("%s(%s, %s)", d.converter.helper("read"), rendered, starlarkText(kinds[0])), err
	}
	return d.text("collect", text)
}

// arguments is the dict of the arguments of a call of a tool.
func (d *dot) arguments(field string, args map[string]any, tool definitions.Tool, known bool) (string, error) {
	if !known {
		return d.argument(field, args, func(string) template.Schema { return template.Schema{} }, true)
	}
	var cache template.SchemaCache
	place, err := cache.Of(tool.InputSchema)
	if err != nil {
		return "", d.fail(field, "%s", err)
	}
	return d.argument(field, args, func(string) template.Schema { return place }, false)
}

// argument is the expression for a value as a step writes it.
func (d *dot) argument(field string, v any, at func(string) template.Schema, typed bool) (string, error) {
	place := at(field)
	switch v := v.(type) {
	case string:
		if typed {
			return d.typed(field, v)
		}
		return d.value(field, v, place.Kinds())
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			var err error
			if parts[i], err = d.argument(fmt.Sprintf("%s[%d]", field, i), element, func(string) template.Schema { return place.Item(i) }, typed); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		return d.object(field, v, place, typed)
	}
	return d.converter.literal(v)
}

// object leaves out members that have no value, and keeps those that are null.
func (d *dot) object(field string, v map[string]any, place template.Schema, typed bool) (string, error) {
	var parts, nulls []string
	missing := false
	for _, name := range template.SortedKeys(v) {
		if v[name] == nil {
			nulls = append(nulls, starlarkText(name)+": None")
			continue
		}
		value, err := d.argument(field+"."+name, v[name], func(string) template.Schema { return place.Property(name) }, typed)
		if err != nil {
			return "", err
		}
		text, isText := v[name].(string)
		missing = missing || isText && strings.Contains(text, "{{") && !typed
		parts = append(parts, starlarkText(name)+": "+value)
	}
	object := "{" + strings.Join(parts, ", ") + "}"
	if missing && !d.textual(v, place) {
		object = fmt.Sprintf("%s(%s)", d.converter.helper("given"), object)
	}
	if nulls != nil {
		object += " | {" + strings.Join(nulls, ", ") + "}"
	}
	return object, nil
}

// textual says whether each template of an object is more than one expression,
// and in a place for text, so that none is ever without a value.
func (d *dot) textual(v map[string]any, place template.Schema) bool {
	for _, name := range template.SortedKeys(v) {
		text, ok := v[name].(string)
		if !ok {
			continue
		}
		t, _ := template.Parse(text)
		kinds := place.Property(name).Kinds()
		if t == nil || t.IsSingleExpression() || len(kinds) > 0 && kinds[0] != "string" && t.HasActions() {
			return false
		}
	}
	return true
}

// scope is the data of a template that is expanded as it is: as much of it as
// it reads.
func (d *dot) scope(field string, t *template.Template) (string, error) {
	roots := map[string][][]string{}
	for _, path := range t.Reads() {
		if len(path) == 0 {
			return "", d.fail(field, "the template reads its data as a whole, which a script does not have: name what it reads")
		}
		roots[path[0]] = append(roots[path[0]], path[1:])
	}
	var parts []string
	add := func(root, code string) { parts = append(parts, starlarkText(root)+": "+code) }
	for _, root := range template.SortedKeys(roots) {
		switch root {
		case "params":
			add(root, d.converter.params)
		case "output":
			if d.output != "" {
				add(root, d.output)
			}
		case "call":
			if d.call != "" {
				add(root, d.call)
			}
		case "vars":
			add(root, "{}")
		case "steps", "forEach", "workflow":
			code, err := d.members(field, root, roots[root])
			if err != nil {
				return "", err
			}
			add(root, code)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// members is the dict of the members of a root that a template reads.
func (d *dot) members(field, root string, paths [][]string) (string, error) {
	var names []string
	for _, path := range paths {
		switch {
		case len(path) == 0 && root == "forEach":
			names = append(names, template.SortedKeys(d.forEach)...)
		case len(path) == 0 && root == "steps" && d.every:
			names = append(names, template.SortedKeys(d.steps)...)
		case len(path) == 0:
			return "", d.fail(field, "the template reads .%s as a whole, and which step has ended when is not known to a script: name what it reads", root)
		default:
			names = append(names, path[0])
		}
	}
	slices.Sort(names)
	var parts []string
	for _, name := range slices.Compact(names) {
		code, ok := "", false
		switch root {
		case "forEach":
			code, ok = d.forEach[name]
		case "steps":
			if code, ok = d.steps[name]; ok && slices.ContainsFunc(paths, func(path []string) bool { return len(path) < 2 || !slices.Contains(stateFields, path[1]) }) {
				code = fmt.Sprintf("%s(%s)", d.converter.helper("seen"), code)
			}
		case "workflow":
			var e expression
			if e, ok = d.workflow(name); !ok {
				return "", d.fail(field, ".workflow.%s is not known to a script there: leave it out", name)
			}
			code = e.code
		}
		if ok {
			parts = append(parts, starlarkText(name)+": "+code)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// stateFields are those of .steps.ID.
var stateFields = []string{"status", "output", "error", "action", "content", "by", "at"}

// starlarkText is a string of Starlark, which knows the escapes of JSON.
func starlarkText(s string) string {
	encoded, err := template.EncodeValue(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(encoded)
}

// longText is a string that may have several lines.
func longText(s string) string {
	if !strings.Contains(strings.TrimRight(s, "\n"), "\n") || strings.ContainsAny(s, "\\\r\x00") || strings.Contains(s, `"""`) || strings.HasSuffix(s, `"`) {
		return starlarkText(s)
	}
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' {
			return starlarkText(s)
		}
	}
	return `"""` + s + `"""`
}

// literal is a value of JSON in Starlark, unless scripts have no such number.
func (c *converter) literal(v any) (string, error) {
	if n, ok := v.(*big.Int); ok && n.BitLen() > maxScriptBits {
		return "", c.lacks(c.program.Definition.Name, "", fmt.Sprintf("a number of %d bits is more than scripts have", n.BitLen()))
	}
	return literalOf(v), nil
}

// maxScriptBits is how many an integer of a script may have.
const maxScriptBits = 512

// literalOf is a value of JSON in Starlark.
func literalOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case string:
		return starlarkText(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = literalOf(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, k := range template.SortedKeys(v) {
			parts = append(parts, starlarkText(k)+": "+literalOf(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case definitions.FormSchema:
		return literalInOrder(json.RawMessage(v))
	case *big.Int:
		return v.String()
	}
	if f, ok := v.(template.Float); ok {
		text := strconv.FormatFloat(float64(f), 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	}
	return fmt.Sprint(v)
}

// literalInOrder is literalOf for JSON whose objects keep their order.
func literalInOrder(raw json.RawMessage) string {
	var parts []string
	if object, err := inorder.Parse(raw); err == nil {
		for _, m := range object {
			parts = append(parts, starlarkText(m.Name)+": "+literalInOrder(m.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	var elems []json.RawMessage
	if json.Unmarshal(raw, &elems) == nil && elems != nil {
		for _, elem := range elems {
			parts = append(parts, literalInOrder(elem))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	value, _ := template.DecodeValue(raw) // it is JSON
	return literalOf(value)
}
