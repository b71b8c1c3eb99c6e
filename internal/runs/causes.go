package runs

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/codes"
)

// A Cause is why runs ended without completing: what their errors have in common. Of
// the step and the message, parts that differ from run to run are replaced: the items
// of a forEach by [*], quoted text by "…", IDs of runs by RUN, and numbers, times and random names by #.
type Cause struct {
	Code    codes.Code `json:"code"`
	Step    string     `json:"step,omitempty"` // its path; "" = the error is of no step
	Message string     `json:"message"`
}

// A CauseGroup is the runs that ended for the same Cause.
type CauseGroup struct {
	Cause
	Count   int   `json:"count"`
	Example RunID `json:"example"` // the run that started last
}

// causeOf is the cause of an error.
func causeOf(e *Error) Cause {
	return Cause{Code: e.Code, Step: items.ReplaceAllString(string(e.StepPath), "[*]"), Message: general(e.Message, e.RunID)}
}

// GroupByCause groups those of runs, the newest first, that have an error; the largest
// group first.
func GroupByCause(list []Run) []CauseGroup {
	groups := []CauseGroup{}
	at := map[Cause]int{}
	for _, run := range list {
		if run.Error == nil {
			continue
		}
		cause := causeOf(run.Error)
		i, known := at[cause]
		if !known {
			i = len(groups)
			at[cause] = i
			groups = append(groups, CauseGroup{Cause: cause, Example: run.ID})
		}
		groups[i].Count++
	}
	slices.SortStableFunc(groups, func(a, b CauseGroup) int { return cmp.Compare(b.Count, a.Count) })
	return groups
}

// What differs in messages from run to run.
var (
	quoted   = regexp.MustCompile(`"(\\.|[^"\\])*"|\B'[^']*'\B`)
	items    = regexp.MustCompile(`\[\d+\]`)
	runIDs   = regexp.MustCompile(`\b[\w.-]+/[a-z2-7]{10,}\b`)
	times    = regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?`)
	uuids    = regexp.MustCompile(`\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`)
	random   = regexp.MustCompile(`\b[0-9a-zA-Z]*\d[0-9a-zA-Z]*\d[0-9a-zA-Z]*\b`)
	decimals = regexp.MustCompile(`\b\d+(\.\d+)+\b`)
	digits   = regexp.MustCompile(`\d+`)
)

// general is a message without the parts that differ from run to run.
func general(message, run string) string {
	if run != "" {
		message = strings.ReplaceAll(message, run, "RUN")
	}
	message = quoted.ReplaceAllString(message, `"…"`)
	message = items.ReplaceAllString(message, "[*]")
	message = runIDs.ReplaceAllString(message, "RUN")
	for _, differs := range []*regexp.Regexp{times, uuids, decimals, random, digits} {
		message = differs.ReplaceAllString(message, "#")
	}
	return strings.Join(strings.Fields(message), " ")
}
