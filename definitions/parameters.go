package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// Parameters have two written forms: the JSON Schema of an object, and a light
// form, a mapping of each parameter to its type. Both become the same schema,
// when the definition is read, so nothing after that knows the light one.
//
//	name: string              required
//	count: integer = 10       with a default
//	tags: "[string]?"         an array, and optional
//	mode: {type: string, enum: [fast, slow]}   JSON Schema; required unless it has a default

// lightType is a type of the light form: the type, whether it is optional, and
// its default.
var lightType = regexp.MustCompile(`^\s*(\[\s*[a-z]+\s*\]|[a-z]+)\s*(\?)?\s*(?:=\s*(.*?))?\s*$`)

// foreignArray and arrayOf are arrays in the syntax of other languages, optionalItem one
// with the ? inside.
var (
	arrayOf      = regexp.MustCompile(`^\s*(?i:list|array|seq|sequence)\s*(?:\[|<|\(|of\s)\s*([A-Za-z]+)\s*[\]>)]?\s*(\?)?\s*()(?:=.*)?$`)
	foreignArray = regexp.MustCompile(`^\s*([a-z]+)\s*(\?)?\s*\[\s*\]\s*(\?)?\s*(?:=.*)?$`)
	optionalItem = regexp.MustCompile(`^\s*\[\s*([a-z]+)\s*\?\s*\]\s*\??\s*(?:=.*)?$`)
)

// lightTypes are the types that the light form knows.
var lightTypes = []string{"string", "integer", "number", "boolean", "object", "array", "any"}

// isLight reports whether parameters are in the light form: they are no schema, which
// has a type or properties, and each has a type.
func isLight(parameters map[string]any) bool {
	if parameters["type"] == "object" || len(parameters) == 0 {
		return false
	}
	if _, schema := parameters["properties"].(map[string]any); schema {
		return false
	}
	if _, only := parameters["type"].(string); only && len(parameters) == 1 {
		return false
	}
	return true
}

// lightParameters makes the schema of parameters in the light form. It reports mistakes
// by the name of the parameter.
func lightParameters(parameters map[string]any, wrong func(name string, err error)) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, name := range template.SortedKeys(parameters) {
		property, needed, err := lightParameter(parameters[name])
		if err != nil {
			wrong(name, err)
		}
		properties[name] = property
		if needed {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// lightParameter makes the schema of one parameter, and reports whether it is
// required.
func lightParameter(written any) (schema map[string]any, required bool, err error) {
	switch written := written.(type) {
	case map[string]any: // JSON Schema as it is
		_, standard := written["default"]
		return written, !standard, nil
	case []any: // [string], which YAML reads as a list
		if len(written) == 1 {
			if typ, ok := written[0].(string); ok {
				return lightParameter("[" + typ + "]")
			}
		}
	case string:
		if m := lightType.FindStringSubmatch(written); m != nil {
			return lightText(m[1], m[2] != "", m[3], strings.Contains(written, "="))
		}
		for _, syntax := range []*regexp.Regexp{foreignArray, arrayOf} {
			if m := syntax.FindStringSubmatch(written); m != nil {
				item := cmp.Or(otherTypes[strings.ToLower(m[1])], m[1])
				return map[string]any{}, false, fmt.Errorf("is %s; an array of %s is written %q", template.Excerpt(written), item, "["+item+"]"+cmp.Or(m[2], m[3]))
			}
		}
		if m := optionalItem.FindStringSubmatch(written); m != nil {
			return map[string]any{}, false, fmt.Errorf("is %s; an array that may be left out is written %q, and no item is optional", template.Excerpt(written), "["+m[1]+"]?")
		}
	}
	return map[string]any{}, false, fmt.Errorf("must be a type such as string, integer = 10 or \"[string]?\", or a JSON Schema, not %s", template.Describe(written))
}

func lightText(typ string, optional bool, standard string, hasStandard bool) (map[string]any, bool, error) {
	items, isArray := strings.CutPrefix(typ, "[")
	name := strings.TrimSpace(strings.TrimSuffix(items, "]"))
	if !slices.Contains(lightTypes, name) {
		return map[string]any{}, false, fmt.Errorf("type %q is not known%s; known types: %s, and [TYPE] for an array of them", name, cmp.Or(meantType(name), meantSchema(name), template.DidYouMean(name, lightTypes)), enumerate(lightTypes))
	}
	schema := map[string]any{}
	if name != "any" {
		schema["type"] = name
	}
	if isArray {
		schema = map[string]any{"type": "array", "items": schema}
	}
	if !hasStandard {
		return schema, !optional, nil
	}
	value, err := lightDefault(schema, standard)
	if err != nil {
		return schema, false, err
	}
	schema["default"] = value
	return schema, false, nil
}

// lightDefault reads a default: JSON, or unquoted text for a string.
func lightDefault(schema map[string]any, text string) (any, error) {
	want, _ := schema["type"].(string)
	value, err := template.DecodeValue([]byte(text))
	switch {
	case text == "":
		return nil, errors.New("has an = and no default after it")
	case want == "string" && isMisquoted(text, err):
		return nil, fmt.Errorf("has the default %s, whose quotes are not those of a JSON string: write string = \"text\", or leave them out", text)
	case want == "string" && (err != nil || !template.IsKind(value, "string")):
		return text, nil
	case err != nil:
		return nil, fmt.Errorf("has the default %s, which is not JSON", template.Excerpt(text))
	case want != "" && !template.IsKind(value, want):
		return nil, fmt.Errorf("has the default %s, which is %s and not %s", template.Excerpt(text), template.Describe(value), want)
	}
	return value, nil
}

// isMisquoted reports whether the text for a string has quotes that would become a part
// of it: it begins as a JSON string but is none, or has single quotes.
func isMisquoted(text string, notJSON error) bool {
	return notJSON != nil && (strings.HasPrefix(text, `"`) || len(text) > 1 && strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'"))
}

// lighten replaces parameters in the light form by their schema, and keeps positions.
func (p *parser) lighten(def *Definition, d *decoder) {
	if !isLight(def.Parameters) {
		return
	}
	for name := range def.Parameters {
		for path, spot := range d.places {
			if rest, ok := strings.CutPrefix(path, "parameters."+name); ok && (rest == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "[")) {
				d.places["parameters.properties."+name+rest] = spot
			}
		}
	}
	def.Parameters = lightParameters(def.Parameters, func(name string, err error) {
		path := "parameters." + name
		p.errorf(d.position(path, def.Pos), "parameters", "%s %v", path, err)
		d.faulty[path], d.faulty["parameters.properties."+name] = true, true
	})
}

// requiredFlags moves required: true or false of a property, which no schema has, into
// the list required of its object, at every depth.
func (p *parser) requiredFlags(schema map[string]any, path string, def *Definition, d *decoder) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range template.SortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		at := template.AtMember(path+".properties", name)
		if needed, flag := property["required"].(bool); flag {
			delete(property, "required")
			schema["required"] = withMember(schema["required"], name, needed)
			advice := "leave it out"
			if needed {
				advice = "write required: [" + name + "] beside properties"
			}
			p.warnf(d.position(at, def.Pos), "required-flag", "%s: required is a list of the object's, in a schema: %s", at, advice)
		}
		p.requiredFlags(property, at, def, d)
	}
}

// withMember is a list with a member, or without it; any other value is unchanged.
func withMember(list any, member string, with bool) any {
	if list == nil {
		list = []any{}
	}
	members, ok := list.([]any)
	if !ok {
		return list
	}
	members = slices.DeleteFunc(slices.Clone(members), func(m any) bool { return m == member })
	if with {
		members = append(members, member)
	}
	return members
}

// optionalArray is a type that is no valid YAML: an optional array.
var optionalArray = regexp.MustCompile(`^(\s*["']?[\w-]+["']?:\s+)(\[\s*[a-z]+\s*\]\?)(\s*(?:#.*)?)$`)

// quoteArrays puts types such as [string]? into quotes, so that they are valid YAML;
// nil = there are none. Line numbers stay the same.
func quoteArrays(data []byte) []byte {
	if !strings.Contains(string(data), "]?") {
		return nil
	}
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		lines[i] = optionalArray.ReplaceAllString(strings.TrimSuffix(line, "\r"), "$1'$2'$3")
	}
	return []byte(strings.Join(lines, "\n"))
}

// otherTypes are what types are called elsewhere.
var otherTypes = map[string]string{
	"str": "string", "text": "string", "int": "integer", "int64": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number",
	"bool": "boolean", "list": "array", "tuple": "array", "dict": "object", "map": "object", "struct": "object", "json": "object",
}

// meantSchema says which JSON Schema is meant by a type, as words that follow a message;
// "" = not known.
func meantSchema(name string) string {
	switch plain := PlainKey(name); plain {
	case "date", "email", "uri", "uuid", "time":
		return ": write {type: string, format: " + plain + "}"
	case "datetime", "timestamp":
		return ": write {type: string, format: date-time}"
	case "url":
		return ": write {type: string, format: uri}"
	case "enum", "choice":
		return ": write {type: string, enum: […]}"
	}
	return ""
}

// meantType says which type is meant, as words that follow a message; "" = not known.
func meantType(name string) string {
	if meant := otherTypes[strings.ToLower(name)]; meant != "" {
		return ": write " + meant
	}
	return ""
}
