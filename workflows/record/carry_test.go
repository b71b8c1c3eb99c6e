package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/workflows/record"
)

// How an entry survives, in the columns of TestCarry.
const (
	kept  = "kept"  // as it is
	exact = "exact" // for the same digest only
	none  = "none"
)

func TestCarry(t *testing.T) {
	t.Parallel()
	declined, unsettled, notHappened := answer, *lost, *lost
	declined.Action, notHappened.NotHappened = record.Decline, true
	proceeds := func(action string) bool { return action == record.Decline }
	columns := []struct {
		name  string
		terms record.Terms
	}{
		{"continued", record.Terms{Reason: record.Continued}},
		{"resumed", record.Terms{Reason: record.Resumed}},
		{"reset", record.Terms{Reason: record.Reset}},
		{"may differ", record.Terms{Reason: record.Resumed, MayDiffer: true}},
		{"again", record.Terms{Reason: record.Resumed, Again: true}},
		{"continues", record.Terms{Reason: record.Resumed, Continues: true, Proceeds: proceeds}},
		{"of a script", record.Terms{Reason: record.Resumed, Script: true, Continues: true}},
		{"repeated", record.Terms{Reason: record.Resumed, Script: true, Repeated: true}},
		{"recalled", record.Terms{Reason: record.Recalled}},
	}
	for _, row := range []struct {
		name string
		kind record.Kind
		want [9]string
	}{
		//                                                                             continued resumed reset doubtful again continues script repeated recalled
		{"call", record.Call{Digest: "d", Output: object}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, exact}},
		{"failed call", record.Call{Digest: "d", Error: broken}, [9]string{kept, none, none, none, none, kept, none, kept, none}},
		{"unsettled call", record.Call{Digest: "d", OutcomeUnknown: &unsettled}, [9]string{kept, none, none, none, none, none, none, none, exact}},
		{"call that did not happen", record.Call{Digest: "d", OutcomeUnknown: &notHappened}, [9]string{kept, none, kept, none, none, none, none, none, exact}},
		{"child", record.Child{Digest: "d", ID: "r/1", Output: object}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, exact}},
		{"child under way", record.Child{Digest: "d", ID: "r/1"}, [9]string{kept, none, none, none, none, none, none, none, kept}},
		{"failed child", record.Child{Digest: "d", ID: "r/1", Error: broken}, [9]string{kept, none, none, none, none, kept, none, kept, kept}},
		{"no child", record.Child{Digest: "d", Error: broken}, [9]string{kept, none, none, none, none, kept, none, kept, none}},
		{"given", record.Given{Output: object}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, none}},
		{"accepted", record.Gate{Digest: "d", Answer: answer}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, exact}},
		{"declined", record.Gate{Digest: "d", Answer: declined}, [9]string{kept, none, none, none, none, kept, none, none, exact}},
		{"declined, and failed", record.Gate{Digest: "d", Answer: declined, Error: broken}, [9]string{kept, none, none, none, none, kept, none, kept, exact}},
		{"wait", record.Wait{Digest: "d", Until: noon}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, exact}},
		{"time of a script", record.Wait{Until: noon}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, none}},
		{"span", record.Span{Until: noon}, [9]string{kept, none, none, none, none, none, none, none, none}},
		{"span that is done", record.Span{Done: true}, [9]string{kept, kept, kept, none, none, kept, kept, kept, none}},
		{"value", record.Value{Digest: "d", Result: object}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, exact}},
		{"skipped", record.End{Skipped: true}, [9]string{kept, kept, kept, none, none, kept, kept, kept, none}},
		{"failed", record.End{Error: broken}, [9]string{kept, none, none, none, none, kept, none, kept, none}},
		{"branches", record.Branches{Count: []int{1}}, [9]string{kept, kept, kept, exact, none, kept, kept, kept, none}},
		{"failed branches", record.Branches{Count: []int{1}, Failed: true}, [9]string{kept, none, none, none, none, none, none, none, none}},
		{"deadline", record.Deadline{Began: noon}, [9]string{kept, none, none, none, none, none, none, none, none}},
		{"report", record.Report{Reported: *broken}, [9]string{kept, none, none, none, none, none, none, none, none}},
		{"reference", record.Reference{Means: object}, [9]string{kept, kept, kept, none, none, kept, kept, kept, none}},
	} {
		for i, column := range columns {
			e, ok := record.Entry{Order: 7, Kind: row.kind}.Carry(column.terms)
			got := map[bool]string{false: kept, true: exact}[e.Exact]
			if !ok {
				got = none
			}
			if got != row.want[i] {
				t.Errorf("%s, %s: %s, want %s", row.name, column.name, got, row.want[i])
			}
			if diff := cmp.Diff(row.kind, e.Kind); ok && (diff != "" || e.Order != 7) {
				t.Errorf("%s, %s: order %d, %s", row.name, column.name, e.Order, diff)
			}
		}
	}
}

// What was only to count for the same digest does so ever after.
func TestCarryStaysExact(t *testing.T) {
	t.Parallel()
	for _, kind := range full {
		for _, reason := range []record.Reason{record.Continued, record.Resumed, record.Reset, record.Recalled} {
			if e, ok := (record.Entry{Exact: true, Kind: kind}).Carry(record.Terms{Reason: reason}); ok && !e.Exact {
				t.Errorf("%T, reason %d: it counts for everything now", kind, reason)
			}
		}
	}
}

// A called run of which only the definition is another says nothing of the new one.
func TestFailedChildOfAnotherDefinition(t *testing.T) {
	t.Parallel()
	e := record.Entry{Kind: record.Child{ID: "r/1", Error: broken}}
	terms := record.Terms{Reason: record.Resumed, Script: true, Repeated: true, MayDiffer: true}
	if _, ok := e.Carry(terms); ok || e.StaysFailed(terms) {
		t.Error("it counts")
	}
	e.Kind = record.Call{Error: broken}
	if carried, ok := e.Carry(terms); !ok || !carried.Exact {
		t.Errorf("of a call: %+v, %t", carried, ok)
	}
}

// Once it is known that a call failed, it is no longer to be settled.
func TestCarrySettles(t *testing.T) {
	t.Parallel()
	e, ok := record.Entry{Kind: record.Call{Error: broken, OutcomeUnknown: lost}}.Carry(record.Terms{Reason: record.Resumed, Continues: true})
	if call, _ := e.Kind.(record.Call); !ok || call.OutcomeUnknown != nil {
		t.Errorf("%+v, %t", e, ok)
	}
}
