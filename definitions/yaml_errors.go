package definitions

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// warnf reports a warning at a node.
func (d *decoder) warnf(n *yaml.Node, check, format string, args ...any) {
	d.diags.add(Diagnostic{Pos: Position{d.file, n.Line, n.Column}, Severity: SeverityWarning, Message: fmt.Sprintf(format, args...), Check: check})
}

// errorf reports a mistake at a path.
func (d *decoder) errorf(n *yaml.Node, path, check, format string, args ...any) {
	d.faulty[path] = true
	d.diags.add(Diagnostic{
		Pos:      Position{d.file, n.Line, n.Column},
		Severity: SeverityError,
		Message:  fmt.Sprintf(format, args...),
		Check:    check,
	})
}

// An unadvised mistake is in the form of a value.
type unadvised struct {
	node *yaml.Node
	at   int // among the diagnostics
}

// wrongForm reports a value that is not what is wanted. advice ends the message; "" = the
// struct around it may know some.
func (d *decoder) wrongForm(n *yaml.Node, path, want, advice string) {
	d.errorf(n, path, "type", "%s must be %s, not %s%s", label(path), want, describeNode(n), advice)
	if advice == "" && !d.diags.full() {
		d.unadvised = append(d.unadvised, unadvised{n, len(d.diags) - 1})
	}
}

// meantList suggests how to write a value as a list, as the end of a message;
// "" = no suggestion.
func meantList(n *yaml.Node, t reflect.Type) string {
	switch {
	case n.Kind == yaml.ScalarNode && t.Elem().Kind() == reflect.String && !strings.ContainsAny(n.Value, ",\"'\\"):
		return ": write [" + strings.Join(strings.Fields(n.Value), ", ") + "]"
	case n.Kind == yaml.ScalarNode && t.Elem().Kind() == reflect.String:
		return ": write [" + n.Value + "]"
	case n.Kind == yaml.MappingNode && t.Elem().Kind() == reflect.String && len(n.Content) == 2 && n.Content[1].Kind == yaml.ScalarNode:
		return ": write [" + n.Content[1].Value + "]"
	case n.Kind == yaml.MappingNode && t.Elem() == reflect.TypeFor[*Step]():
		return ": write each step as - id: NAME"
	}
	return ""
}

// meantMapping suggests the same for a text where a mapping is wanted.
func meantMapping(n *yaml.Node, t reflect.Type) string {
	switch {
	case n.Kind == yaml.SequenceNode && t == reflect.TypeFor[Step]():
		return ": write its steps by themselves; they run side by side unless one depends on another"
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		return listedMapping(n.Content[0])
	case n.Kind != yaml.ScalarNode:
		return ""
	case strings.HasPrefix(strings.TrimSpace(n.Value), `{"`):
		return ": write it without the quotes around it"
	case t == reflect.TypeFor[Compensation]():
		return ": write {tool: " + n.Value + ", arguments: {…}}"
	case t == reflect.TypeFor[OnError]() && strings.EqualFold(n.Value, string(Retry)):
		return ": write {action: retry, retryCount: 3}"
	case t == reflect.TypeFor[OnError]():
		return ": write {action: " + n.Value + "}"
	case t == reflect.TypeFor[Property]():
		return ": write {type: string, description: …, value: …}"
	case t == reflect.TypeFor[Output]():
		return ": write properties, each with type, description and value"
	}
	return ""
}

// listedMapping is meantMapping for a list of mappings, by its first one.
func listedMapping(first *yaml.Node) string {
	for key, value := range Members(first) {
		if slices.Contains([]string{"name", "key", "id"}, key.Value) && len(first.Content) > 2 {
			return fmt.Sprintf(": write each below its name, as in {%s: …}", value.Value)
		}
	}
	return ""
}
