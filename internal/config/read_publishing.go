package config

import (
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
)

func (r *reader) publishing(c *publishing) Publishing {
	if c == nil {
		return Publishing{}
	}
	s := Publishing{Drift: registry.DriftPolicy(c.Drift)}
	for i, v := range c.Versions {
		at := keyPath{"publishing", "versions", i}
		offer := VersionOffer{definitions.Reference{Name: v.Tool, Version: v.Version}, v.As}
		if _, err := definitions.ParseReference(v.Tool); err != nil && v.Tool != "" {
			r.errorf(at.to("tool"), "publishing", "%v", err)
		}
		if err := offer.Reference.Check(); err != nil && v.Version != "" {
			r.errorf(at.to("version"), "publishing", "%q is no version and no constraint of versions, such as 1.2.0, 1 or ^1.2", v.Version)
		}
		if _, err := definitions.ParseReference(v.As); v.As != "" && (err != nil || v.As == v.Tool) {
			r.errorf(at.to("as"), "publishing", "%q is no name of a tool of its own, such as %s_v1", v.As, v.Tool)
		}
		if v.As != "" && slices.ContainsFunc(s.Versions, func(o VersionOffer) bool { return o.As == v.As }) {
			r.errorf(at.to("as"), "publishing", "%s is the name of another one, too", v.As)
		}
		s.Versions = append(s.Versions, offer)
	}
	return s
}
