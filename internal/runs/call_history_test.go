package runs

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

func (s *script) call(path, key string) int64 {
	return s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityType: &commonpb.ActivityType{Name: workflows.CallToolName},
			Input:        payloads(workflows.ToolCall{StepPath: workflows.StepPath(path), IdempotencyKey: key, Arguments: json.RawMessage(`{}`)}),
		}}
	})
}

// giveUp fails a call as a reset does.
func (s *script) giveUp(scheduled int64) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: scheduled,
			Failure: &failurepb.Failure{FailureInfo: &failurepb.Failure_ResetWorkflowFailureInfo{ResetWorkflowFailureInfo: &failurepb.ResetWorkflowFailureInfo{}}}}}
	})
}

// look reads what has become of the call with the key "key".
func (s *script) look(c converter.DataConverter) (callFate, error) { return s.lookFor(c, "a") }

func (s *script) lookFor(c converter.DataConverter, path workflows.StepPath) (callFate, error) {
	made := &stepCalls{of: path, key: "key"}
	var err error
	for _, m := range s.read(c) {
		for _, fact := range m.Facts {
			err = errors.Join(err, made.add(fact, m.At))
		}
	}
	return made.fate(lastMade{}), err
}

var notSentError = Error{Code: codes.BackendUnavailable, Category: codes.CategoryTool}

// A lookup finds the outcome that a call had before the run was reset. A step undone
// since does not count as executed.
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
			s.fail(s.call("a", "key"), Error{Code: "tool_error", Category: codes.CategoryTool})
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
		{"completed after the run was reset", func(s *script) {
			n := s.call("a", "key")
			s.terminate("reset")
			s.reset(n)
			s.complete(n, `{}`)
		}, true, false},
		{"completed before the run was reset, and given up by the reset", func(s *script) {
			n := s.call("a", "key")
			s.complete(n, `{}`)
			s.reset(n)
			s.giveUp(n)
		}, true, false},
		{"completed, and not sent again", func(s *script) {
			s.complete(s.call("a", "key"), `{}`)
			s.cancel(s.call("a", "key"))
			s.fail(s.call("a", "key"), notSentError)
		}, true, false},
		{"under way, and not sent again", func(s *script) {
			s.call("a", "key")
			s.cancel(s.call("a", "key"))
			s.fail(s.call("a", "key"), notSentError)
		}, false, true},
		{"completed with other arguments, and not sent again", func(s *script) {
			s.complete(s.call("a", "other"), `{}`)
			s.cancel(s.call("a", "another"))
			s.fail(s.call("a", "other"), notSentError)
			s.cancel(s.call("a", "key"))
		}, false, true},
		{"under way, and then known to have failed", func(s *script) {
			s.call("a", "key")
			s.fail(s.call("a", "key"), Error{Code: codes.Refused, Category: codes.CategoryTool})
		}, false, false},
		{"not sent", func(s *script) {
			s.cancel(s.call("a", "other"))
			s.fail(s.call("a", "key"), notSentError)
		}, false, false},
		{"known to have failed, and under way again after a reset", func(s *script) {
			n := s.call("a", "key")
			s.fail(n, Error{Code: "tool_error", Category: codes.CategoryTool})
			s.reset(n)
			s.terminate("reset")
		}, false, true},
		{"known to have failed with other arguments, and under way again after a reset", func(s *script) {
			n := s.call("a", "other")
			s.fail(n, Error{Code: "tool_error", Category: codes.CategoryTool})
			s.reset(n)
			s.terminate("reset")
		}, false, true},
		{"known to have failed, and given up by the reset", func(s *script) {
			n := s.call("a", "key")
			s.fail(n, Error{Code: "tool_error", Category: codes.CategoryTool})
			s.reset(n)
			s.giveUp(n)
			s.terminate("reset")
		}, false, false},
		{"completed with other arguments", func(s *script) { s.complete(s.call("a", "other"), `{}`) }, false, true},
		{"under way with other arguments", func(s *script) { s.call("a", "other") }, false, true},
		{"completed with other arguments, and not made again so after a reset", func(s *script) {
			s.complete(s.call("a", "other"), `{}`)
			s.fail(s.call("a", "other"), Error{Code: codes.SentBefore, Category: codes.CategoryOutcomeUnknown})
		}, false, true},
		{"known to have failed with other arguments", func(s *script) {
			s.fail(s.call("a", "other"), Error{Code: "tool_error", Category: codes.CategoryTool})
		}, false, false},
		{"completed with other arguments, and undone", func(s *script) {
			s.complete(s.call("a", "other"), `{}`)
			s.complete(s.call("a/compensate#1", "undo"), `{}`)
		}, false, false},
		{"completed with other arguments, and being undone", func(s *script) {
			s.complete(s.call("a", "other"), `{}`)
			s.call("a/compensate#1", "undo")
		}, false, true},
		{"completed, and then with other arguments", func(s *script) {
			s.complete(s.call("a", "key"), `{}`)
			s.complete(s.call("a", "other"), `{}`)
		}, true, true},
		{"undone, and made and undone with other arguments", func(s *script) {
			s.complete(s.call("a", "key"), `{}`)
			s.complete(s.call("a/compensate#1", "undo"), `{}`)
			s.complete(s.call("a", "other"), `{}`)
			s.complete(s.call("a/compensate#1", "undo"), `{}`)
		}, false, true},
		{"another step undone", func(s *script) {
			s.complete(s.call("a", "key"), `{}`)
			s.complete(s.call("ab/compensate#1", "undo"), `{}`)
		}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			tc.write(s)
			e := perduretest.Must(s.look(converter.GetDefaultDataConverter()))(t)
			if (e.result != nil) != tc.result || e.unknown != tc.unknown {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// A key does not cover what another call has done, or may have undone, also where the call
// was put on its way once more since: it looks back and is not made.
func TestEarlierThatAKeyDoesNotCover(t *testing.T) {
	t.Parallel()
	undo := func(s *script) int64 { return s.call("a/compensate#1", "undo") }
	refuse := func(s *script) {
		s.fail(s.call("a", "key"), Error{Code: codes.SentBefore, Category: codes.CategoryOutcomeUnknown})
	}
	for _, tc := range []struct {
		name  string
		write func(*script)
		other bool
	}{
		{"under way", func(s *script) { s.call("a", "key") }, false},
		{"undone", func(s *script) { s.complete(s.call("a", "key"), `{}`); s.complete(undo(s), `{}`) }, false},
		{"undone, and under way", func(s *script) { s.complete(s.call("a", "key"), `{}`); s.complete(undo(s), `{}`); s.call("a", "key") }, false},
		{"being undone", func(s *script) { s.complete(s.call("a", "key"), `{}`); undo(s) }, true},
		{"being undone, and under way", func(s *script) { s.complete(s.call("a", "key"), `{}`); undo(s); s.call("a", "key") }, true},
		{"being undone, and refused", func(s *script) { s.complete(s.call("a", "key"), `{}`); undo(s); refuse(s) }, true},
		{"being undone, and made", func(s *script) { s.complete(s.call("a", "key"), `{}`); undo(s); s.complete(s.call("a", "key"), `{}`) }, false},
		{"with other arguments, and under way", func(s *script) { s.complete(s.call("a", "other"), `{}`); s.call("a", "key") }, true},
		{"with other arguments, and refused", func(s *script) { s.complete(s.call("a", "other"), `{}`); refuse(s) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			tc.write(s)
			if e := perduretest.Must(s.look(converter.GetDefaultDataConverter()))(t); e.other != tc.other {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// A called run that is taken up after a reset has not done anew what was undone.
func TestTimesAnew(t *testing.T) {
	t.Parallel()
	at := func(n int, undoes bool, run string) doing {
		return doing{at: time.Unix(int64(n), 0), undoes: undoes, certain: true, run: run}
	}
	all := []doing{at(1, false, "a"), at(2, true, ""), at(3, false, "a")}
	if got := timesAnew(firstOfEachRun(all)); got != 0 {
		t.Errorf("taken up: done anew %d times", got)
	}
	all = append(all, at(4, false, "b"), at(5, true, ""), at(6, false, ""))
	if got := timesAnew(firstOfEachRun(all)); got != 2 {
		t.Errorf("done anew %d times; want 2", got)
	}
}

// A call of a script that failed, and that the script has made once more after that, fails
// again: the script comes to what it did then.
func TestEarlierOfARepetition(t *testing.T) {
	t.Parallel()
	const first, second = "script/main:3", "script/main:3#2"
	toolError := Error{Code: codes.ToolError, Category: codes.CategoryTool}
	for _, tc := range []struct {
		name           string
		write          func(*script)
		fails, unknown bool
	}{
		{"completed", func(s *script) { s.fail(s.call(first, "key"), toolError); s.complete(s.call(second, "2"), `{}`) }, true, false},
		{"under way", func(s *script) { s.fail(s.call(first, "key"), toolError); s.call(second, "2") }, true, false},
		{"after it was not sent", func(s *script) { s.fail(s.call(first, "key"), notSentError); s.complete(s.call(second, "2"), `{}`) }, true, false},
		{"after it was stopped", func(s *script) { s.cancel(s.call(first, "key")); s.complete(s.call(second, "2"), `{}`) }, false, true},
		{"failed again after a reset", func(s *script) {
			s.fail(s.call(first, "key"), toolError)
			s.complete(s.call(second, "2"), `{}`)
			s.fail(s.call(first, "key"), toolError)
		}, true, false},
		{"known to have failed", func(s *script) { s.fail(s.call(first, "key"), toolError); s.fail(s.call(second, "2"), toolError) }, false, false},
		{"undone", func(s *script) {
			s.fail(s.call(first, "key"), toolError)
			s.complete(s.call(second, "2"), `{}`)
			s.complete(s.call(second+"/compensate#1", "undo"), `{}`)
		}, false, false},
		{"at another place", func(s *script) {
			s.fail(s.call(first, "key"), toolError)
			s.complete(s.call("script/main:4", "2"), `{}`)
		}, false, false},
		{"never made before", func(s *script) { s.complete(s.call(second, "2"), `{}`) }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			tc.write(s)
			e := perduretest.Must(s.lookFor(converter.GetDefaultDataConverter(), first))(t)
			if (e.failure != nil) != tc.fails || e.unknown != tc.unknown || e.result != nil {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// An entry that cannot be read, for want of a key, may be the call looked for: the
// lookup fails, and does not report a call that was never made.
func TestEarlierThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := &script{}
	s.complete(s.call("a", "key"), `{}`)
	for _, readable := range []int{0, 1} {
		closed := closedConverter{converter.GetDefaultDataConverter(), &readable}
		e, err := s.look(closed)
		if !errors.Is(err, errClosed) || e.result != nil {
			t.Errorf("got %+v, %v", e, err)
		}
	}
}

// A closedConverter reads so many payloads, and then no more.
type closedConverter struct {
	converter.DataConverter
	readable *int
}

var errClosed = errors.New("there is no such key")

func (c closedConverter) FromPayloads(p *commonpb.Payloads, into ...any) error {
	if *c.readable--; *c.readable < 0 {
		return errClosed
	}
	return c.DataConverter.FromPayloads(p, into...)
}

// A step may be called like what undoes one.
func TestResumeOfAStepCalledCompensate(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("nested.yaml", []byte(`{name: nested, description: d, steps: [
		{id: each, type: forEach, collection: '["a"]', step: {id: compensate, type: forEach, collection: '["b"]', step: {tool: pay}}}]}`))
	perduretest.NoError(t, diags.Err())
	const path = "each[0]/compensate[0]"
	record := &workflows.RunRecord{
		Input:          workflows.RunInput{Definition: workflows.Pinned{Name: "nested", Digest: defs[0].Digest(), Source: defs[0].Source()}},
		OutcomeUnknown: map[workflows.StepPath]workflows.UnknownCall{path: {Times: 1}},
	}
	plan, err := history.PlanResume("nested/1", "execution", record, history.ResumeRequest{Otherwise: workflows.Happened}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if in := plan.Input; !in.Journal[path].Done() || len(in.Resumption.Undone) != 0 {
		t.Errorf("the resumption begins with %+v, undone %v", in.Journal, in.Resumption.Undone)
	}
}

// TestMayHaveRun reads from the failure of an attempt whether a keyed call may have
// been executed by it, or before.
func TestMayHaveRun(t *testing.T) {
	t.Parallel()
	reported := func(e *workflows.Error, repeat bool) *failurepb.Failure {
		return temporal.GetDefaultFailureConverter().ErrorToFailure(workflows.Report(e, repeat))
	}
	long := reported(workflows.Attempt{}.Unavailable("no"))
	long.GetApplicationFailureInfo().Details = nil // as Temporal keeps it
	for name, tc := range map[string]struct {
		failure *failurepb.Failure
		want    bool
	}{
		"lost":                   {reported(workflows.Attempt{}.Lost("broken pipe")), true},
		"not sent":               {reported(workflows.Attempt{}.Unavailable("no")), false},
		"answered":               {reported(workflows.Attempt{}.Answered("no")), false},
		"not sent, after a loss": {reported(workflows.Attempt{EarlierUnknown: true}.Unavailable("no")), true},
		"held, after a loss":     {temporal.GetDefaultFailureConverter().ErrorToFailure(workflows.Attempt{EarlierUnknown: true}.ReportHold(workflows.Hold{})), true},
		"held":                   {temporal.GetDefaultFailureConverter().ErrorToFailure(workflows.Attempt{}.ReportHold(workflows.Hold{})), false},
		"the worker is gone":     {&failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{}}}, true},
		"too long to be kept":    {long, true},
		"none":                   {nil, true},
	} {
		if got := history.NewFailure(converter.GetDefaultDataConverter(), tc.failure).MayHaveRun(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A step is undone for a run that was reset to behind it, if nothing has done it since and
// nobody has said that it is done.
func TestUndoneSteps(t *testing.T) {
	t.Parallel()
	made := func(s *script) { s.complete(s.call("a", "key"), `{}`) }
	undone := func(s *script) { s.complete(s.call("a/compensate#1", "undo"), `{}`) }
	looked := func(s *script) {
		s.fail(s.call("a", "key"), Error{Code: codes.SentBefore, Category: codes.CategoryOutcomeUnknown})
	}
	for name, tc := range map[string]struct {
		known, since []func(*script) // since is what the run does not know
		want         bool
	}{
		"not at all":             {[]func(*script){made}, nil, false},
		"undone":                 {[]func(*script){made}, []func(*script){undone}, true},
		"being undone":           {[]func(*script){made}, []func(*script){func(s *script) { s.call("a/compensate#1", "undo") }}, true},
		"not undone after all":   {[]func(*script){made}, []func(*script){func(s *script) { s.fail(s.call("a/compensate#1", "undo"), notSentError) }}, false},
		"done again":             {[]func(*script){made}, []func(*script){undone, made}, false},
		"looked for, not done":   {[]func(*script){made}, []func(*script){undone, looked}, true},
		"never done by this one": {nil, []func(*script){made, undone}, false},
		"undone by this one":     {[]func(*script){made, undone}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := func(writes []func(*script)) *stepsDone {
				s, done := &script{}, newStepsDone()
				for _, write := range writes {
					write(s)
				}
				for _, m := range s.read(converter.GetDefaultDataConverter()) {
					for _, fact := range m.Facts {
						perduretest.NoError(t, done.add(fact, m.At))
					}
				}
				return done
			}
			got := read(tc.known).doneBefore(read(slices.Concat(tc.known, tc.since)).undone())
			if slices.Contains(got, "a") != tc.want {
				t.Errorf("undone are %v; want a: %v", got, tc.want)
			}
		})
	}
}
