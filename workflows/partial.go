package workflows

import (
	"encoding/json"

	"github.com/perdure/perdure/workflows/record"
)

// maxPartial bounds the outputs that travel with a failure.
const maxPartial = 64 << 10

// maxUndoneBelow bounds the paths of what called runs have undone, in bytes, in a
// failure: a forEach may have called a thousand. Each of these runs reports its own.
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

// Partial are the outputs of completed steps, as far as they fit into a failure, and the
// paths of those that do not.
type partial struct {
	outputs map[StepPath]json.RawMessage
	omitted []StepPath
	room    int // bytes
}

func newPartial() *partial {
	return &partial{outputs: map[StepPath]json.RawMessage{}, room: maxPartial}
}

func (p *partial) add(path StepPath, out json.RawMessage) {
	size := record.PayloadSize(out)
	if size > p.room {
		p.omit(path)
		return
	}
	p.room -= size
	p.outputs[path] = out
}

func (p *partial) omit(paths ...StepPath) {
	p.omitted = append(p.omitted, paths...)
	p.omitted = p.omitted[:min(len(p.omitted), maxOmitted)]
}
