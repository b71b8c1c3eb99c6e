package runs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/workflows"
)

// TestAttackHiddenInDetails starts a run with arguments that read otherwise than
// they are, from a client whose name would write lines of its own: what the Web UI
// shows of the run has marks, and the lines of perdure.
func TestAttackHiddenInDetails(t *testing.T) {
	t.Parallel()
	req := StartRequest{
		Definition: &definitions.Definition{Name: "pay"},
		Caller:     Caller{Subject: "ann\u202e", Client: "x\n- **caller** boss\u200b"},
		Arguments:  json.RawMessage(`{"to":"\u202e54321-\u202c","b":"` + "\u202e54321-\u202c" + `"}`),
	}
	for what, shown := range map[string]string{"summary": summary(req), "details": details(req, workflows.Pinned{})} {
		if strings.ContainsFunc(shown, view.Hidden) || strings.Contains(shown, `\u202e`) || !strings.Contains(shown, "ann[U+202E]") {
			t.Errorf("%s: %+q", what, shown)
		}
		if n := strings.Count(shown, "\n- **caller** "); n > 1 {
			t.Errorf("%s: %d callers in\n%s", what, n, shown)
		}
	}
}
