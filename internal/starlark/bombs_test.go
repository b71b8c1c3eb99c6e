package starlark_test

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
)

// maxPeak is how much memory a bomb may take beside what the process has. The
// budget of a script is 128 MiB; what is garbage and not collected yet comes on
// top of it.
const maxPeak = 512 << 20

// TestBombs runs scripts that want all of the memory, or never end. Each fails,
// and takes little. They run one after the other, so that what each takes can be
// measured.
func TestBombs(t *testing.T) {
	perduretest.Parts(t, "testdata/bombs/*.star", func(t *testing.T, _ string, _ int, bomb string) { runBomb(t, bomb) })
}

func runBomb(t *testing.T, bomb string) {
	runtime.GC()
	peak := watchMemory()
	began := cpuTime(t)
	_, failed := execute(compile(t, bomb), "{}", starlark.Limits{})
	took, most := cpuTime(t)-began, peak()
	if failed == nil {
		t.Fatalf("it succeeded:\n%s", bomb)
	}
	t.Logf("%4d ms %4d MiB  %v", took.Milliseconds(), most>>20, failed)
	if most > maxPeak {
		t.Errorf("it took %d MiB:\n%s", most>>20, bomb)
	}
	if failed.at.Line == 0 {
		t.Errorf("the error does not say where: %v", failed)
	}
}

// cpuTime is what this process has used of processors, whatever else the
// machine is busy with.
func cpuTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	perduretest.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// watchMemory gives a function that says how much the heap has grown at most
// since, and stops watching.
func watchMemory() func() uint64 {
	heap := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	start, most := heap(), uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if now := heap(); now > start {
				most = max(most, now-start)
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return most
	}
}

// TestAttackClauses compiles comprehensions of many clauses, of which each is within
// the one before it.
func TestAttackClauses(t *testing.T) {
	for _, clause := range []string{"if 1 ", "for y in x ", "if 1 for y in [x] "} {
		for n, takes := range map[int]bool{40: true, 12000: false} {
			began := cpuTime(t)
			_, mistakes := language.Compile(starlark.Source{File: "a.star", Text: "return [1 for x in [1] " + strings.Repeat(clause, n) + "]"}, starlark.Limits{})
			if took := cpuTime(t) - began; took > 2*time.Second {
				t.Errorf("%d times %q took %v", n, clause, took)
			}
			if takes != (len(mistakes) == 0) || !takes && !strings.Contains(mistakes[0].Message, "nested more than 100 deep") {
				t.Errorf("%d times %q: %v", n, clause, mistakes)
			}
		}
	}
}
