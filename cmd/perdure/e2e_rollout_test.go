package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRollout replaces the build of the workers while a run waits. The run stays
// with the build that started it, also while that has no worker; new runs are
// started by the build that was promoted.
func TestRollout(t *testing.T) {
	t.Parallel()
	r := prepareReplicas(t, newTemporal(t), "rollout", "--call-patience", "0s")
	before, after := r.workers[0], r.workers[1]
	before.args = append(before.args, "--build-id", "before")
	after.args = append(after.args, "--build-id", "after")
	if out, err := r.perdure(t, "rollout", "status"); err == nil {
		t.Errorf("the status without a build is %s", out)
	}
	before.start()
	r.promote(t, "before")
	r.gateways[0].start()
	c := dial(t, "http://"+r.gateways[0].address+endpoint, legacy, nil)

	old := begin(t, c, keyed("review", "old"))
	id := r.gates(t, "old", 1)
	after.start()
	r.promote(t, "after")
	if got := r.builds(t); got["before"] != "draining" || got["after"] != "current" {
		t.Errorf("with a run of the old build under way the builds are %v", got)
	}
	before.stop(syscall.SIGTERM, time.Minute)

	recent := begin(t, c, keyed("review", "recent"))
	r.answer(t, r.gates(t, "recent", 1), "approval")
	r.completed(t, "review", "recent", sent(t, receive(t, recent.result, "the result of the new build")))

	answered := make(chan error, 1)
	go func() {
		_, err := r.perdure(t, "runs", "answer", id, "--step", "approval", "--accept", "--content", `{"verdict": "ok"}`)
		answered <- err
	}()
	before.start() // nobody else takes the answer up
	if err := receive(t, answered, "the answer to be taken"); err != nil {
		t.Error(err)
	}
	r.completed(t, "review", "old", sent(t, receive(t, old.result, "the result of the old build")))
}

// promote promotes a build as soon as its worker is known.
func (r *replicas) promote(t *testing.T, build string) {
	t.Helper()
	until(t, "the build "+build+" to be promoted", func() bool {
		out, err := r.perdure(t, "rollout", "promote", build)
		return err == nil && strings.Contains(out, build+" starts 100% of the new runs")
	})
}

// builds are the states of the builds.
func (r *replicas) builds(t *testing.T) map[string]string {
	t.Helper()
	out, err := r.perdure(t, "rollout", "status", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ ID, State string }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	states := map[string]string{}
	for _, b := range list {
		states[b.ID] = b.State
	}
	return states
}
