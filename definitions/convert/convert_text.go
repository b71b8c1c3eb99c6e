package convert

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
)

// starlarkText is a string of Starlark, which has the escapes of JSON.
func starlarkText(s string) string {
	encoded, err := template.EncodeValue(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return escapeHidden(string(encoded))
}

// escapeHidden writes invisible and reordering characters as escapes of Starlark, so
// that a script does what people read.
func escapeHidden(quoted string) string {
	var b strings.Builder
	for _, r := range quoted {
		switch {
		case !view.Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// longText is a string that may have several lines.
func longText(s string) string {
	if !strings.Contains(strings.TrimRight(s, "\n"), "\n") || strings.ContainsAny(s, "\\\r\x00") || strings.Contains(s, `"""`) || strings.HasSuffix(s, `"`) {
		return starlarkText(s)
	}
	if strings.ContainsFunc(s, view.Hidden) {
		return starlarkText(s)
	}
	return `"""` + s + `"""`
}

// literal is a JSON value in Starlark; an error for an integer too large for scripts.
func (c *converter) literal(v any) (string, error) {
	if n, ok := v.(*big.Int); ok && n.BitLen() > maxScriptBits {
		return "", c.lacks(c.program.Definition.Name, "", fmt.Sprintf("a number of %d bits is more than scripts have", n.BitLen()))
	}
	return literalOf(v), nil
}

// maxScriptBits is the maximum size of a script's integers.
const maxScriptBits = 512

// literalOf is a JSON value in Starlark.
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
	if object, err := definitions.ParseJSONObject(raw); err == nil {
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
	value, _ := template.DecodeValue(raw) // it is valid JSON
	return literalOf(value)
}

// ownWords is the option for a step whose failing part is a script: its message is
// used unchanged.
func ownWords(n *definitions.Node) string {
	for n.Inner != nil {
		n = n.Inner
	}
	if n.Script != nil {
		return ", own_words = True"
	}
	return ""
}
