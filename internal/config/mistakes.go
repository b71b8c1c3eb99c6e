package config

import (
	"fmt"
	"strconv"
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

// Flags are the settings that flags of commands make, by the keys that people write for
// them: in lower case, without punctuation.
var Flags = map[string]string{
	"data": "data", "datadir": "data",
	"listen": "listen", "port": "listen", "bind": "listen", "addr": "listen",
	"ui": "ui-listen", "uilisten": "ui-listen", "metricslisten": "metrics-listen", "healthlisten": "health-listen",
	"publicurl": "public-url", "allowedorigins": "allowed-origin", "cors": "allowed-origin", "allowedhosts": "allowed-host", "allowanonymous": "allow-anonymous",
	"temporal": "address", "address": "address", "temporaladdress": "address", "namespace": "namespace",
	"database": "database", "databaseurl": "database", "postgres": "database", "db": "database",
	"keyfile": "key-file", "signingkey": "key-file", "payloadkeyfile": "payload-key-file", "largevalues": "large-values",
	"loglevel": "log-level", "logformat": "log-format",
}

// adviseKeys adds to each error about an unknown key at the top where its setting belongs:
// the command that takes servers of an MCP client over, or the flag.
func adviseKeys(diags definitions.Diagnostics) definitions.Diagnostics {
	for i := range diags {
		said := strings.TrimPrefix(diags[i].Message, "unknown key ")
		quoted, err := strconv.QuotedPrefix(said)
		if err != nil || diags[i].Check != "unknown-key" || strings.HasPrefix(said[len(quoted):], " in ") {
			continue
		}
		key, _ := strconv.Unquote(quoted) // it is quoted
		flag := Flags[strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))]
		switch {
		case key == "mcpServers" || key == "servers":
			diags[i].Message += "; perdure init FILE writes them so"
		case key == "definitions":
			diags[i].Message += ", or name a directory with the flag --definitions"
		case flag != "":
			diags[i].Message = fmt.Sprintf("unknown key %q: it is set by the flag --%s", key, flag)
		}
	}
	return diags
}
