package approvals

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions/view"
)

// An entry is a form as it is filled in on the page.
type entry struct{ Fields []*field }

// A field is one field of the form, and what is or was entered.
type field struct {
	*view.Field
	Param   string // in the form that the browser sends
	Shape   shape
	Type    string // of the input: text, email, url, date
	Value   string
	Choices []choice
	Problem string // why what was entered was not taken
}

// A shape is what a field looks like.
type shape string

const (
	line   shape = "line"   // an input
	area   shape = "area"   // some lines
	number shape = "number" // an input
	radio  shape = "radio"  // one of a few, beside each other
	pick   shape = "pick"   // one of many
	boxes  shape = "boxes"  // any of a list
)

// A choice is a value of a field. In the form that is sent it is its number, so
// that a value may be anything.
type choice struct {
	view.Choice
	Param  string
	Chosen bool
}

// fewChoices are shown beside each other.
const fewChoices = 6

// newEntry makes the form of a schema, filled in with the defaults.
func newEntry(schema json.RawMessage) *entry {
	e := &entry{}
	for _, f := range view.NewForm(schema).Fields {
		e.Fields = append(e.Fields, newField(f))
	}
	return e
}

func newField(f *view.Field) *field {
	out := &field{Field: f, Param: "field." + f.Name, Shape: line, Type: "text", Value: f.Prefill()}
	for i, c := range f.Choices {
		out.Choices = append(out.Choices, choice{c, strconv.Itoa(i), f.Default != nil && f.IsDefault(c.Value)})
	}
	switch {
	case f.Kind == view.Number:
		out.Shape = number
	case f.Kind == view.Several:
		out.Shape = boxes
	case f.Kind == view.YesNo, f.Kind == view.One && len(f.Choices) <= fewChoices:
		out.Shape = radio
	case f.Kind == view.One:
		out.Shape = pick
	case f.Long:
		out.Shape = area
	case f.Format == "email" || f.Format == "date":
		out.Type = f.Format
	case f.Format == "uri":
		out.Type = "url"
	}
	return out
}

// Hint reports what the field is for, and what a value must keep.
func (f *field) Hint() string {
	says := []string{f.Description, f.Limits}
	if f.DefaultText != "" && (f.Shape == number || f.Value == "" && f.Choices == nil) {
		says = append(says, "if left empty: "+f.DefaultText)
	}
	return strings.Join(slices.DeleteFunc(says, func(s string) bool { return s == "" }), " – ")
}

// Skips reports whether a field offers to give no answer. What is omitted of a field
// with a default is the default.
func (f *field) Skips() bool { return !f.Required && f.Default == nil }

// exact is a text as it is, without marks. It is for what comes back from a browser:
// names and values of inputs, and what a person continues with that they have entered.
func exact(text string) template.HTML {
	var b strings.Builder
	for _, r := range text {
		if view.Hidden(r) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteString(html.EscapeString(string(r)))
		}
	}
	return template.HTML(b.String()) // each character is escaped
}

// fill enters what a browser has sent.
func (e *entry) fill(sent url.Values) {
	for _, f := range e.Fields {
		values := sent[f.Param]
		f.Value = strings.ReplaceAll(strings.Join(values[:min(len(values), 1)], ""), "\r\n", "\n")
		for i := range f.Choices {
			f.Choices[i].Chosen = slices.Contains(values, f.Choices[i].Param)
		}
	}
}

// content is the answer that was entered, or the reason why there is none. Empty fields
// are not in it.
func (e *entry) content() (content json.RawMessage, reason string) {
	fields := map[*view.Field]json.RawMessage{}
	for _, f := range e.Fields {
		value, problem := f.content()
		if problem != "" {
			return nil, f.Name + " " + problem
		}
		fields[f.Field] = value
	}
	return (&view.Form{Fields: e.fields()}).Answer(func(f *view.Field) json.RawMessage { return fields[f] }), ""
}

func (e *entry) fields() []*view.Field {
	out := make([]*view.Field, len(e.Fields))
	for i, f := range e.Fields {
		out[i] = f.Field
	}
	return out
}

func (f *field) content() (value json.RawMessage, problem string) {
	switch f.Shape {
	case line, area:
		if f.Value == "" && f.Prefill() == "" {
			return nil, ""
		}
		value, _ = json.Marshal(f.Value) // a default that was taken out is an empty text
		return value, ""
	case number:
		return f.number()
	case boxes:
		return f.chosen(), ""
	}
	for _, c := range f.Choices {
		if c.Chosen {
			return c.Value, ""
		}
	}
	return nil, ""
}

func (f *field) number() (value json.RawMessage, problem string) {
	entered := strings.TrimSpace(f.Value)
	if entered == "" {
		return nil, ""
	}
	value, err := view.ReadNumber(entered)
	if err != nil {
		return nil, err.Error()
	}
	return value, ""
}

// chosen are the values of the ticked boxes. None is no answer where the field is
// optional without a default, and otherwise an empty list.
func (f *field) chosen() json.RawMessage {
	values := []json.RawMessage{}
	for _, c := range f.Choices {
		if c.Chosen {
			values = append(values, c.Value)
		}
	}
	if len(values) == 0 && f.Skips() {
		return nil
	}
	list, err := json.Marshal(values)
	if err != nil {
		return nil // they come from JSON
	}
	return list
}

// explain assigns the parts of a reason to their fields: NAME is required; …
func (e *entry) explain(reason string) {
	for _, problem := range strings.Split(reason, "; ") {
		for _, f := range e.Fields {
			rest, ok := strings.CutPrefix(problem, f.Name)
			if ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "[")) {
				f.Problem = strings.TrimSpace(rest)
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
	if v.Hint() != "" {
		ids = append(ids, v.Anchor+"-hint")
	}
	if v.Problem != "" {
		ids = append(ids, v.Anchor+"-problem")
	}
	return strings.Join(ids, " ")
}

// Box is the type of the inputs of a field with choices.
func (f *field) Box() string {
	if f.Shape == boxes {
		return "checkbox"
	}
	return "radio"
}

// Any reports whether something is chosen.
func (f *field) Any() bool {
	return slices.ContainsFunc(f.Choices, func(c choice) bool { return c.Chosen })
}
