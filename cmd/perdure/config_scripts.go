package main

import (
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// A scriptsConfig says what scripts may do. It is ours.
type scriptsConfig struct {
	Agents bool          `yaml:"agents"` // may send scripts, by execute_tool_script
	Limits *scriptLimits `yaml:"limits"`
}

// scriptLimits are lower limits than the defaults of runs.ScriptLimits; 0 = the
// default.
type scriptLimits struct {
	Steps  int `yaml:"steps"`
	Memory int `yaml:"memory"` // bytes
	Calls  int `yaml:"calls"`
	Width  int `yaml:"width"`
	Fan    int `yaml:"fan"`
	Value  int `yaml:"value"` // bytes
	Depth  int `yaml:"depth"`

	Time definitions.Duration `yaml:"time"` // from start to end; 0 = the timeout of the definition or the step
}

// A scriptSettings is what scripts may do.
type scriptSettings struct {
	Agents bool
	Limits *runs.ScriptLimits // nil = the defaults
}

func (r *configReader) scripts(c *scriptsConfig) scriptSettings {
	if c == nil {
		return scriptSettings{}
	}
	s := scriptSettings{Agents: c.Agents}
	if c.Limits == nil {
		return s
	}
	most := runs.DefaultScriptLimits()
	for _, limit := range []struct {
		name        string
		value, most int
	}{
		{"steps", c.Limits.Steps, most.Steps}, {"memory", c.Limits.Memory, most.Memory}, {"calls", c.Limits.Calls, most.Calls},
		{"width", c.Limits.Width, most.Width}, {"fan", c.Limits.Fan, most.Fan}, {"value", c.Limits.Value, most.Value}, {"depth", c.Limits.Depth, most.Depth},
	} {
		if limit.value < 0 || limit.value > limit.most {
			r.errorf(keyPath{"scripts", "limits", limit.name}, "limit", "is %d; limits can only be lowered, from %d", limit.value, limit.most)
		}
	}
	if limit := time.Duration(c.Limits.Time); limit < 0 || limit > runs.MaxScriptTime {
		r.errorf(keyPath{"scripts", "limits", "time"}, "limit", "is %s; limits can only be lowered, from %s", limit, runs.MaxScriptTime)
	}
	s.Limits = &runs.ScriptLimits{Calls: c.Limits.Calls, Width: c.Limits.Width, Fan: c.Limits.Fan, Time: time.Duration(c.Limits.Time)}
	s.Limits.Steps, s.Limits.Memory, s.Limits.Value, s.Limits.Depth = c.Limits.Steps, c.Limits.Memory, c.Limits.Value, c.Limits.Depth
	return s
}
