package config

import (
	"maps"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// toolConfigKind is the kind of resources that toolConfigRef names.
const toolConfigKind = "MCPToolConfig"

// A toolConfig has the settings of an MCPToolConfig for the tools of a backend.
type toolConfig struct {
	ToolsFilter   []string                 `yaml:"toolsFilter"`
	ToolsOverride map[string]*toolOverride `yaml:"toolsOverride"`

	pos  definitions.Position
	used bool
}

// toolConfig takes an MCPToolConfig up.
func (l *loader) toolConfig(file string, doc *yaml.Node) {
	config := &toolConfig{pos: positionOf(file, doc)}
	if spec, ok := lookup(doc, keyPath{"spec"}); ok {
		l.report(definitions.Decode(file, spec, config))
	}
	name, ok := lookup(doc, keyPath{"metadata", "name"})
	switch {
	case !ok:
		l.errorf(positionOf(file, name), "missing", "metadata.name is missing; toolConfigRef finds the %s by it", toolConfigKind)
	case l.configs[name.Value] != nil:
		l.errorf(positionOf(file, name), "aggregation", "%s %q is there twice; the first is in line %d", toolConfigKind, name.Value, l.configs[name.Value].pos.Line)
	default:
		if l.configs == nil {
			l.configs = map[string]*toolConfig{}
		}
		l.configs[name.Value] = config
	}
}

// noteUnused notes the MCPToolConfigs that no toolConfigRef names.
func (l *loader) noteUnused() {
	for name, config := range l.configs {
		if !config.used {
			l.reportf(definitions.SeverityNote, config.pos, "aggregation", "%s %q is named by no toolConfigRef; skipped", toolConfigKind, name)
		}
	}
}

// withToolConfig adds what toolConfigRef names to the settings of a backend: its filter,
// unless they have one, and the overrides of tools that they do not override. One that is
// not there is an error, since it may hide tools.
func (r *reader) withToolConfig(p keyPath, w *workloadTools) *workloadTools {
	if w.ToolConfigRef == nil || w.ToolConfigRef.Name == "" {
		return w
	}
	config := r.configs[w.ToolConfigRef.Name]
	if config == nil {
		r.errorf(p.to("toolConfigRef"), "reference", "%s %q is not in this file; add it as a document of its own, or write filter and overrides", toolConfigKind, w.ToolConfigRef.Name)
		return w
	}
	config.used = true
	merged := *w
	if len(merged.Filter) == 0 {
		merged.Filter = config.ToolsFilter
	}
	merged.Overrides = maps.Clone(config.ToolsOverride)
	if merged.Overrides == nil {
		merged.Overrides = map[string]*toolOverride{}
	}
	maps.Copy(merged.Overrides, w.Overrides)
	return &merged
}
