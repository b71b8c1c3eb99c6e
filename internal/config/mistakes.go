package config

import (
	"fmt"
	"slices"

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
		if n.Kind == yaml.MappingNode && given[spot{inner.Line, inner.Column}] && (i%2 == 0 || decides[n.Content[i-1].Value]) {
			faulty[at] = true
		}
		spread(inner, within || ofKey, given, faulty)
	}
}

// decides are keys on whose values depends which others are missing.
var decides = map[string]bool{"command": true, "url": true, "transport": true, "type": true}

// Flags are the settings that flags of commands make, by the keys that people write for
// them, as [definitions.PlainKey] has them.
var Flags = map[string]string{
	"data": "data", "datadir": "data",
	"listen": "listen", "port": "listen", "bind": "listen", "addr": "listen",
	"ui": "ui-listen", "uilisten": "ui-listen", "metricslisten": "metrics-listen", "healthlisten": "health-listen",
	"publicurl": "public-url", "allowedorigins": "allowed-origin", "cors": "allowed-origin", "allowedhosts": "allowed-host", "allowanonymous": "allow-anonymous",
	"temporal": "address", "address": "address", "temporaladdress": "address", "namespace": "namespace",
	"database": "database", "databaseurl": "database", "postgres": "database", "db": "database",
	"keyfile": "key-file", "signingkey": "key-file", "payloadkeyfile": "payload-key-file", "largevalues": "large-values",
	"loglevel": "log-level", "logging": "log-level", "log": "log-level", "logformat": "log-format",
}

// AdviseKey is that of [definitions.KeyAdviser]: it says where the setting of a key belongs.
func (c *configuration) AdviseKey(key string, _ *yaml.Node) definitions.Advice {
	switch flag := Flags[definitions.PlainKey(key)]; {
	case key == "mcpServers" || key == "servers":
		return definitions.Say("write backends; perdure init FILE writes them so")
	case key == "definitions":
		return definitions.WriteKey("compositeTools", ", or name a directory with the flag --definitions")
	case flag != "":
		return definitions.Say("it is set by the flag --" + flag)
	}
	return definitions.Advice{}
}

// AdviseValue is that of [definitions.ValueAdviser].
func (c *configuration) AdviseValue(key string, value *yaml.Node) definitions.Advice {
	if key == "backends" && value.Kind == yaml.MappingNode && len(value.Content) > 0 {
		return definitions.Say(fmt.Sprintf("write each as - {name: %s, …}", value.Content[0].Value))
	}
	switch {
	case key == "aggregation" && value.Kind == yaml.ScalarNode:
		return definitions.Say("write {conflictResolution: prefix}")
	case key == "scripts" && value.Kind == yaml.ScalarNode:
		return definitions.Say("write {agents: true} to let clients send scripts")
	case key == "compositeTools" && value.Kind == yaml.MappingNode && len(value.Content) > 0:
		return definitions.Say(fmt.Sprintf("write each as - {name: %s, …}", value.Content[0].Value))
	case key == "compositeTools" && value.Kind == yaml.ScalarNode:
		return definitions.Say("name a file or directory of definitions with the flag --definitions")
	}
	return definitions.Advice{}
}

// AdviseValue is that of [definitions.ValueAdviser].
func (a *authorization) AdviseValue(key string, value *yaml.Node) definitions.Advice {
	if (key == "approvers" || key == "operators") && value.Kind == yaml.ScalarNode {
		return definitions.Say(fmt.Sprintf(`write {tools: ["*"], subjects: [%s]}`, value.Value))
	}
	return definitions.Advice{}
}

// AdviseKey is that of [definitions.KeyAdviser].
func (a *incomingAuth) AdviseKey(key string, _ *yaml.Node) definitions.Advice {
	if slices.Contains([]string{"issuer", "audience", "clientid", "jwksurl", "jwksuri"}, definitions.PlainKey(key)) {
		return definitions.Say("write it under oidc")
	}
	return definitions.Advice{}
}

// AdviseKey is that of [definitions.KeyAdviser].
func (a *approvals) AdviseKey(key string, _ *yaml.Node) definitions.Advice {
	if key == "approvers" || key == "operators" {
		return definitions.Say("write it under authorization")
	}
	return definitions.Advice{}
}

// AdviseKey is that of [definitions.KeyAdviser].
func (b *backend) AdviseKey(key string, value *yaml.Node) definitions.Advice {
	switch {
	case b.Name == "" && value.Kind == yaml.MappingNode:
		return definitions.Say(fmt.Sprintf("write {name: %s, …}", key))
	case key == "disabled" || key == "enabled":
		return definitions.Say("leave the backend out instead")
	case (key == "tools" || key == "include" || key == "exclude" || key == "filter") && value.Kind == yaml.SequenceNode && !slices.ContainsFunc(value.Content, func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }):
		return definitions.Say(fmt.Sprintf("which tools clients see is written under aggregation.tools, as in {workload: %s, filter: [TOOL]}", b.Name))
	case key == "image" && value.Kind == yaml.ScalarNode:
		return definitions.WriteKey("command", fmt.Sprintf(": docker, and args: [run, -i, --rm, %s]", value.Value))
	case slices.Contains([]string{"ratelimit", "rps", "qps", "rate", "maxconcurrent", "concurrency"}, definitions.PlainKey(key)):
		return definitions.Say("write it under limits, as in limits: {rate: 10/s, concurrency: 4}")
	case slices.Contains([]string{"retries", "retry", "maxretries"}, definitions.PlainKey(key)):
		return definitions.Say("leave it out; steps have onError, and what may be repeated is repeated")
	case key == "envFile":
		return definitions.Say("set its variables for perdure itself, and name them under passEnv")
	}
	return definitions.Advice{}
}

// AdviseValue is that of [definitions.ValueAdviser]. Words of env and headers are not repeated:
// they may be secret.
func (b *backend) AdviseValue(key string, value *yaml.Node) definitions.Advice {
	switch {
	case key == "effects" && value.Kind == yaml.ScalarNode:
		return definitions.Say(fmt.Sprintf(`write {tool: "*", class: %s}`, value.Value))
	case key == "effects" && value.Kind == yaml.MappingNode && len(value.Content) > 1:
		return definitions.Say(fmt.Sprintf("write each as - {tool: %q, class: %s}", value.Content[0].Value, value.Content[1].Value))
	case key == "command" && value.Kind == yaml.SequenceNode && len(value.Content) > 0:
		return definitions.Say(fmt.Sprintf("write command: %s, and the others under args", value.Content[0].Value))
	case key == "env" && value.Kind != yaml.MappingNode:
		return definitions.Say("write {NAME: value}, and under passEnv the names of variables that are taken over")
	case key == "headers" && value.Kind != yaml.MappingNode:
		return definitions.Say("write {Name: value}")
	}
	return definitions.Advice{}
}
