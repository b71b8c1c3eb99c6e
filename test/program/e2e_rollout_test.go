package program_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/internal/perduretest"
)

// plantedTimer is what runs have in their histories that another build than
// this one has begun; see planted_change.go in internal/service.
const plantedTimer = 400 * 24 * time.Hour

// TestRollout replaces the interpreter by another build, with runs under way:
// this one, by a program that was built of the same source with a command more
// in each run, so that neither can replay what the other has begun.
func TestRollout(t *testing.T) {
	t.Parallel()
	changed := buildPlanted(t)
	temporal := newTemporal(t)
	for name, test := range map[string]func(*rollout){
		"pinned": (*rollout).pinned, "upgraded": (*rollout).upgraded,
		"unversioned": (*rollout).unversioned, "versioned": (*rollout).versioned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rollout{replicas: prepareReplicas(t, temporal, name, "--call-patience", "0s")}
			r.before, r.after = r.workers[0], r.workers[1]
			r.after.build, r.after.env = changed, append(r.after.env, "PERDURE_PLANTED=change")
			test(r)
		})
	}
}

// A rollout has a worker of each build, and a gateway.
type rollout struct {
	*replicas
	before, after *process
}

// pinned has each run stay with the build that started it: while both work, and
// while that build has no worker. When it has no runs left, it can go.
func (r *rollout) pinned() {
	t := r.t
	r.before.args = append(r.before.args, "--build-id", "before")
	r.after.args = append(r.after.args, "--build-id", "after")
	if out, err := r.perdure(t, "rollout", "status"); err == nil {
		t.Errorf("the status without a build is %s", out)
	}
	r.before.start()
	r.promote(t, "before")
	r.gateways[0].start()
	both, late := r.begin("both"), r.begin("late")

	r.after.start()
	r.promote(t, "after")
	if got := r.builds(t); got["before"] != "draining, 1 workers" || got["after"] != "current, 1 workers" {
		t.Errorf("with runs of the old build under way the builds are %v", got)
	}
	recent := r.begin("recent")
	both.finish() // both builds work
	recent.finish()

	r.before.stop(syscall.SIGTERM, time.Minute)
	until(t, "the old build to have no worker", func() bool { return r.builds(t)["before"] == "draining, 0 workers" })
	if out, err := r.command(t, "rollout", "promote", "before").CombinedOutput(); err == nil || !strings.Contains(string(out), "has no workers") {
		t.Errorf("promoting a build without workers: %v, %s", err, out)
	}
	if out, err := r.perdure(t, "doctor"); err != nil || !strings.Contains(out, "no worker of before polls") {
		t.Errorf("doctor: %v, %s", err, out)
	}
	answered := late.tryAnswer()
	r.begin("after").finish()
	r.before.start() // nobody else takes the answer up
	if err := receive(t, answered, "the answer to be taken"); err != nil {
		t.Error(err)
	}
	late.completes()

	for run, build := range map[gatedRun]string{both: "before", late: "before", recent: "after"} {
		events := r.history(run.id)
		if got := builtBy(events); !slices.Equal(got, []string{build}) {
			t.Errorf("%s was executed by %v, want %s", run.key, got, build)
		}
		if begunByOther(events) != (build == "after") || failedTasks(events) > 0 {
			t.Errorf("%s: planted command %t, %d failed tasks", run.key, begunByOther(events), failedTasks(events))
		}
	}
	until(t, "the old build to be drained", func() bool { return r.builds(t)["before"] == "drained, 1 workers" })
	r.before.stop(syscall.SIGTERM, time.Minute)
	r.begin("drained").finish()
}

// upgraded has a run under way go over to the build that is promoted.
func (r *rollout) upgraded() {
	for build, p := range map[string]*process{"before": r.before, "after": r.after} {
		p.args = append(p.args, "--build-id", build, "--build-runs", "upgraded")
	}
	r.after.env = append(r.after.env, "PERDURE_PLANTED=versioned change")
	r.before.start()
	r.promote(r.t, "before")
	r.gateways[0].start()
	run := r.begin("upgraded")
	r.after.start()
	r.promote(r.t, "after")
	n := 0
	until(r.t, "new runs to be started by the new build", func() bool {
		n++
		recent := r.begin(fmt.Sprintf("recent-%d", n))
		recent.finish()
		return slices.Equal(builtBy(r.history(recent.id)), []string{"after"})
	})
	run.finish()
	if got := builtBy(r.history(run.id)); !slices.Equal(got, []string{"before", "after"}) {
		r.t.Errorf("the run was executed by %v", got)
	}
}

// unversioned replaces workers that do not say which build they are by such
// that cannot replay a run. They leave it as it is, and those before them end it.
func (r *rollout) unversioned() {
	r.before.start()
	r.gateways[0].start()
	run := r.begin("unversioned")
	r.before.stop(syscall.SIGTERM, time.Minute)
	r.after.start()
	run.tryAnswer() // which may count once somebody takes it up, or may be in vain
	until(r.t, "the other build to give the run back", func() bool { return failedTasks(r.history(run.id)) > 0 })
	r.after.stop(syscall.SIGTERM, time.Minute)
	r.wrote(r.t, run.key)
	r.before.start()
	until(r.t, "the answer to be taken", func() bool {
		show, err := r.perdure(r.t, "runs", "show", run.id, "-o", "json")
		return err == nil && openGate(r.t, show) == "" || <-run.tryAnswer() == nil
	})
	run.completes()
}

// versioned has the change made as workflows makes such: with
// workflow.GetVersion, so that the new build ends what the old one has begun.
func (r *rollout) versioned() {
	t := r.t
	r.after.env = append(r.after.env, "PERDURE_PLANTED=versioned change")
	r.before.start()
	r.gateways[0].start()
	old := r.begin("old")
	r.before.stop(syscall.SIGTERM, time.Minute)
	r.after.start()
	old.finish()
	recent := r.begin("recent")

	// One of each: a task that only the newer understands comes to it.
	r.before.start()
	mixed := []gatedRun{r.begin("mixed-1"), r.begin("mixed-2"), r.begin("mixed-3")}
	recent.finish()
	for _, run := range mixed {
		run.finish()
	}
	if events := r.history(old.id); begunByOther(events) || failedTasks(events) > 0 {
		t.Errorf("the old run: planted command %t, %d failed tasks", begunByOther(events), failedTasks(events))
	}
	if !begunByOther(r.history(recent.id)) {
		t.Error("the new build does nothing differently, so this shows nothing")
	}
}

// A gatedRun is a call of review that waits for a person.
type gatedRun struct {
	*rollout
	key, id string
	call    pending
}

// begin makes the call and waits until the question is open.
func (r *rollout) begin(key string) gatedRun {
	r.t.Helper()
	c := dial(r.t, "http://"+r.gateways[0].address+endpoint, legacy, nil)
	call := begin(r.t, c, keyed("review", key))
	return gatedRun{r, key, r.gates(r.t, key, 1), call}
}

// finish answers the question, as often as it takes, and checks what becomes of
// the call.
func (g gatedRun) finish() {
	g.t.Helper()
	g.answer(g.t, g.id, "approval")
	g.completes()
}

// tryAnswer answers the question once, while perhaps nobody takes the answer up.
func (g gatedRun) tryAnswer() <-chan error {
	answered := make(chan error, 1)
	go func() {
		_, err := g.perdure(g.t, "runs", "answer", g.id, "--step", "approval", "--accept", "--content", `{"verdict": "ok"}`)
		answered <- err
	}()
	return answered
}

func (g gatedRun) completes() {
	g.t.Helper()
	g.completed(g.t, "review", g.key, sent(g.t, receive(g.t, g.call.result, "the result of "+g.key)))
}

// history are the events of a run.
func (r *rollout) history(id string) []*history.HistoryEvent {
	r.t.Helper()
	c, err := temporalclient.Dial(temporalclient.Options{HostPort: r.temporal.address, Namespace: r.namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	var events []*history.HistoryEvent
	for all := c.GetWorkflowHistory(r.t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); all.HasNext(); {
		event, err := all.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// builtBy are the builds whose workers have executed a run, in order.
func builtBy(events []*history.HistoryEvent) []string {
	var builds []string
	for _, e := range events {
		if task := e.GetWorkflowTaskCompletedEventAttributes(); task != nil {
			builds = append(builds, task.GetDeploymentVersion().GetBuildId())
		}
	}
	return slices.Compact(builds)
}

// begunByOther says whether a run has the command that only the other build makes.
func begunByOther(events []*history.HistoryEvent) bool {
	return slices.ContainsFunc(events, func(e *history.HistoryEvent) bool {
		return e.GetTimerStartedEventAttributes().GetStartToFireTimeout().AsDuration() == plantedTimer
	})
}

// failedTasks is how often a worker could not replay a run, as far as its
// history says: one failure of several in a row.
func failedTasks(events []*history.HistoryEvent) int {
	n := 0
	for _, e := range events {
		if e.GetWorkflowTaskFailedEventAttributes().GetCause() == enums.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR {
			n++
		}
	}
	return n
}

// promote promotes a build as soon as its worker is known.
func (r *replicas) promote(t *testing.T, build string) {
	t.Helper()
	until(t, "the build "+build+" to be promoted", func() bool {
		out, err := r.perdure(t, "rollout", "promote", build)
		return err == nil && strings.Contains(out, build+" starts 100% of new runs")
	})
}

// builds are the states of the builds, with their numbers of workers.
func (r *replicas) builds(t *testing.T) map[string]string {
	t.Helper()
	out := perduretest.Must(r.perdure(t, "rollout", "status", "-o", "json"))(t)
	var list []struct {
		ID, State string
		Workers   int
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	states := map[string]string{}
	for _, b := range list {
		states[b.ID] = fmt.Sprintf("%s, %d workers", b.State, b.Workers)
	}
	return states
}
