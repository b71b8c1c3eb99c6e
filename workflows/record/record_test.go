package record_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/record"
)

var (
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	object = json.RawMessage(`{"n":1}`)
	broken = &record.Error{Code: codes.ToolError, Category: codes.CategoryTool, Message: "no", StepPath: "a"}
	undo   = &record.Undo{Tool: "t", Args: record.Arguments{JSON: object, Typed: []string{"/n"}}, Timeout: time.Minute, Retries: 1, Delay: time.Second}
	lost   = &record.UnknownCall{Call: record.ParkedCall{Tool: "t", Key: "k", Sent: noon}, Error: *broken, Times: 2, Arguments: object}
	below  = &record.Effects{Unknown: []record.EffectCall{{StepPath: "b", Tool: "t"}}}
	answer = record.Answer{ElicitationID: "a#1", Action: record.Accept, Content: object, AnsweredBy: "ann", At: noon, AnswerID: "x"}
)

// full has one of each kind, with a value in each field.
var full = []record.Kind{
	record.Call{Digest: "d", Tool: "t", Undoes: true, Output: object, Error: broken, OutcomeUnknown: lost, Undo: undo},
	record.Child{Digest: "d", ID: "r/1", Started: true, Again: object, Output: json.RawMessage("null"), Effects: below, OutcomeUnknown: true, Error: broken, Undo: undo},
	record.Given{Tool: "t", Output: object, Effects: below},
	record.Gate{Digest: "d", Answer: answer, Error: broken},
	record.Wait{Digest: "d", Until: noon, Error: broken},
	record.Span{Until: noon, Done: true, Error: broken},
	record.Value{Digest: "d", Result: json.RawMessage(`"heads"`), Error: broken},
	record.End{Skipped: true, Error: broken},
	record.Branches{Count: []int{0, 2}, Failed: true},
	record.Deadline{Began: noon, Ended: record.InTime},
	record.Report{Reported: *broken},
	record.Reference{Means: object},
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, kind := range full {
		for i := range reflect.TypeOf(kind).NumField() {
			if reflect.ValueOf(kind).Field(i).IsZero() {
				t.Errorf("%T: the test has no %s", kind, reflect.TypeOf(kind).Field(i).Name)
			}
		}
		for _, want := range []record.Entry{{Order: 3, Exact: true, Kind: kind}, {Kind: reflect.Zero(reflect.TypeOf(kind)).Interface().(record.Kind)}} {
			data := perduretest.Must(json.Marshal(want))(t)
			var head struct{ Kind string }
			var got record.Entry
			if err := json.Unmarshal(data, &head); err != nil || head.Kind == "" {
				t.Errorf("%T: %s does not name its kind: %v", kind, data, err)
			}
			names[head.Kind] = true
			if err := json.Unmarshal(data, &got); err != nil {
				t.Errorf("%T: reading %s: %v", kind, data, err)
			}
			again, err := json.Marshal(got)
			if err != nil || string(again) != string(data) || reflect.TypeOf(got.Kind) != reflect.TypeOf(kind) {
				t.Errorf("%T: %s came back as %s, %v", kind, data, again, err)
			}
		}
		got := record.Entry{}
		data, _ := json.Marshal(record.Entry{Order: 3, Kind: kind})
		perduretest.NoError(t, json.Unmarshal(data, &got))
		if diff := cmp.Diff(record.Entry{Order: 3, Kind: kind}, got); diff != "" {
			t.Errorf("%T: %s", kind, diff)
		}
	}
	if len(names) != len(full) {
		t.Errorf("%d kinds have the names %v", len(full), names)
	}
}

func TestUnknownKind(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"order":1}`, `{"kind":"dance"}`, `{"kind":"call","order":"x"}`, `{"kind":"call","tool":1}`, `[]`} {
		if err := json.Unmarshal([]byte(data), &record.Entry{}); err == nil {
			t.Errorf("%s was read", data)
		}
	}
	if _, err := json.Marshal(record.Entry{}); err == nil {
		t.Error("an entry without a kind was written")
	}
}

// Bytes never returns less than an entry takes in the input of an execution.
func TestBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<&> \n", 2000)
	quoted, _ := json.Marshal(long)
	value := json.RawMessage(`{"text":` + string(quoted) + `}`)
	err := &record.Error{Message: long}
	for _, kind := range append([]record.Kind{
		record.Call{Output: value, Undo: &record.Undo{Args: record.Arguments{JSON: value}}},
		record.Call{Error: err, OutcomeUnknown: &record.UnknownCall{Error: *err, Arguments: value}},
		record.Child{Again: value, Error: err}, record.Child{Output: value}, record.Given{Output: value},
		record.Gate{Answer: record.Answer{Content: value, AnsweredBy: long}}, record.Value{Result: value},
		record.End{Error: err}, record.Report{Reported: *err}, record.Reference{Means: value},
		record.Branches{Count: make([]int, 1000)},
	}, full...) {
		data, failed := json.Marshal(map[record.StepPath]record.Entry{"a": {Order: 1000, Exact: true, Kind: kind}})
		if got := (record.Entry{Kind: kind}).Bytes("a"); failed != nil || got < len(data) {
			t.Errorf("%T: %d bytes, of %d", kind, got, len(data))
		}
	}
}

func TestEmptied(t *testing.T) {
	t.Parallel()
	for _, kind := range full {
		e := record.Entry{Order: 1, Kind: kind}
		if e.ResultBytes() > 0 && e.Emptied().ResultBytes() != len("{}") || e.Emptied().Done() != e.Done() {
			t.Errorf("%T is emptied to %+v", kind, e.Emptied())
		}
	}
	if e := (record.Entry{Kind: record.Call{Error: broken}}).Emptied(); e.Done() {
		t.Errorf("a call that has failed has a result: %+v", e)
	}
}

func TestWhatWasExecuted(t *testing.T) {
	t.Parallel()
	unusable := &record.Error{Code: codes.InvalidOutput, Category: codes.CategoryTool, Tool: "t", StepPath: "a"}
	elsewhere := &record.Error{Code: codes.InvalidOutput, Category: codes.CategoryTool, Tool: "t", StepPath: "b"}
	unknown := &record.Error{Code: codes.ConnectionLost, Category: codes.CategoryOutcomeUnknown, Tool: "t", StepPath: "a"}
	settled := *lost
	settled.NotHappened = true
	for name, tc := range map[string]struct {
		kind     record.Kind
		executed string // tool; "" = it was not
		unknown  string // tool, or ?; "" = it is known
	}{
		"a call":                           {record.Call{Tool: "t", Output: object}, "t", ""},
		"a call that undoes another":       {record.Call{Tool: "t", Output: object, Undoes: true}, "", ""},
		"an answer that cannot be used":    {record.End{Error: unusable}, "t", ""},
		"the same, of another step":        {record.End{Error: elsewhere}, "", ""},
		"a call that was lost":             {record.Call{Error: unknown}, "", "t"},
		"a step whose call was lost":       {record.End{Error: unknown}, "", "t"},
		"a call that is not settled":       {record.Call{OutcomeUnknown: lost}, "", "t"},
		"a call that did not happen":       {record.Call{OutcomeUnknown: &settled}, "", ""},
		"an output that was given":         {record.Given{Tool: "t", Output: object}, "t", ""},
		"a called run":                     {record.Child{ID: "t/1", Output: object}, "", ""},
		"a called run, with unknown calls": {record.Child{ID: "t/1", Output: object, Effects: below}, "", "?"},
		"a called run under way":           {record.Child{ID: "t/1"}, "", "?"},
		"a called run to be started":       {record.Child{ID: "t/1", Again: object}, "", ""},
		"a called run that was terminated": {record.Child{ID: "t/1", OutcomeUnknown: true, Error: broken}, "", "?"},
		"a call that came to no run":       {record.Child{Error: broken}, "", ""},
		"an answer":                        {record.Gate{Answer: answer}, "", ""},
	} {
		e := record.Entry{Kind: tc.kind}
		if tool, ok := e.Executed("a"); ok != (tc.executed != "") || ok && tool != tc.executed {
			t.Errorf("%s: executed %t %q", name, ok, tool)
		}
		if tool, ok := e.Unknown("a", false); ok != (tc.unknown != "") || ok && tc.unknown != "?" && tool != tc.unknown {
			t.Errorf("%s: unknown %t %q", name, ok, tool)
		}
	}
	if _, unknown := (record.Entry{Kind: record.Child{ID: "t/1"}}).Unknown("a", true); unknown {
		t.Error("a called run that this execution has started is told of by its end")
	}
}

func ExampleEntry() {
	data, err := json.Marshal(record.Entry{Order: 2, Kind: record.Call{Digest: "44136fa3", Tool: "mail_send", Output: json.RawMessage(`{"id":7}`)}})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(data))
	// Output: {"kind":"call","order":2,"digest":"44136fa3","tool":"mail_send","output":{"id":7}}
}
