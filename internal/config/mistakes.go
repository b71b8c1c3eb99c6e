package config

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// A spot is a line and a column of the file.
type spot struct{ line, column int }

// beyond gives the mistakes that were found in what was decoded, without those that
// follow from what could not be decoded: in the mapping of an unknown key, another
// one is missing.
func beyond(root *yaml.Node, written, found definitions.Diagnostics) (all definitions.Diagnostics) {
	if !written.HasErrors() {
		return found
	}
	given, faulty := map[spot]bool{}, map[spot]bool{}
	for _, d := range written {
		if d.Severity == definitions.SeverityError {
			given[spot{d.Pos.Line, d.Pos.Column}] = true
		}
	}
	spread(root, false, given, faulty)
	for _, d := range found {
		if !faulty[spot{d.Pos.Line, d.Pos.Column}] {
			all = append(all, d)
		}
	}
	return all
}

// spread collects what is given, the mappings with a key or value that is, and all
// within values that are.
func spread(n *yaml.Node, within bool, given, faulty map[spot]bool) {
	at := spot{n.Line, n.Column}
	within = within || given[at] && n.Kind != yaml.MappingNode
	if within || given[at] {
		faulty[at] = true
	}
	for i, inner := range n.Content {
		ofKey := n.Kind == yaml.MappingNode && i%2 == 1 && given[spot{n.Content[i-1].Line, n.Content[i-1].Column}]
		if n.Kind == yaml.MappingNode && given[spot{inner.Line, inner.Column}] {
			faulty[at] = true
		}
		spread(inner, within || ofKey, given, faulty)
	}
}

// offerInit says of servers in the form of an MCP client what takes them over.
func offerInit(diags definitions.Diagnostics) definitions.Diagnostics {
	for i := range diags {
		for _, key := range []string{"mcpServers", "servers"} {
			if diags[i].Check == "unknown-key" && strings.HasPrefix(diags[i].Message, `unknown key "`+key+`":`) {
				diags[i].Message += "; perdure init FILE writes them so"
			}
		}
	}
	return diags
}
