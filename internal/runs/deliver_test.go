package runs_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// TestDelivered: another process finds the note that one process makes, for that caller
// and run only, without a worker; an unsigned note does not count.
func TestDelivered(t *testing.T) {
	t.Parallel()
	in := install(t, "delivered", secrets.FixedKeys(older))
	other := runs.New(runs.Config{Client: in.temporal, Namespace: "delivered", Keys: keysOf(t, secrets.FixedKeys(older)), Logger: quietLogger})
	stranger := runs.New(runs.Config{Client: in.temporal, Namespace: "delivered", Keys: keysOf(t, secrets.FixedKeys(newer)), Logger: quietLogger})
	ended := time.Now()
	delivered := func(caller string, id runs.RunID, since time.Time) bool {
		t.Helper()
		there := perduretest.Must(other.Delivered(t.Context(), caller, id, since))(t)
		return there
	}
	if delivered("ann", "a/1", ended) {
		t.Error("delivered before it was")
	}
	for _, all := range [][]runs.RunID{{"a/1", "a/2"}, {"a/3"}} {
		perduretest.NoError(t, in.door.Deliver(t.Context(), "ann", all))
	}
	perduretest.NoError(t, stranger.Deliver(t.Context(), "ann", []runs.RunID{"a/4"}))
	for id, want := range map[runs.RunID]bool{"a/1": true, "a/2": true, "a/3": true, "a/4": false, "a/5": false} {
		if got := delivered("ann", id, ended); got != want {
			t.Errorf("delivered %s: %v, want %v", id, got, want)
		}
		if !delivered("ann", "a/1", ended.Add(-20*time.Minute)) {
			t.Error("a delivery long after the end is not found")
		}
		if delivered("bob", id, ended) {
			t.Errorf("%s was delivered to somebody else", id)
		}
	}
	if err := runs.New(runs.Config{Client: in.temporal, Namespace: "delivered"}).Deliver(t.Context(), "ann", []runs.RunID{"a/1"}); err == nil {
		t.Error("a process without a key can note deliveries")
	}
}

// TestAttended: all who follow a run learn how requests stand to it, and of nothing
// that was not signed; the run is found by those alone that want to.
func TestAttended(t *testing.T) {
	t.Parallel()
	in := install(t, "attended", secrets.FixedKeys(older))
	in.works(secrets.FixedKeys(older))
	id := in.gate()
	in.send(id, workflows.AttachSignal, workflows.Attached{Request: "forged", Says: workflows.Here})
	for _, a := range []runs.Attended{{Request: "r1", Says: runs.Joined}, {Request: "r2", Says: runs.Here}, {Request: "r3"}} {
		if noted, err := in.door.Attach(t.Context(), id, a); err != nil || !noted {
			t.Fatalf("%+v: %v, %v", a, noted, err)
		}
	}
	var said []string
	for e, err := range in.door.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != runs.EventAttended {
			continue
		}
		if time.Since(e.At).Abs() > time.Minute {
			t.Errorf("said at %s", e.At)
		}
		if said = append(said, e.Attended.Request+" "+string(e.Attended.Says)); e.Attended.Request == "r3" {
			break
		}
	}
	if want := []string{"r1 joined", "r2 here", "r3 "}; len(said) != 3 || said[0] != want[0] || said[1] != want[1] || said[2] != want[2] {
		t.Errorf("followers learned %q, want %q", said, want)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if run, err := in.door.Get(t.Context(), id); err == nil && run.Request != "" {
			if run.Request != "r3" {
				t.Errorf("the run is found by %q", run.Request)
			}
			return
		}
	}
	t.Error("the run is not found by its request")
}
