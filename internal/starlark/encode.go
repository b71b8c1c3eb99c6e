package starlark

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	starlarktime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
)

// An encoder writes JSON. A list may be in another many times, so the output is charged
// as it grows.
type encoder struct {
	account *Account
	b       bytes.Buffer
	charged int
	depth   int

	unsorted  bool     // objects keep the order of their dicts
	fractions bool     // a float is written so that it decodes as one
	marks     bool     // Marked values are allowed, and recorded
	path      []string // where the encoder is, as tokens of a JSON pointer
	marked    []string // JSON pointers
	pointers  int      // bytes of these
}

// Encode gives a value as JSON, the keys of objects in order.
func Encode(a *Account, v starlark.Value) (json.RawMessage, error) {
	return (&encoder{account: a}).encode(v)
}

// EncodeInOrder is Encode, but objects keep the order of their dicts.
func EncodeInOrder(a *Account, v starlark.Value) (json.RawMessage, error) {
	return (&encoder{account: a, unsorted: true}).encode(v)
}

// EncodeExact is Encode for data that is decoded again: a float is written so that it
// decodes as one.
func EncodeExact(a *Account, v starlark.Value) (json.RawMessage, error) {
	return (&encoder{account: a, fractions: true}).encode(v)
}

// EncodeMarked is Encode for a value that may contain Marked ones; it gives the JSON
// pointers to them.
func EncodeMarked(a *Account, v starlark.Value) (data json.RawMessage, marked []string, err error) {
	e := &encoder{account: a, marks: true}
	data, err = e.encode(v)
	return data, e.marked, err
}

// Marked is a value of the host that encodes as another value, and whose place in the
// JSON the host wants to know.
type Marked interface {
	Composite
	Marked() starlark.Value
}

func (e *encoder) encode(v starlark.Value) (json.RawMessage, error) {
	if err := e.value(v); err != nil {
		return nil, err
	}
	return e.b.Bytes(), e.charge()
}

func (e *encoder) charge() error {
	grown := e.b.Len() - e.charged
	e.charged = e.b.Len()
	if e.b.Len() > e.account.limits.Value {
		return e.account.Fail("value", "a value has more than %d bytes of JSON, which is the limit", e.account.limits.Value)
	}
	return e.account.Work(4*grown, 2*grown)
}

func (e *encoder) value(v starlark.Value) error {
	if err := e.account.Spend(1, 0); err != nil {
		return err
	}
	if e.b.Len()-e.charged > 1<<10 {
		if err := e.charge(); err != nil {
			return err
		}
	}
	switch v := v.(type) {
	case starlark.NoneType:
		e.b.WriteString("null")
	case starlark.Bool:
		e.b.WriteString(strconv.FormatBool(bool(v)))
	case starlark.Int:
		e.b.WriteString(v.String())
	case starlark.Float:
		return e.float(float64(v))
	case starlark.String:
		return e.text(string(v))
	case *starlark.List:
		return e.inside(func() error { return e.sequence(v) })
	case starlark.Tuple:
		return e.inside(func() error { return e.sequence(v) })
	case *Dict:
		return e.inside(func() error { return e.dict(v) })
	case *Struct:
		return e.inside(func() error { return e.record(v) })
	case starlarktime.Time, starlarktime.Duration:
		return e.text(timeText(v))
	case Marked:
		return e.markedValue(v)
	default:
		if r, ok := v.(starlark.Sequence); ok && v.Type() == "range" {
			return e.inside(func() error { return e.sequence(r.(starlark.Indexable)) })
		}
		return fmt.Errorf("a %s cannot be JSON: %s", v.Type(), Show(v))
	}
	return nil
}

// inside writes a value with elements.
func (e *encoder) inside(write func() error) error {
	if e.depth++; e.depth > e.account.limits.Nesting {
		return e.account.Fail("nesting", "the value is nested more than %d deep, which is the limit, or contains itself: it cannot be JSON", e.account.limits.Nesting)
	}
	err := write()
	e.depth--
	return err
}

func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%v cannot be JSON", f)
	}
	// As in templates and results, without an exponent; but digits of an
	// integer that is larger than a float is exact would come back as another.
	format := byte('f')
	if math.Abs(f) >= 1<<53 {
		format = 'g'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if e.fractions && !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	e.b.WriteString(text)
	return nil
}

func (e *encoder) markedValue(v Marked) error {
	if !e.marks {
		return fmt.Errorf("%s(…) is allowed in the arguments of a call only", v.Type())
	}
	if err := e.mark(); err != nil {
		return err
	}
	e.marks = false // a marked value has no others in it
	defer func() { e.marks = true }()
	return e.value(v.Marked())
}

// mark records the place of a marked value. Long keys may be in many pointers, so they
// are charged.
func (e *encoder) mark() error {
	size := 0
	for _, token := range e.path {
		size += 1 + 2*len(token)
	}
	if e.pointers += size; e.pointers > e.account.limits.Value {
		return e.account.Fail("value", "the paths of the typed values of a call have more than %d bytes, which is the limit", e.account.limits.Value)
	}
	if err := e.account.Work(4*size, size+2*elemBytes); err != nil {
		return err
	}
	e.marked = append(e.marked, pointer(e.path))
	return nil
}

var pointed = strings.NewReplacer("~", "~0", "/", "~1")

// pointer is the JSON pointer of a place.
func pointer(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteString("/" + pointed.Replace(token))
	}
	return b.String()
}

// at writes what is at a place of a list or an object.
func (e *encoder) at(token string, v starlark.Value) error {
	if !e.marks {
		return e.value(v)
	}
	e.path = append(e.path, token)
	err := e.value(v)
	e.path = e.path[:len(e.path)-1]
	return err
}

func (e *encoder) text(s string) error {
	if err := e.account.Work(4*len(s), 2*len(s)); err != nil {
		return err
	}
	if e.b.Len()+len(s) > e.account.limits.Value {
		e.b.WriteString(s)
		return e.charge() // fails
	}
	enc := json.NewEncoder(&e.b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(strings.ToValidUTF8(s, string(utf8.RuneError))); err != nil {
		return err
	}
	e.b.Truncate(e.b.Len() - 1) // the line's end
	return nil
}

func (e *encoder) sequence(v starlark.Indexable) error {
	e.b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			e.b.WriteByte(',')
		}
		if err := e.at(strconv.Itoa(i), v.Index(i)); err != nil {
			return err
		}
	}
	e.b.WriteByte(']')
	return nil
}

func (e *encoder) dict(d *Dict) error {
	names := make([]string, 0, d.Len())
	values := make(map[string]starlark.Value, d.Len())
	if err := e.account.Spend(d.Len(), d.Len()*entryBytes); err != nil {
		return err
	}
	err := d.Each(func(key, value starlark.Value) error {
		name, ok := starlark.AsString(key)
		if !ok {
			return fmt.Errorf("the key %s cannot be JSON: want a string", Show(key))
		}
		names = append(names, name)
		values[name] = value
		return nil
	})
	if err != nil {
		return err
	}
	if !e.unsorted {
		slices.Sort(names)
	}
	return e.fields(names, func(i int) starlark.Value { return values[names[i]] })
}

func (e *encoder) record(r *Struct) error {
	return e.fields(r.names, func(i int) starlark.Value { return r.values[i] })
}

func (e *encoder) fields(names []string, value func(i int) starlark.Value) error {
	e.b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			e.b.WriteByte(',')
		}
		if err := e.text(name); err != nil {
			return err
		}
		e.b.WriteByte(':')
		if err := e.at(name, value(i)); err != nil {
			return err
		}
	}
	e.b.WriteByte('}')
	return nil
}

// timeText is a point in time as RFC 3339, or a duration such as 1m30s.
func timeText(v starlark.Value) string {
	if t, ok := v.(starlarktime.Time); ok {
		return time.Time(t).Format(time.RFC3339Nano)
	}
	return v.String()
}
