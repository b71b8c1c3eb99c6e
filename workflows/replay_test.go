package workflows_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// Every history that was ever recorded must replay: a run that is under way when
// perdure is updated continues with the new code. `make histories` records new ones;
// old ones stay. Workers have recorded them with InPlace and without.
func TestHistoriesReplay(t *testing.T) {
	t.Parallel()
	for _, file := range perduretest.Files(t, "testdata/histories/*.json") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			for _, with := range [][]interceptor.WorkerInterceptor{nil, {workflows.InPlace()}} {
				replayer := perduretest.Must(worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: with}))(t)
				workflows.Register(replayer, trust)
				if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
					t.Errorf("with %d interceptors: %v", len(with), err)
				}
			}
		})
	}
}

// Timers of deadlines stop in an order of their own when a run is cancelled, whether or
// not the SDK cancels contexts in the order in which they were made (its flag 9).
func TestDeadlinesStopInOrder(t *testing.T) {
	t.Parallel()
	data := perduretest.Read(t, "testdata/histories/deadlines.json")
	history := &historypb.History{}
	perduretest.NoError(t, protojson.Unmarshal(data, history))
	stopped := 0
	for _, e := range history.Events {
		if e.EventType == enums.EVENT_TYPE_TIMER_CANCELED {
			stopped++
		}
		if flags := e.GetWorkflowTaskCompletedEventAttributes().GetSdkMetadata(); flags != nil {
			flags.LangUsedFlags = slices.DeleteFunc(flags.LangUsedFlags, func(flag uint32) bool { return flag == 9 })
		}
	}
	if stopped < 9 {
		t.Errorf("%d timers were stopped, want those of the forEach, the script, the withins and the elicitations", stopped)
	}
	for range 40 {
		replayer := worker.NewWorkflowReplayer()
		workflows.Register(replayer, trust)
		perduretest.NoError(t, replayer.ReplayWorkflowHistory(nil, history))
	}
}
