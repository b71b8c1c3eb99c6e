package definitions

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
)

const (
	// Kind is the kind of a resource whose spec is a definition.
	Kind = "VirtualMCPCompositeToolDefinition"
	// ServerKind is the kind of a resource whose spec.config is a configuration,
	// with definitions in compositeTools.
	ServerKind = "VirtualMCPServer"

	apiGroup = "toolhive.stacklok.dev/" // what the apiVersion of both starts with
)

// A resource is a definition as a Kubernetes resource. Keys that only a cluster writes
// are ignored.
type resource struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       yaml.Node
	Status     any

	Pos Position `yaml:"-"`
}

type metadata struct {
	Name        string
	Namespace   string
	Labels      map[string]string
	Annotations map[string]string

	CreationTimestamp any `yaml:"creationTimestamp"`
	Finalizers        any
	GenerateName      any `yaml:"generateName"`
	Generation        any
	ManagedFields     any `yaml:"managedFields"`
	OwnerReferences   any `yaml:"ownerReferences"`
	ResourceVersion   any `yaml:"resourceVersion"`
	UID               any
}

// Parse reads the definitions of a file: YAML (or JSON) with any number of
// documents, each a VirtualMCPCompositeToolDefinition resource, a VirtualMCPServer
// resource with definitions in spec.config.compositeTools, or a bare definition.
// Resources of other kinds are skipped with a note. file is the name that
// positions carry.
//
// It finds mistakes of syntax and types; Check finds the others. A definition with
// mistakes is returned as far as it could be read, so that Check can report the rest
// without repetition.
func Parse(file string, data []byte) ([]*Definition, Diagnostics) {
	p := &parser{file: file, lines: NewText(data).lines}
	nodes := p.documents(data)
	if p.diags != nil && foreignText.Match(data) {
		p.diags = Diagnostics{{Position{file, 1, 1}, SeverityError, "this is no definition of a composite tool, and no YAML as it is: it seems to be a template of another program", "foreign"}}
	}
	for _, n := range nodes {
		if len(p.diags) > maxReported {
			break
		}
		p.document(n)
	}
	if len(nodes) == 0 && p.diags == nil {
		p.errorf(Position{file, 1, 1}, "foreign", "no definition in this file")
	}
	p.diags.Sort()
	return p.definitions, p.diags
}

// A Text is the text of a file, shared by the definitions of the file.
type Text struct{ lines []string }

// NewText is the text of a file with this content.
func NewText(data []byte) Text { return Text{strings.Split(string(data), "\n")} }

// ParseDocument is Parse for one document of a file.
func ParseDocument(file string, text Text, root *yaml.Node) ([]*Definition, Diagnostics) {
	p := &parser{file: file, lines: text.lines}
	p.document(root)
	p.diags.Sort()
	return p.definitions, p.diags
}

// ParseNode reads one definition in a larger document, such as an entry of
// compositeTools in a configuration; text is that of the whole document. The
// definition is nil if the node is not a mapping.
func ParseNode(file string, text Text, node *yaml.Node) (*Definition, Diagnostics) {
	p := &parser{file: file, lines: text.lines}
	p.definition(node, false)
	p.diags.Sort()
	if p.definitions == nil {
		return nil, p.diags
	}
	return p.definitions[0], p.diags
}

type parser struct {
	file        string
	lines       []string // of the file
	definitions []*Definition
	diags       Diagnostics
}

func (p *parser) document(n *yaml.Node) {
	switch {
	case has(n, "kind") || has(n, "apiVersion"):
		p.resource(n)
	case has(n, "compositeTools") || !IsBare(n) && has(n, "backends"):
		p.errorf(p.position(n), "foreign", "this is a configuration, not a definition; its definitions are checked with it (--config)")
	case n.Kind != yaml.MappingNode && n.Kind != yaml.AliasNode:
		p.errorf(p.position(n), "foreign", "a definition must be a mapping, not %s; several in a file are separated by ---", describeNode(n))
	case (isForeign(n) || len(n.Content) == 2) && wrapping(n) != "":
		p.errorf(p.position(n), "foreign", "a definition is not below a key: leave %q out, and write its keys at the start of the line; several in a file are separated by ---", wrapping(n))
	case isForeign(n):
		p.errorf(p.position(n), "foreign", "this is no definition of a composite tool: it has neither steps nor a script")
	default:
		p.definition(n, false)
	}
}

// foreignText is in a file that is no YAML because it is a template, as of Helm or Jinja.
var foreignText = regexp.MustCompile(`(?m)^\s*(\{\{-? |\{%[-+]?\s*\w)`)

// commonKeys are keys of a definition that files of other programs have, too.
var commonKeys = []string{"name", "version", "metadata", "annotations", "tools", "modules", "timeout", "output"}

// isForeign reports whether a mapping is something else than a definition, and not one
// with mistakes: it has no key that only a definition has, nor one that may mean such a key.
func isForeign(n *yaml.Node) bool {
	keys, strange := keysOf(reflect.TypeFor[Definition]()), false
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	for named := range Members(n) {
		key := named.Value
		switch {
		case slices.Contains(commonKeys, key):
		case template.Nearest(key, names) != "" || slices.ContainsFunc(keys, func(k Key) bool {
			return k.also() == key || slices.Contains(strings.Split(k.Tag.Get("meant"), ","), key)
		}):
			return false
		default:
			strange = true
		}
	}
	return strange
}

// IsBare reports whether a document is a definition, and no resource.
func IsBare(n *yaml.Node) bool {
	return has(n, "steps") || has(n, "script") || has(n, "scriptFile")
}

// wrapping is the key of a mapping below which definitions are; "" = none.
func wrapping(n *yaml.Node) string {
	if has(n, "steps") {
		return ""
	}
	for key, inner := range Members(n) {
		if inner.Kind == yaml.SequenceNode && len(inner.Content) > 0 {
			inner = inner.Content[0]
		}
		if has(inner, "steps") || has(inner, "script") {
			return key.Value
		}
	}
	return ""
}

// has reports whether a mapping has a key.
func has(n *yaml.Node, key string) bool { return Child(n, key) != nil }

func (p *parser) resource(n *yaml.Node) {
	switch kind := kindOf(n); kind {
	case Kind:
		p.definitionResource(n)
	case ServerKind:
		p.server(n)
	default:
		meant := template.DidYouMean(kind, []string{Kind, ServerKind})
		if kind == "" || meant != "" {
			p.errorf(p.position(n), "kind", "kind %q is not a definition of a composite tool%s; expected %s", kind, meant, Kind)
			return
		}
		p.diags.add(Diagnostic{p.position(n), SeverityNote, fmt.Sprintf("kind %q is not a definition of a composite tool; skipped", kind), "kind"})
	}
}

// server reads the definitions in the configuration of a server.
func (p *parser) server(n *yaml.Node) {
	tools := n
	for _, key := range []string{"spec", "config", "compositeTools"} {
		if tools = Child(tools, key); tools == nil {
			return
		}
	}
	if tools.Kind != yaml.SequenceNode {
		p.errorf(p.position(tools), "type", "compositeTools must be a list, not %s", describeNode(tools))
		return
	}
	for _, tool := range tools.Content {
		p.definition(tool, false)
	}
}

func (p *parser) definitionResource(n *yaml.Node) {
	var r resource
	d := newDecoder(p.file, n)
	d.into(n, &r)
	p.diags = append(p.diags, d.diags...)
	switch version := strings.TrimPrefix(r.APIVersion, apiGroup); {
	case version == "v1alpha1", version == "v1beta1":
	default:
		p.errorf(d.position("apiVersion", r.Pos), "kind", "apiVersion %q is not known; expected %sv1beta1 or %[2]sv1alpha1", r.APIVersion, apiGroup)
	}
	if r.Spec.IsZero() || isNull(&r.Spec) {
		p.errorf(r.Pos, "required", "the resource has no spec")
		return
	}
	if def := p.definition(&r.Spec, true); def != nil {
		def.written.resourceName = r.Metadata.Name
	}
}

// kindOf gives the kind of a mapping.
func kindOf(n *yaml.Node) string {
	if kind := Child(n, "kind"); kind != nil {
		return kind.Value
	}
	return ""
}

func (p *parser) definition(n *yaml.Node, inResource bool) *Definition {
	var def Definition
	d := newDecoder(p.file, n)
	d.into(n, &def)
	p.diags = append(p.diags, d.diags...)
	if isNull(n) {
		p.errorf(p.position(n), "type", "the definition is empty")
	}
	if def.Pos.Line == 0 { // not a mapping, which is reported
		return nil
	}
	p.lighten(&def, d)
	p.requiredFlags(def.Parameters, "parameters", &def, d)
	p.conditionals(&def, d)
	def.arguments, def.compiler = &lazySchema{}, &compiler{}
	def.written = &written{
		file:     p.file,
		lines:    p.lines,
		places:   d.places,
		faulty:   d.faulty,
		resource: inResource,
	}
	p.definitions = append(p.definitions, &def)
	return &def
}

// conditionals takes a step of type conditional as one of the type that its keys belong
// to: a step of any type has a condition, except the inner step of a forEach.
func (p *parser) conditionals(def *Definition, d *decoder) {
	for i, s := range def.Steps {
		if s == nil || s.Type != "conditional" || s.Tool == "" && s.Message == "" {
			continue
		}
		if s.Type = ToolStep; s.Tool == "" {
			s.Type = ElicitationStep
		}
		path := template.AtElement("steps", i)
		p.warnf(d.position(path+".type", def.Pos), "other-key", "%s.type: conditional is taken as %s, since a step of any type has a condition: write that", path, s.Type)
	}
}

func (p *parser) position(n *yaml.Node) Position { return Position{p.file, n.Line, n.Column} }

func (p *parser) errorf(pos Position, check, format string, args ...any) {
	p.diags.add(Diagnostic{pos, SeverityError, fmt.Sprintf(format, args...), check})
}

func (p *parser) warnf(pos Position, check, format string, args ...any) {
	p.diags.add(Diagnostic{pos, SeverityWarning, fmt.Sprintf(format, args...), check})
}
