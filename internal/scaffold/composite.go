package scaffold

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
)

// CompositeName is the name of the first composite tool.
const CompositeName = "first_look"

// A Composite is a first composite tool and its test.
type Composite struct {
	Tools      []string // that it calls
	Changing   []string // of these, those that may change something
	Required   []string // its parameters without a default
	Definition string   // YAML
	Test       string   // YAML
}

// Compose makes a composite tool that calls two tools, of two backends where it can:
// those that only read and take the fewest arguments. nil = there is no tool.
func Compose(tools []backends.Tool, effects []Proposal) *Composite {
	c := &composer{classes: map[string]Proposal{}}
	for _, p := range effects {
		c.classes[p.Backend+" "+p.Tool] = p
	}
	c.choose(tools)
	if len(c.calls) == 0 {
		return nil
	}
	c.parameters()
	out := &Composite{Definition: c.definition(), Test: c.test()}
	for _, call := range c.calls {
		out.Tools = append(out.Tools, call.tool.Name)
		if c.classes[call.tool.Backend+" "+call.tool.Original].Class != definitions.Read {
			out.Changing = append(out.Changing, call.tool.Name)
		}
	}
	for _, p := range c.params {
		if p.standard == nil {
			out.Required = append(out.Required, p.name)
		}
	}
	return out
}

type composer struct {
	classes map[string]Proposal
	calls   []*call
	params  []parameter
}

// A call is a step of the composite tool.
type call struct {
	id        string
	tool      backends.Tool
	schema    schema
	arguments []argument
}

// An argument of a call, and the parameter that it is given.
type argument struct{ name, param string }

// A parameter of the composite tool.
type parameter struct {
	name     string
	schema   schema
	standard any // its default; nil = none
}

// A schema is the part of a JSON Schema that matters here.
type schema struct {
	Type        any               `json:"type"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Default     any               `json:"default"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
}

func schemaOf(raw json.RawMessage) (s schema) {
	_ = json.Unmarshal(raw, &s) // one that is not understood has no arguments
	return s
}

// typeOf is the first type that is not null; "" = any.
func (s schema) typeOf() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	return ""
}

// isScalar reports whether a person can write a value on a command line.
func (s schema) isScalar() bool {
	return len(s.Enum) > 0 || slices.Contains([]string{"string", "number", "integer", "boolean"}, s.typeOf())
}

// failing is in values and names of tools that ask for something that reads like a failure.
var failing = regexp.MustCompile(`(?i)err|fail|fatal|critical|warn|invalid|none|delete`)

// choice is the first value of an enumeration that does not ask for a failure.
func (s schema) choice() any {
	i := slices.IndexFunc(s.Enum, func(value any) bool { return !failing.MatchString(fmt.Sprint(value)) })
	return s.Enum[max(i, 0)]
}

// choose takes the tools that are called.
func (c *composer) choose(tools []backends.Tool) {
	tools = slices.Clone(tools)
	slices.SortStableFunc(tools, func(a, b backends.Tool) int { return cmp.Compare(c.cost(a), c.cost(b)) })
	for _, distinct := range []bool{true, false} {
		for _, t := range tools {
			taken := slices.ContainsFunc(c.calls, func(other *call) bool {
				return other.tool.Name == t.Name || distinct && other.tool.Backend == t.Backend
			})
			worse := len(c.calls) == 1 && distinct && c.cost(t)/classCost > c.cost(c.calls[0].tool)/classCost
			if len(c.calls) < 2 && !taken && !worse {
				c.calls = append(c.calls, &call{tool: t, schema: schemaOf(t.InputSchema)})
			}
		}
	}
	for _, call := range c.calls {
		call.id = identifier(call.tool.Backend)
		if len(c.calls) == 2 && c.calls[0].tool.Backend == c.calls[1].tool.Backend {
			call.id = identifier(call.tool.Original)
		}
	}
	if len(c.calls) == 2 && c.calls[0].id == c.calls[1].id {
		c.calls[1].id += "_too"
	}
}

// classCost is what a step to the next effect class costs, more than all else.
const classCost = 1000

var uninviting = regexp.MustCompile(`(?i)env|secret|token|password|image|resource|long.?running|sleep|wait|roots|sampl|elicit|simulat`)

// cost says how little a tool is suited to be called first: by its class, by the
// arguments that somebody must think of, and by what its answer is like.
func (c *composer) cost(t backends.Tool) int {
	s := schemaOf(t.InputSchema)
	cost := rank(c.classes[t.Backend+" "+t.Original].Class) * classCost
	for _, name := range s.Required {
		switch p := s.Properties[name]; {
		case len(p.Enum) > 0:
			cost++
		case p.isScalar():
			cost += 4
		default:
			cost += 100
		}
	}
	if uninviting.MatchString(t.Original) || failing.MatchString(t.Original) {
		cost += 50
	}
	return cost
}

// parameters gives the composite tool a parameter for each argument that a tool
// requires.
func (c *composer) parameters() {
	for _, call := range c.calls {
		for _, name := range call.schema.Required {
			of := call.schema.Properties[name]
			if slices.ContainsFunc(call.arguments, func(a argument) bool { return a.name == name }) {
				continue
			}
			param := identifier(name)
			for slices.ContainsFunc(c.params, func(p parameter) bool { return p.name == param }) {
				param = call.id + "_" + param
			}
			p := parameter{name: param, schema: of, standard: of.Default}
			if p.standard == nil && len(of.Enum) > 0 {
				p.standard = of.choice()
			}
			if !of.isScalar() {
				p.standard = nil
			}
			c.params = append(c.params, p)
			call.arguments = append(call.arguments, argument{name, param})
		}
	}
}

func (c *composer) definition() string {
	var b strings.Builder
	b.WriteString(editorLine("../" + DefinitionSchema))
	b.WriteString("# A first composite tool. Clients call it by its name; it calls the tools below, in\n")
	b.WriteString("# parallel, because neither step depends on the other, and returns one result.\n")
	fmt.Fprintf(&b, "name: %s\ndescription: %s\n", CompositeName, quoted("Returns what "+c.names()+" give."))
	c.writeParameters(&b)
	b.WriteString("steps:\n")
	for _, call := range c.calls {
		p := c.classes[call.tool.Backend+" "+call.tool.Original]
		fmt.Fprintf(&b, "  - id: %s\n    tool: %s    # effect class %s\n", call.id, quoted(call.tool.Name), cmp.Or(p.Class, definitions.Unsafe))
		for i, a := range call.arguments {
			if i == 0 {
				b.WriteString("    arguments:\n")
			}
			fmt.Fprintf(&b, "      %s: \"{{%s}}\"\n", quoted(a.name), ".params."+a.param)
		}
		b.WriteString("    timeout: 1m\n")
	}
	b.WriteString("    # dependsOn: [STEP]            # waits for a step, and may read its output\n")
	b.WriteString("    # onError: {action: retry, retryCount: 2, retryDelay: 5s}\n")
	b.WriteString("output:\n  properties:\n")
	for _, call := range c.calls {
		fmt.Fprintf(&b, "    %s:\n      type: object\n      description: %s\n      value: \"{{json .steps.%s.output}}\"\n",
			call.id, quoted("What "+call.tool.Name+" returned."), call.id)
	}
	return b.String()
}

func (c *composer) names() string {
	var names []string
	for _, call := range c.calls {
		names = append(names, call.tool.Name)
	}
	return strings.Join(names, " and ")
}

func (c *composer) writeParameters(b *strings.Builder) {
	if len(c.params) == 0 {
		return
	}
	var required []string
	b.WriteString("parameters:\n  type: object\n  properties:\n")
	for _, p := range c.params {
		facts := []string{}
		if t := p.schema.typeOf(); t != "" {
			facts = append(facts, "type: "+quoted(t))
		}
		if text := strings.Join(strings.Fields(p.schema.Description), " "); text != "" {
			facts = append(facts, "description: "+quoted(clipped(text)))
		}
		if len(p.schema.Enum) > 0 {
			facts = append(facts, "enum: "+inline(p.schema.Enum))
		}
		if p.standard != nil {
			facts = append(facts, "default: "+inline(p.standard))
		} else {
			required = append(required, p.name)
		}
		fmt.Fprintf(b, "    %s: {%s}\n", quoted(p.name), strings.Join(facts, ", "))
	}
	if len(required) > 0 {
		fmt.Fprintf(b, "  required: %s\n", list(required))
	}
}

func (c *composer) test() string {
	arguments, result := map[string]any{}, map[string]any{}
	for _, p := range c.params {
		arguments[p.name] = example(p.schema, p.name)
	}
	var tools, calls strings.Builder
	for i, call := range c.calls {
		answer := any(map[string]any{"text": "an example"})
		if of := schemaOf(call.tool.OutputSchema); of.typeOf() == "object" {
			answer = example(of, "example")
			fmt.Fprintf(&tools, "      %s: {structured: %s}\n", quoted(call.tool.Name), inline(answer))
		} else {
			fmt.Fprintf(&tools, "      %s: {text: an example}\n", quoted(call.tool.Name))
		}
		result[call.id] = answer
		fmt.Fprintf(&calls, "%s%s: 1", map[bool]string{true: ", "}[i > 0], quoted(call.tool.Name))
	}
	first := c.calls[0]
	return fmt.Sprintf(`# Tests of %[1]s: perdure test %[2]s. Tools answer what is written here; no server
# is called, and time passes at once.
definition: ./%[1]s.yaml
cases:
  - name: returns what the tools give
    arguments: %[3]s
    tools:
%[4]s    expect:
      result: %[5]s
      calls: {%[6]s}

  - name: fails when a tool does
    arguments: %[3]s
    default: echo
    tools:
      %[7]s: {error: not found}
    expect:
      error: {step: %[8]s, message: not found}
`, CompositeName, ToolsDir, inline(arguments), tools.String(), inline(result), calls.String(), quoted(first.tool.Name), first.id)
}

// example is a value that fits a schema, as far as that is simple.
func example(s schema, name string) any {
	if len(s.Enum) > 0 {
		return s.choice()
	}
	switch s.typeOf() {
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []any{}
	case "object":
		members := map[string]any{}
		for _, required := range s.Required {
			if _, ok := members[required]; !ok { // else a name that comes twice at each level takes for ever
				members[required] = example(s.Properties[required], required)
			}
		}
		return members
	}
	return "example " + name
}

// inline is a value as JSON, which YAML reads.
func inline(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = append(members, quoted(name)+": "+inline(v[name]))
		}
		return "{" + strings.Join(members, ", ") + "}"
	case []any:
		var elems []string
		for _, elem := range v {
			elems = append(elems, inline(elem))
		}
		return "[" + strings.Join(elems, ", ") + "]"
	case string:
		return quoted(v)
	}
	encoded, _ := json.Marshal(value) // a number, a boolean or null
	return string(encoded)
}

// clipped shortens a description.
func clipped(text string) string {
	if letters := []rune(text); len(letters) > 120 {
		return string(letters[:119]) + "…"
	}
	return text
}

var notInIdentifiers = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// identifier makes a name that templates read without index.
func identifier(name string) string {
	name = strings.Trim(notInIdentifiers.ReplaceAllString(name, "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "the_" + name
	}
	return name
}
