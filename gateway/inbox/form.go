package inbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A form is what an elicitation asks for, made from its schema: a flat object
// of simple fields, as definitions.CheckAnswer takes it. Numbers and choices
// stay as they are written, to the digit.
type form struct {
	Fields []*field
}

// A field is one member of the answer.
type field struct {
	Name     string // in the answer
	Param    string // in the form that the browser sends
	Label    string
	Hint     string
	Required bool
	Kind     kind
	Type     string // of the input: text, email, url, date
	Value    string // that is or was entered
	Choices  []choice
	Problem  string // why what was entered was not taken
}

// A kind says how a field is entered.
type kind string

const (
	text   kind = "text"   // a line
	area   kind = "area"   // some lines
	number kind = "number" // a line that is a JSON number
	yesNo  kind = "yesno"  // one of yes, no and, unless it is required, no answer
	radio  kind = "radio"  // one of a few
	pick   kind = "pick"   // one of many
	boxes  kind = "boxes"  // any of a list
)

// A choice is a value of a field. In the form that is sent it is its number,
// so that a value may be anything.
type choice struct {
	Value  string
	Title  string
	Chosen bool
	json   json.RawMessage
}

// A schema is what a form needs of a JSON Schema.
type schema struct {
	Title, Description string
	Type               any // a string, in what the language takes
	Format             string
	Pattern            string
	Enum               []json.RawMessage
	EnumNames          []string
	OneOf, AnyOf       []struct {
		Const json.RawMessage
		Title string
	}
	Items                              *schema
	Default                            json.RawMessage
	Minimum, Maximum                   json.Number
	ExclusiveMinimum, ExclusiveMaximum json.RawMessage
	MinLength, MaxLength               json.Number
	MinItems, MaxItems                 json.Number
	Properties                         map[string]json.RawMessage
	Required                           []string
}

// fewChoices are shown beside each other.
const fewChoices = 6

// longText is how long a text may be that gets one line only.
const longText = 120

// newForm makes the form of a schema, filled in with the defaults. Of a schema
// that cannot be read it makes what it can: whether an answer fits is for
// runs.Answer to say.
func newForm(raw json.RawMessage) *form {
	var s schema
	_ = json.Unmarshal(raw, &s)
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int { // required ones first
		return strings.Compare(strconv.FormatBool(!slices.Contains(s.Required, a)), strconv.FormatBool(!slices.Contains(s.Required, b)))
	})
	f := &form{}
	for _, name := range names {
		var p schema
		_ = json.Unmarshal(s.Properties[name], &p)
		f.Fields = append(f.Fields, p.field(name, slices.Contains(s.Required, name)))
	}
	return f
}

func (s *schema) field(name string, required bool) *field {
	f := &field{Name: name, Param: "field." + name, Label: s.Title, Required: required, Type: "text"}
	if f.Label == "" {
		f.Label = name
	}
	choices := s.choices()
	switch {
	case s.Type == "array" && s.Items != nil:
		f.Kind, f.Choices = boxes, s.Items.choices()
	case len(choices) > fewChoices:
		f.Kind, f.Choices = pick, choices
	case choices != nil:
		f.Kind, f.Choices = radio, choices
	case s.Type == "boolean":
		f.Kind = yesNo
		f.Choices = []choice{{Title: "Yes", json: json.RawMessage("true")}, {Title: "No", json: json.RawMessage("false")}}
	case s.Type == "integer" || s.Type == "number":
		f.Kind = number
	default:
		f.Kind, f.Type = s.textKind()
	}
	for i := range f.Choices {
		f.Choices[i].Value = strconv.Itoa(i)
	}
	f.preset(s.Default)
	f.Hint = strings.Join(slices.DeleteFunc([]string{s.Description, s.limits(f.Kind)}, func(s string) bool { return s == "" }), " – ")
	return f
}

func (s *schema) textKind() (kind, string) {
	switch s.Format {
	case "email", "date":
		return text, s.Format
	case "uri":
		return text, "url"
	case "":
		if most, err := s.MaxLength.Int64(); s.Pattern == "" && (err != nil || most > longText) {
			return area, ""
		}
	}
	return text, "text"
}

// choices are the values that a field may take; nil = any of its type.
func (s *schema) choices() []choice {
	var choices []choice
	for i, value := range s.Enum {
		c := choice{json: value, Title: plain(value)}
		if i < len(s.EnumNames) && s.EnumNames[i] != "" {
			c.Title = s.EnumNames[i]
		}
		choices = append(choices, c)
	}
	for _, one := range append(slices.Clone(s.OneOf), s.AnyOf...) {
		if one.Const == nil {
			continue
		}
		c := choice{json: one.Const, Title: one.Title}
		if c.Title == "" {
			c.Title = plain(one.Const)
		}
		choices = append(choices, c)
	}
	return choices
}

// plain is a value as a person writes it.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// limits says in words what a value must keep.
func (s *schema) limits(k kind) string {
	var says []string
	say := func(format string, limit string) {
		if limit != "" && limit != "null" {
			says = append(says, fmt.Sprintf(format, limit))
		}
	}
	switch k {
	case number:
		if s.Type == "integer" {
			says = append(says, "a whole number")
		}
		say("at least %s", s.Minimum.String())
		say("more than %s", string(s.ExclusiveMinimum))
		say("at most %s", s.Maximum.String())
		say("less than %s", string(s.ExclusiveMaximum))
	case text, area:
		say("at least %s characters", s.MinLength.String())
		say("at most %s characters", s.MaxLength.String())
		say("in the form %s", s.Pattern)
		if s.Format == "date-time" {
			says = append(says, "date and time with time zone, such as 2026-01-31T09:00:00Z")
		}
	case boxes:
		say("at least %s of them", s.MinItems.String())
		say("at most %s of them", s.MaxItems.String())
	}
	return strings.Join(says, ", ")
}

// preset fills in the default.
func (f *field) preset(value json.RawMessage) {
	if value == nil {
		return
	}
	chosen := []json.RawMessage{value}
	switch f.Kind {
	case text, area, number:
		f.Value = plain(value)
		return
	case boxes:
		_ = json.Unmarshal(value, &chosen)
	}
	for i, c := range f.Choices {
		f.Choices[i].Chosen = slices.ContainsFunc(chosen, func(v json.RawMessage) bool { return same(v, c.json) })
	}
}

// same reports whether two values are written alike, apart from white space.
func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// fill enters what a browser has sent.
func (f *form) fill(sent url.Values) {
	for _, field := range f.Fields {
		values := sent[field.Param]
		field.Value = strings.ReplaceAll(strings.Join(values[:min(len(values), 1)], ""), "\r\n", "\n")
		for i := range field.Choices {
			field.Choices[i].Chosen = slices.Contains(values, field.Choices[i].Value)
		}
	}
}

// content is the answer that was entered, or the reason why there is none.
// What was left empty is not in it.
func (f *form) content() (content json.RawMessage, reason string) {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, field := range f.Fields {
		value, problem := field.content()
		if problem != "" {
			return nil, field.Name + " " + problem
		}
		if value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(field.Name) // a string is always JSON
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), ""
}

func (f *field) content() (value json.RawMessage, problem string) {
	switch f.Kind {
	case text, area:
		if f.Value == "" {
			return nil, ""
		}
		value, _ = json.Marshal(f.Value)
		return value, ""
	case number:
		return f.number()
	case boxes:
		return f.chosen(), ""
	}
	for _, c := range f.Choices {
		if c.Chosen {
			return c.json, ""
		}
	}
	return nil, ""
}

// number takes what JSON takes for a number.
func (f *field) number() (value json.RawMessage, problem string) {
	entered := strings.TrimSpace(f.Value)
	if entered == "" {
		return nil, ""
	}
	var n json.Number
	if json.Unmarshal([]byte(entered), &n) != nil || n.String() != entered {
		return nil, "must be a number, such as 12 or -0.5"
	}
	return json.RawMessage(entered), ""
}

// chosen are the values of the boxes that are ticked. None at all is no answer
// to a question that may be left out, and otherwise an empty list.
func (f *field) chosen() json.RawMessage {
	values := []json.RawMessage{}
	for _, c := range f.Choices {
		if c.Chosen {
			values = append(values, c.json)
		}
	}
	if len(values) == 0 && !f.Required {
		return nil
	}
	list, err := json.Marshal(values)
	if err != nil {
		return nil // they come from JSON
	}
	return list
}

// explain tells the fields what a reason says of them: NAME is required; …
func (f *form) explain(reason string) {
	for _, problem := range strings.Split(reason, "; ") {
		for _, field := range f.Fields {
			rest, ok := strings.CutPrefix(problem, field.Name)
			if ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "[")) {
				field.Problem = strings.TrimSpace(rest)
			}
		}
	}
}

// A fieldView is a field in its place on a page.
type fieldView struct {
	*field
	Anchor string // id of its element
}

// At puts a field into a question of the page.
func (f *field) At(question string, i int) fieldView {
	return fieldView{f, fmt.Sprintf("%s-f%d", question, i)}
}

// Notes are the ids of what explains the field; "" = nothing does.
func (v fieldView) Notes() string {
	var ids []string
	if v.Hint != "" {
		ids = append(ids, v.Anchor+"-hint")
	}
	if v.Problem != "" {
		ids = append(ids, v.Anchor+"-problem")
	}
	return strings.Join(ids, " ")
}

// Box is the type of the inputs of a field with choices.
func (f *field) Box() string {
	if f.Kind == boxes {
		return "checkbox"
	}
	return "radio"
}

// Any reports whether something is chosen.
func (f *field) Any() bool {
	return slices.ContainsFunc(f.Choices, func(c choice) bool { return c.Chosen })
}
