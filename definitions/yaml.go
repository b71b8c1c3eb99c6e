package definitions

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
)

const (
	maxAliased = 100_000 // nodes that a document may have more than it is written with, by way of aliases
	maxNesting = 100     // levels of mappings and sequences
)

// Decode reads a YAML node strictly into a struct (or map, slice, pointer) by
// the struct's yaml tags. into is a pointer that is not nil.
//
// Unknown and duplicate keys, values of the wrong type and aliases that never
// end are all reported at once, with positions. Correct values are decoded even if
// others are wrong. null is the same as no value, except in an Optional.
// Types with UnmarshalText read any scalar; a field of type any holds exact
// values, as DecodeValue gives them; a struct field Pos of type Position is
// set to the position of the struct's mapping.
func Decode(file string, node *yaml.Node, into any) Diagnostics {
	d := newDecoder(file, node)
	d.into(node, into)
	d.diags.Sort()
	return d.diags
}

// A decoder walks YAML nodes and Go values in step.
type decoder struct {
	file      string
	diags     Diagnostics
	places    map[string]spot // by path
	faulty    map[string]bool // paths of values that could not be read
	budget    int             // nodes that may still be visited
	depth     int
	unadvised []unadvised  // mistakes in the form of values that say nothing of how to write them
	following []*yaml.Node // what the aliases on the way here point to
}

// A spot is the place of a value in its file.
type spot struct {
	line, column       int // of the value
	keyLine, keyColumn int // of its key; 0 without
	style              yaml.Style
}

func newDecoder(file string, node *yaml.Node) *decoder {
	return &decoder{
		file:   file,
		places: make(map[string]spot),
		faulty: make(map[string]bool),
		budget: countNodes(node) + maxAliased,
	}
}

func countNodes(n *yaml.Node) int {
	count := 1
	for _, c := range n.Content {
		count += countNodes(c)
	}
	return count
}

var (
	positionType        = reflect.TypeFor[Position]()
	nodeType            = reflect.TypeFor[yaml.Node]()
	rawMessageType      = reflect.TypeFor[json.RawMessage]()
	stdDurationType     = reflect.TypeFor[time.Duration]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// into decodes a whole document.
func (d *decoder) into(n *yaml.Node, into any) {
	d.decode(n, reflect.ValueOf(into).Elem(), "")
}

// position gives the position of the value at a path, else otherwise.
func (d *decoder) position(path string, otherwise Position) Position {
	if p, ok := d.places[path]; ok {
		return Position{d.file, p.line, p.column}
	}
	return otherwise
}

// decode sets v from n, which is at path.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	switch n.Kind {
	case yaml.AliasNode:
		d.follow(n, path, func(target *yaml.Node) { d.decode(target, v, path) })
		return
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			d.decode(n.Content[0], v, path)
		}
		return
	}
	if !d.spend(n, path, 1) {
		return
	}
	t := v.Type()
	if t == optionalType {
		v.Set(reflect.ValueOf(Optional{Given: true}))
		v, t = v.Field(0), v.Field(0).Type()
	}
	if isNull(n) && t != nodeType && t != rawMessageType {
		v.SetZero()
		return
	}
	for t.Kind() == reflect.Pointer {
		v.Set(reflect.New(t.Elem()))
		v, t = v.Elem(), t.Elem()
	}
	if !d.enter(n, path) {
		return
	}
	defer func() { d.depth-- }()

	switch {
	case t == nodeType:
		v.Set(reflect.ValueOf(*n))
	case t == rawMessageType:
		d.raw(n, v, path)
	case t == formSchemaType && n.Kind != yaml.MappingNode:
		d.wrongForm(n, path, "a mapping", meantMapping(n, t))
	case t == formSchemaType, t == orderedJSONType:
		d.ordered(n, v, path)
	case reflect.PointerTo(t).Implements(textUnmarshalerType):
		d.text(n, v, path)
	default:
		d.kind(n, v, path)
	}
}

// kind decodes by the kind of Go value.
func (d *decoder) kind(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Interface:
		if value := d.value(n, path); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	case reflect.String:
		if d.scalar(n, path, "text") {
			v.SetString(n.Value)
		}
	case reflect.Bool:
		d.boolean(n, v, path)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.integer(n, v, path)
	case reflect.Float32, reflect.Float64:
		d.float(n, v, path)
	default:
		d.errorf(n, path, "type", "%s: a %s cannot be read from YAML", label(path), v.Type())
	}
}

// spend counts visited nodes, and reports whether the budget allows them.
func (d *decoder) spend(n *yaml.Node, path string, nodes int) bool {
	if d.budget <= 0 {
		return false
	}
	if d.budget = max(0, d.budget-nodes); d.budget == 0 {
		d.errorf(n, path, "limit", "aliases make this document more than %d nodes larger than it is written", maxAliased)
	}
	return d.budget > 0
}

// enter records the place of a value and goes one level down, if the limit allows.
func (d *decoder) enter(n *yaml.Node, path string) bool {
	if d.depth >= maxNesting {
		d.errorf(n, path, "limit", "%s is nested more than %d levels deep", label(path), maxNesting)
		return false
	}
	d.depth++
	p := d.places[path]
	p.line, p.column, p.style = n.Line, n.Column, n.Style
	d.places[path] = p
	return true
}

// follow calls visit with the target of an alias, unless that would never end.
func (d *decoder) follow(n *yaml.Node, path string, visit func(*yaml.Node)) {
	if slices.Contains(d.following, n.Alias) {
		d.errorf(n, path, "syntax", "alias *%s contains itself", n.Value)
		return
	}
	d.following = append(d.following, n.Alias)
	visit(n.Alias)
	d.following = d.following[:len(d.following)-1]
}

// A pair is one key of a mapping and its value.
type pair struct {
	key     string
	keyNode *yaml.Node
	value   *yaml.Node
}

// pairs gives the keys and values of a mapping in the order in which they are
// written, those of merge keys (<<) last. Own keys win over merged ones.
func (d *decoder) pairs(n *yaml.Node, path string) []pair {
	var own, merged []pair
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch first := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.errorf(key, path, "type", "%s", notText(key, label(path)))
		case key.ShortTag() == "!!merge":
			merged = append(merged, d.merged(value, path)...)
		case first != nil:
			d.errorf(key, template.AtMember(path, key.Value), "duplicate-key", "key %q is there twice%s; the first is in line %d", key.Value, in(path), first.Line)
		default:
			seen[key.Value] = key
			own = append(own, pair{key: key.Value, keyNode: key, value: value})
		}
	}
	for _, p := range merged {
		if seen[p.key] == nil {
			seen[p.key] = p.keyNode
			own = append(own, p)
		}
	}
	return own
}

// merged gives the pairs of a merge key: a mapping, or a sequence of mappings in which
// earlier ones win.
func (d *decoder) merged(n *yaml.Node, path string) (pairs []pair) {
	if !d.spend(n, path, 1) {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		d.follow(n, path, func(target *yaml.Node) { pairs = d.merged(target, path) })
	case yaml.SequenceNode:
		for _, c := range n.Content {
			pairs = append(pairs, d.merged(c, path)...)
		}
	case yaml.MappingNode:
		pairs = d.pairs(n, path)
		d.spend(n, path, len(pairs))
	default:
		d.errorf(n, path, "type", "%s: a merge key (<<) wants a mapping, not %s", label(path), describeNode(n))
	}
	return pairs
}

// member decodes the value of a pair, which is at path.
func (d *decoder) member(p pair, v reflect.Value, path string) {
	d.places[path] = spot{keyLine: p.keyNode.Line, keyColumn: p.keyNode.Column}
	d.decode(p.value, v, path)
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongForm(n, path, "a mapping", meantMapping(n, v.Type()))
		return
	}
	d.place(n, v)
	keys := keysOf(v.Type())
	given := map[string]bool{}
	var unknown []pair
	for _, p := range d.pairs(n, path) {
		i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == p.key || k.also() == p.key })
		switch {
		case i < 0:
			unknown = append(unknown, p)
			continue
		case given[keys[i].Name]:
			d.errorf(p.keyNode, template.AtMember(path, p.key), "duplicate-key", "keys %q and %q%s are the same: give one of them", keys[i].Name, keys[i].also(), in(path))
			continue
		case p.key != keys[i].Name:
			d.warnf(p.keyNode, "other-key", "key %q%s is taken as %s: write that", p.key, in(path), keys[i].Name)
		}
		given[keys[i].Name] = true
		d.field(p, keys[i], v, template.AtMember(path, keys[i].Name))
	}
	for _, p := range unknown {
		k := d.unknownKey(p, keys, v, given, path)
		if k != nil && !given[k.Name] && isPlain(p.value, v.FieldByIndex(k.Index).Type()) {
			d.field(p, *k, v, template.AtMember(path, k.Name)) // so that its mistakes are found as well
		} else if k != nil {
			d.faulty[template.AtMember(path, k.Name)] = true // it is not missing
		}
	}
}

// place sets the field Pos of a struct, if it has one.
func (d *decoder) place(n *yaml.Node, v reflect.Value) {
	if pos := v.FieldByName("Pos"); pos.IsValid() && pos.Type() == positionType {
		pos.Set(reflect.ValueOf(Position{d.file, n.Line, n.Column}))
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongForm(n, path, "a mapping", meantMapping(n, v.Type()))
		return
	}
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		d.errorf(n, path, "type", "%s: a %s cannot be read from YAML", label(path), t)
		return
	}
	v.Set(reflect.MakeMapWithSize(t, len(n.Content)/2))
	for _, p := range d.pairs(n, path) {
		at := template.AtMember(path, p.key)
		elem := reflect.New(t.Elem()).Elem()
		d.member(p, elem, at)
		d.present(p.value, elem, at)
		v.SetMapIndex(reflect.ValueOf(p.key).Convert(t.Key()), elem)
	}
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.wrongForm(n, path, "a list", meantList(n, v.Type()))
		return
	}
	t := v.Type()
	v.Set(reflect.MakeSlice(t, 0, len(n.Content)))
	for i, c := range n.Content {
		at := template.AtElement(path, i)
		elem := reflect.New(t.Elem()).Elem()
		d.decode(c, elem, at)
		d.present(c, elem, at)
		v.Set(reflect.Append(v, elem))
	}
}

// present reports a null element where a struct is wanted, and puts an empty one
// there, with its position: lists and maps of structs never hold nil.
func (d *decoder) present(n *yaml.Node, elem reflect.Value, path string) {
	if elem.Kind() == reflect.Struct && isNull(n) {
		d.place(n, elem)
	}
	if elem.Kind() != reflect.Pointer || !elem.IsNil() {
		return
	}
	elem.Set(reflect.New(elem.Type().Elem()))
	if isNull(n) {
		d.errorf(n, path, "type", "%s is empty", label(path))
	}
}
