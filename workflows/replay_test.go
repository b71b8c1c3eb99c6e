package workflows_test

import (
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/workflows"
)

// Every history that was ever recorded must replay: a run that is under way
// when perdure is updated goes on with the new code. `make histories` records
// new ones; old ones stay.
func TestHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no recorded histories")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			workflows.Register(replayer, trust)
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
	}
}
