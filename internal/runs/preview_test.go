package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A preview of many runs has a group for each way in which they would be resumed, and
// what is done with a run is what its group says, or nothing.
func TestPreview(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	s.fail("four", failing)
	first, _ := runToFailure(t, c, s)
	second, _ := runToFailure(t, c, s)
	s.fail("four", losing)
	unknown, _ := runToFailure(t, c, s)
	done := start(t, c, fiveSteps(t)) // under way
	ids := []runs.RunID{first, second, unknown, done}
	for name, tc := range map[string]struct {
		req  history.ResumeRequest
		want []string
	}{
		"as it was": {history.ResumeRequest{}, []string{
			"resumes 2 [four executed, one reused, three reused, two[*] reused]",
			"outcome_unknown 1 [four unknown, one reused, three reused, two[*] reused]",
			"resumed 1 []",
		}},
		"another argument": {history.ResumeRequest{Arguments: map[string]json.RawMessage{"n": json.RawMessage(`"7"`)}, Otherwise: workflows.NotHappened}, []string{
			"repeats 3 [four executed, one reused_if_same, at risk, three reused_if_same, two[*] reused_if_same, at risk]",
			"resumed 1 []",
		}},
		"an argument that does not fit": {history.ResumeRequest{Arguments: map[string]json.RawMessage{"n": json.RawMessage(`7`)}}, []string{"impossible 3 []", "resumed 1 []"}},
	} {
		p := perduretest.Must(c.Resumptions().Preview(t.Context(), ids, tc.req))(t)
		var got []string
		for _, g := range p.Groups {
			got = append(got, fmt.Sprintf("%s %d [%s]", g.Outlook, len(g.Runs), strings.Join(fates(&history.ResumePlan{Steps: g.Steps}), ", ")))
			if (g.Outlook == runs.Impossible) != (g.Reason != "") || len(g.Runs) != p.Count(g.Outlook) {
				t.Errorf("%s: %+v", name, g)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	p := perduretest.Must(c.Resumptions().Preview(t.Context(), ids, history.ResumeRequest{}))(t)
	if len(p.Definitions) != 1 || p.Definitions[0].Runs != 3 {
		t.Errorf("definitions: %+v", p.Definitions)
	}
	group, run := p.Groups[0], p.Groups[0].Runs[0]
	if err := c.Resumptions().ExecuteAs(t.Context(), group, run, history.ResumeRequest{From: []string{"one"}}); !errors.Is(err, runs.ErrChanged) {
		t.Errorf("what was not shown: %v", err)
	}
	s.fail("four", nil)
	s.made()
	if err := c.Resumptions().ExecuteAs(t.Context(), group, run, history.ResumeRequest{}); err != nil {
		t.Error(err)
	}
	if events := followTo(t, c, run.ID, 0, runs.EventDone); events[len(events)-1].Outcome.Status != workflows.Completed {
		t.Errorf("the run is %+v", events[len(events)-1].Outcome)
	}
	if err := c.Resumptions().ExecuteAs(t.Context(), group, run, history.ResumeRequest{}); !errors.Is(err, runs.ErrChanged) {
		t.Errorf("what was resumed already: %v", err)
	}
	if made := s.made(); !slices.Contains(made, "four 0") || slices.Contains(made, "one 1") {
		t.Errorf("it calls %v", made)
	}
}
