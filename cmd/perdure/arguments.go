package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// callArguments makes the arguments of a call: those of --args, and over them
// key=value pairs, which the tool's schema gives their types.
func callArguments(schema json.RawMessage, base json.RawMessage, pairs []string) (json.RawMessage, error) {
	root, err := schemaObject(schema)
	if err != nil {
		return nil, err
	}
	arguments := map[string]json.RawMessage{}
	if base != nil {
		if err := json.Unmarshal(base, &arguments); err != nil {
			return nil, fmt.Errorf("--args is not a JSON object: %v", err)
		}
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form key=value; --args takes all arguments as one JSON object", pair)
		}
		if given[name] {
			return nil, fmt.Errorf("parameter %s is given twice; write a list as %s='[1, 2]'", name, name)
		}
		given[name] = true
		if arguments[name], err = root.argument(name, text); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("writing the arguments: %w", err)
	}
	return raw, root.validate(raw)
}

// readArguments reads what --args says: JSON, @FILE, or - for standard input.
func readArguments(text string, in io.Reader) (json.RawMessage, error) {
	switch {
	case text == "":
		return nil, nil
	case text == "-":
		raw, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("reading the arguments from standard input: %w", err)
		}
		return raw, nil
	case strings.HasPrefix(text, "@"):
		raw, err := os.ReadFile(text[1:])
		if err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
		return raw, nil
	default:
		return json.RawMessage(text), nil
	}
}

// An objectSchema is the JSON Schema of a tool's arguments.
type objectSchema struct {
	root  map[string]any
	place template.Schema
}

func schemaObject(raw json.RawMessage) (s objectSchema, err error) {
	if len(raw) == 0 {
		return s, nil
	}
	value, err := template.DecodeValue(raw)
	if err != nil {
		return s, fmt.Errorf("reading the tool's schema: %w", err)
	}
	s.root, _ = value.(map[string]any)
	s.place, err = template.SchemaOf(raw)
	return s, err
}

// argument gives the value of a parameter that is written as text.
func (s objectSchema) argument(name, text string) (json.RawMessage, error) {
	properties, _ := s.root["properties"].(map[string]any)
	if _, known := properties[name]; !known && s.root["additionalProperties"] != true {
		names := slices.Sorted(maps.Keys(properties))
		if len(names) == 0 {
			return nil, fmt.Errorf("unknown parameter %q; the tool takes none", name)
		}
		return nil, fmt.Errorf("unknown parameter %q; known parameters: %s", name, strings.Join(names, ", "))
	}
	types := s.place.Property(name).Kinds()
	value, err := typed(types, text)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %v%s", name, err, inQuotes(name, types))
	}
	return value, nil
}

var (
	wholeNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	decimalNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// typed gives text the first of the types that fits it. Without types, what
// is JSON is taken as such and the rest as a string.
func typed(types []string, text string) (json.RawMessage, error) {
	if len(types) == 0 {
		if json.Valid([]byte(text)) {
			return json.RawMessage(text), nil
		}
		types = []string{"string"}
	}
	for _, t := range types {
		if value, ok := convertTo(t, text); ok {
			return value, nil
		}
	}
	return nil, fmt.Errorf("%q is not %s", text, describeTypes(types))
}

func convertTo(kind, text string) (json.RawMessage, bool) {
	raw := json.RawMessage(text)
	switch kind {
	case "string":
		quoted, err := template.EncodeValue(text)
		return quoted, err == nil
	case "integer":
		return raw, wholeNumber.MatchString(text)
	case "number":
		return raw, decimalNumber.MatchString(text)
	case "boolean":
		return raw, text == "true" || text == "false"
	case "null":
		return raw, text == "null"
	case "array":
		return raw, strings.HasPrefix(strings.TrimSpace(text), "[") && json.Valid(raw)
	case "object":
		return raw, strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid(raw)
	default:
		return nil, false
	}
}

// inQuotes says how an argument is written that a shell would take apart, as words that
// follow a message; "" = it is of another type.
func inQuotes(name string, types []string) string {
	switch {
	case slices.Contains(types, "array"):
		return fmt.Sprintf(`; write it in quotes, as in %s='["a", "b"]'`, name)
	case slices.Contains(types, "object"):
		return fmt.Sprintf(`; write it in quotes, as in %s='{"a": 1}'`, name)
	}
	return ""
}

func describeTypes(types []string) string {
	words := map[string]string{
		"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
		"null": "null", "array": "a JSON array", "object": "a JSON object",
	}
	var out []string
	for _, t := range types {
		if word := words[t]; word != "" && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return strings.Join(out, " or ")
}

// validate checks arguments against the schema, as the server will. A schema
// that cannot be read is left to the server.
func (s objectSchema) validate(arguments json.RawMessage) error {
	tool := definitions.Definition{Parameters: s.root}
	var wrong *definitions.ArgumentsError
	if _, err := tool.Arguments(arguments); errors.As(err, &wrong) {
		return fmt.Errorf("%v", wrong)
	}
	return nil
}
