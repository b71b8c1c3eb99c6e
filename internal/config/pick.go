package config

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// pick gives the configuration among the documents of a file: the one without a
// kind, or spec.config of a VirtualMCPServer. Definitions beside it are read, and
// other resources skipped. nil = there is none, which is reported.
func (l *loader) pick(file string, data []byte, docs []*yaml.Node) (root *yaml.Node) {
	text := definitions.NewText(data)
	for _, doc := range docs {
		kind := ""
		if node, ok := lookup(doc, keyPath{"kind"}); ok {
			kind = node.Value
		}
		switch {
		case kind == toolConfigKind:
			l.toolConfig(file, doc)
		case kind != "" && kind != definitions.ServerKind:
			defs, diags := definitions.ParseDocument(file, text, doc)
			l.take(file, defs, diags)
		case root != nil:
			l.errorf(positionOf(file, doc), "config", "a second configuration begins here; a file has one, so write each into a file of its own")
			return nil
		case kind == "" && isClientFile(doc):
			if root = l.clientServers(file, doc); root == nil {
				return nil
			}
		case kind == "" && definitions.IsBare(doc):
			l.errorf(positionOf(file, doc), "config", "this is a definition of a composite tool, not a configuration; name it with --definitions %s", file)
			return nil
		case kind == "":
			root = doc
		default:
			root = l.server(file, doc)
		}
	}
	if root == nil && !l.diags.HasErrors() {
		l.errorf(definitions.Position{File: file}, "config", "has no configuration: a YAML document with keys such as backends, or a %s resource", definitions.ServerKind)
	}
	return root
}

// server gives spec.config of a VirtualMCPServer as a configuration, with who
// callers are from spec.incomingAuth where spec.config does not say it. nil = that
// is known to a cluster only, which is reported: what it protects is not served.
func (l *loader) server(file string, doc *yaml.Node) *yaml.Node {
	root, ok := lookup(doc, keyPath{"spec", "config"})
	if !ok {
		root = mapping(doc)
	}
	if headers, ok := lookup(doc, keyPath{"spec", "passthroughHeaders"}); ok {
		root = with(root, "passthroughHeaders", headers)
	}
	if auth, ok := lookup(doc, keyPath{"spec", "outgoingAuth"}); ok && (definitions.Child(auth, "default") != nil || definitions.Child(auth, "backends") != nil) {
		l.reportf(definitions.SeverityWarning, positionOf(file, auth), "auth", "spec.outgoingAuth refers to what only a cluster knows, so backends get no credentials from it; write outgoingAuth under spec.config")
	}
	auth, ok := lookup(doc, keyPath{"spec", "incomingAuth"})
	if !ok || definitions.Child(root, "incomingAuth") != nil {
		return root
	}
	kind, _ := lookup(auth, keyPath{"type"})
	inline, hasPolicies := lookup(auth, keyPath{"authzConfig", "inline"})
	if kind.Value != "anonymous" || definitions.Child(auth, "authzConfig") != nil && !hasPolicies {
		l.errorf(positionOf(file, auth), "auth", "spec.incomingAuth refers to what only a cluster knows, so nothing is served that it protects; write incomingAuth under spec.config, such as {type: oidc, oidc: {issuer: URL, audience: NAME}}")
		return nil
	}
	incoming := mapping(auth, scalar(auth, "type"), kind)
	if hasPolicies {
		policies := slices.Concat([]*yaml.Node{scalar(inline, "type"), scalar(inline, "cedar")}, inline.Content)
		incoming.Content = append(incoming.Content, scalar(inline, "authz"), mapping(inline, policies...))
	}
	return with(root, "incomingAuth", incoming)
}

// with gives a mapping in which a key has a value, and no other one.
func with(root *yaml.Node, key string, value *yaml.Node) *yaml.Node {
	all := mapping(root)
	for k, v := range definitions.Members(root) {
		if k.Value != key {
			all.Content = append(all.Content, k, v)
		}
	}
	all.Content = append(all.Content, scalar(value, key), value)
	return all
}

// mapping and scalar make nodes that are placed where another one is.
func mapping(at *yaml.Node, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column, Content: content}
}

func scalar(at *yaml.Node, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: at.Line, Column: at.Column}
}

func positionOf(file string, n *yaml.Node) definitions.Position {
	return definitions.Position{File: file, Line: n.Line, Column: n.Column}
}

// selectNamed leaves out what compositeToolRefs do not name, where there are any,
// as ToolHive does. What the others call stays, for them alone.
func (l *loader) selectNamed() {
	if l.selected == nil {
		return
	}
	offered := slices.Clone(l.inline)
	for _, name := range l.selected {
		offered = append(offered, l.names[name]...)
	}
	find, used := definitions.Among(l.defs), slices.Clone(offered)
	for _, d := range offered {
		called, _ := d.Called(find)
		used = append(used, called...)
	}
	var kept []*definitions.Definition
	for _, d := range l.defs {
		switch {
		case slices.Contains(offered, d):
			kept = append(kept, d)
		case slices.Contains(used, d):
			hidden := d.Clone()
			hidden.Expose = d.Expose.HiddenBut(callersOf(d, used, find))
			kept = append(kept, hidden)
		}
	}
	l.defs = kept
}

// callersOf gives the names of the definitions with a step that calls d.
func callersOf(d *definitions.Definition, defs []*definitions.Definition, find definitions.Definitions) (callers []string) {
	for _, other := range defs {
		calls := slices.ContainsFunc(other.WorkflowNames(), func(name string) bool { called, _ := find.Find(name); return called == d })
		if calls && !slices.Contains(callers, other.Name) {
			callers = append(callers, other.Name)
		}
	}
	return callers
}
