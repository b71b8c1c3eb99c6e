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
func (d *decoder) unknownKey(p pair, keys []Key, v reflect.Value, given map[string]bool, path string) (meant *Key) {
	known := make([]string, len(keys))
	for i, k := range keys {
		known[i] = k.Name
		if slices.Contains(strings.Split(k.Tag.Get("meant"), ","), p.key) {
			meant = &keys[i]
		}
	}
	near := template.Nearest(p.key, known)
	var advice Advice
	if adviser, ok := v.Addr().Interface().(KeyAdviser); ok && near == "" {
		advice = adviser.AdviseKey(p.key, p.value)
	}
	end := ""
	switch {
	case advice.Says != "":
		end = advice.after()
		for _, name := range advice.Means {
			if !given[name] {
				d.faulty[template.AtMember(path, name)] = true // it is not missing
			}
		}
	case meant != nil && given[meant.Name]:
		end = ": write " + meant.Name + ", which is given already"
	case meant != nil:
		end = ": write " + meant.Name
	default:
		end, meant = d.otherKey(p, keys, known, near, v, path)
	}
	d.errorf(p.keyNode, template.AtMember(path, p.key), "unknown-key", "unknown key %q%s%s", p.key, in(path), end)
	return meant
}

// otherKey says what may be meant by a key that no other system is known to have, as the
// end of a message.
func (d *decoder) otherKey(p pair, keys []Key, known []string, near string, v reflect.Value, path string) (end string, meant *Key) {
	if i := slices.IndexFunc(keys, func(k Key) bool { return k.Tag.Get("holds") != "" }); i >= 0 && near == "" {
		d.faulty[template.AtMember(path, keys[i].Name)] = true // it is not missing
		return ": write it below " + keys[i].Name, nil
	}
	if s, ok := v.Addr().Interface().(interface {
		GuessKey(key string, value *yaml.Node) Advice
	}); ok && near == "" {
		if advice := s.GuessKey(p.key, p.value); advice.Says != "" {
			return advice.after(), nil
		}
	}
	if s, ok := v.Addr().Interface().(interface{ KnownKeys(all []string) []string }); ok {
		known = s.KnownKeys(known)
	}
	if near = template.Nearest(p.key, known); near != "" {
		meant = &keys[slices.IndexFunc(keys, func(k Key) bool { return k.Name == near })]
	}
	slices.Sort(known)
	return template.DidYouMean(p.key, known) + "; known keys: " + strings.Join(known, ", "), meant
}

// field decodes the value of a key of a struct, and adds to a mistake in its form what
// the struct advises.
func (d *decoder) field(p pair, k Key, v reflect.Value, path string) {
	before := len(d.unadvised)
	d.member(p, v.FieldByIndex(k.Index), path)
	adviser, ok := v.Addr().Interface().(ValueAdviser)
	if !ok {
		return
	}
	for _, found := range d.unadvised[before:] {
		if found.node == p.value || p.value.Kind == yaml.SequenceNode && slices.Contains(p.value.Content, found.node) {
			d.diags[found.at].Message += adviser.AdviseValue(k.Name, found.node).after()
		}
	}
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
