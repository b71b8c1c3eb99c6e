package definitions

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// Source gives the definition as canonical JSON: sorted keys except in schemas of forms,
// exact numbers, no empty fields, no positions. FromSource reads it back.
func (d *Definition) Source() json.RawMessage {
	source, err := template.EncodeValue(plain(reflect.ValueOf(d)))
	if err != nil {
		panic(fmt.Sprintf("definitions: %v in a definition", err)) // never: Parse and FromSource take only values of JSON
	}
	return source
}

// Digest identifies the content of the definition: "sha256:" and the hash of Source in
// hexadecimal.
func (d *Definition) Digest() string { return DigestOf(d.Source()) }

// DigestOf is the Digest of the definition or module with a Source.
func DigestOf(source json.RawMessage) string {
	sum := sha256.Sum256(source)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// FromSource reads what Source wrote. It refuses unknown fields: a definition with more
// than this build can do must not run.
func FromSource(source []byte) (*Definition, error) {
	decoder := json.NewDecoder(bytes.NewReader(source))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	var d *Definition
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("reading the source of a definition: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading the source of a definition: there is more than one value")
	}
	if d == nil {
		return nil, errors.New("reading the source of a definition: it is null")
	}
	if err := exactFields(reflect.ValueOf(d)); err != nil {
		return nil, fmt.Errorf("reading the source of a definition: %w", err)
	}
	d.arguments, d.compiler = &lazySchema{}, &compiler{}
	return d, nil
}

// plain gives the value of a definition, or of a part of it, as maps, lists and
// scalars. Empty fields are left out, but an empty mapping is not an empty field.
func plain(v reflect.Value) any {
	if text, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() == reflect.Int64 {
		b, _ := text.MarshalText()
		return string(b)
	}
	switch v.Type() {
	case formSchemaType:
		return template.Verbatim(v.Bytes())
	case optionalType:
		return v.Interface().(Optional).Value
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Map:
		if values, ok := v.Interface().(map[string]any); ok {
			return values
		}
		members := make(map[string]any, v.Len())
		for name, member := range v.Seq2() {
			members[name.String()] = plain(member)
		}
		return members
	case reflect.Slice:
		elems := make([]any, v.Len())
		for i := range elems {
			elems[i] = plain(v.Index(i))
		}
		return elems
	case reflect.Int:
		return v.Int()
	case reflect.String:
		return v.String()
	default:
		return v.Interface()
	}
}

func plainStruct(v reflect.Value) map[string]any {
	members := make(map[string]any)
	for _, f := range Keys(v.Type()) {
		member := v.FieldByIndex(f.Index)
		if !f.omitEmpty || !member.IsZero() {
			members[f.Name] = plain(member)
		}
	}
	return members
}

// exactFields replaces each json.Number in the free values of a definition by the
// exact value.
func exactFields(v reflect.Value) (err error) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return exactFields(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == optionalType { // which is exact
			return nil
		}
		for _, f := range Keys(v.Type()) {
			err = errors.Join(err, exactFields(v.FieldByIndex(f.Index)))
		}
	case reflect.Slice:
		if v.Type() == formSchemaType { // which is exact
			return nil
		}
		for i := range v.Len() {
			err = errors.Join(err, exactElem(v.Index(i)))
		}
	case reflect.Map:
		for name, member := range v.Seq2() {
			if member.Kind() == reflect.Pointer {
				err = errors.Join(err, exactElem(member))
				continue
			}
			value, e := template.Exact(member.Interface(), 0)
			err = errors.Join(err, e)
			setMember(v, name, value)
		}
	case reflect.Interface:
		if !v.IsNil() {
			value, e := template.Exact(v.Interface(), 0)
			if e != nil {
				return e
			}
			v.Set(reflect.ValueOf(value))
		}
	}
	return err
}

// exactElem is exactFields for an element of a list or map, which must be there.
func exactElem(v reflect.Value) error {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("a %s is null", v.Type().Elem().Name())
	}
	return exactFields(v)
}

func setMember(m, name reflect.Value, value any) {
	if value == nil {
		m.SetMapIndex(name, reflect.Zero(m.Type().Elem()))
		return
	}
	m.SetMapIndex(name, reflect.ValueOf(value))
}

// IsTestFile reports whether a file has tests of definitions, by its name. Reading
// definitions from a directory skips such files.
func IsTestFile(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "_test.yaml") || strings.HasSuffix(name, "_test.yml")
}
