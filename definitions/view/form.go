package view

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// A Form has the fields that an elicitation asks for, in the order of their author,
// with their texts. The approvals page and the terminal show the same.
type Form struct{ Fields []*Field }

// A Field is one member of the answer. Its texts have marks for invisible characters.
type Field struct {
	Name        string // in the answer
	Label       string // its title, or its name
	Description string
	Limits      string // of a value, in words
	Required    bool
	Kind        FieldKind
	Format      string // of a text: email, uri, date, date-time, another; "" = none
	Long        bool   // a text may have several lines
	Choices     []Choice
	// Default is the value of a field that is left out. nil = none.
	Default json.RawMessage
	// DefaultText is the default as people read it. "" = none.
	DefaultText string

	schema json.RawMessage // of an answer with this field alone
}

// A FieldKind is a way to enter a field.
type FieldKind int

// The kinds of fields.
const (
	FreeText FieldKind = iota
	Number             // as JSON has it, to the digit
	YesNo              // with two Choices
	One                // of Choices
	Several            // of Choices
)

// A Choice is a value that a field may have.
type Choice struct {
	Title string
	Value json.RawMessage
}

// longText is up to what length a text gets one line only.
const longText = 120

// NewForm makes the form of a schema: a flat object of simple fields, as
// definitions.CheckAnswer takes it. It makes what it can of a schema that cannot be
// read: the run checks the answer anyway.
func NewForm(raw json.RawMessage) *Form {
	f := &Form{}
	root, err := definitions.ParseJSONObject(raw)
	if err != nil {
		return f
	}
	var required []string
	_ = json.Unmarshal(root.Get("required"), &required)
	properties, _ := definitions.ParseJSONObject(root.Get("properties"))
	for _, p := range properties {
		f.Fields = append(f.Fields, newField(p.Name, p.Value, slices.Contains(required, p.Name)))
	}
	return f
}

func newField(name string, raw json.RawMessage, required bool) *Field {
	var s schema
	_ = json.Unmarshal(raw, &s)
	if string(s.Default) == "null" {
		s.Default = nil
	}
	f := &Field{
		Name: name, Label: Line(s.Title), Description: Text(s.Description), Required: required,
		Default: s.Default, schema: alone(name, raw, required),
	}
	if f.Label == "" {
		f.Label = Line(name)
	}
	switch choices := s.choices(); {
	case s.Type == "array" && s.Items != nil:
		f.Kind, f.Choices = Several, s.Items.choices()
	case choices != nil:
		f.Kind, f.Choices = One, choices
	case s.Type == "boolean":
		f.Kind, f.Choices = YesNo, []Choice{{"Yes", json.RawMessage("true")}, {"No", json.RawMessage("false")}}
	case s.Type == "integer" || s.Type == "number":
		f.Kind = Number
	default:
		f.Format = s.Format
		most, err := s.MaxLength.Int64()
		f.Long = s.Format == "" && s.Pattern == "" && (err != nil || most > longText)
	}
	if s.PatternDescription != "" && strings.Contains(s.Description, s.PatternDescription) {
		s.Pattern, s.PatternDescription = "", "" // already in other words, such as by Schema
	}
	f.Limits = s.limits(f.Kind)
	f.DefaultText = f.shown(f.Default)
	return f
}

// alone is the schema of an answer with one field.
func alone(name string, field json.RawMessage, required bool) json.RawMessage {
	root := definitions.JSONObject{{Name: "type", Value: json.RawMessage(`"object"`)}}
	root.Set("properties", definitions.JSONObject{{Name: name, Value: field}}.JSON())
	if required {
		list, _ := json.Marshal([]string{name}) // strings are always JSON
		root.Set("required", list)
	}
	return root.JSON()
}

// Check says why a value does not fit the field; nil = left out, so the default is
// checked.
func (f *Field) Check(value json.RawMessage) error {
	if value == nil {
		value = f.Default
	}
	content := definitions.JSONObject{}
	if value != nil {
		content.Set(f.Name, value)
	}
	err := definitions.CheckAnswer(f.schema, content.JSON())
	if err == nil {
		return nil
	}
	rest, named := strings.CutPrefix(err.Error(), f.Name)
	if !named || rest == "" || !strings.ContainsAny(rest[:1], " [") {
		return err
	}
	return errors.New(strings.TrimSpace(rest))
}

// Answer makes the answer from the values of fields; nil = left out.
func (f *Form) Answer(value func(*Field) json.RawMessage) json.RawMessage {
	content := definitions.JSONObject{}
	for _, field := range f.Fields {
		if v := value(field); v != nil {
			content.Set(field.Name, v)
		}
	}
	return content.JSON()
}

// ReadNumber reads a number that a person has entered, exactly.
func ReadNumber(text string) (json.RawMessage, error) {
	var n json.Number
	if json.Unmarshal([]byte(text), &n) != nil || n.String() != text {
		return nil, errors.New("must be a number, such as 12 or -0.5")
	}
	return json.RawMessage(text), nil
}

// Prefill is the default as a text to edit, for an input. A default with invisible
// characters is not filled in, since people would not see what they send: DefaultText shows
// it, and it counts if nothing is entered.
func (f *Field) Prefill() string {
	text := plain(f.Default)
	if f.Default == nil || Text(text) != text {
		return ""
	}
	return text
}

// IsDefault reports whether a value is the default, or one of its elements.
func (f *Field) IsDefault(value json.RawMessage) bool {
	chosen := []json.RawMessage{f.Default}
	if f.Kind == Several {
		chosen = nil
		_ = json.Unmarshal(f.Default, &chosen)
	}
	return slices.ContainsFunc(chosen, func(v json.RawMessage) bool { return same(v, value) })
}

// shown is a value as people read it.
func (f *Field) shown(value json.RawMessage) string {
	if value == nil {
		return ""
	}
	var titles []string
	for _, c := range f.Choices {
		if f.IsDefault(c.Value) {
			titles = append(titles, c.Title)
		}
	}
	if titles != nil {
		return strings.Join(titles, ", ")
	}
	return Line(plain(value))
}
