package service

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/runs"
)

// builds examines whether each build that has runs, or starts them, has workers.
func (x *examination) builds(at *runs.Inspection) {
	const name = "builds"
	if len(at.Builds) == 0 {
		return
	}
	var starts, idle []string
	for _, b := range at.Builds {
		if b.State == runs.BuildCurrent || b.State == runs.BuildRamping {
			starts = append(starts, b.ID)
		}
		if b.Workers == 0 && b.State != runs.BuildInactive && b.State != runs.BuildDrained {
			idle = append(idle, b.ID)
		}
	}
	plain := !slices.ContainsFunc(at.Builds, func(b runs.Build) bool { return b.State == runs.BuildCurrent })
	switch {
	case len(idle) > 0:
		x.add(name, CheckWarning, "no worker of "+strings.Join(idle, ", ")+" polls, so runs of it wait",
			"start its workers (--build-id), or, for new runs, perdure rollout promote another build")
	case plain && at.Plain == 0:
		x.add(name, CheckWarning, "no build was promoted, and each worker has one, so new runs wait", "perdure rollout promote BUILD, or start workers without --build-id")
	case plain:
		x.ok(name, "workers without a build start new runs")
	default:
		x.ok(name, "%s starts new runs, and has workers", strings.Join(starts, ", "))
	}
}
