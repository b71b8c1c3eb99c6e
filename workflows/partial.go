package workflows

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows/record"
)

// maxPartial bounds the outputs that travel with a failure.
const maxPartial = 64 << 10

// maxUndoneBelow bounds the paths of what called runs have undone, in bytes, that
// travel with a failure: a forEach may have called a thousand. Each of these runs
// tells its own.
const maxUndoneBelow = 64 << 10

// fitting are those paths for which there is room, the first ones.
func fitting(paths []StepPath, room *int) []StepPath {
	for i, path := range paths {
		if *room -= len(path); *room < 0 {
			return paths[:i]
		}
	}
	return paths
}

// maxOmitted bounds how many steps a failure names whose outputs do not fit.
const maxOmitted = 256

// partial are the outputs of completed steps, as far as they fit, and the paths
// of those that do not.
func (r *run) partial() (partial map[StepPath]json.RawMessage, omitted []StepPath) {
	partial = map[StepPath]json.RawMessage{}
	room := maxPartial
	add := func(path StepPath, out json.RawMessage) {
		switch size := record.PayloadSize(out); {
		case size <= room:
			room -= size
			partial[path] = out
		default:
			omitted = append(omitted, path)
		}
	}
	scripts := false
	for _, n := range r.program.Steps {
		if s := r.steps[n.ID]; s.status == stepCompleted {
			if out, err := template.EncodeValue(s.output); err == nil {
				add(StepPath(n.ID), out)
			}
		} else {
			scripts = scripts || s.started && n.Script != nil
		}
	}
	if scripts {
		r.partialOfScripts(add)
	}
	for _, below := range slices.SortedStableFunc(slices.Values(r.children.failed), func(a, b failedBelow) int { return cmp.Compare(a.path, b.path) }) {
		for _, id := range slices.Sorted(maps.Keys(below.Partial)) {
			add(below.path.Below(id), below.Partial[id])
		}
		omitted = append(omitted, below.seen(below.Omitted)...)
	}
	return partial, omitted[:min(len(omitted), maxOmitted)]
}

// partialOfScripts adds the outputs of calls that scripts had made which have not
// completed, the first call first.
func (r *run) partialOfScripts(add func(path StepPath, out json.RawMessage)) {
	journal := r.journal.Whole()
	paths := workflow.DeterministicKeys(journal)
	slices.SortStableFunc(paths, func(a, b StepPath) int { return journal[a].Order - journal[b].Order })
	for _, path := range paths {
		s := r.steps[path.Top()]
		if s == nil || s.status == stepCompleted || !path.IsScriptCall() {
			continue
		}
		if output := journal[path].Output(); output != nil {
			add(path, output)
		}
	}
}
