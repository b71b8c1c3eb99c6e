package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// InlineTools gives the text of composite tools in compositeTools of a
// configuration: of those that are named, or of all. Each is in the lines and
// columns in which it is written, so that a message about it names these.
func InlineTools(config string, names []string) ([]string, error) {
	text, err := ReadFile(config)
	if err != nil {
		return nil, err
	}
	docs, diags := documents(config, text)
	if err := diags.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 || definitions.Child(docs[0], "compositeTools") == nil {
		return nil, fmt.Errorf("%s has no compositeTools; publish the files of definitions instead", config)
	}
	var texts, there []string
	nodes, whole := definitions.Child(docs[0], "compositeTools").Content, definitions.NewText(text)
	for i, node := range nodes {
		d, diags := definitions.ParseNode(config, whole, node)
		if err := diags.Err(); err != nil {
			return nil, err
		}
		there = append(there, d.Name)
		if len(names) > 0 && !slices.Contains(names, d.Name) {
			continue
		}
		end := LineAfter(docs[0], "compositeTools")
		if i+1 < len(nodes) {
			end = nodes[i+1].Line
		}
		one := alone(string(text), node, end)
		if found, diags := definitions.Parse(config, []byte(one)); diags.HasErrors() || len(found) != 1 || found[0].Digest() != d.Digest() {
			one = string(d.Source()) // it shares lines, or anchors, with others
		}
		texts = append(texts, one)
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return nil, fmt.Errorf("compositeTools of %s has no %s; known names: %s", config, name, strings.Join(there, ", "))
		}
	}
	return texts, nil
}

// alone is a text of which only one entry of a list is left, in the lines and
// columns in which it stands, so that what is said of it names these.
func alone(text string, node *yaml.Node, end int) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		switch line := i + 1; {
		case line < node.Line || end > 0 && line >= end:
			lines[i] = ""
		case line == node.Line:
			lines[i] = strings.Repeat(" ", node.Column-1) + lines[i][min(node.Column-1, len(lines[i])):]
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// LineAfter is the line of the key that follows one of a mapping; 0 = it is the last.
func LineAfter(mapping *yaml.Node, key string) int {
	for i := 0; i+2 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+2].Line
		}
	}
	return 0
}
