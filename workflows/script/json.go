package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	starlarktime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
)

// decode reads JSON: integers are exact, objects are dicts in the order of
// their keys as written.
func decode(a *account, data []byte) (starlark.Value, error) {
	if len(data) > a.limits.Value {
		return nil, a.fail("script_value", "a value of %d bytes came in; the limit is %d", len(data), a.limits.Value)
	}
	if err := a.work(4*len(data), len(data)); err != nil {
		return nil, err
	}
	d := &decoder{account: a, json: json.NewDecoder(bytes.NewReader(data))}
	d.json.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the JSON value")
	}
	return v, nil
}

type decoder struct {
	account *account
	json    *json.Decoder
}

func (d *decoder) value(depth int) (starlark.Value, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, err
	}
	if err := d.account.spend(6, 2*elemBytes); err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth >= d.account.limits.Nesting {
			return nil, &nestingError{d.account.limits.Nesting}
		}
		if t == '[' {
			return d.list(depth)
		}
		return d.dict(depth)
	case string:
		return starlark.String(t), nil
	case bool:
		return starlark.Bool(t), nil
	case json.Number:
		return decodeNumber(d.account, string(t))
	}
	return starlark.None, nil
}

func (d *decoder) list(depth int) (starlark.Value, error) {
	var elems []starlark.Value
	for d.json.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		elems = append(elems, v)
	}
	_, err := d.json.Token()
	return starlark.NewList(elems), err
}

func (d *decoder) dict(depth int) (starlark.Value, error) {
	if err := d.account.spend(1, 2*entryBytes); err != nil {
		return nil, err
	}
	dict := newDict(d.account)
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return nil, err
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := dict.SetKey(starlark.String(key.(string)), v); err != nil {
			return nil, err
		}
	}
	_, err := d.json.Token()
	return dict, err
}

// maxDigits is of a number that comes in.
const maxDigits = 400

func decodeNumber(a *account, text string) (starlark.Value, error) {
	if len(text) > maxDigits {
		return nil, a.fail("script_integer", "a number of %d digits came in; the limit is %d", len(text), maxDigits)
	}
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return starlark.MakeInt64(i), nil
		}
		i, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return nil, fmt.Errorf("%s is no number", text)
		}
		return a.checkInt(starlark.MakeBigInt(i))
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is too large for a number with a fraction", text)
	}
	return starlark.Float(f), nil
}

// A nestingError is why JSON is not read that is nested too deeply.
type nestingError struct{ limit int }

func (e *nestingError) Error() string {
	return fmt.Sprintf("the JSON is nested more than %d deep", e.limit)
}

// frozen reads JSON that comes in into values that never change.
func frozen(a *account, data []byte) (starlark.Value, error) {
	v, err := decode(a, data)
	var nested *nestingError
	switch {
	case err == nil:
		v.Freeze() // a tree, so nothing is frozen twice
	case errors.As(err, &nested):
		return nil, a.fail("script_nesting", "a value came in that is nested more than %d deep, which is the limit", nested.limit)
	}
	return v, err
}

// An encoder writes JSON. As a list may stand in another many times, what is
// written is charged as it grows.
type encoder struct {
	account *account
	b       bytes.Buffer
	charged int
	depth   int

	fractions bool     // a float is written so that it comes back as one
	marks     bool     // typed values are noted in typed
	path      []string // where the encoder is, as tokens of a JSON pointer
	typed     []string // JSON pointers
	marked    int      // bytes of these
}

// encode gives a value as JSON, the keys of objects in order.
func encode(a *account, v starlark.Value) (json.RawMessage, error) {
	e := &encoder{account: a}
	if err := e.value(v); err != nil {
		return nil, err
	}
	return e.b.Bytes(), e.charge()
}

func (e *encoder) charge() error {
	grown := e.b.Len() - e.charged
	e.charged = e.b.Len()
	if e.b.Len() > e.account.limits.Value {
		return e.account.fail("script_value", "a value has more than %d bytes of JSON, which is the limit", e.account.limits.Value)
	}
	return e.account.work(4*grown, 2*grown)
}

func (e *encoder) value(v starlark.Value) error {
	if err := e.account.spend(1, 0); err != nil {
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
	case *dict:
		return e.inside(func() error { return e.dict(v) })
	case *record:
		return e.inside(func() error { return e.record(v) })
	case starlarktime.Time, starlarktime.Duration:
		return e.text(timeText(v))
	case *typed:
		if !e.marks {
			return errors.New("typed(…) stands in the arguments of a call only")
		}
		if err := e.mark(); err != nil {
			return err
		}
		e.marks = false // within it there is nothing of its own
		defer func() { e.marks = true }()
		return e.value(v.value)
	default:
		if r, ok := v.(starlark.Sequence); ok && v.Type() == "range" {
			return e.inside(func() error { return e.sequence(r.(starlark.Indexable)) })
		}
		return fmt.Errorf("a %s cannot be JSON: %s", v.Type(), shown(v))
	}
	return nil
}

// inside writes something that has elements.
func (e *encoder) inside(write func() error) error {
	if e.depth++; e.depth > e.account.limits.Nesting {
		return e.account.fail("script_nesting", "the value is nested more than %d deep, which is the limit, or contains itself: it cannot be JSON", e.account.limits.Nesting)
	}
	err := write()
	e.depth--
	return err
}

func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%v cannot be JSON", f)
	}
	// As templates and results have it, without an exponent; but digits of an
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

// mark notes that the value that comes next is typed. Keys may be long, and stand
// in many pointers.
func (e *encoder) mark() error {
	size := 0
	for _, token := range e.path {
		size += 1 + 2*len(token)
	}
	if e.marked += size; e.marked > e.account.limits.Value {
		return e.account.fail("script_value", "the places of the typed values of a call have more than %d bytes, which is the limit", e.account.limits.Value)
	}
	if err := e.account.work(4*size, size+2*elemBytes); err != nil {
		return err
	}
	e.typed = append(e.typed, pointer(e.path))
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

// at writes what stands at a place of a list or an object.
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
	if err := e.account.work(4*len(s), 2*len(s)); err != nil {
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

func (e *encoder) dict(d *dict) error {
	names := make([]string, 0, d.Len())
	values := make(map[string]starlark.Value, d.Len())
	if err := e.account.spend(d.Len(), d.Len()*entryBytes); err != nil {
		return err
	}
	err := d.each(func(key, value starlark.Value) error {
		name, ok := starlark.AsString(key)
		if !ok {
			return fmt.Errorf("the key %s cannot be JSON: want a string", shown(key))
		}
		names = append(names, name)
		values[name] = value
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	return e.fields(names, func(i int) starlark.Value { return values[names[i]] })
}

func (e *encoder) record(r *record) error {
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

func jsonEncode(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs("json.encode", args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	data, err := encode(accountOf(thread), v)
	return starlark.String(data), err
}

// jsonDecode gives the value of a text; with a second argument that instead of
// failing.
func jsonDecode(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	var otherwise starlark.Value
	if err := starlark.UnpackArgs("json.decode", args, kwargs, "x", &text, "default?", &otherwise); err != nil {
		return nil, err
	}
	a := accountOf(thread)
	v, err := decode(a, []byte(text))
	switch {
	case err == nil:
		return v, nil
	case a.failed != nil:
		return nil, a.failed
	case otherwise != nil:
		return otherwise, nil
	}
	return nil, fmt.Errorf("json.decode: %w", err)
}

func jsonIndent(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	text, prefix, indent := "", "", "\t"
	if err := starlark.UnpackArgs("json.indent", args, kwargs, "str", &text, "prefix?", &prefix, "indent?", &indent); err != nil {
		return nil, err
	}
	a := accountOf(thread)
	if len(prefix)+len(indent) > 40 {
		return nil, errors.New("json.indent: prefix and indent have at most 40 bytes")
	}
	if _, err := decode(a, []byte(text)); err != nil { // which bounds its nesting
		return nil, fmt.Errorf("json.indent: %w", err)
	}
	lines := 1 + strings.Count(text, ",") + 2*strings.Count(text, "[") + 2*strings.Count(text, "{")
	size := len(text) + lines*(len(prefix)+1+len(indent)*min(a.limits.Nesting, 1+strings.Count(text, "[")+strings.Count(text, "{")))
	if err := a.work(size, size); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), prefix, indent); err != nil {
		return nil, fmt.Errorf("json.indent: %w", err)
	}
	return starlark.String(b.String()), nil
}

// timeText is a point in time as RFC 3339, or a duration such as 1m30s.
func timeText(v starlark.Value) string {
	if t, ok := v.(starlarktime.Time); ok {
		return time.Time(t).Format(time.RFC3339Nano)
	}
	return v.String()
}
