package record_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/workflows/record"
)

func TestFound(t *testing.T) {
	t.Parallel()
	call := record.Call{Digest: "d", Output: object}
	for name, tc := range map[string]struct {
		entry     record.Entry
		continues bool
		digest    string
		want      bool
	}{
		"continued":                  {record.Entry{Kind: call}, true, "other", true},
		"continued, exact":           {record.Entry{Kind: call, Exact: true}, true, "other", false},
		"continued, exact, the same": {record.Entry{Kind: call, Exact: true}, true, "d", true},
		"repeated":                   {record.Entry{Kind: call}, false, "other", false},
		"repeated, the same":         {record.Entry{Kind: call}, false, "d", true},
		"without a result":           {record.Entry{Kind: record.Call{Digest: "d"}}, true, "d", false},
		"of another kind":            {record.Entry{Kind: record.Value{Digest: "d", Result: object}}, true, "d", false},
	} {
		l := record.NewJournal(map[record.StepPath]record.Entry{"a": tc.entry}, tc.continues, 0)
		if _, got := record.Found[record.Call](l, "a", tc.digest); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
		if _, got := record.Found[record.Call](l, "b", "d"); got {
			t.Errorf("%s: elsewhere", name)
		}
	}
}

func TestLogOrder(t *testing.T) {
	t.Parallel()
	l := record.NewJournal(map[record.StepPath]record.Entry{
		"a": {Order: 1, Kind: record.Call{Output: object}},
		"b": {Order: 2, Kind: record.Call{OutcomeUnknown: lost}},
		"c": {Order: 5, Kind: record.Value{Result: object}},
	}, true, 0)
	orders := map[string]int{
		"as before":           l.Note("a", record.Call{Output: object}).Order,
		"new":                 l.Note("d", record.End{Skipped: true}).Order,
		"unsettled until now": l.Note("b", record.Call{Output: object}).Order,
	}
	if diff := cmp.Diff(map[string]int{"as before": 1, "new": 6, "unsettled until now": 7}, orders); diff != "" {
		t.Error(diff)
	}
	l.MoveLast("a")
	if e := l.At("a"); e.Order != 8 || !e.Done() {
		t.Errorf("moved: %+v", e)
	}
	if e := l.Amend("a", record.Call{Output: object, Undo: undo}); e.Order != 8 {
		t.Errorf("amended: %+v", e)
	}
	var ahead []record.StepPath
	for path := range l.Ahead() {
		ahead = append(ahead, path)
	}
	if diff := cmp.Diff([]record.StepPath{"c"}, ahead); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]record.StepPath{"a", "b", "c", "d"}, slices.Sorted(maps.Keys(l.Whole()))); diff != "" {
		t.Error(diff)
	}
}

// However often something is recorded, the log has the size of what is in it.
func TestLogBytes(t *testing.T) {
	t.Parallel()
	before := map[record.StepPath]record.Entry{"a": {Kind: record.Call{Digest: "long", Output: object}}, "z": {Kind: record.End{Skipped: true}}}
	l := record.NewJournal(before, true, 100)
	l.Until("a", noon)
	l.NoteDone("a")
	l.Note("b", record.Call{Output: object})
	l.NoteUndo("b", undo)
	l.Grow(11)
	want := 111
	for path, e := range l.Whole() {
		want += e.Bytes(path)
	}
	if got := l.Bytes(); got != want {
		t.Errorf("%d bytes, of %d", got, want)
	}
}

func TestLogUntil(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Hour)
	for name, tc := range map[string]struct {
		was  record.Entry
		want time.Time
	}{
		"new":       {record.Entry{Kind: record.End{}}, later},
		"begun":     {record.Entry{Kind: record.Span{Until: noon}}, noon},
		"completed": {record.Entry{Kind: record.Span{Done: true}}, time.Time{}},
		"exact":     {record.Entry{Exact: true, Kind: record.Span{Until: noon}}, later},
	} {
		l := record.NewJournal(map[record.StepPath]record.Entry{"a": tc.was}, true, 0)
		if got := l.Until("a", later); !got.Equal(tc.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A failure is recorded beside what the step had recorded.
func TestNoteFailed(t *testing.T) {
	t.Parallel()
	for _, kind := range full {
		l := record.NewJournal(nil, true, 0)
		l.Note("a", kind)
		l.NoteFailed("a", broken)
		e := l.At("a")
		if e.Failure() != broken {
			t.Errorf("%T: %+v", kind, e)
		}
		if _, end := e.Kind.(record.End); end && e.Done() {
			t.Errorf("%T: %+v", kind, e)
		}
	}
	l := record.NewJournal(map[record.StepPath]record.Entry{"a": {Kind: record.Child{Digest: "d", ID: "r/1", Again: object}}}, true, 0)
	l.NoteFailed("a", broken)
	if child, ok := l.At("a").Kind.(record.Child); !ok || child.ID != "r/1" || child.Again == nil || child.Error == nil {
		t.Errorf("what a resumption looks at of a called run: %+v", l.At("a"))
	}
}
