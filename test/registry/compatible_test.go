package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
)

// A definition with parameters and an output.
func interfaceOf(t *testing.T, parameters, output string) *definitions.Definition {
	t.Helper()
	text := fmt.Sprintf("name: a\ndescription: b\nparameters: %s\nsteps: [{id: s, tool: x}]\noutput: %s\n", parameters, output)
	defs, diags := definitions.Parse("a.yaml", []byte(text))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return defs[0]
}

// told writes changes, in parentheses those that break nobody.
func told(changes []registry.Change) string {
	var lines []string
	for _, c := range changes {
		if !c.Breaks {
			c.What = "(" + c.What + ")"
		}
		lines = append(lines, c.What)
	}
	return strings.Join(lines, "; ")
}

// many is one of so many objects, in the one or the other order.
func many(n, order int) string {
	alternatives := make([]string, n)
	for i := range n {
		alternatives[(i*order+n)%n] = fmt.Sprintf("{properties: {p: {const: c%d}}}", i)
	}
	return "{anyOf: [" + strings.Join(alternatives, ", ") + "]}"
}

func TestBreaksOfParameters(t *testing.T) {
	t.Parallel()
	one := func(schema string) string { return `{type: object, properties: {p: ` + schema + `}}` }
	for _, tt := range []struct{ was, now, want string }{
		{`{type: object}`, `{type: object}`, ``},
		{one(`{type: string}`), one(`{type: string, description: more}`), ``},
		{one(`{type: string}`), one(`{type: [string, integer]}`), ``},
		{one(`{type: integer}`), one(`{type: number}`), ``},
		{one(`{type: number}`), one(`{type: integer}`), `parameter p takes only integer, and took number`},
		{one(`{}`), one(`{type: string}`), `parameter p takes only string, and took any type`},
		{one(`{type: string}`), one(`{type: integer}`), `parameter p takes only integer, and took string`},
		{one(`{type: string}`), `{type: object, properties: {q: {type: string}}}`, `parameter p is gone`},
		{`{type: object, properties: {p: {}}}`, `{type: object, properties: {p: {}, q: {}}, required: [q]}`, `parameter q is required now`},
		{`{type: object, properties: {p: {}}}`, `{type: object, properties: {p: {default: 1}}, required: [p]}`, `(parameter p is 1 where it is left out, and was nothing)`},
		{`{type: object, properties: {p: {}}, required: [p]}`, `{type: object, properties: {p: {}}}`, ``},
		{`{type: object, properties: {p: {default: 1}}, required: [p]}`, `{type: object, properties: {p: {}}, required: [p]}`, `parameter p is required now`},
		{one(`{default: q}`), one(`{default: z}`), `(parameter p is "z" where it is left out, and was "q")`},
		{one(`{default: q}`), one(`{}`), `(parameter p is nothing where it is left out, and was "q")`},
		{one(`{}`), one(`{default: {a: 1}}`), `(parameter p is {"a":1} where it is left out, and was nothing)`},
		{`{p: string}`, `{p: string = z}`, ``},
		{`{p: string = z}`, `{p: string}`, `parameter p is required now`},
		{one(`{enum: [a, b]}`), one(`{enum: [b, c]}`), `parameter p no longer takes "a"`},
		{one(`{type: string}`), one(`{type: string, enum: [b]}`), `parameter p takes only "b"`},
		{one(`{enum: [a]}`), one(`{enum: [a, b]}`), ``},
		{one(`{const: a}`), one(`{enum: [a, b]}`), ``},
		{one(`{type: integer, minimum: 1}`), one(`{type: integer, minimum: 0}`), ``},
		{one(`{type: integer, minimum: 1}`), one(`{type: integer, minimum: 2}`), `parameter p has a minimum of 2, which was 1`},
		{one(`{type: string}`), one(`{type: string, maxLength: 5}`), `parameter p has a maxLength of 5`},
		{one(`{type: string, maxLength: 5}`), one(`{type: string, maxLength: 9}`), ``},
		{one(`{type: string, maxLength: 5}`), one(`{type: string, maxLength: 4}`), `parameter p has a maxLength of 4, which was 5`},
		{one(`{type: string}`), one(`{type: string, pattern: x}`), `parameter p has another pattern, and may take less`},
		{one(`{type: string, pattern: x}`), one(`{type: string}`), ``},
		{one(`{anyOf: [{type: string}]}`), one(`{anyOf: [{type: string}]}`), ``},
		{one(`{type: array, items: {type: string}}`), one(`{type: array, items: {type: integer}}`), `parameter p[] takes only integer, and took string`},
		{one(`{type: object, properties: {q: {type: string}}}`), one(`{type: object, properties: {q: {type: string}}, required: [q]}`), `parameter p.q is required now`},
		{one(`{type: object}`), one(`{type: object, additionalProperties: false}`), `parameter p takes no others than those that are named`},
		{one(`{type: object}`), one(`{type: object, additionalProperties: {type: string}}`), `parameter p.* takes only string, and took any type`},
		{one(`{type: object, additionalProperties: {type: integer}}`), one(`{type: object, additionalProperties: {type: number}}`), ``},
		{one(`{type: object, additionalProperties: false}`), one(`{type: object, additionalProperties: {type: string}}`), ``},
		{`{type: object, properties: {p: {type: string}}}`, `{type: object, properties: {p: {type: string}}, additionalProperties: {type: string}}`, `parameter * takes only string, and took any type`},
		{one(`{type: object, additionalProperties: {type: string}}`), one(`{type: object, properties: {q: {type: integer}}, additionalProperties: {type: string}}`), `parameter p.q takes only integer, and took string`},
		{one(`{type: object, additionalProperties: {type: string}}`), one(`{type: object, properties: {q: {type: string}}, additionalProperties: {type: string}}`), ``},
		{one(`{type: array, items: {type: string}}`), one(`{type: array, items: false}`), `parameter p[] is not taken any more`},
		{one(`{dependentRequired: {title: [q]}}`), one(`{dependentRequired: {title: [r]}}`), `parameter p has another dependentRequired, and may take less`},
		{one(`{dependencies: {default: [q]}}`), one(`{dependencies: {default: [r]}}`), `parameter p has another dependencies, and may take less`},
		{one(many(2000, 1)), one(many(2000, 1)), ``},
		{one(many(2000, 1)), one(many(2000, -1)), `parameter p has another anyOf, and may take less`}, // which are too many to be compared
		{one(many(20, 1)), one(many(20, -1)), ``},

		{one(`{type: string}`), one(`{anyOf: [{type: string}, {type: integer}]}`), ``},
		{one(`{anyOf: [{type: string}]}`), one(`{anyOf: [{type: string}, {type: integer}], description: more}`), ``},
		{one(`{anyOf: [{type: string}, {type: "null"}], default: null}`), one(`{anyOf: [{type: "null"}, {type: string, title: T}], default: null}`), ``},
		{one(`{anyOf: [{type: string}, {type: integer}]}`), one(`{type: [string, integer]}`), ``},
		{one(`{anyOf: [{type: string}, {type: integer}]}`), one(`{type: string}`), `parameter p does not take all any more that is {"type":"integer"}`},
		{one(`{anyOf: [{type: string}, {type: integer, minimum: 1}]}`), one(`{anyOf: [{type: string}, {type: integer, minimum: 2}]}`), `parameter p does not take all any more that is {"minimum":1,"type":"integer"}`},
		{one(`{type: string, anyOf: [{minLength: 1}]}`), one(`{type: string, anyOf: [{minLength: 1}, {pattern: x}]}`), `parameter p has another anyOf, and may take less`},
		{one(`{oneOf: [{type: string, title: A}]}`), one(`{oneOf: [{type: string, title: B}]}`), ``},
		{one(`{oneOf: [{type: string}]}`), one(`{oneOf: [{type: string}, {minLength: 2}]}`), `parameter p has another oneOf, and may take less`},

		{one(`{type: string}`), `{type: object, properties: {p: {$ref: "#/$defs/R"}}, $defs: {R: {type: string}}}`, ``},
		{`{type: object, properties: {p: {$ref: "#/$defs/R"}}, $defs: {R: {type: string}}}`, `{type: object, properties: {p: {$ref: "#/$defs/R", description: more}, q: {$ref: "#/$defs/Q"}}, $defs: {R: {type: string, description: more}, Q: {type: integer}}}`, ``},
		{`{type: object, properties: {p: {$ref: "#/$defs/R"}}, $defs: {R: {type: string}}}`, `{type: object, properties: {p: {$ref: "#/$defs/R"}}, $defs: {R: {type: integer}}}`, `parameter p takes only integer, and took string`},
		{`{type: object, properties: {p: {$ref: "#/$defs/T"}}, $defs: {T: {type: object, properties: {t: {$ref: "#/$defs/T"}}}}}`, `{type: object, properties: {p: {$ref: "#/$defs/T"}, q: {$ref: "#/$defs/Q"}}, $defs: {T: {type: object, description: more, properties: {t: {$ref: "#/$defs/T"}}}, Q: {type: string}}}`, ``},
		{`{type: object, properties: {p: {$ref: "#/$defs/T"}}, $defs: {T: {type: object, properties: {t: {$ref: "#/$defs/T"}}}}}`, `{type: object, properties: {p: {$ref: "#/$defs/T"}}, $defs: {T: {type: object, required: [t], properties: {t: {$ref: "#/$defs/T"}}}}}`, `parameters: has another $defs, and may take less; parameter p.t is required now`},
	} {
		output := `{properties: {o: {type: string, value: x}}}`
		got := told(registry.Changes(interfaceOf(t, tt.was, output), interfaceOf(t, tt.now, output), ""))
		if got != tt.want {
			t.Errorf("from %s\nto   %s\nbreaks %q, want %q", tt.was, tt.now, got, tt.want)
		}
	}
}

func TestBreaksOfOutputs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ was, now, want string }{
		{`{properties: {o: {type: string, value: x}}}`, `{properties: {o: {type: string, value: y}, p: {type: string, value: x}}}`, ``},
		{`{properties: {o: {type: string, value: x}}}`, `{properties: {p: {type: string, value: x}}}`, `output o is gone`},
		{`{properties: {o: {type: string, value: x}}}`, `{properties: {o: {type: integer, value: "1"}}}`, `output o may now be integer, and was string`},
		{`{properties: {o: {type: number, value: "1"}}}`, `{properties: {o: {type: integer, value: "1"}}}`, ``},
		{`{properties: {o: {type: string, value: x}}, required: [o]}`, `{properties: {o: {type: string, value: x}}}`, `output o may be missing now`},
		{`{properties: {o: {type: string, value: x}}, required: [o]}`, `{properties: {p: {type: string, value: x}}}`, `output o is gone`},
		{`{properties: {o: {type: object, properties: {q: {type: string, value: x}}}}}`, `{properties: {o: {type: object, properties: {r: {type: string, value: x}}}}}`, `output o.q is gone`},
		{`{properties: {o: {type: string, value: x}}}`, `null`, `output: is not described any more`},
		{`null`, `{properties: {o: {type: string, value: x}}}`, ``},
	} {
		got := told(registry.Changes(interfaceOf(t, `{type: object}`, tt.was), interfaceOf(t, `{type: object}`, tt.now), ""))
		if got != tt.want {
			t.Errorf("from %s\nto   %s\nbreaks %q, want %q", tt.was, tt.now, got, tt.want)
		}
	}
}

// A version that is taken away from who calls the one before breaks them, whatever
// its parameters are.
func TestBreaksOfExposure(t *testing.T) {
	t.Parallel()
	exposed := func(more string) *definitions.Definition {
		defs, diags := definitions.Parse("a.yaml", []byte("name: a\ndescription: b\nsteps: [{id: s, tool: x}]\n"+more))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return defs[0]
	}
	for _, tt := range []struct{ was, now, prefix, want string }{
		{``, `expose: {hidden: true, callers: [other]}`, ``, `clients do not see it any more, since it is hidden`},
		{`expose: {hidden: true, callers: [other]}`, ``, ``, ``},
		{`expose: {hidden: true, callers: [other]}`, `expose: {groups: [ops]}`, ``, ``},
		{``, `expose: {as: b}`, ``, `clients see it as b, and saw it as a`},
		{`expose: {as: b}`, ``, `wf_`, `clients see it as wf_a, and saw it as b`},
		{`expose: {as: wf_a}`, ``, `wf_`, ``},
		{``, `expose: {as: a}`, `wf_`, `clients see it as a, and saw it as wf_a`},
		{``, `expose: {groups: [ops], subjects: [ada]}`, ``, `it is not offered any more to callers other than members of ops and ada`},
		{``, `expose: {groups: ["*"]}`, ``, ``},
		{`expose: {groups: [ops]}`, ``, ``, ``},
		{`expose: {groups: [ops]}`, `expose: {groups: [ops, dev]}`, ``, ``},
		{`expose: {groups: [ops, dev]}`, `expose: {groups: [ops]}`, ``, `it is not offered any more to members of dev`},
		{`expose: {subjects: [ada]}`, `expose: {groups: [ops]}`, ``, `it is not offered any more to ada`},
		{`runAs: composite`, ``, ``, `(it calls tools in the right of its callers, and did in its own: they need to be allowed to call them)`},
		{``, `runAs: composite`, ``, ``},
	} {
		if got := told(registry.Changes(exposed(tt.was), exposed(tt.now), tt.prefix)); got != tt.want {
			t.Errorf("from %q to %q with prefix %q: %q, want %q", tt.was, tt.now, tt.prefix, got, tt.want)
		}
	}
}
