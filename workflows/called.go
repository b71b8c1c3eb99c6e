package workflows

import "slices"

// A called run as the one that has called it knows it.
type called struct {
	id, tool string
	path     StepPath

	over   bool     // it has announced its end, since it was adopted or reset, or takes no answer
	rounds []string // ChildReport.Round of its reports; the last one counts, as it was reset since the others
}

func newCalled(path StepPath, id, tool string) *called {
	return &called{id: id, path: path, tool: tool}
}

// hears notes the round of a report, and reports whether the called run was not reset since.
func (c *called) hears(round string) (current bool) {
	if !slices.Contains(c.rounds, round) {
		c.rounds = append(c.rounds, round)
	}
	return c.rounds[len(c.rounds)-1] == round
}
