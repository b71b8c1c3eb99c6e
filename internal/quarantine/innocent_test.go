package quarantine_test

import (
	"testing"

	"github.com/perdure/perdure/internal/quarantine"
)

// TestSlowIsNoLoss has a run whose workflow task takes longer than Temporal allows, alone
// too, in a worker that survives: it is executed again until it is fast enough.
func TestSlowIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start("slow", "slow", 0)
	b.awaitStatus("slow", completed)
	if n := b.signals("slow", quarantine.BegunSignal); n < 3 || b.died() != 0 {
		t.Errorf("it was executed alone %d times, and %d workers died", n, b.died())
	}
}

// TestLongReplayIsNoLoss has the same of a task that yields again and again, such as the
// replay of a long history, and fails after longer than a run may compute between two waits.
func TestLongReplayIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t, "QUARANTINE_IMPATIENT=1")
	b.start("replays", "long", 0)
	b.awaitStatus("long", completed)
	if n := b.signals("long", quarantine.BegunSignal); n < 3 || b.died() != 0 {
		t.Errorf("it was executed alone %d times, and %d workers died", n, b.died())
	}
}

// TestKilledBesideTheRun has a worker end for another reason while it executes a suspect
// alone: the run continues with the next worker.
func TestKilledBesideTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start("exits", "unlucky", 0)
	b.await("the second worker dies, which executed it alone", func() bool { return b.died() == 2 })
	b.mend()
	b.awaitStatus("unlucky", completed)
	if n := b.signals("unlucky", quarantine.SurvivedSignal); n != 1 || b.died() != 2 {
		t.Errorf("it has %d marks that a worker survived it, and %d workers died", n, b.died())
	}
}
