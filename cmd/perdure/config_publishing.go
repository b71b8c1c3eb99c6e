package main

import (
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
)

// A publishing is ours: what of published composite tools is offered, and when.
type publishing struct {
	Drift    string         `yaml:"drift"`
	Versions []*versionTool `yaml:"versions"`
}

// A versionTool is a version that is a tool of its own.
type versionTool struct {
	Tool    string `yaml:"tool"`
	Version string `yaml:"version"`
	As      string `yaml:"as"`
}

type publishingSettings struct {
	Drift    registry.DriftPolicy
	Versions []versionOffer
}

// A versionOffer is a version that is offered under a name of its own.
type versionOffer struct {
	Reference definitions.Reference
	As        string
}

func (r *configReader) publishing(c *publishing) publishingSettings {
	var s publishingSettings
	if c == nil {
		return s
	}
	p := keyPath{"publishing"}
	s.Drift = registry.DriftPolicy(c.Drift)
	if known := []registry.DriftPolicy{"", registry.AllowDrift, registry.WarnOfDrift, registry.FailOnDrift}; !slices.Contains(known, s.Drift) {
		r.errorf(p.to("drift"), "publishing", "%q is not known; use allow, warn or fail", c.Drift)
	}
	for i, v := range c.Versions {
		at := p.to("versions", i)
		offer := versionOffer{definitions.Reference{Name: v.Tool, Version: v.Version}, v.As}
		if _, err := definitions.ParseReference(v.Tool); err != nil {
			r.errorf(at.to("tool"), "publishing", "%v", err)
		}
		if err := offer.Reference.Check(); err != nil || v.Version == "" {
			r.errorf(at.to("version"), "publishing", "%q is no version and no constraint of versions, such as 1.2.0, 1 or ^1.2", v.Version)
		}
		if _, err := definitions.ParseReference(v.As); err != nil || v.As == v.Tool {
			r.errorf(at.to("as"), "publishing", "%q is no name of a tool of its own, such as %s_v1", v.As, v.Tool)
		}
		if slices.ContainsFunc(s.Versions, func(o versionOffer) bool { return o.As == v.As }) {
			r.errorf(at.to("as"), "publishing", "%s is the name of another one, too", v.As)
		}
		s.Versions = append(s.Versions, offer)
	}
	return s
}
