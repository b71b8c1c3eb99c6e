package definitions

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// forEachKind executes a step for each item of a collection.
type forEachKind struct{}

func (forEachKind) Type() StepType { return ForEachStep }

func (forEachKind) Keys() StepKeys {
	return StepKeys{
		Own:  []string{"collection", "itemVar", "maxParallel", "maxIterations", "step", "collect"},
		Must: []string{"collection", "step"},
	}
}

func (forEachKind) Traits() Traits { return Traits{Composed: true, Counts: true} }

func (forEachKind) Output(s *Step) []string {
	known := []string{"iterations", "count", "completed", "failed"}
	if s.Collect != "" {
		known = append(known, "collected")
	}
	return known
}

func (forEachKind) Does(s *Step) string { return "for each of " + s.Collection }

func (forEachKind) Look() Look {
	return Look{Symbol: "■", Fill: "#e9f7ef", Line: "#3f8a5f", Dark: [2]string{"#12301f", "#6cc394"}, Shape: Stack, Mermaid: [2]string{"[[", "]]"}}
}

func (forEachKind) Check(at StepCheck) {
	c, n := at.c, at.n
	s := n.step
	if strings.TrimSpace(s.Collection) == "" {
		c.stepErrorf(n, "collection", "required", "collection is required: a template that gives an array or an object")
	}
	if s.Step == nil {
		c.stepErrorf(n, "step", "required", "step is required: what is done for each item")
	}
	switch {
	case s.ItemVar == "":
	case s.ItemVar == "index":
		c.stepErrorf(n, "itemVar", "name", "itemVar must not be index, which is the number of the item")
	case s.ItemVar == "key":
		c.stepWarnf(n, "itemVar", "name", "itemVar is key, which is the name of a member when the collection is an object; then the member's value cannot be read")
	case !varPattern.MatchString(s.ItemVar):
		c.stepErrorf(n, "itemVar", "name", "itemVar %q: a variable is letters, digits and _, with no digit first", s.ItemVar)
	}
	if item := s.ofLoops(); item != "" {
		c.stepWarnf(n, "timeout", "timeout", "an item is a forEach without a timeout and may take %s, but all of them together no more than %s; give one of the two a timeout", item, DefaultStepTimeout)
	}
	if s.Step != nil && s.Timeout > 0 && s.Step.Timeout > s.Timeout {
		c.stepWarnf(n, "timeout", "timeout", "an item may take %s, but all of them together no more than %s; raise the timeout of the forEach, or leave it out", s.Step.Timeout, s.Timeout)
	}
	c.between(n, "maxParallel", s.MaxParallel, MaxParallel)
	c.between(n, "maxIterations", s.MaxIterations, MaxIterations)
}

// LoopTime is how long a forEach may take for a number of items: its timeout; else the
// timeout of the inner step for each round of items, and at least DefaultStepTimeout;
// 0 = as long as the run, if the inner step has no limit.
func (s *Step) LoopTime(items int) time.Duration {
	width := min(cmp.Or(s.MaxParallel, DefaultParallel), MaxParallel)
	rounds := time.Duration((items + width - 1) / max(width, 1))
	inner := time.Duration(s.Step.Timeout)
	switch {
	case s.Timeout > 0:
		return time.Duration(s.Timeout)
	case inner == 0 && (s.Step.Type == WorkflowStep || s.Step.Type == WaitStep), rounds > 0 && inner > math.MaxInt64/rounds:
		return 0
	}
	return max(inner*rounds, DefaultStepTimeout)
}

// ofLoops is what an item may take that is a loop, if neither has a timeout and that is more
// than all items have; "" = it is not.
func (s *Step) ofLoops() string {
	if s.Timeout > 0 || s.Step == nil || s.Step.Type != ForEachStep || s.Step.Timeout > 0 || s.Step.Step == nil {
		return ""
	}
	switch item := s.Step.LoopTime(1); item {
	case 0:
		return "as long as the run"
	case DefaultStepTimeout:
		return ""
	default:
		return item.String()
	}
}

// between checks a number whose zero value means its default.
func (c *checker) between(n node, name string, value, most int) {
	if value < 0 || value > most {
		c.stepErrorf(n, name, "limit", "%s is %d; 1 to %d are allowed", name, value, most)
	}
}
