package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A schema has the keywords of a field's JSON Schema that a form needs.
type schema struct {
	Title, Description string
	Type               any // a string, where the language takes the schema
	Format             string
	Pattern            string
	PatternDescription string // the pattern in words
	Enum               []json.RawMessage
	EnumNames          []string
	OneOf, AnyOf       []struct {
		Const json.RawMessage
		Title string
	}
	Items                              *schema
	Default                            json.RawMessage
	Minimum, Maximum, MultipleOf       json.Number
	ExclusiveMinimum, ExclusiveMaximum json.RawMessage
	MinLength, MaxLength               json.Number
	MinItems, MaxItems                 json.Number
}

// choices are the values that a field may take; nil = any of its type.
func (s *schema) choices() []Choice {
	var choices []Choice
	for i, value := range s.Enum {
		title := ""
		if i < len(s.EnumNames) {
			title = s.EnumNames[i]
		}
		choices = append(choices, choice(value, title))
	}
	for _, one := range append(slices.Clone(s.OneOf), s.AnyOf...) {
		if one.Const != nil {
			choices = append(choices, choice(one.Const, one.Title))
		}
	}
	return choices
}

func choice(value json.RawMessage, title string) Choice {
	if title == "" {
		title = plain(value)
	}
	return Choice{Line(title), value}
}

// plain is a value as a person writes it.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// fieldFormats are what the fieldFormats of texts want, in words.
var fieldFormats = map[string]string{
	"email":     "an e-mail address",
	"uri":       "a web address such as https://example.com",
	"date":      "a date such as 2026-01-31",
	"date-time": "date and time with time zone, such as 2026-01-31T09:00:00Z",
}

// limits gives the limits of a value in words.
func (s *schema) limits(k FieldKind) string {
	var says []string
	say := func(format string, limit string) {
		if limit != "" && limit != "null" {
			says = append(says, fmt.Sprintf(format, limit))
		}
	}
	switch k {
	case Number:
		if s.Type == "integer" {
			says = append(says, "a whole number")
		}
		say("at least %s", s.Minimum.String())
		say("more than %s", string(s.ExclusiveMinimum))
		say("at most %s", s.Maximum.String())
		say("less than %s", string(s.ExclusiveMaximum))
		say("a multiple of %s", s.MultipleOf.String())
	case FreeText:
		say("%s", fieldFormats[s.Format])
		if s.PatternDescription != "" {
			say("%s", Line(s.PatternDescription))
		} else {
			say("in the form %s", Line(s.Pattern))
		}
		say("at least %s", howMany(s.MinLength, "character"))
		say("at most %s", howMany(s.MaxLength, "character"))
	case Several:
		say("at least %s of them", s.MinItems.String())
		say("at most %s of them", s.MaxItems.String())
	}
	return strings.Join(says, ", ")
}

func howMany(n json.Number, what string) string {
	switch n {
	case "":
		return ""
	case "1":
		return "1 " + what
	}
	return n.String() + " " + what + "s"
}

// same reports whether two values are written alike but for white space.
func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
