package backends

import (
	"cmp"
	"fmt"
	"path"
)

// The effect classes of tools.
const (
	effectRead       = "read"
	effectIdempotent = "idempotent"
	effectKeyed      = "keyed"
	effectUnsafe     = "unsafe"
)

// effectRules give tools their effects.
type effectRules struct {
	rules   []EffectRule // first match wins
	trusted bool         // the backend's own hints count where no rule matches
}

// rules are the effect rules of the configuration.
func (c Config) rules() effectRules { return effectRules{c.Effects, c.TrustAnnotations} }

// classify gives tools with their effects; those that are given stay as they are.
func (e effectRules) classify(tools []Tool) []Tool {
	classified := make([]Tool, len(tools))
	for i, t := range tools {
		rule, byHints := e.effect(t.Original, t.Annotations)
		t.Effect, t.KeyArgument, t.OnUnknown, t.Probe, t.byHints = rule.Class, rule.KeyArgument, rule.OnUnknown, rule.Probe, byHints
		classified[i] = t
	}
	return classified
}

// effect gives the effect of a tool: the first rule that matches, else by the
// tool's hints if they are trusted (byHints), else unsafe.
func (e effectRules) effect(tool string, hints Annotations) (rule EffectRule, byHints bool) {
	for _, r := range e.rules {
		if ok, _ := path.Match(r.Tool, tool); ok {
			return r, false
		}
	}
	if e.trusted {
		return EffectRule{Class: hints.class()}, true
	}
	return EffectRule{Class: effectUnsafe}, false
}

// class is the effect class that the hints promise.
func (a Annotations) class() string {
	isTrue := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case isTrue(a.ReadOnlyHint):
		return effectRead
	case isTrue(a.IdempotentHint):
		return effectIdempotent
	}
	return effectUnsafe
}

// overridden gives the annotations with those of by in their place.
func (a Annotations) overridden(by Annotations) Annotations {
	return Annotations{
		Title:           cmp.Or(by.Title, a.Title),
		ReadOnlyHint:    cmp.Or(by.ReadOnlyHint, a.ReadOnlyHint),
		DestructiveHint: cmp.Or(by.DestructiveHint, a.DestructiveHint),
		IdempotentHint:  cmp.Or(by.IdempotentHint, a.IdempotentHint),
		OpenWorldHint:   cmp.Or(by.OpenWorldHint, a.OpenWorldHint),
	}
}

func (r EffectRule) check() error {
	if _, err := path.Match(r.Tool, ""); err != nil || r.Tool == "" {
		return fmt.Errorf("effect rule: tool %q is not a glob such as get_*", r.Tool)
	}
	switch r.OnUnknown {
	case "", "fail":
	case "ask":
		if r.Class != effectUnsafe {
			return fmt.Errorf("effect rule for %s: onUnknown needs class unsafe; a call of class %s is repeated", r.Tool, r.Class)
		}
	default:
		return fmt.Errorf("effect rule for %s: onUnknown %q: use fail or ask", r.Tool, r.OnUnknown)
	}
	switch r.Class {
	case effectRead, effectIdempotent, effectUnsafe:
		if r.KeyArgument != "" {
			return fmt.Errorf("effect rule for %s: only class keyed takes a key argument", r.Tool)
		}
	case effectKeyed:
	default:
		return fmt.Errorf("effect rule for %s: class %q: use read, idempotent, keyed or unsafe", r.Tool, r.Class)
	}
	return nil
}
