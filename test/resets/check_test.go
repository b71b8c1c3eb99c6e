package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// Each sentence of the check is found broken, and holds where something allows it.
func TestCheck(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int, what, tool, class string) event {
		return event{At: began.Add(time.Duration(ms) * time.Millisecond), What: what, About: "c0", Run: "top/1", Step: "s", Tool: tool, Class: class}
	}
	lost := at(2, executed, "undo", "unsafe")
	lost.Fate = "lost"
	did := func(ms int, what string) deed {
		then := began.Add(time.Duration(ms) * time.Millisecond)
		return deed{At: then, Done: then, What: what, Run: "top/1"}
	}
	for _, tc := range []struct {
		name   string
		deeds  []deed
		risk   map[string]int
		status runs.Status
		events []event
		want   string
	}{
		{"done once", nil, nil, workflows.Completed, []event{at(0, came, "write", "unsafe"), at(1, executed, "write", "unsafe")}, ""},
		{"done twice", nil, nil, workflows.Completed, []event{at(1, executed, "write", "unsafe"), at(2, executed, "write", "unsafe")}, "executed twice"},
		{"done twice, as a plan has said", nil, map[string]int{"s": 1}, workflows.Completed, []event{at(1, executed, "write", "unsafe"), at(2, executed, "write", "unsafe")}, ""},
		{"undone in between", nil, nil, workflows.Completed, []event{at(1, executed, "hold", "unsafe"), at(2, executed, "undo", "unsafe"), at(3, executed, "hold", "unsafe")}, ""},
		{"undone twice", nil, nil, workflows.Failed, []event{at(1, executed, "hold", "unsafe"), at(2, executed, "undo", "unsafe"), at(3, executed, "undo", "unsafe")}, "executed twice"},
		{"done with the key of what was undone", nil, nil, workflows.Completed, []event{at(1, executed, "reserve", "keyed"), at(2, executed, "undo", "unsafe"), at(3, again, "reserve", "keyed")}, "in vain"},
		{"undone with the key of the first time", nil, nil, workflows.Failed, []event{at(1, executed, "hold", "unsafe"), at(2, executed, "release", "keyed"), at(3, executed, "hold", "unsafe"), at(4, again, "release", "keyed")}, "in vain"},
		{"sent after a cancel", []deed{did(0, "cancel")}, nil, workflows.Cancelled, []event{at(900, came, "write", "unsafe")}, "after the cancel"},
		{"sent soon after a cancel", []deed{did(0, "cancel")}, nil, workflows.Cancelled, []event{at(100, came, "write", "unsafe")}, ""},
		{"undone after a cancel", []deed{did(0, "cancel")}, nil, workflows.Cancelled, []event{at(900, came, "undo", "unsafe")}, ""},
		{"sent after a reset of what was cancelled", []deed{did(0, "cancel"), did(500, "reset below")}, nil, workflows.Completed, []event{at(900, came, "write", "unsafe")}, ""},
		{"left behind", nil, nil, workflows.Failed, []event{at(1, executed, "hold", "unsafe")}, "not undone"},
		{"completed without what was undone", []deed{did(0, "reset")}, nil, workflows.Completed, []event{at(1, executed, "hold", "unsafe"), at(2, executed, "undo", "unsafe")}, "which has completed"},
		{"completed without what may have been undone", []deed{did(0, "reset")}, nil, workflows.Completed, []event{at(1, executed, "hold", "unsafe"), lost}, ""},
		{"left behind by operators", []deed{did(0, "terminate")}, nil, workflows.Failed, []event{at(1, executed, "hold", "unsafe")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := &world{backend: &backend{events: tc.events}, author: &author{undoable: map[string]bool{"s": true}, thorough: map[string]bool{"top": true}}}
			w.calls = []*call{{w: w, about: "c0", id: "top/1", deeds: tc.deeds, risk: tc.risk, status: tc.status, statuses: map[string]runs.Status{"top/1": tc.status}}}
			got := w.check()
			if tc.want == "" && len(got) > 0 || tc.want != "" && !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, tc.want) }) {
				t.Errorf("found %q; want %q", got, tc.want)
			}
		})
	}
}

// The definitions of any seed are valid.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		w := &world{setting: setting{seed: seed}}
		list, _ := (&author{rng: w.rng(1), undoable: map[string]bool{}, thorough: map[string]bool{}}).write()
		if _, err := parsed(list); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
