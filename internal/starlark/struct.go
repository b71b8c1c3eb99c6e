package starlark

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Struct is the value of struct(…), and of functions of a host: immutable fields.
type Struct struct {
	Tag any // of the host; programs cannot see it

	names  []string // sorted
	values []starlark.Value
}

var (
	_ starlark.HasAttrs   = (*Struct)(nil)
	_ starlark.Comparable = (*Struct)(nil)
)

// NewStruct makes a struct of its fields.
func NewStruct(fields map[string]starlark.Value) *Struct {
	r := &Struct{}
	//workflowcheck:ignore the names are sorted
	for name := range fields {
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)
	for _, name := range r.names {
		r.values = append(r.values, fields[name])
	}
	return r
}

func (r *Struct) String() string        { return Show(r) }
func (r *Struct) Type() string          { return "struct" }
func (r *Struct) Truth() starlark.Bool  { return true }
func (r *Struct) Hash() (uint32, error) { return 0, errors.New("unhashable type: struct") }

func (r *Struct) Freeze() {
	for _, v := range r.values {
		v.Freeze()
	}
}

func (r *Struct) Attr(name string) (starlark.Value, error) {
	if i, ok := slices.BinarySearch(r.names, name); ok {
		return r.values[i], nil
	}
	message := fmt.Sprintf("struct has no .%s field or method", name)
	if 0 < len(r.names) && len(r.names) <= maxNamed {
		message += ", which has ." + strings.Join(r.names, ", .")
	}
	return nil, starlark.NoSuchAttrError(message)
}

func (r *Struct) AttrNames() []string { return slices.Clone(r.names) }

// CompareSameType compares structs if compare has not.
func (r *Struct) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	return false, fmt.Errorf("struct %s %s not implemented", op, y.Type())
}

// maxFields bounds the fields of a struct, and maxFieldName the bytes of a
// name: a wrong one is compared with each of them for a hint.
const (
	maxFields    = 200
	maxFieldName = 100
)

func makeStruct(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) > 0 {
		return nil, errors.New("struct: give its fields by name")
	}
	if len(kwargs) > maxFields {
		return nil, fmt.Errorf("struct: %d fields; at most %d", len(kwargs), maxFields)
	}
	if err := AccountOf(thread).Spend(1+len(kwargs), 2*entryBytes+2*elemBytes*len(kwargs)); err != nil {
		return nil, err
	}
	fields := make(map[string]starlark.Value, len(kwargs))
	for _, kv := range kwargs {
		name := string(kv[0].(starlark.String))
		if len(name) > maxFieldName {
			return nil, fmt.Errorf("struct: a name of %d bytes; at most %d", len(name), maxFieldName)
		}
		fields[name] = kv[1]
	}
	return NewStruct(fields), nil
}
