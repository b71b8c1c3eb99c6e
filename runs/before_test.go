package runs

import (
	"encoding/json"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/workflows"
)

func (s *script) call(path, key string) int64 {
	return s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityType: &commonpb.ActivityType{Name: workflows.CallToolName},
			Input:        payloads(workflows.ToolCall{StepPath: path, IdempotencyKey: key, Arguments: json.RawMessage(`{}`)}),
		}}
	})
}

// What a call had come to before the run was reset; a step that was undone since
// is not one that was executed.
func TestEarlier(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		write           func(*script)
		result, unknown bool
	}{
		{"never made", func(s *script) { s.complete(s.call("b", "other"), `{}`) }, false, false},
		{"completed", func(s *script) { s.complete(s.call("a", "key"), `{}`) }, true, false},
		{"under way", func(s *script) { s.call("a", "key") }, false, true},
		{"known to have failed", func(s *script) {
			s.fail(s.call("a", "key"), Error{Code: "tool_error", Category: workflows.CategoryTool})
		}, false, false},
		{"undone", func(s *script) {
			s.complete(s.call("a", "key"), `{}`)
			s.complete(s.call("a/compensate#1", "undo"), `{}`)
		}, false, true},
		{"undone and made again", func(s *script) {
			s.complete(s.call("a", "before"), `{}`)
			s.complete(s.call("a/compensate#1", "undo"), `{}`)
			s.complete(s.call("a", "key"), `{}`)
		}, true, false},
		{"another step undone", func(s *script) {
			s.complete(s.call("a", "key"), `{}`)
			s.complete(s.call("ab/compensate#1", "undo"), `{}`)
		}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			tc.write(s)
			e := &earlier{converter: converter.GetDefaultDataConverter(), key: "key"}
			for _, event := range s.events {
				e.add(event)
			}
			if (e.result != nil) != tc.result || e.unknown != tc.unknown {
				t.Errorf("got %+v", e)
			}
		})
	}
}
