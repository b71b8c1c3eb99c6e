package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/backends"
)

// toolPrefix is what may stand before the name of a composite tool. Clients take
// letters, digits, _, . and -; the colon is for those that want workflow:NAME.
var toolPrefix = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.:/-]{0,31}$`)

func (r *reader) prefix(c *configuration) string {
	if c.Aggregation == nil || c.Aggregation.CompositeToolPrefix == "" {
		return ""
	}
	prefix := c.Aggregation.CompositeToolPrefix
	if !toolPrefix.MatchString(prefix) {
		r.errorf(keyPath{"aggregation", "compositeToolPrefix"}, "aggregation", "%q is no prefix of names; it is up to 32 letters, digits, _, ., -, : and /, with a letter or digit first", prefix)
	}
	return prefix
}

func (r *reader) aggregation(c *configuration) backends.Aggregation {
	a := c.Aggregation
	if a == nil {
		a = &aggregation{}
	}
	out := backends.Aggregation{ExcludeAllTools: a.ExcludeAllTools}
	if rules := a.ConflictResolutionConfig; rules != nil {
		out.PrefixFormat, out.Priority = rules.PrefixFormat, rules.PriorityOrder
	}
	r.strategyOfConflicts(c, a, &out)
	for i, tools := range a.Tools {
		out.Tools = append(out.Tools, r.workload(c, keyPath{"aggregation", "tools", i}, tools))
	}
	visibility(c, a, &out)
	return out
}

func (r *reader) strategyOfConflicts(c *configuration, a *aggregation, out *backends.Aggregation) {
	out.Strategy = a.ConflictResolution
	switch a.ConflictResolution {
	case "", "prefix":
		out.Strategy = backends.StrategyPrefix
	case "priority":
		if len(out.Priority) == 0 {
			r.errorf(keyPath{"aggregation", "conflictResolutionConfig", "priorityOrder"}, "aggregation", "is missing; the strategy priority needs it")
		}
	}
	for i, name := range out.Priority {
		r.known(c, keyPath{"aggregation", "conflictResolutionConfig", "priorityOrder", i}, name)
	}
}

func (r *reader) workload(c *configuration, p keyPath, w *workloadTools) backends.WorkloadTools {
	if w.Workload != "" {
		r.known(c, p.to("workload"), w.Workload)
	}
	w = r.withToolConfig(p, w)
	for i, name := range w.Filter {
		r.names(p.to("filter", i), w.Workload, name)
	}
	out := backends.WorkloadTools{Workload: w.Workload, Filter: w.Filter, ExcludeAll: w.ExcludeAll, Overrides: map[string]backends.Override{}}
	for name, o := range w.Overrides {
		r.names(p.to("overrides", name), w.Workload, name)
		override := backends.Override{Name: o.Name, Description: o.Description}
		if o.Annotations != nil {
			override.Annotations = backends.Annotations(*o.Annotations)
		}
		out.Overrides[name] = override
	}
	return out
}

// visibility applies defaultToolVisibility: under deny, a backend without an
// entry of its own in aggregation.tools shows no tools.
func visibility(c *configuration, a *aggregation, out *backends.Aggregation) {
	if a.DefaultToolVisibility != "deny" {
		return
	}
	for _, b := range c.Backends {
		if !slices.ContainsFunc(a.Tools, func(w *workloadTools) bool { return w.Workload == b.Name }) {
			out.Tools = append(out.Tools, backends.WorkloadTools{Workload: b.Name, ExcludeAll: true})
		}
	}
}

// known warns of a name that is no backend's: files of ToolHive name those that it
// discovers.
func (r *reader) known(c *configuration, p keyPath, name string) {
	var names []string
	for _, b := range c.Backends {
		names = append(names, b.Name)
	}
	if !slices.Contains(names, name) {
		r.warnf(p, "backends", "unknown backend %q%s; known backends: %s", name, template.DidYouMean(name, names), cmp.Or(strings.Join(names, ", "), "none"))
	}
}
