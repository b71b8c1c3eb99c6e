package definitions

import (
	"cmp"
	"encoding"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
)

// scalar reports whether n is a scalar, and reports a mistake if not.
func (d *decoder) scalar(n *yaml.Node, path, want string) bool {
	switch {
	case n.Kind == yaml.ScalarNode:
		return true
	case n.Kind == yaml.MappingNode && len(n.Content) == 2 && isBraces(n.Content[0]):
		d.errorf(n, path, "type", "%s", notText(n.Content[0], label(path)))
	default:
		d.wrongForm(n, path, want, "")
	}
	return false
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	if !d.scalar(n, path, "text") {
		return
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Value)); err != nil {
		d.errorf(n, path, "type", "%s: %v", label(path), err)
	}
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
	case slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(n.Value)):
		v.SetBool(true)
		return
	case slices.Contains([]string{"false", "no", "off"}, strings.ToLower(n.Value)):
		v.SetBool(false)
		return
	}
	d.wrongForm(n, path, "true or false", "")
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string) {
	if v.Type() == stdDurationType {
		var duration Duration
		d.text(n, reflect.ValueOf(&duration).Elem(), path)
		v.SetInt(int64(duration))
		return
	}
	whole, ok := new(big.Int), false
	if isNumber(n) {
		whole, ok = yamlInteger(n.Value)
	}
	if !ok {
		d.wrongForm(n, path, "a whole number", "")
		return
	}
	switch {
	case v.CanInt() && whole.IsInt64() && !v.OverflowInt(whole.Int64()):
		v.SetInt(whole.Int64())
	case v.CanUint() && whole.IsUint64() && !v.OverflowUint(whole.Uint64()):
		v.SetUint(whole.Uint64())
	default:
		d.errorf(n, path, "type", "%s: %s is out of range", label(path), n.Value)
	}
}

func (d *decoder) float(n *yaml.Node, v reflect.Value, path string) {
	if isNumber(n) {
		if f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err == nil {
			v.SetFloat(f)
			return
		}
	}
	d.wrongForm(n, path, "a number", "")
}

func (d *decoder) raw(n *yaml.Node, v reflect.Value, path string) {
	encoded, err := template.EncodeValue(d.value(n, path))
	if err != nil {
		d.errorf(n, path, "type", "%s: %v", label(path), err)
		return
	}
	v.SetBytes(encoded)
}

// value gives the exact value of a node, as DecodeValue does for the same JSON.
func (d *decoder) value(n *yaml.Node, path string) any {
	switch n.Kind {
	case yaml.MappingNode:
		members := make(map[string]any, len(n.Content)/2)
		for _, p := range d.pairs(n, path) {
			var member any
			d.member(p, reflect.ValueOf(&member).Elem(), template.AtMember(path, p.key))
			members[p.key] = member
		}
		return members
	case yaml.SequenceNode:
		elems := make([]any, len(n.Content))
		for i, c := range n.Content {
			d.decode(c, reflect.ValueOf(&elems[i]).Elem(), template.AtElement(path, i))
		}
		return elems
	default:
		return d.scalarValue(n, path)
	}
}

func (d *decoder) scalarValue(n *yaml.Node, path string) any {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		number, err := exactNumber(n.Value)
		if err != nil {
			d.errorf(n, path, "type", "%s: %v", label(path), err)
		}
		return number
	case "!!str", "!!timestamp", "!!binary", "!!merge":
		return n.Value
	default:
		d.errorf(n, path, "type", "%s: unknown YAML tag %s", label(path), tag)
		return nil
	}
}

var decimal = regexp.MustCompile(`^([+-]?)0*(\d*)\.?(\d*)([eE][+-]?\d+)?$`)

// exactNumber gives the value of a YAML number without losing a digit.
func exactNumber(text string) (any, error) {
	if whole, ok := yamlInteger(text); ok {
		return template.ParseNumber(whole.String())
	}
	parts := decimal.FindStringSubmatch(strings.ReplaceAll(text, "_", ""))
	if parts == nil {
		return nil, fmt.Errorf("%s is not a number that JSON knows", text)
	}
	number := strings.TrimPrefix(parts[1], "+") + cmp.Or(parts[2], "0")
	if parts[3] != "" {
		number += "." + parts[3]
	}
	return template.ParseNumber(number + parts[4])
}

// yamlInteger reads an integer in the notations of YAML: 1000, 1_000, +5,
// 0x1f, 0o17, 017, 0b11.
func yamlInteger(text string) (*big.Int, bool) {
	digits := strings.ReplaceAll(text, "_", "")
	if digits == "-0" {
		return nil, false // a float, which keeps its sign
	}
	if len(digits) > maxDigits { // reading takes quadratic time
		return nil, false
	}
	return new(big.Int).SetString(digits, 0)
}

// maxDigits bounds the digits of an integer, in any notation; template.ParseNumber
// takes fewer decimal ones.
const maxDigits = 40_000

func isNull(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func isNumber(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float")
}

// describeNode says in a few words what a node is.
func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return describeNode(n.Alias)
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!str":
		return "the text " + template.Excerpt(n.Value)
	default:
		return template.Excerpt(n.Value)
	}
}

// label names a path in a message; the root has no name of its own.
func label(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

// in names the mapping around a key, with a space before it; "" at the root.
func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

// notText says why a key is no text. Unquoted braces, meant as a template, are a mapping
// of a mapping in YAML.
func notText(key *yaml.Node, place string) string {
	if isBraces(key) {
		return fmt.Sprintf("%s: put quotes around the template: '{{%s}}'", place, key.Content[0].Value)
	}
	return place + ": a key must be text"
}

// isBraces reports whether a key is what is within the braces of a template without quotes.
func isBraces(key *yaml.Node) bool {
	return key.Kind == yaml.MappingNode && len(key.Content) == 2 && key.Style&yaml.FlowStyle != 0 && key.Content[0].Kind == yaml.ScalarNode
}
