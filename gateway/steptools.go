package gateway

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
)

// A Finder knows the tools of the backends; a Catalogue is one.
type Finder interface {
	Tools() []backends.Tool
	Find(name string) (backends.Tool, bool)
}

// StepTools are the tools of a catalogue as steps see them.
func StepTools(all Finder) definitions.Tools {
	spelled := sync.OnceValue(func() map[string]*backends.Tool { return bySpelling(all.Tools()) })
	return func(name string) (definitions.Tool, bool) {
		if t, ok := all.Find(name); ok {
			return stepTool(t), true
		}
		if t := spelled()[name]; t != nil {
			return stepTool(*t), true
		}
		return definitions.Tool{}, false
	}
}

// bySpelling has tools by their names as scripts spell them; nil = ambiguous.
func bySpelling(tools []backends.Tool) map[string]*backends.Tool {
	found := make(map[string]*backends.Tool, 2*len(tools))
	for i := range tools {
		t := &tools[i]
		for _, name := range definitions.Spellings(t.Name, t.Backend, t.Original) {
			if other, ok := found[name]; ok && other != t {
				found[name] = nil
			} else {
				found[name] = t
			}
		}
	}
	return found
}

func stepTool(t backends.Tool) definitions.Tool {
	hints := definitions.Annotations(t.Annotations)
	return definitions.Tool{
		Name:         t.Name,
		Backend:      t.Backend,
		Original:     t.Original,
		InputSchema:  t.InputSchema,
		OutputSchema: t.OutputSchema,
		Annotations:  &hints,
		Effect:       definitions.Effect(t.Effect),
		OnUnknown:    definitions.OnUnknown(t.OnUnknown),
		KeyArgument:  t.KeyArgument,
		Probe:        probeOf(t),
		Limited:      t.Limited,
		Description:  t.Description,
	}
}

// probeOf is the probe of a backend tool, whose tool is one of the same backend.
func probeOf(t backends.Tool) *definitions.Probe {
	var p definitions.Probe
	if len(t.Probe) == 0 || json.Unmarshal(t.Probe, &p) != nil {
		return nil
	}
	p.Tool = t.Backend + "." + p.Tool
	return &p
}

// Snapshot is what is known now of the tools that a definition uses, by the name that
// its steps use. It is an error if one of them is not there; unseen reports which
// backend may offer it that has not answered yet.
func Snapshot(d *definitions.Definition, find definitions.Tools, unseen func(name string) (backend string, ok bool)) (map[string]definitions.Tool, error) {
	tools := map[string]definitions.Tool{}
	for _, name := range d.ToolNames() {
		backend, mayCome := unseen(name) // before it is looked for: it may come meanwhile
		t, ok := find(name)
		if !ok && mayCome {
			return nil, &unseenError{tool: name, backend: backend}
		}
		if !ok {
			return nil, fmt.Errorf("tool %s of composite tool %s: %w", name, d.Name, errToolGone)
		}
		tools[name] = t
		if t.Probe == nil {
			continue
		}
		_, used := tools[t.Probe.Tool]
		if asked, ok := find(t.Probe.Tool); ok && !used { // without it, the probe does not know
			asked.ForProbe = true
			tools[t.Probe.Tool] = asked
		}
	}
	return tools, nil
}

// AddDynamic adds the tools that scripts of a definition may call by a name computed at
// run time, if they may be called. Their schemas are not needed.
func AddDynamic(d *definitions.Definition, all []backends.Tool, tools map[string]definitions.Tool, may func(name string) bool) {
	patterns := d.Scripts().ToolPatterns()
	if patterns == nil {
		return
	}
	for _, t := range all {
		before, known := tools[t.Name]
		known = known && !before.ForProbe
		matches := definitions.MatchesTool(patterns, t.Name) || definitions.MatchesTool(patterns, t.Backend+"."+t.Original)
		if known || !matches || !may(t.Name) {
			continue
		}
		tool := stepTool(t)
		tool.InputSchema, tool.OutputSchema, tool.Annotations, tool.Description = nil, nil, nil, ""
		tools[t.Name] = tool
	}
}
