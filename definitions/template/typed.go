package template

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Typed converts the values at JSON pointers in arguments, an object as JSON, to the
// types that an input schema asks for there, as for templates that are one
// expression. A null counts as missing: a member is left out, an element stays null.
// An empty schema makes text of them.
func Typed(args json.RawMessage, at []string, inputSchema json.RawMessage) (json.RawMessage, error) {
	if len(at) == 0 {
		return args, nil
	}
	v, err := DecodeValue(args)
	if err != nil {
		return nil, err
	}
	place, err := SchemaOf(inputSchema)
	if err != nil {
		return nil, err
	}
	for _, pointer := range at {
		if err := setType(v, place, strings.Split(strings.TrimPrefix(pointer, "/"), "/")); err != nil {
			return nil, err
		}
	}
	return EncodeValue(v)
}

var pointerToken = strings.NewReplacer("~1", "/", "~0", "~")

// setType converts the value at a path to the type of its place.
func setType(in any, place Schema, path []string) error {
	name := pointerToken.Replace(path[0])
	switch in := in.(type) {
	case map[string]any:
		inner := place.Property(name)
		if len(path) > 1 {
			return setType(in[name], inner, path[1:])
		}
		v, ok, err := ofKinds(in[name], inner.Kinds(), "", "")
		if in[name] = inner.read(v); !ok {
			delete(in, name)
		}
		return err
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(in) {
			return fmt.Errorf("there is no element %s", Excerpt(name))
		}
		if len(path) > 1 {
			return setType(in[i], place.Item(i), path[1:])
		}
		inner := place.Item(i)
		v, _, err := ofKinds(in[i], inner.Kinds(), "", "")
		in[i] = inner.read(v)
		return err
	}
	return fmt.Errorf("there is no %s", Excerpt(name))
}
