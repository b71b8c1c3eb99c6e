package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ExpandAs expands the template for a place that takes values of kinds, types of
// JSON Schema; none means that the place takes anything, and gives text. ok is
// false if there is no value.
//
// One expression keeps its value where its kind is wanted. Everything else
// becomes text, and the text the first of kinds that it can be read as.
func (t *Template) ExpandAs(data any, kinds []string) (v any, ok bool, err error) {
	v, ok, _, err = t.expandAs(data, kinds)
	return v, ok, err
}

// expandAs is ExpandAs with the work that it took.
func (t *Template) expandAs(data any, kinds []string) (v any, ok bool, work int, err error) {
	if !t.HasActions() {
		return ReadAs(t.text, kinds), true, len(t.text), nil
	}
	if t.IsSingleExpression() {
		if v, work, err = t.native(data); err != nil {
			return nil, false, work, err
		}
		v, ok, err = ofKinds(v, kinds, t.before, t.after)
		return v, ok, work, err
	}
	text, work, err := t.rendered(data)
	if err != nil || isNullFor(text, kinds) {
		return nil, false, work, err
	}
	return ReadAs(text, kinds), true, work, nil
}

// ofKinds gives the value of an expression for a place that takes values of kinds.
// The text around it counts if it becomes text.
func ofKinds(v any, kinds []string, before, after string) (any, bool, error) {
	if v == nil {
		return nil, false, nil
	}
	if _, isText := v.(string); !isText && isOneOf(v, kinds) {
		return v, true, nil
	}
	text, err := printed(v)
	if err != nil {
		return nil, false, err
	}
	if text = before + text + after; isNullFor(text, kinds) {
		return nil, false, nil
	}
	return ReadAs(text, kinds), true, nil
}

// AsType gives v in a type of JSON Schema: as it is, or read from its text.
func AsType(v any, kind string) (any, error) {
	if n, isNumber := numberOf(v); isNumber && kind == "integer" {
		if i, ok := n.integer(); ok {
			return i.value(), nil
		}
	}
	if IsKind(v, kind) {
		return v, nil
	}
	text, err := printed(v)
	if err != nil {
		return nil, err
	}
	if read, ok := ReadKind(text, kind); ok {
		return read, nil
	}
	return nil, fmt.Errorf("%s is not %s", Excerpt(text), withArticle(kind))
}

func withArticle(kind string) string {
	if strings.ContainsRune("aio", rune((kind + " ")[0])) {
		return "an " + kind
	}
	return "a " + kind
}

// isNullFor reports whether text is the JSON of a missing array or object.
func isNullFor(text string, kinds []string) bool {
	return strings.TrimSpace(text) == "null" && !slices.Contains(kinds, "string") &&
		(slices.Contains(kinds, "array") || slices.Contains(kinds, "object"))
}

// isOneOf reports whether the kind of v is one of kinds.
func isOneOf(v any, kinds []string) bool {
	for _, kind := range kinds {
		if IsKind(v, kind) {
			return true
		}
	}
	return false
}

// IsKind reports whether v is of a type of JSON Schema.
func IsKind(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	default:
		n, ok := numberOf(v)
		if kind == "integer" {
			_, ok = n.integer()
		}
		return ok && (kind == "number" || kind == "integer")
	}
}

// ReadAs reads text as the first of kinds that fits, and gives text if none does.
func ReadAs(text string, kinds []string) any {
	for _, kind := range kinds {
		if v, ok := ReadKind(text, kind); ok {
			return v
		}
	}
	return text
}

// ReadKind reads text as a type of JSON Schema.
func ReadKind(text, kind string) (any, bool) {
	switch kind {
	case "string":
		return text, true
	case "integer":
		return parseInteger(text)
	case "number":
		return parseDecimal(text)
	case "boolean":
		b, err := strconv.ParseBool(strings.TrimSpace(text))
		return b, err == nil
	case "array", "object":
		if start := strings.TrimSpace(text); start == "" || start[0] != '[' && start[0] != '{' {
			return nil, false
		}
		v, err := DecodeValue([]byte(text))
		return v, err == nil && IsKind(v, kind)
	}
	return nil, false
}

// KindOf is the type of v in JSON Schema.
func KindOf(v any) string {
	for _, kind := range []string{"null", "string", "boolean", "array", "object", "integer"} {
		if IsKind(v, kind) {
			return kind
		}
	}
	return "number"
}
