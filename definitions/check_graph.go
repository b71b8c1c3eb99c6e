package definitions

import (
	"fmt"
	"slices"
	"strings"
)

// A graphCheck checks the dependencies of steps.
type graphCheck struct{ *subject }

// graph checks the dependencies of steps: dependsOn, and the steps that templates read.
func (c *graphCheck) graph() {
	c.dependencies()
	explicit := c.explicitDependencies()
	c.implicitDependencies(explicit)
	c.cycles()
}

func (c *graphCheck) dependencies() {
	for i, s := range c.def.Steps {
		seen := make(map[string]bool, len(s.DependsOn))
		for j, id := range s.DependsOn {
			path := fmt.Sprintf("steps[%d].dependsOn[%d]", i, j)
			switch {
			case c.steps[id] == nil:
				c.errorf(path, "unknown-step", "step %q depends on step %q, which does not exist%s", s.ID, id, c.hint(id))
			case id == s.ID:
				c.errorf(path, "dependency-cycle", "step %q depends on itself", s.ID)
			case seen[id]:
				c.warnf(path, "duplicate-step", "step %q depends on step %q twice", s.ID, id)
			}
			seen[id] = true
		}
	}
}

// explicitDependencies gives, for each step, all that it waits for because of
// dependsOn, directly or not.
func (c *graphCheck) explicitDependencies() map[string]map[string]bool {
	ancestors := make(map[string]map[string]bool, len(c.steps))
	for id := range c.steps {
		all := make(map[string]bool)
		c.collectAncestors(id, all)
		ancestors[id] = all
	}
	return ancestors
}

func (c *graphCheck) collectAncestors(id string, all map[string]bool) {
	for _, dep := range c.steps[id].DependsOn {
		if !all[dep] && c.steps[dep] != nil {
			all[dep] = true
			c.collectAncestors(dep, all)
		}
	}
}

// implicitDependencies warns of steps that read a step on which they do not
// depend; they wait for it all the same.
func (c *graphCheck) implicitDependencies(ancestors map[string]map[string]bool) {
	reported := make(map[[2]string]bool)
	for _, r := range c.reads {
		pair := [2]string{r.by, r.step}
		switch {
		case r.by == "" || reported[pair] || r.ofItself():
		case r.undoes && r.by == r.step:
			c.readf(r, SeverityError, "dependency-cycle", "%s: %s reads the result of the whole step, which may not be there yet; .output is what is undone", r.label, r.field)
		case r.undoes && ancestors[r.step][r.by]: // see compensationEdges
		case r.by == r.step:
			c.readf(r, SeverityError, "dependency-cycle", "%s: %s reads the step's own result, which is not there yet", r.label, r.field)
		case !ancestors[r.by][r.step]:
			c.readf(r, SeverityWarning, "implicit-dependency", "%s: %s reads step %q without dependsOn; the step waits for it nevertheless", r.label, r.field, r.step)
		}
		reported[pair] = true
	}
}

// ofItself reports whether a compensation reads the step that it undoes, which
// has completed by then.
func (r read) ofItself() bool { return r.undoes && r.by == r.step && r.outermost }

// An edge is a dependency of a step on another, and where it is written.
type edge struct {
	to   string
	path string
	pos  func() Position
}

// edge is the dependency of the reader on the step that it reads.
func (r read) edge(c *subject) edge {
	return edge{r.step, r.path, func() Position { return c.def.within(r.path, r.text, r.at) }}
}

// edges gives what each step waits for: dependsOn first, then what it reads.
func (c *graphCheck) edges() map[string][]edge {
	edges := make(map[string][]edge, len(c.steps))
	add := func(from string, e edge) {
		known := slices.ContainsFunc(edges[from], func(other edge) bool { return other.to == e.to })
		if from != e.to && c.steps[e.to] != nil && !known {
			edges[from] = append(edges[from], e)
		}
	}
	for i, s := range c.def.Steps {
		for j, id := range s.DependsOn {
			path := fmt.Sprintf("steps[%d].dependsOn[%d]", i, j)
			add(s.ID, edge{id, path, func() Position { return c.def.At(path) }})
		}
	}
	for _, r := range c.reads {
		if r.by != "" && !r.undoes {
			add(r.by, r.edge(c.subject))
		}
	}
	c.compensationEdges(edges, add)
	return edges
}

// compensationEdges adds the steps that compensations read: a compensation can only
// read steps that have ended when its own completes.
func (c *graphCheck) compensationEdges(edges map[string][]edge, add func(from string, e edge)) {
	for _, r := range c.reads {
		switch {
		case !r.undoes || r.by == r.step:
		case waitsFor(edges, r.step, r.by):
			c.readf(r, SeverityError, "dependency-cycle", "%s: %s reads step %q, which runs after this one and may not have run when this one is undone", r.label, r.field, r.step)
		default:
			add(r.by, r.edge(c.subject))
		}
	}
}

// waitsFor reports whether a step waits for another, directly or not.
func waitsFor(edges map[string][]edge, id, other string) bool {
	seen := make(map[string]bool)
	var walk func(id string) bool
	walk = func(id string) bool {
		if seen[id] {
			return false
		}
		seen[id] = true
		return id == other || slices.ContainsFunc(edges[id], func(e edge) bool { return walk(e.to) })
	}
	return walk(id)
}

// cycles reports each cycle that a walk along the edges finds.
func (c *graphCheck) cycles() {
	edges := c.edges()
	done := make(map[string]bool, len(c.steps))
	var way []string
	var walk func(id string)
	walk = func(id string) {
		way = append(way, id)
		for _, e := range edges[id] {
			if i := slices.Index(way, e.to); i >= 0 {
				cycle := append(slices.Clone(way[i:]), e.to)
				c.report(e.path, e.pos(), SeverityError, "dependency-cycle", "steps wait for each other: %s", strings.Join(cycle, " → "))
			} else if !done[e.to] {
				walk(e.to)
			}
		}
		way = way[:len(way)-1]
		done[id] = true
	}
	for _, s := range c.def.Steps {
		if !done[s.ID] {
			walk(s.ID)
		}
	}
}

// defaultResults checks that a step whose output may be missing when it is read has
// default results.
func (c *graphCheck) defaultResults() {
	reported := make(map[string]bool)
	for _, r := range c.reads {
		s := c.steps[r.step]
		if r.optional || r.undoes && r.by == r.step || len(r.what) == 0 || r.what[0] != "output" {
			continue
		}
		field := ""
		if len(r.what) > 1 {
			field = r.what[1]
		}
		why, severity := c.mayBeMissing(s, r.by)
		key := strings.Join([]string{r.path, r.step, field}, "\x00")
		if why == "" || s.gives(field) || reported[key] {
			continue
		}
		reported[key] = true
		remedy := "give that step defaultResults" + suffix(" with ", field)
		if r.by == "" {
			remedy = "give this property a default, or that step defaultResults" + suffix(" with ", field)
		}
		c.readf(r, severity, "default-results", "%s: %s reads output%s of step %q, which %s; %s", r.label, r.field, suffix(".", field), r.step, why, remedy)
	}
}

// gives reports whether a field of a step's output, or all of it, is there however the step
// ends: it has a default, or is what was answered.
func (s *Step) gives(field string) bool {
	answered := s.Type.Traits().Asks && (field == "action" || field == "content")
	return answered || s.hasDefault(field) || field == "" && s.DefaultResults.Given
}

// mayBeMissing says why a step may have ended without an output when another reads it, or
// the output block, by which is ""; "" = it may not.
func (c *graphCheck) mayBeMissing(s *Step, by string) (why string, severity Severity) {
	switch traits := s.Type.Traits(); {
	case s.Condition != "":
		return "may be skipped", SeverityError
	case s.Continues() && traits.Counts:
		return "has none if its collection cannot be read, and continues", SeverityWarning
	case s.Continues():
		return "may fail and continue", SeverityError
	case by == "" && c.def.FailureMode == BestEffort && !traits.Sure:
		return "may fail without ending the run", SeverityWarning
	}
	return "", ""
}

func suffix(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}
