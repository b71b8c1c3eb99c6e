package definitions

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// A JSONObject is a JSON object whose members keep the order in which they were
// written.
type JSONObject []JSONMember

// A JSONMember is a name and its value.
type JSONMember struct {
	Name  string
	Value json.RawMessage
}

var errNoObject = errors.New("not a JSON object")

// ParseJSONObject reads an object. Of equal names the last value counts.
func ParseJSONObject(raw []byte) (JSONObject, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errNoObject
	}
	o := JSONObject{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errNoObject
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errNoObject
		}
		o = append(o, JSONMember{name.(string), value}) // names are always strings
	}
	if last, err := d.Token(); err != nil || last != json.Delim('}') {
		return nil, errNoObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	return o.latest(), nil
}

// latest leaves one member of each name, at the place of the first.
func (o JSONObject) latest() JSONObject {
	at := make(map[string]int, len(o))
	out := o[:0]
	for _, m := range o {
		if i, known := at[m.Name]; known {
			out[i].Value = m.Value
			continue
		}
		at[m.Name] = len(out)
		out = append(out, m)
	}
	return out
}

// Get is the value of a member; nil = none.
func (o JSONObject) Get(name string) json.RawMessage {
	if i := o.index(name); i >= 0 {
		return o[i].Value
	}
	return nil
}

// Set sets the value of a member; a new one comes last.
func (o *JSONObject) Set(name string, value json.RawMessage) {
	if i := o.index(name); i >= 0 {
		(*o)[i].Value = value
		return
	}
	*o = append(*o, JSONMember{name, value})
}

// Delete removes a member.
func (o *JSONObject) Delete(name string) {
	*o = slices.DeleteFunc(*o, func(m JSONMember) bool { return m.Name == name })
}

func (o JSONObject) index(name string) int {
	return slices.IndexFunc(o, func(m JSONMember) bool { return m.Name == name })
}

// JSON writes the object: compact, in its order.
func (o JSONObject) JSON() json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		_ = encoder.Encode(m.Name) // a string is always JSON
		b.Truncate(b.Len() - 1)    // the line's end
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
