package definitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"github.com/perdure/perdure/definitions/template"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schemas from outside. A schema of a few lines can make a validation take hours:
// references that double at each level of a value, patterns for each of many texts, a
// failure for each of many items. The validator has no limits, so each compiled schema
// has a meter that stops it.
const (
	// MaxSchemaParts bounds the objects that a schema consists of, and
	// MaxSchemaLevels how deep they are: compiling takes the square of either.
	MaxSchemaParts  = 10_000
	MaxSchemaLevels = 200
	// MaxSchemaPatterns bounds the steps of all patterns of a schema together; see
	// template.MaxPatternSize.
	MaxSchemaPatterns = 40_000
	// MaxValidation bounds the check whether a value fits, in bytes: applying a part of
	// a schema to a value costs visitPrice, for the time (0.3 µs) and for the error that
	// the validator keeps.
	MaxValidation = 256 << 20
	visitPrice    = 100
	// maxProblems bounds in the same way the search for where a value does not fit. Each
	// error keeps its path, so a visit costs more the deeper the value is.
	maxProblems   = 4 << 20
	levelsPerPath = 16
	// letterPrice is the price of a letter for one instruction of a pattern.
	letterPrice = 4
	// comparePrice is the price of comparing a value with one that the schema lists. It
	// is for numbers, which the validator parses each time.
	comparePrice = 20
	// namePrice is the price of a required name.
	namePrice = 40
	// readBytes of a text are read, and compareBytes of two texts compared, for one byte.
	readBytes    = 4
	compareBytes = 32
	// scopePrice is the price of a level of the value for a dynamic reference.
	scopePrice = 40
)

// errTooMuchValidation is the error of a validation that a meter has stopped.
var errTooMuchValidation = errors.New("checking it against its JSON Schema takes too much work (limit MaxValidation)")

// A JSONSchema is a compiled JSON Schema from outside, which takes bounded time and
// memory for any value.
type JSONSchema struct {
	compiled *jsonschema.Schema
	negated  *jsonschema.Schema // {"not": compiled}, for which the validator keeps no details
	meter    *meter
}

// CompileSchema compiles a JSON Schema. References must be within the schema.
func CompileSchema(schema json.RawMessage) (*JSONSchema, error) {
	value, err := template.DecodeValue(schema)
	if err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	return compileSchema(value, false)
}

// compileSchema compiles a JSON Schema of exact values.
func compileSchema(schema any, assertFormat bool) (*JSONSchema, error) {
	if err := measured(schema); err != nil {
		return nil, err
	}
	const name, negation = "schema:///", "schema:///not" // no files, which a message would name
	m := &meter{left: MaxSchemaPatterns}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(m.compile)
	if assertFormat {
		compiler.AssertFormat()
	}
	resources := map[string]any{name: schemaValue(schema), negation: map[string]any{"not": map[string]any{"$ref": name}}}
	for _, url := range []string{name, negation} {
		if err := compiler.AddResource(url, resources[url]); err != nil {
			return nil, fmt.Errorf("not a JSON Schema: %w", err)
		}
	}
	compiled, err := compiler.Compile(name)
	var invalid *jsonschema.SchemaValidationError
	var violation *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &violation) {
		return nil, &schemaError{problemsOf(violation)}
	}
	if err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	negated, err := compiler.Compile(negation)
	if err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	m.install(negated)
	return &JSONSchema{compiled, negated, m}, nil
}

// measured refuses a schema whose compilation would take seconds.
func measured(schema any) error {
	if depth := depthOf(schema); depth > MaxSchemaLevels {
		return fmt.Errorf("the JSON Schema is nested %d levels deep; %d are allowed (limit MaxSchemaLevels)", depth, MaxSchemaLevels)
	}
	if parts := countObjects(schema); parts > MaxSchemaParts {
		return fmt.Errorf("the JSON Schema has %d objects; %d are allowed (limit MaxSchemaParts)", parts, MaxSchemaParts)
	}
	return nil
}

func countObjects(v any) int {
	n := 0
	switch v := v.(type) {
	case []any:
		for _, elem := range v {
			n += countObjects(elem)
		}
	case map[string]any:
		n = 1
		//workflowcheck:ignore a sum
		for _, member := range v {
			n += countObjects(member)
		}
	}
	return n
}

// A schemaError says where a schema is not a JSON Schema.
type schemaError struct {
	problems []ArgumentProblem
}

func (e *schemaError) Error() string { return "not a JSON Schema: " + problemText(e.problems) }

// noLoader keeps schemas from reading files or the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references outside of the schema are not followed")
}

// Accepts reports whether a JSON value fits the schema.
func (s *JSONSchema) Accepts(value json.RawMessage) bool {
	v, err := template.DecodeValue(value)
	return err == nil && s.violations(v) == nil
}

// violations gives the problems of a value, sorted; nil = it fits.
func (s *JSONSchema) violations(value any) []ArgumentProblem {
	value = schemaValue(value)
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.meter.depth = depthOf(value)
	switch err := s.meter.run(s.negated, value, MaxValidation, visitPrice); {
	case err == errTooMuchValidation:
		return []ArgumentProblem{{Message: err.Error()}}
	case err != nil: // it does not fit {"not": …}, so it fits
		return nil
	}
	err := s.meter.run(s.compiled, value, maxProblems, visitPrice*(1+s.meter.depth/levelsPerPath))
	var violation *jsonschema.ValidationError
	if errors.As(err, &violation) {
		return problemsOf(violation)
	}
	return []ArgumentProblem{{Message: "does not fit its JSON Schema, and is too large to say where"}}
}

// A meter counts the cost of a validation. The validator has no hook for it, so it is
// called through the format of each part of a schema, and its patterns. Validations
// with one schema run one after the other, since they share the meter; a usual one
// takes microseconds.
type meter struct {
	mu    sync.Mutex
	left  int // bytes; while the schema is compiled, steps of patterns
	visit int // price of applying a part of the schema to a value
	depth int // of the value
}

// run validates a value, for a price.
func (m *meter) run(schema *jsonschema.Schema, value any, budget, visit int) (err error) {
	m.left, m.visit = budget, visit
	defer func() {
		if r := recover(); r != nil {
			if r != errTooMuchValidation {
				panic(r)
			}
			err = errTooMuchValidation
		}
	}()
	return schema.Validate(value)
}

// spend stops the validation when its budget is used up.
func (m *meter) spend(price int) {
	if m.left -= price; m.left < 0 {
		panic(errTooMuchValidation)
	}
}

// compile is the validator's engine for regular expressions. It also compiles
// texts that a schema wants to be patterns.
func (m *meter) compile(text string) (jsonschema.Regexp, error) {
	re, steps, err := template.CompileCharged(text, func(steps int) error {
		if m.left -= steps; m.left < 0 {
			return fmt.Errorf("the patterns of the JSON Schema are too large together: with their repetitions written out they have more than %d parts (limit MaxSchemaPatterns)", MaxSchemaPatterns)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &meteredPattern{re, steps, m}, nil
}

// A meteredPattern charges for what a search reads.
type meteredPattern struct {
	jsonschema.Regexp
	steps int
	meter *meter
}

// MatchString reports whether s contains a match.
func (p *meteredPattern) MatchString(s string) bool {
	p.meter.spend(p.meter.visit + p.steps*len(s)*letterPrice)
	return p.Regexp.MatchString(s)
}
