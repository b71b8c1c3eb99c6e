package gateway

import (
	"encoding/json"
	"fmt"

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
	return func(name string) (definitions.Tool, bool) {
		t, ok := all.Find(name)
		if !ok {
			t, ok = spelled(all.Tools(), name)
		}
		if !ok {
			return definitions.Tool{}, false
		}
		return stepTool(t), true
	}
}

// spelled finds a tool by its name as scripts spell it, in which letters that no
// identifier has are underscores: github.pull_request for pull-request.
func spelled(tools []backends.Tool, name string) (found backends.Tool, ok bool) {
	for _, t := range tools {
		if definitions.Identifier(t.Name) == name || definitions.Identifier(t.Backend)+"."+definitions.Identifier(t.Original) == name {
			if ok { // ambiguous
				return backends.Tool{}, false
			}
			found, ok = t, true
		}
	}
	return found, ok
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
	patterns := d.ToolPatterns()
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
