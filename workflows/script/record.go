package script

import (
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A record is what struct(…) makes, and what builtins give: fields that never
// change.
type record struct {
	names  []string // sorted
	values []starlark.Value
	caught bool // it is an error that has happened; no script makes such a one
}

var (
	_ starlark.HasAttrs   = (*record)(nil)
	_ starlark.Comparable = (*record)(nil)
)

// newRecord makes a record of names and values in turn, by name.
func newRecord(fields map[string]starlark.Value) *record {
	r := &record{}
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

func (r *record) String() string        { return shown(r) }
func (r *record) Type() string          { return "struct" }
func (r *record) Truth() starlark.Bool  { return true }
func (r *record) Hash() (uint32, error) { return 0, errors.New("unhashable type: struct") }

func (r *record) Freeze() {
	for _, v := range r.values {
		v.Freeze()
	}
}

func (r *record) Attr(name string) (starlark.Value, error) {
	if i, ok := slices.BinarySearch(r.names, name); ok {
		return r.values[i], nil
	}
	return nil, nil
}

func (r *record) AttrNames() []string { return slices.Clone(r.names) }

// CompareSameType compares records where nothing else has done it: see compare.
func (r *record) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	return false, fmt.Errorf("struct %s %s not implemented", op, y.Type())
}

func compareRecords(a *account, op syntax.Token, x, y *record, depth int) (bool, error) {
	if op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("struct %s struct not implemented", op)
	}
	if err := deeper(a, depth); err != nil {
		return false, err
	}
	same := slices.Equal(x.names, y.names)
	for i := 0; same && i < len(x.values); i++ {
		var err error
		if same, err = compareDepth(a, syntax.EQL, x.values[i], y.values[i], depth-1); err != nil {
			return false, err
		}
	}
	return same == (op == syntax.EQL), nil
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
	if err := accountOf(thread).spend(1+len(kwargs), 2*entryBytes+2*elemBytes*len(kwargs)); err != nil {
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
	return newRecord(fields), nil
}
