package definitions

import (
	"iter"

	"go.yaml.in/yaml/v4"
)

// Child is the value of a key of a mapping, or the element of a sequence at an index; nil =
// there is none.
func Child(n *yaml.Node, step any) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch step := step.(type) {
	case string:
		for key, value := range Members(n) {
			if key.Value == step {
				return value
			}
		}
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	}
	return nil
}

// Members are the keys of a mapping with their values. What is no mapping has none.
func Members(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}
