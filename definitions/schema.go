package definitions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure/definitions/template"
)

// InputSchema gives the JSON Schema of the parameters, which is that of an
// object without known properties if there are none.
func (d *Definition) InputSchema() json.RawMessage {
	if d.Parameters == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	schema, err := template.EncodeValue(d.Parameters)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`) // made in Go with values that JSON lacks; Check refuses it
	}
	return schema
}

// OutputSchema gives the JSON Schema of the result: types, descriptions and
// required properties, no templates. It is nil without an output block.
func (d *Definition) OutputSchema() json.RawMessage {
	if d.Output == nil {
		return nil
	}
	schema := propertiesSchema(d.Output.Properties)
	if len(d.Output.Required) > 0 {
		schema["required"] = d.Output.Required
	}
	encoded, err := template.EncodeValue(schema)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return encoded
}

func propertiesSchema(properties map[string]*Property) map[string]any {
	members := make(map[string]any, len(properties))
	for name, p := range properties {
		if p != nil {
			members[name] = p.schema()
		}
	}
	return map[string]any{"type": "object", "properties": members}
}

func (p *Property) schema() map[string]any {
	schema := map[string]any{"type": p.Type}
	if len(p.Properties) > 0 {
		schema = propertiesSchema(p.Properties)
	}
	if p.Description != "" {
		schema["description"] = p.Description
	}
	return schema
}

// An ArgumentsError says which arguments of a call do not fit the parameters.
type ArgumentsError struct {
	Problems []ArgumentProblem // one at least, by parameter
}

// An ArgumentProblem is a mistake in one argument.
type ArgumentProblem struct {
	Parameter string // path of the parameter, e.g. opts.deep or ids[2]; "" = the arguments as a whole
	Message   string // e.g. "is required"
}

func (e *ArgumentsError) Error() string {
	return "invalid arguments: " + problemText(e.Problems)
}

func problemText(problems []ArgumentProblem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = strings.TrimPrefix(p.Parameter+" "+p.Message, " ")
	}
	return strings.Join(lines, "; ")
}

// Arguments checks the arguments of a call against the parameters and gives them with
// the defaults of top-level parameters that were left out, unchecked.
// No arguments are the same as an empty object. Members that the schema does
// not mention pass unless it forbids them. The error is an *ArgumentsError
// unless the parameters are not a JSON Schema.
func (d *Definition) Arguments(raw json.RawMessage) (json.RawMessage, error) {
	args, err := decodeObject(raw)
	if err != nil {
		return nil, &ArgumentsError{[]ArgumentProblem{{"", err.Error()}}}
	}
	properties, _ := d.Parameters["properties"].(map[string]any)
	var standing []string // parameters with their defaults, which are not the caller's mistake
	//workflowcheck:ignore a map again, and a set
	for name, p := range properties {
		property, _ := p.(map[string]any)
		standard, hasDefault := property["default"]
		if _, given := args[name]; hasDefault && !given {
			args[name] = standard
			standing = append(standing, name)
		}
	}
	if d.Parameters != nil {
		schema, err := d.arguments.of(d.Parameters)
		if err != nil {
			return nil, fmt.Errorf("the parameters of %s: %w", d.Name, err)
		}
		problems := slices.DeleteFunc(schema.violations(args), func(p ArgumentProblem) bool { return slices.Contains(standing, topLevel(p.Parameter)) })
		if len(problems) > 0 {
			return nil, &ArgumentsError{problems}
		}
	}
	return template.EncodeValue(args)
}

// topLevel is the parameter that a path is in.
func topLevel(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// decodeObject decodes an object; nothing and null are an empty one.
func decodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	value, err := template.DecodeValue(raw)
	if err != nil {
		return nil, fmt.Errorf("must be JSON: %w", err)
	}
	switch value := value.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("must be an object, not %s", template.Describe(value))
	}
}

// CheckAnswer checks the content of an answer against the elicitation's schema. Without
// a schema any object fits; no content is an empty object; members that the schema
// does not mention pass, and fields that are left out have their defaults. The formats
// email, uri, date and date-time are checked, unknown ones are not. The error names
// the field.
func CheckAnswer(schema, content json.RawMessage) error {
	if len(content) > MaxAnswerSize {
		return fmt.Errorf("the answer has %d bytes; %d are allowed", len(content), MaxAnswerSize)
	}
	answer, err := decodeObject(content)
	if err != nil {
		return fmt.Errorf("the answer %w", err)
	}
	if depthOf(answer) > MaxSchemaDepth {
		return fmt.Errorf("the answer is nested more than %d levels deep", MaxSchemaDepth)
	}
	s, err := answerSchemaOf(schema)
	if err != nil {
		return err
	}
	if fields := unasked(answer, s.rules); fields != nil {
		return fmt.Errorf("the answer has fields that were not asked for: %s", strings.Join(fields, ", "))
	}
	fillIn(answer, s.rules)
	problems := s.compiled.violations(answer)
	if problems == nil {
		return nil
	}
	properties, _ := s.rules["properties"].(map[string]any)
	for i, p := range problems {
		property, _ := properties[p.Parameter].(map[string]any)
		words, _ := property["patternDescription"].(string)
		if words != "" && strings.HasPrefix(p.Message, formWanted) {
			problems[i].Message = formWanted + shortened(words)
		}
	}
	return errors.New(problemText(problems))
}

// An answerSchema is the compiled schema of an elicitation.
type answerSchema struct {
	source   string
	rules    map[string]any
	compiled *JSONSchema
}

// lastAnswered is of the last answer: who gives one checks it, and then its run does.
var lastAnswered atomic.Pointer[answerSchema]

func answerSchemaOf(source json.RawMessage) (*answerSchema, error) {
	if last := lastAnswered.Load(); last != nil && last.source == string(source) {
		return last, nil
	}
	rules, err := decodeObject(source)
	if err != nil {
		return nil, fmt.Errorf("the schema of the elicitation %w", err)
	}
	compiled, err := compileSchema(rules, true)
	if err != nil {
		return nil, fmt.Errorf("the schema of the elicitation: %w", err)
	}
	s := &answerSchema{string(source), rules, compiled}
	lastAnswered.Store(s)
	return s, nil
}

// beyondProperties are keywords by which a schema has more fields than its properties.
var beyondProperties = []string{"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "if", "$ref"}

// unasked are the fields of an answer, shortened, that the form of its schema does not
// have: nobody has seen them on it. nil = none, or there is no form, or the schema says
// itself which more there may be.
func unasked(answer, rules map[string]any) (fields []string) {
	if slices.ContainsFunc(beyondProperties, func(word string) bool { return rules[word] != nil }) {
		return nil
	}
	properties, form := rules["properties"].(map[string]any)
	if !form {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(answer)) {
		if _, asked := properties[name]; !asked {
			fields = append(fields, strconv.Quote(shortened(name)))
		}
	}
	return fields[:min(len(fields), maxUnasked)]
}

// maxUnasked is how many fields that were not asked for are named.
const maxUnasked = 10

// WithDefaults gives the content of an answer with the defaults of optional fields that
// were left out: clients need not fill them in. Content that is no object is
// unchanged.
func WithDefaults(schema, content json.RawMessage) json.RawMessage {
	answer, err := decodeObject(content)
	rules, ruled := decodeObject(schema)
	if err != nil || ruled != nil || !fillIn(answer, rules) {
		return content
	}
	filled, err := template.EncodeValue(answer)
	if err != nil {
		return content // never: all of it was JSON
	}
	return filled
}

// fillIn adds the defaults of optional properties to an object, and reports whether it
// lacked any. Required ones must be entered.
func fillIn(object, schema map[string]any) (filled bool) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	//workflowcheck:ignore a map again
	for name, p := range properties {
		property, _ := p.(map[string]any)
		standard, hasDefault := property["default"]
		if _, given := object[name]; hasDefault && !given && !slices.Contains(required, any(name)) {
			object[name] = standard
			filled = true
		}
	}
	return filled
}

// depthOf counts the levels of objects and arrays in a value.
func depthOf(value any) int {
	deepest := 0
	switch value := value.(type) {
	case map[string]any:
		//workflowcheck:ignore the largest does not depend on the order
		for _, member := range value {
			deepest = max(deepest, depthOf(member))
		}
	case []any:
		for _, elem := range value {
			deepest = max(deepest, depthOf(elem))
		}
	default:
		return 0
	}
	return deepest + 1
}

// A lazySchema is the compiled schema of a definition's parameters, made when
// it is first needed.
type lazySchema struct {
	once   sync.Once
	schema *JSONSchema
	err    error
}

// of is the compiled schema of the parameters.
func (l *lazySchema) of(parameters map[string]any) (*JSONSchema, error) {
	if l == nil { // of a definition made in Go
		return compileSchema(parameters, false)
	}
	l.once.Do(func() { l.schema, l.err = compileSchema(parameters, false) })
	return l.schema, l.err
}

// schemaValue gives an exact value in the types of the validator.
func schemaValue(value any) any {
	switch value := value.(type) {
	case *big.Int:
		return json.Number(value.String())
	case template.Float:
		return json.Number(value.String())
	case []any:
		elems := make([]any, len(value))
		for i, elem := range value {
			elems[i] = schemaValue(elem)
		}
		return elems
	case map[string]any:
		members := make(map[string]any, len(value))
		//workflowcheck:ignore a map again
		for name, member := range value {
			members[name] = schemaValue(member)
		}
		return members
	default:
		return value
	}
}
