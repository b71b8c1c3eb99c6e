package starlark

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
)

// Decode reads JSON: integers are exact, objects are dicts in the order of their
// keys as written.
func Decode(a *Account, data []byte) (starlark.Value, error) {
	if len(data) > a.limits.Value {
		return nil, a.Fail("value", "a value of %d bytes came in; the limit is %d", len(data), a.limits.Value)
	}
	if err := a.Work(4*len(data), len(data)); err != nil {
		return nil, err
	}
	d := &decoder{account: a, json: json.NewDecoder(bytes.NewReader(data))}
	d.json.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON value")
	}
	return v, nil
}

type decoder struct {
	account *Account
	json    *json.Decoder
}

func (d *decoder) value(depth int) (starlark.Value, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, err
	}
	if err := d.account.Spend(6, 2*elemBytes); err != nil {
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
	if err := d.account.Spend(1, 2*entryBytes); err != nil {
		return nil, err
	}
	dict := NewDict(d.account)
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

// maxDigits bounds the digits of a number in JSON.
const maxDigits = 400

func decodeNumber(a *Account, text string) (starlark.Value, error) {
	if len(text) > maxDigits {
		return nil, a.Fail("integer", "a number of %d digits came in; the limit is %d", len(text), maxDigits)
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

// A nestingError is the error of JSON that is nested too deeply.
type nestingError struct{ limit int }

func (e *nestingError) Error() string {
	return fmt.Sprintf("the JSON is nested more than %d deep", e.limit)
}

// Receive reads JSON from outside into immutable values. JSON nested too deeply ends
// the program.
func Receive(a *Account, data []byte) (starlark.Value, error) {
	v, err := Decode(a, data)
	var nested *nestingError
	switch {
	case err == nil:
		v.Freeze() // a tree, so nothing is frozen twice
	case errors.As(err, &nested):
		return nil, a.Fail("nesting", "a value came in that is nested more than %d deep, which is the limit", nested.limit)
	}
	return v, err
}

func jsonEncode(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs("json.encode", args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	data, err := Encode(AccountOf(thread), v)
	return starlark.String(data), err
}

// jsonDecode gives the value of a text; a second argument is the value if that fails.
func jsonDecode(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	var otherwise starlark.Value
	if err := starlark.UnpackArgs("json.decode", args, kwargs, "x", &text, "default?", &otherwise); err != nil {
		return nil, err
	}
	a := AccountOf(thread)
	v, err := Decode(a, []byte(text))
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
	a := AccountOf(thread)
	if len(prefix)+len(indent) > 40 {
		return nil, errors.New("json.indent: prefix and indent have at most 40 bytes")
	}
	if _, err := Decode(a, []byte(text)); err != nil { // which bounds its nesting
		return nil, fmt.Errorf("json.indent: %w", err)
	}
	lines := 1 + strings.Count(text, ",") + 2*strings.Count(text, "[") + 2*strings.Count(text, "{")
	size := len(text) + lines*(len(prefix)+1+len(indent)*min(a.limits.Nesting, 1+strings.Count(text, "[")+strings.Count(text, "{")))
	if err := a.Work(size, size); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), prefix, indent); err != nil {
		return nil, fmt.Errorf("json.indent: %w", err)
	}
	return starlark.String(b.String()), nil
}
