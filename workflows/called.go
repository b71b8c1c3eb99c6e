package workflows

import (
	"slices"
	"strings"
)

// A called run as the one that has called it knows it.
type called struct {
	id, tool string
	path     StepPath

	over bool // it has announced its end, since it was adopted or reset

	rounds  []string          // ChildReport.Round of its reports; the last one counts, as it was reset since the others
	asked   map[string]string // the round of each elicitation that it has reported, by ID
	carried []Elicitation     // that were open when this run continued as new
}

func newCalled(path StepPath, id, tool string) *called {
	return &called{id: id, path: path, tool: tool}
}

// hears notes the round of a report. It is not current if the called run was reset since,
// and what was asked before is void if the run was reset before it.
func (c *called) hears(round string) (current, reset bool) {
	if at := slices.Index(c.rounds, round); at >= 0 {
		return at == len(c.rounds)-1, false
	}
	void := func(e Elicitation) bool { return e.Run == c.id && !strings.HasPrefix(e.Round, round) }
	reset = len(c.rounds) > 0 || slices.ContainsFunc(c.carried, void)
	c.rounds = append(c.rounds, round)
	return true, reset
}

// asksAnew notes an elicitation of a report, and reports whether it is another one than
// that with the same ID before: of a run that was reset, itself or below it.
func (c *called) asksAnew(e Elicitation, report string) bool {
	if c.asked == nil {
		c.asked = map[string]string{}
	}
	was, known := c.asked[e.ID]
	c.asked[e.ID] = report + " " + e.Round
	return known && was != c.asked[e.ID]
}

// voids notes that an elicitation which is reported from now on is another one than that
// which this run had open when it continued as new.
func (c *called) voids() {
	for _, e := range c.carried {
		if _, known := c.asked[e.ID]; !known {
			c.asksAnew(e, "void")
		}
	}
	c.carried = nil
}
