package repo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

type checkupArgs struct {
	PauseSeconds float64 `json:"pause_seconds"`
}

type checkupResult struct {
	Healthy  bool     `json:"healthy"`
	Problems []string `json:"problems" jsonschema:"what git found wrong, a line each"`
	Phases   []string `json:"phases" jsonschema:"what was checked"`
	Refs     int      `json:"refs" jsonschema:"number of branches, tags and other refs"`
	Objects  int      `json:"objects" jsonschema:"number of objects"`
}

// checkup checks refs, objects and connectivity, one after the other, and reports its
// progress: a third for each, with the pauses.
func (r *repository) checkup(ctx context.Context, args checkupArgs, tell func(done, total float64, message string)) (*checkupResult, error) {
	res := &checkupResult{Problems: []string{}, Phases: []string{}}
	phases := []struct {
		name string
		run  func(context.Context, *checkupResult) error
	}{{"refs", r.checkRefs}, {"objects", r.checkObjects}, {"connectivity", r.checkConnectivity}}
	total := float64(len(phases))
	for i, phase := range phases {
		if i > 0 {
			if err := pause(ctx, args.PauseSeconds, func(part float64) { tell(float64(i)+part/2, total, "pausing before "+phase.name) }); err != nil {
				return nil, err
			}
		}
		tell(float64(i)+0.6, total, "checking "+phase.name)
		if err := phase.run(ctx, res); err != nil {
			return nil, fmt.Errorf("checking %s: %w", phase.name, err)
		}
		res.Phases = append(res.Phases, phase.name)
		tell(float64(i+1), total, phase.name+" checked")
	}
	res.Healthy = len(res.Problems) == 0
	return res, nil
}

// pause waits, and reports every second the part that has passed.
func pause(ctx context.Context, seconds float64, tell func(part float64)) error {
	end := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for passed := 1.0; ; passed++ {
		select {
		case <-end.C:
			return nil
		case <-tick.C:
			tell(min(passed/seconds, 1))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *repository) checkRefs(ctx context.Context, res *checkupResult) error {
	out, err := r.git(ctx, "for-each-ref", "--format=%(refname)")
	res.Refs = strings.Count(out, "\n")
	return err
}

func (r *repository) checkObjects(ctx context.Context, res *checkupResult) error {
	out, err := r.git(ctx, "count-objects", "-v")
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); err == nil && (name == "count" || name == "in-pack") {
			res.Objects += n
		}
	}
	return err
}

// checkConnectivity runs git fsck, whose exit code for a finding is no failure.
func (r *repository) checkConnectivity(ctx context.Context, res *checkupResult) error {
	out, err := r.git(ctx, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	var exit *exec.ExitError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &exit)) {
		return err
	}
	if err != nil {
		out += "\n" + err.Error()
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "notice: ") {
			res.Problems = append(res.Problems, line)
		}
	}
	return nil
}
