package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// A keyPath leads to a value of the configuration: keys and indexes.
type keyPath []any

// to extends the path without touching it.
func (p keyPath) to(steps ...any) keyPath { return append(slices.Clone(p), steps...) }

func (p keyPath) String() string {
	var b strings.Builder
	for _, step := range p {
		if i, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, step)
	}
	return b.String()
}

// lookup follows a path; where it ends early it gives the last node that
// exists and false.
func lookup(node *yaml.Node, p keyPath) (*yaml.Node, bool) {
	for _, step := range p {
		next := definitions.Child(node, step)
		if next == nil {
			return node, false
		}
		node = next
	}
	return node, true
}

// documents gives the root of each YAML document of a file that is not empty; of TOML,
// the servers that Codex lists there.
func documents(file string, data []byte) ([]*yaml.Node, definitions.Diagnostics) {
	if isTOML(file) {
		return codexDocument(file, data)
	}
	if isJSON(file) {
		data = plainJSON(data)
	}
	roots, err := definitions.Documents(data)
	if err != nil {
		return roots, definitions.Diagnostics{syntaxError(file, err)}
	}
	return roots, nil
}

func syntaxError(file string, err error) definitions.Diagnostic {
	d := definitions.Diagnostic{
		Pos: definitions.Position{File: file}, Severity: definitions.SeverityError, Message: err.Error(), Check: "syntax",
	}
	var at *yaml.LoadError
	if errors.As(err, &at) {
		d.Message = at.Message
		d.Pos.Line, d.Pos.Column = at.Mark.Line, at.Mark.Column
	}
	return d
}

// IsConfiguration says whether a file looks like a configuration rather than
// definitions: by its keys, since both are YAML.
func IsConfiguration(file string, data []byte) bool {
	docs, _ := documents(file, data)
	if slices.ContainsFunc(docs, isServer) {
		return true
	}
	if len(docs) != 1 {
		return false
	}
	if isClientFile(docs[0]) {
		return true
	}
	for _, key := range []string{"kind", "steps", "script", "scriptFile"} {
		if definitions.Child(docs[0], key) != nil {
			return false
		}
	}
	return slices.ContainsFunc(ownKeys(), func(key string) bool { return definitions.Child(docs[0], key) != nil })
}

// isServer says whether a document is a VirtualMCPServer, whose spec.config counts.
func isServer(doc *yaml.Node) bool {
	kind := definitions.Child(doc, "kind")
	return kind != nil && kind.Value == definitions.ServerKind
}

// ownKeys are the keys of a configuration that no definition has.
func ownKeys() []string {
	var own []string
	ofDefinitions := definitions.Keys(reflect.TypeFor[definitions.Definition]())
	for _, key := range definitions.Keys(reflect.TypeFor[configuration]()) {
		if key.Name != "metadata" && !slices.ContainsFunc(ofDefinitions, func(k definitions.Key) bool { return k.Name == key.Name }) {
			own = append(own, key.Name)
		}
	}
	return own
}
