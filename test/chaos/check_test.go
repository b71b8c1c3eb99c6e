package main

import (
	"slices"
	"strings"
	"testing"
)

// good is a record in which every sentence holds.
func good() *Record {
	return &Record{
		Runs: []Run{
			{ID: "pay/1", Tool: "pay", Status: "completed", Output: `{"n":1}`,
				Steps: []Step{
					{Path: "pay", Tool: "web_pay", Class: "unsafe", Key: "k1", Scheduled: 5, At: 50, End: stepDone, Ended: 7},
					{Path: "order", Tool: "web_order", Class: "keyed", Key: "k2", Scheduled: 8, At: 60, End: stepDone, Ended: 9},
				}},
			{ID: "gate/1", Tool: "gate", Status: "completed", Output: `{}`,
				Gates: []Gate{{ID: "ask#1", Path: "ask", State: "answered", Action: "accept", Content: "yes", Event: 8}},
				Steps: []Step{{Path: "write", Tool: "web_write", Class: "unsafe", Key: "k3", Scheduled: 10, At: 100, End: stepDone, Ended: 12}}},
			{ID: "saga/1", Tool: "saga", Status: "failed",
				Steps: []Step{
					{Path: "a", Tool: "web_hold", Class: "keyed", Key: "s1", Scheduled: 5, At: 10, End: stepDone, Ended: 6},
					{Path: "b", Tool: "web_hold", Class: "keyed", Key: "s2", Scheduled: 8, At: 20, End: stepDone, Ended: 9},
					{Path: "c", Tool: "web_pay", Class: "unsafe", Key: "s3", Scheduled: 10, At: 30, End: stepFailed, Ended: 11},
					{Path: "b/compensate#1", Tool: "web_undo", Class: "keyed", Key: "s4", Scheduled: 14, At: 40, End: stepDone, Ended: 15},
					{Path: "a/compensate#1", Tool: "web_undo", Class: "keyed", Key: "s5", Scheduled: 17, At: 50, End: stepDone, Ended: 18},
				}},
			{ID: "settle/1", Tool: "settle", Status: "waiting",
				Gates: []Gate{{ID: "pay/unknown#1", Path: "pay", Kind: "reconciliation", State: "answered", Action: "accept", Outcome: "not_happened", Event: 12}},
				Steps: []Step{
					{Path: "pay", Tool: "web_pay", Class: "unsafe", Key: "u1", Scheduled: 5, At: 10, End: stepUnknown, Ended: 7},
					{Path: "pay", Tool: "web_pay", Class: "unsafe", Key: "u1", Scheduled: 14, At: 90, End: stepDone, Ended: 16},
				}},
			{ID: "stop/1", Tool: "stop", Status: "cancelled", Cancelled: 9,
				Steps: []Step{{Path: "first", Tool: "web_pay", Class: "unsafe", Key: "c1", Scheduled: 5, At: 10, End: stepCancelled, Ended: 12}}},
		},
		Effects: []Effect{
			{At: 51, Tool: "web_pay", Class: "unsafe", Run: "pay/1", Step: "pay", Key: "k1"},
			{At: 61, Tool: "web_order", Class: "keyed", Run: "pay/1", Step: "order", Key: "k2"},
			{At: 62, Tool: "web_order", Class: "keyed", Run: "pay/1", Step: "order", Key: "k2", Again: true},
			{At: 101, Tool: "web_write", Class: "unsafe", Run: "gate/1", Step: "write", Key: "k3", Carry: "yes"},
			{At: 11, Tool: "web_hold", Class: "keyed", Run: "saga/1", Step: "a", Key: "s1"},
			{At: 21, Tool: "web_hold", Class: "keyed", Run: "saga/1", Step: "b", Key: "s2"},
			{At: 31, Tool: "web_pay", Class: "unsafe", Run: "saga/1", Step: "c", Key: "s3", Fault: true},
			{At: 41, Tool: "web_undo", Class: "keyed", Run: "saga/1", Step: "b/compensate", Key: "s4"},
			{At: 51, Tool: "web_undo", Class: "keyed", Run: "saga/1", Step: "a/compensate", Key: "s5"},
			{At: 91, Tool: "web_pay", Class: "unsafe", Run: "settle/1", Step: "pay", Key: "u1"},
			{At: 11, Tool: "web_pay", Class: "unsafe", Run: "stop/1", Step: "first", Key: "c1"},
		},
		Calls: []Call{
			{ID: "1", Client: "blocking", Run: "pay/1", Same: "key 1", Status: "completed", Output: `{"n":1}`},
			{ID: "2", Client: "tasks", Run: "pay/1", Same: "key 1", Status: "completed", Output: `{"n":1}`},
			{ID: "3", Client: "blocking", Run: "saga/1", Status: "failed"},
			{ID: "4", Client: "blocking", Error: "connection refused"},
		},
		Answers: []Answer{
			{Run: "gate/1", Question: "ask#1", Channel: "page", Content: "no"},
			{Run: "gate/1", Question: "ask#1", Channel: "runs", Content: "yes", Won: true},
		},
		Cancels: []Cancel{{Run: "stop/1", At: 15}},
	}
}

// TestCheck breaks each sentence in each way that there is, and wants it to be
// found.
func TestCheck(t *testing.T) {
	t.Parallel()
	if found := check(good()); len(found) > 0 {
		t.Fatalf("a good record breaks %q", found)
	}
	step := func(r *Record, run, i int) *Step { return &r.Runs[run].Steps[i] }
	for _, c := range []struct {
		name, sentence, says string
		spoil                func(*Record)
	}{
		{"run that a client knows is gone", "accepted call", "pay/9", func(r *Record) { r.Calls[3].Run = "pay/9" }},
		{"cancelled run is gone", "accepted call", "stop/9", func(r *Record) { r.Cancels[0].Run = "stop/9" }},
		{"one key, two runs", "one run", "pay/1 and saga/1", func(r *Record) { r.Calls[2].Same = "key 1" }},
		{"one call, two runs", "sent again", "by 2 runs", func(r *Record) {
			r.Calls[3].Same, r.Effects[0].About, r.Effects[9].About = "call 4", "call 4", "call 4"
		}},
		{"told another status", "what the run came to", "is completed; it is failed", func(r *Record) { r.Calls[2].Status = "completed" }},
		{"told another result", "what the run came to", `{"n":2}`, func(r *Record) { r.Calls[0].Output = `{"n":2}` }},
		{"run is stuck", "every run", "stop/1", func(r *Record) { r.Runs[4].Status = "running" }},
		{"effect without intent", "intent", "web_pay", func(r *Record) {
			r.Effects = append(r.Effects, Effect{At: 99, Tool: "web_pay", Class: "unsafe", Run: "pay/1", Step: "other", Key: "k9"})
		}},
		{"effect before its intent", "intent", "web_pay", func(r *Record) { r.Effects[0].At = 49 }},
		{"unsafe effect twice", "unsafe effect", "2 times", func(r *Record) { r.Effects = append(r.Effects, r.Effects[0]) }},
		{"keyed effect twice", "keyed effect", "2 times", func(r *Record) { r.Effects = append(r.Effects, r.Effects[1]) }},
		{"keyed call with two keys", "keyed effect", "two keys", func(r *Record) { r.Effects[2].Key = "k9" }},
		{"keyed call without a key", "keyed effect", "without a key", func(r *Record) { r.Effects[2].Key = "" }},
		{"completed step without effect", "effect of a completed step", "pay/1", func(r *Record) { r.Effects = r.Effects[1:] }},
		{"completed step whose effect was an error", "effect of a completed step", "pay/1", func(r *Record) { r.Effects[0].Fault = true }},
		{"unknown made again", "unknown outcome", "settle/1", func(r *Record) { r.Runs[3].Gates = nil }},
		{"unknown made again before somebody said so", "unknown outcome", "settle/1", func(r *Record) { r.Runs[3].Gates[0].Event = 15 }},
		{"unknown made again although it happened", "unknown outcome", "settle/1", func(r *Record) { r.Runs[3].Gates[0].Outcome = "happened" }},
		{"two winners", "answer", "two were told", func(r *Record) { r.Answers[0].Won = true }},
		{"answer that nobody gave", "answer", "nobody gave", func(r *Record) { r.Answers = r.Answers[:1] }},
		{"another answer than was told", "answer", "another than the one", func(r *Record) {
			r.Answers[0].Won, r.Answers[1].Won = true, false
		}},
		{"another answer carried out", "answer", "carries out another", func(r *Record) { r.Effects[3].Carry = "no" }},
		{"declined and written", "not accepted", "gate/1", func(r *Record) { r.Runs[1].Gates[0].Action = "decline" }},
		{"expired and written", "not accepted", "gate/1", func(r *Record) { r.Runs[1].Gates[0].State = "expired" }},
		{"step after a cancel", "cancel", "step first of stop/1", func(r *Record) { step(r, 4, 0).Scheduled = 10 }},
		{"cancel that is not known", "cancel", "does not know", func(r *Record) { r.Runs[4].Cancelled, r.Runs[4].Status = 0, "waiting" }},
		{"cancelled by nobody", "nobody has cancelled", "pay/1", func(r *Record) { r.Runs[0].Status = "cancelled" }},
		{"undone in order", "reverse order", "[a b]", func(r *Record) {
			step(r, 2, 3).Path, step(r, 2, 4).Path = "a/compensate#1", "b/compensate#1"
		}},
		{"undone in part", "reverse order", "only [b]", func(r *Record) { r.Runs[2].Steps = r.Runs[2].Steps[:4] }},
		{"undone without need", "reverse order", "completed and was undone", func(r *Record) { r.Runs[2].Status = "completed" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := good()
			c.spoil(r)
			named := func(line string) bool {
				name, what, _ := strings.Cut(line, ": ")
				return strings.Contains(name, c.sentence) && strings.Contains(what, c.says)
			}
			if found := check(r); !slices.ContainsFunc(found, named) {
				t.Errorf("found %q, want one of %q that says %q", found, c.sentence, c.says)
			}
		})
	}
}
