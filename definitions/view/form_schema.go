package view

import (
	"encoding/json"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// FormSchema is a schema for clients that make the form themselves. Its texts have
// marks for invisible characters. Values that an answer may hold, such as choices,
// stay as they are and get a readable title. The words for a pattern go into the
// description, where clients look.
func FormSchema(raw json.RawMessage) json.RawMessage {
	root, err := definitions.ParseJSONObject(raw)
	if err != nil {
		return raw
	}
	texts(root)
	if properties, err := definitions.ParseJSONObject(root.Get("properties")); err == nil {
		for i, p := range properties {
			properties[i].Value = visibleField(p.Name, p.Value)
		}
		root.Set("properties", properties.JSON())
	}
	return root.JSON()
}

func visibleField(name string, raw json.RawMessage) json.RawMessage {
	field, err := definitions.ParseJSONObject(raw)
	if err != nil {
		return raw
	}
	texts(field)
	if shown := Line(name); shown != name && field.Get("title") == nil {
		field.Set("title", quote(shown))
	}
	var note []string
	if words := text(field, "patternDescription"); words != "" {
		note = append(note, "Form: "+words+".")
	}
	if standard := text(field, "default"); Text(standard) != standard { // people would not see what they send
		field.Delete("default")
		note = append(note, "Default: "+Line(standard)+".")
	}
	if note != nil {
		if said := text(field, "description"); said != "" {
			note = append([]string{sentence(said)}, note...)
		}
		field.Set("description", quote(strings.Join(note, " ")))
	}
	choices(&field)
	if items, err := definitions.ParseJSONObject(field.Get("items")); err == nil {
		choices(&items)
		field.Set("items", items.JSON())
	}
	return field.JSON()
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// texts puts marks into the members that people read.
func texts(o definitions.JSONObject) {
	for i, m := range o {
		switch m.Name {
		case "title", "description", "patternDescription":
			if s := text(o, m.Name); s != "" {
				o[i].Value = quote(Text(s))
			}
		}
	}
}

// choices gives each choice a readable name.
func choices(field *definitions.JSONObject) {
	var values, alternatives []json.RawMessage
	var names []string
	if json.Unmarshal(field.Get("enum"), &values) == nil && values != nil {
		_ = json.Unmarshal(field.Get("enumNames"), &names)
		named, hidden := names != nil, false
		for i, value := range values {
			if i >= len(names) {
				names = append(names, plain(value))
			}
			shown := Line(names[i])
			hidden = hidden || shown != names[i]
			names[i] = shown
		}
		if named || hidden {
			list, _ := json.Marshal(names) // strings are always JSON
			field.Set("enumNames", list)
		}
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if json.Unmarshal(field.Get(key), &alternatives) != nil || alternatives == nil {
			continue
		}
		for i, raw := range alternatives {
			one, err := definitions.ParseJSONObject(raw)
			if err != nil {
				continue
			}
			texts(one)
			if value := plain(one.Get("const")); one.Get("title") == nil && Line(value) != value {
				one.Set("title", quote(Line(value)))
			}
			alternatives[i] = one.JSON()
		}
		list, _ := json.Marshal(alternatives) // they are JSON
		field.Set(key, list)
		alternatives = nil
	}
}

// text is the text of a member; "" = it is no text.
func text(o definitions.JSONObject, name string) string {
	var s string
	_ = json.Unmarshal(o.Get(name), &s)
	return s
}

func quote(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string is always JSON
	return raw
}
