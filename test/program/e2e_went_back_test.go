package program_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// TestTemporalWentBack sets Temporal's database back while Temporal itself goes on, as a
// failover to a standby that lagged does. Processes and doctor notice that, who waits for a
// run that is lost hears it, and after the runbook a run is where the database has it.
func TestTemporalWentBack(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	r := newReplicas(t, newTemporalOn(t, pg), "back", "--call-patience", "0s")
	at := r.balancer(t).url()
	key := "back"
	staged := begin(t, dial(t, at, modern, nil), keyed("stages", key))
	id := r.gates(t, key, 1)
	backup := filepath.Join(t.TempDir(), "temporal")
	perduretest.NoError(t, pg.Dump(t.Context(), "temporal", backup))

	r.answer(t, id, "first")
	until(t, "the second gate", func() bool {
		run, err := r.perdure(t, "runs", "show", id, "-o", "json")
		return err == nil && openGate(t, run) == "second"
	})
	lost := begin(t, dial(t, at, legacy, nil), keyed("slow_write", "lost"))
	until(t, "the write", func() bool { return r.backend.count("be_slow_write", "lost") == 1 })
	perduretest.NoError(t, pg.RestoreOver(t.Context(), "temporal", backup))

	const says = "Temporal's database lacks what Temporal had written to it"
	until(t, "a process to notice it", func() bool {
		return slices.ContainsFunc(slices.Concat(r.gateways[:], r.workers[:]), func(p *process) bool {
			return strings.Contains(p.output.String(), says)
		})
	})
	if out, err := r.perdure(t, "doctor"); err == nil || !strings.Contains(out, "Temporal remembers more of "+id) {
		t.Errorf("doctor: %v, %s", err, out)
	}
	r.release()
	if got := asJSON(t, receive(t, lost.result, "the end of the call that is lost")); !strings.Contains(got, `"run_lost"`) {
		t.Errorf("the call that is lost gives %s", got)
	}

	for _, w := range r.workers {
		w.kill()
	}
	r.temporal.kill()
	r.temporal.start()
	if out, _ := r.perdure(t, "doctor"); strings.Contains(out, "remembers") {
		t.Errorf("doctor after the restart: %s", out)
	}
	if run, err := r.perdure(t, "runs", "show", id, "-o", "json"); err != nil || openGate(t, run) != "first" {
		t.Errorf("before workers are started: %v, %s", err, run)
	}
	for _, w := range r.workers {
		w.start()
	}
	r.answer(t, id, "first")
	r.answer(t, id, "second")
	receive(t, staged.result, "the end of the call that went back")
}
