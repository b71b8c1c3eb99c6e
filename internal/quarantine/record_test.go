package quarantine

import (
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

// TestLost counts processes, not tries: one that has begun another try was alive, and this
// one knows of each of its own.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		tries []try
		want  int
	}{
		{"nothing was begun", nil, 0},
		{"another process is gone", []try{{"a", 1}}, 1},
		{"two are", []try{{"a", 1}, {"b", 1}}, 2},
		{"it had begun twice", []try{{"a", 1}, {"a", 2}}, 1},
		{"this process has survived", []try{{"own", 1}, {"own", 2}}, 0},
		{"its code still runs", []try{{"own", 3}, {"own", 4}}, 2},
		{"one survived after another was lost", []try{{"a", 1}, {"own", 1}}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := NewRecord("execution", nil)
			for _, one := range test.tries {
				r.Add(signal(BegunSignal, mark{r.task(), one}.payloads()))
			}
			if got := r.lost("own", func(number int) bool { return number >= 3 }); got != test.want {
				t.Errorf("%d are lost, want %d", got, test.want)
			}
		})
	}
}

func signal(name string, input *commonpb.Payloads) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: name, Input: input},
	}}
}

// TestFailAndRelease: of two operators who decide at the same time, the one who ends the
// run is heard, until a worker has executed it.
func TestFailAndRelease(t *testing.T) {
	t.Parallel()
	at := mark{task{"execution", 0}, try{"a", 1}}.payloads()
	for name, test := range map[string]struct {
		signals []string
		fails   bool
	}{
		"failed":             {[]string{BegunSignal, FailSignal}, true},
		"failed, released":   {[]string{BegunSignal, FailSignal, ReleaseSignal}, true},
		"released, failed":   {[]string{BegunSignal, ReleaseSignal, FailSignal}, true},
		"released, it works": {[]string{BegunSignal, ReleaseSignal, BegunSignal, SurvivedSignal, FailSignal}, false},
		"nothing was lost":   {[]string{FailSignal}, false},
		"lost again, failed": {[]string{BegunSignal, ReleaseSignal, BegunSignal, FailSignal}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRecord("execution", nil)
			for _, name := range test.signals {
				r.Add(signal(name, at))
			}
			if r.fail != nil != test.fails || r.Since.IsZero() == test.fails {
				t.Errorf("it fails: %v, is held since %v", r.fail, r.Since)
			}
		})
	}
}
