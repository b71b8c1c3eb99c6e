package definitions

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/perdure/perdure/definitions/template"
)

func problemsOf(e *jsonschema.ValidationError) []ArgumentProblem {
	var problems []ArgumentProblem
	collectProblems(e, &problems)
	slices.SortFunc(problems, func(a, b ArgumentProblem) int {
		return strings.Compare(a.Parameter+"\x00"+a.Message, b.Parameter+"\x00"+b.Message)
	})
	return slices.Compact(problems)
}

// numbered writes a number and what it counts.
func numbered(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// formWanted begins the problem of a value that does not match a pattern.
const formWanted = "must have the form: "

// maxCollected bounds the reported problems of one value.
const maxCollected = 1000

func collectProblems(e *jsonschema.ValidationError, problems *[]ArgumentProblem) {
	if len(*problems) >= maxCollected {
		return
	}
	at := instancePath(e.InstanceLocation)
	add := func(parameter, message string) {
		if len(*problems) < maxCollected {
			*problems = append(*problems, ArgumentProblem{shortened(parameter), shortened(message)})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(template.AtMember(at, name), "is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add(template.AtMember(at, name), "is not a known name")
		}
	case *kind.Type:
		add(at, fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got))
	case *kind.Enum:
		add(at, "must be one of "+valueList(k.Want))
	case *kind.Const:
		add(at, "must be "+valueList([]any{k.Want}))
	case *kind.Minimum:
		add(at, "must be at least "+numberText(k.Want))
	case *kind.Maximum:
		add(at, "must be at most "+numberText(k.Want))
	case *kind.ExclusiveMinimum:
		add(at, "must be more than "+numberText(k.Want))
	case *kind.ExclusiveMaximum:
		add(at, "must be less than "+numberText(k.Want))
	case *kind.MultipleOf:
		add(at, "must be a multiple of "+numberText(k.Want))
	case *kind.MinLength:
		add(at, "must have at least "+numbered(k.Want, "character"))
	case *kind.MaxLength:
		add(at, "must have at most "+numbered(k.Want, "character"))
	case *kind.MinItems:
		add(at, "must have at least "+numbered(k.Want, "element"))
	case *kind.MaxItems:
		add(at, "must have at most "+numbered(k.Want, "element"))
	case *kind.UniqueItems:
		add(at, "must not have the same twice")
	case *kind.Pattern:
		add(at, formWanted+k.Want)
	case *kind.Format:
		message := "is not a valid " + k.Want
		if k.Want == "regex" && k.Err != nil { // it has the place; for a date or an address it adds nothing
			message += ": " + k.Err.Error()
		}
		add(at, message)
	case *kind.AnyOf, *kind.OneOf:
		add(at, alternatives(at, e.Causes))
	default:
		for _, cause := range e.Causes {
			collectProblems(cause, problems)
		}
		if len(e.Causes) == 0 {
			add(at, "is not valid: "+e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
		}
	}
}

// numberText writes a number of a schema in full.
func numberText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return template.Float(f).String()
}

// alternatives says why each alternative of a schema does not fit the value at a path.
func alternatives(at string, causes []*jsonschema.ValidationError) string {
	var reasons []string
	for _, cause := range causes {
		reasons = append(reasons, strings.TrimPrefix(problemText(problemsOf(cause)), at+" "))
	}
	slices.Sort(reasons)
	if reasons = slices.Compact(reasons); len(reasons) == 0 {
		return "fits more than one of the alternatives"
	}
	return strings.Join(reasons, ", or ")
}

// valueList writes the values of an enum.
func valueList(values []any) string {
	texts := make([]string, len(values))
	for i, value := range values {
		if encoded, err := template.EncodeValue(value); err == nil {
			texts[i] = string(encoded)
		}
	}
	return strings.Join(texts, ", ")
}

// instancePath writes the location of a value as opts.ids[2].
func instancePath(location []string) string {
	path := ""
	for _, name := range location {
		if name != "" && strings.Trim(name, "0123456789") == "" {
			path += "[" + name + "]"
			continue
		}
		path = template.AtMember(path, name)
	}
	return path
}
