package workflows

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
)

// Register makes a worker run definitions.
func Register(r worker.WorkflowRegistry, trust Trust) {
	i := newInterpreter(trust)
	r.RegisterDynamicWorkflow(i.compositeTool, workflow.DynamicRegisterOptions{})
	r.RegisterWorkflowWithOptions(BackendHost, workflow.RegisterOptions{Name: HostType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(Deliveries, workflow.RegisterOptions{Name: DeliveriesType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(BackendPermit, workflow.RegisterOptions{Name: PermitType})
}

// An interpreter keeps compiled definitions between workflow tasks, by the SHA-256 of
// their sources, so what it keeps never shows in a run. The digest that an input names
// does not do: those who start a run can put any digest there, and would replace the
// definition of others.
type interpreter struct {
	trust    *trustee
	mu       sync.Mutex
	programs map[[sha256.Size]byte]*definitions.Program
}

func newInterpreter(trust Trust) *interpreter {
	return &interpreter{programs: map[[sha256.Size]byte]*definitions.Program{}, trust: &trustee{Trust: trust}}
}

// maxPrograms bounds the compiled definitions that are kept.
const maxPrograms = 1000

func (i *interpreter) program(p Pinned) (*definitions.Program, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	source := sha256.Sum256(p.Source)
	if prog, ok := i.programs[source]; ok {
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
	i.programs[source] = prog
	return prog, nil
}
