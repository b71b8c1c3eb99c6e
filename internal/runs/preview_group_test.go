package runs

import (
	"testing"

	"github.com/perdure/perdure/internal/runs/history"
)

// Runs whose headers for backends are no longer kept are a group of their own, which says
// so.
func TestPreviewWithoutForwarded(t *testing.T) {
	t.Parallel()
	p := newPreviewer()
	p.add("a/1", &history.ResumePlan{WithoutForwarded: true}, nil)
	p.add("a/2", &history.ResumePlan{}, nil)
	p.add("a/3", &history.ResumePlan{WithoutForwarded: true}, nil)
	for _, g := range p.preview().Groups {
		if g.WithoutForwarded != (len(g.Runs) == 2) {
			t.Errorf("group %+v", g)
		}
	}
	if n := len(p.groups); n != 2 {
		t.Errorf("%d groups, want 2", n)
	}
}
