package workflows

import (
	"fmt"
	"sync"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
)

// Register makes a worker run definitions.
func Register(r worker.WorkflowRegistry, trust Trust) {
	i := &interpreter{programs: map[string]*definitions.Program{}, trust: &trustee{Trust: trust}}
	r.RegisterWorkflowWithOptions(i.CompositeTool, workflow.RegisterOptions{Name: WorkflowType})
	r.RegisterWorkflowWithOptions(BackendHost, workflow.RegisterOptions{Name: HostType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(Deliveries, workflow.RegisterOptions{Name: DeliveriesType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(BackendPermit, workflow.RegisterOptions{Name: PermitType})
}

// An interpreter keeps compiled definitions between workflow tasks. A program
// is a pure function of its digest, so what it keeps never shows in a run.
type interpreter struct {
	trust    *trustee
	mu       sync.Mutex
	programs map[string]*definitions.Program
}

// maxPrograms bounds the compiled definitions that are kept.
const maxPrograms = 1000

func (i *interpreter) program(p Pinned) (*definitions.Program, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if prog, ok := i.programs[p.Digest]; ok {
		return prog, nil
	}
	d, err := definitions.FromSource(p.Source)
	if err != nil {
		return nil, fmt.Errorf("reading definition %s: %w", p.Name, err)
	}
	prog, err := definitions.Compile(d)
	if err != nil {
		return nil, fmt.Errorf("compiling definition %s: %w", p.Name, err)
	}
	if len(i.programs) >= maxPrograms {
		clear(i.programs)
	}
	i.programs[p.Digest] = prog
	return prog, nil
}
