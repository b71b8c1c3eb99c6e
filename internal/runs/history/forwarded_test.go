package history

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// TestPlanWithoutForwarded resumes runs with and without headers for backends, which are
// not kept any more.
func TestPlanWithoutForwarded(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("test.yaml", []byte("{name: a, description: d, steps: [{id: s, tool: be_put}]}"))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, kept := range []string{"", "a/1#x"} {
		was := &workflows.RunRecord{Input: workflows.RunInput{
			Definition: workflows.Pinned{Name: "a", Digest: defs[0].Digest(), Source: defs[0].Source()},
			Arguments:  json.RawMessage("{}"), Caller: workflows.Caller{Forwarded: kept},
		}}
		plan := perduretest.Must(PlanResume("a/1", "execution", was, ResumeRequest{}, nil))(t)
		if plan.WithoutForwarded != (kept != "") || plan.Input.Caller.Forwarded != "" {
			t.Errorf("kept %q: without it %v, resumes with %q", kept, plan.WithoutForwarded, plan.Input.Caller.Forwarded)
		}
	}
}
