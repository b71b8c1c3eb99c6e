// Command resets shows that a write happens once, whatever operators do to runs: it
// serves random definitions from perdure dev, and resets executions at Temporal to
// random workflow tasks, also those of called runs and older ones, resumes, cancels
// and terminates runs at random moments, answers what they ask, and kills the
// process (kill -9). Its backend, in this process, loses answers, comes late and
// breaks connections, and writes down what it did, against which everything is held
// in the end. See docs/chaos.md.
//
//	bin/resets                          one storm, with a new seed
//	bin/resets -seed 17 -runs 70 -par 7 the same calls, definitions and decisions once more
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// A setting is what a storm is made of.
type setting struct {
	perdure string
	seed    uint64
	runs    int
	par     int           // calls under way at a time
	kills   time.Duration // between two; 0 = none
	trace   bool          // prints what is done to runs
}

func main() {
	var s setting
	flag.StringVar(&s.perdure, "perdure", "bin/perdure", "the program perdure, with dev")
	flag.Uint64Var(&s.seed, "seed", rand.Uint64N(1_000_000), "of everything that is left to chance")
	flag.IntVar(&s.runs, "runs", 70, "how many calls there are")
	flag.IntVar(&s.par, "par", 7, "how many of them at a time")
	flag.DurationVar(&s.kills, "kills", 12*time.Second, "how long between two kill -9, about; 0 = none")
	flag.BoolVar(&s.trace, "trace", false, "print what is done to runs")
	kept := flag.String("kept", ".chaos", "directory for what is kept of a failure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := storm(ctx, s, *kept)
	if err != nil {
		fmt.Fprintln(os.Stderr, "resets:", err)
	}
	if err != nil || found > 0 {
		os.Exit(1)
	}
}

// storm makes all calls of a seed, and prints and counts what breaks a promise.
func storm(ctx context.Context, s setting, kept string) (found int, err error) {
	fmt.Printf("seed %d\n", s.seed)
	dir, err := os.MkdirTemp("", "resets")
	if err != nil {
		return 0, err
	}
	w, err := newWorld(ctx, s, dir)
	if err == nil {
		err = w.rage()
	}
	findings := w.check()
	for _, f := range findings {
		fmt.Printf("FINDING %s\n", f)
	}
	fmt.Println(w.figures())
	if len(findings) > 0 || slices.ContainsFunc(w.calls, func(c *call) bool { return c.suspect }) {
		err = w.keep(filepath.Join(kept, fmt.Sprintf("resets-%d-%s", s.seed, time.Now().Format("150405"))), findings)
		fmt.Printf("once more: bin/resets -seed %d -runs %d -par %d\n", s.seed, s.runs, s.par)
	}
	w.close()
	_ = os.RemoveAll(dir) // what is wanted is kept
	return len(findings), err
}
