package definitions

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
)

// A Key is a key of a mapping that Decode reads into a struct.
type Key struct {
	Name  string
	Index []int // of the field, for reflect.Value.FieldByIndex
	Tag   reflect.StructTag

	omitEmpty bool
}

// also is another name of the key in other systems; "" = none.
func (k Key) also() string { return k.Tag.Get("also") }

// knownKeys has the keys of types that were read, by type.
var knownKeys sync.Map

func keysOf(t reflect.Type) []Key {
	keys, ok := knownKeys.Load(t)
	if !ok {
		keys, _ = knownKeys.LoadOrStore(t, Keys(t))
	}
	return keys.([]Key)
}

// Keys gives the keys of the mapping that Decode reads into a struct, by its yaml tags,
// in order, with those of embedded structs.
func Keys(t reflect.Type) []Key {
	var keys []Key
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inline := f.Anonymous && name == "" || options == "inline"
		switch {
		case name == "-" || !f.IsExported():
		case inline && f.Type.Kind() == reflect.Struct:
			for _, inner := range Keys(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				keys = append(keys, inner)
			}
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			keys = append(keys, Key{name, []int{i}, f.Tag, options == "omitempty"})
		}
	}
	return keys
}

// unknownKey reports a key, and returns the one that is meant; nil if that is not known.
func (d *decoder) unknownKey(p pair, keys []Key, path string) (meant *Key) {
	known, holder := make([]string, len(keys)), ""
	advice := ""
	for i, k := range keys {
		known[i] = k.Name
		if slices.Contains(strings.Split(k.Tag.Get("meant"), ","), p.key) {
			meant, advice = &keys[i], ": write "+k.Name
		}
		if k.Tag.Get("holds") != "" {
			holder = k.Name
		}
	}
	slices.Sort(known)
	near := template.Nearest(p.key, known)
	if meant == nil && near == "" && holder != "" {
		advice = ": write it below " + holder
		d.faulty[template.AtMember(path, holder)] = true // it is not missing
	}
	if advice == "" {
		advice = template.DidYouMean(p.key, known) + "; known keys: " + strings.Join(known, ", ")
		if i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == near }); i >= 0 {
			meant = &keys[i]
		}
	}
	d.errorf(p.keyNode, template.AtMember(path, p.key), "unknown-key", "unknown key %q%s%s", p.key, in(path), advice)
	return meant
}

// isPlain reports whether a value has the form of a field, and no keys of its own that
// other systems name otherwise.
func isPlain(n *yaml.Node, field reflect.Type) bool {
	switch field.Kind() {
	case reflect.String:
		return n.Kind == yaml.ScalarNode
	case reflect.Slice:
		return n.Kind == yaml.SequenceNode && field.Elem().Kind() == reflect.String
	case reflect.Map:
		return n.Kind == yaml.MappingNode
	}
	return false
}
