package runs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, `
name: busy
description: Is at work.
steps:
  - id: all
    type: forEach
    collection: '["a"]'
    step: {tool: busy}
`))
	var told []runs.StepProgress
	for deadline := time.Now().Add(time.Minute); len(told) == 0 || told[0].StepPath == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no progress is told: %v", told)
		}
		var err error
		if told, err = c.Progress(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	want := []runs.StepProgress{{StepPath: "all[0]", Progress: 1, Total: 2, Message: "half", Activity: told[0].Activity, Attempt: 1}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	perduretest.NoError(t, c.Cancel(t.Context(), id, "the test ends"))
	followTo(t, c, id, 0, runs.EventDone)
	if told, err := c.Progress(t.Context(), id); err != nil || len(told) > 0 {
		t.Errorf("a run that has ended tells %v, %v", told, err)
	}
}
