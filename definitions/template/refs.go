package template

import (
	"slices"
	"strings"
	"text/template/parse"
)

// A Ref is a place of the data that a template reads.
type Ref struct {
	Root   string   // first field: params, steps, forEach, workflow, vars, or as written
	Path   []string // fields after it, as far as they are written down; .steps.a.output gives a, output
	Offset int      // where it is written, in bytes from the start of the text
	// Lenient: the function that reads it accepts a missing value.
	Lenient bool
}

// lenient functions accept a missing value.
var lenient = []string{"default", "coalesce", "empty", "hasKey", "not", "or"}

// Refs gives the places that the template reads, in the order of the text.
// They are found through index and get with literal keys, parentheses,
// variables, with and called templates, and end where a key is computed.
func (t *Template) Refs() []Ref { return t.refs }

// A Comparison compares a place of the data with texts, by eq or ne.
type Comparison struct {
	Ref
	Texts []string
}

// Comparisons gives those of the template in the order of the text.
func (t *Template) Comparisons() []Comparison { return t.comparisons }

// A place is a path from the root of the data that is known without data; a
// nil place is not known.
type place struct {
	path   []string // empty: the root
	offset int
}

func (p *place) extend(names []string, offset int) *place {
	if p == nil {
		return nil
	}
	return &place{slices.Concat(p.path, names), offset}
}

// A reader follows what a template reads without running it.
type reader struct {
	text  string
	trees map[string]*parse.Tree
	seen  map[string]bool // templates that were followed, with their dot
	refs  []Ref
	all   bool // the data as a whole is read

	comparisons []Comparison

	dot, dollar *place
	vars        []variable
}

type variable struct {
	name  string
	value *place
}

// findRefs notes the places that the template reads, whether it also reads the data
// as a whole, and what it compares.
func (t *Template) findRefs(text string, main *parse.Tree, trees map[string]*parse.Tree) {
	root := &place{}
	r := &reader{text: text, trees: trees, seen: map[string]bool{}, dot: root, dollar: root}
	r.list(main.Root)
	slices.SortStableFunc(r.refs, func(a, b Ref) int { return a.Offset - b.Offset })
	t.refs, t.all, t.comparisons = r.refs, r.all, r.comparisons
}

// read notes that the value at p is used.
func (r *reader) read(p *place) { r.readBy(p, false) }

// readBy is read that also notes whether the value may be missing.
func (r *reader) readBy(p *place, lenient bool) {
	switch {
	case p == nil:
	case len(p.path) == 0:
		r.all = true
	default:
		r.refs = append(r.refs, Ref{Root: p.path[0], Path: p.path[1:], Offset: p.offset, Lenient: lenient})
	}
}

// isLenient reports whether a command is a lenient function.
func isLenient(cmd *parse.CommandNode) bool {
	function, ok := cmd.Args[0].(*parse.IdentifierNode)
	return ok && slices.Contains(lenient, function.Ident)
}

func (r *reader) list(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			r.read(r.pipe(node.Pipe))
		case *parse.TemplateNode:
			r.template(node)
		default:
			r.branch(node)
		}
	}
}

func (r *reader) branch(node parse.Node) {
	branch := branchOf(node)
	if branch == nil {
		return
	}
	dot, vars := r.dot, len(r.vars)
	value := r.pipe(branch.Pipe)
	r.readBy(value, true)
	switch node.Type() {
	case parse.NodeWith:
		r.dot = value
	case parse.NodeRange:
		r.dot = nil
		for i := vars; i < len(r.vars); i++ {
			r.vars[i].value = nil
		}
	}
	r.list(branch.List)
	r.dot = dot
	r.list(branch.ElseList)
	r.vars = r.vars[:vars]
}

// template follows a called template once for each dot that it is given.
func (r *reader) template(node *parse.TemplateNode) {
	var arg *place
	if node.Pipe != nil {
		arg = r.pipe(node.Pipe)
		r.read(arg)
	}
	key := node.Name
	if arg != nil {
		key += "\x00" + strings.Join(arg.path, ".")
	}
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	inner := *r
	inner.dot, inner.dollar, inner.vars = arg, arg, nil
	inner.list(r.trees[node.Name].Root)
	r.refs, r.all, r.comparisons = inner.refs, inner.all, inner.comparisons
}

// pipe gives the place of the pipeline's value.
func (r *reader) pipe(pipe *parse.PipeNode) *place {
	var value *place
	for i, cmd := range pipe.Cmds {
		if i > 0 {
			r.readBy(value, isLenient(cmd)) // the argument of the function that comes next
		}
		value = r.command(cmd, i > 0)
	}
	for _, decl := range pipe.Decl {
		if pipe.IsAssign {
			r.forget(decl.Ident[0])
		} else {
			r.vars = append(r.vars, variable{decl.Ident[0], value})
		}
	}
	return value
}

// forget makes the value of a variable unknown.
func (r *reader) forget(name string) {
	for i := range r.vars {
		if r.vars[i].name == name {
			r.vars[i].value = nil
		}
	}
}

func (r *reader) command(cmd *parse.CommandNode, piped bool) *place {
	function, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok {
		return r.operand(cmd.Args[0])
	}
	if (function.Ident == "index" || function.Ident == "get") && len(cmd.Args) > 1 {
		return r.index(cmd.Args[1], cmd.Args[2:], piped)
	}
	var compared Comparison
	for _, arg := range cmd.Args[1:] {
		p := r.operand(arg)
		r.readBy(p, isLenient(cmd))
		compared.add(p, arg)
	}
	if (function.Ident == "eq" || function.Ident == "ne") && compared.Root != "" && !piped {
		r.comparisons = append(r.comparisons, compared)
	}
	return nil
}

// add adds an operand: the place that is compared, or a text.
func (c *Comparison) add(p *place, operand parse.Node) {
	text, isText := operand.(*parse.StringNode)
	switch {
	case isText:
		c.Texts = append(c.Texts, text.Text)
	case p != nil && len(p.path) > 0 && c.Root == "":
		c.Ref = Ref{Root: p.path[0], Path: p.path[1:], Offset: p.offset}
	}
}

// index follows keys that are literal.
func (r *reader) index(base parse.Node, keys []parse.Node, piped bool) *place {
	value := r.operand(base)
	r.all = r.all || value != nil && len(value.path) == 0
	for i, key := range keys {
		literal, ok := key.(*parse.StringNode)
		if !ok {
			r.read(value)
			for _, key := range keys[i:] {
				r.read(r.operand(key))
			}
			return nil
		}
		if value != nil {
			value = value.extend([]string{literal.Text}, value.offset)
		}
	}
	if piped { // the last key comes through the pipe
		r.read(value)
		return nil
	}
	return value
}

func (r *reader) operand(node parse.Node) *place {
	switch node := node.(type) {
	case *parse.DotNode:
		return r.dot
	case *parse.FieldNode:
		return r.dot.extend(node.Ident, r.offset(node.Pos, "."+node.Ident[0]))
	case *parse.VariableNode:
		return r.variable(node.Ident[0]).extend(node.Ident[1:], r.offset(node.Pos, node.Ident[0]))
	case *parse.ChainNode:
		value := r.operand(node.Node)
		if value == nil {
			return nil
		}
		return value.extend(node.Field, value.offset)
	case *parse.PipeNode:
		vars := len(r.vars)
		value := r.pipe(node)
		r.vars = r.vars[:vars]
		return value
	}
	return nil
}

func (r *reader) variable(name string) *place {
	if name == "$" {
		return r.dollar
	}
	for _, v := range slices.Backward(r.vars) {
		if v.name == name {
			return v.value
		}
	}
	return nil
}

// offset gives where a chain starts whose first field is first: the parser
// notes the place of the second field, if any.
func (r *reader) offset(pos parse.Pos, first string) int {
	at := min(int(pos), len(r.text))
	if strings.HasPrefix(r.text[at:], first) {
		if before := at - len(first); before < 0 || r.text[before:at] != first {
			return at
		}
	}
	if i := strings.LastIndex(r.text[:at], first); i >= 0 {
		return i
	}
	return at
}
