package starlark

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// A Language is Starlark with the names that a host adds to it. Programs can hide, but
// not redefine, these names at their top level.
type Language struct {
	Functions []string // whose calls a Program reports
	Values    []string
}

// predeclared are the names that every program may use, and the functions for
// operators.
var predeclared = func() starlark.StringDict {
	names := operators()
	for name, v := range constants() {
		names[name] = v
	}
	for _, b := range builtins {
		names[b.name] = starlark.NewBuiltin(b.name, b.f)
	}
	return names
}()

// unavailable are names of Starlark that programs do not have, and why.
var unavailable = map[string]string{
	"set":        "use a dict, or unique(list)",
	"bytes":      "use a string",
	"hash":       "compare the strings",
	"true":       "write True",
	"false":      "write False",
	"null":       "write None",
	"undefined":  "write None",
	"isinstance": "compare type(value), such as type(value) == \"string\"",
}

// ModuleMembers are the names in a module of the language, such as json, sorted; nil =
// there is no such module.
func ModuleMembers(name string) []string {
	module, ok := predeclared[name].(*starlarkstruct.Module)
	if !ok {
		return nil
	}
	return slices.Sorted(maps.Keys(module.Members))
}

// has reports whether a name is one of the language.
func (l *Language) has(name string) bool {
	return predeclared[name] != nil || l.hosts(name) || slices.Contains(l.Values, name)
}

// hosts reports whether a name is that of a function of the host.
func (l *Language) hosts(name string) bool { return slices.Contains(l.Functions, name) }

// Names are the names that every program may use, sorted.
func (l *Language) Names() []string {
	names := slices.DeleteFunc(predeclared.Keys(), func(name string) bool { return strings.HasPrefix(name, "$") })
	names = slices.Concat(names, l.Functions, l.Values)
	slices.Sort(names)
	return names
}

// Identifier makes an identifier of a name: underscores replace other characters.
func Identifier(name string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
	if out != "" && out[0] >= '0' && out[0] <= '9' {
		out = "_" + out
	}
	return out
}

// Callable reports whether a program can call a function of the host's by an
// identifier: it is not a word of the language, nor one of its names.
func (l *Language) Callable(identifier string) bool {
	options := fileOptions
	_, err := options.ParseExpr("", identifier+"()", 0)
	return err == nil && !l.has(identifier)
}
