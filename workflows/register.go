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
	programs map[[sha256.Size]byte]func() (*definitions.Program, error)
}

func newInterpreter(trust Trust) *interpreter {
	return &interpreter{programs: map[[sha256.Size]byte]func() (*definitions.Program, error){}, trust: &trustee{Trust: trust}}
}

// maxPrograms bounds the compiled definitions that are kept.
const maxPrograms = 1000

func (i *interpreter) program(p Pinned) (*definitions.Program, error) {
	program, err := i.compiled(p.Source)()
	if err != nil {
		return nil, fmt.Errorf("compiling definition %s: %w", p.Name, err)
	}
	return program, nil
}

// compiled gives what compiles a source, once. It may take a second, so others do not wait
// for it.
func (i *interpreter) compiled(source []byte) func() (*definitions.Program, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := sha256.Sum256(source)
	if compile, ok := i.programs[key]; ok {
		return compile
	}
	if len(i.programs) >= maxPrograms {
		clear(i.programs)
	}
	compile := sync.OnceValues(func() (*definitions.Program, error) {
		d, err := definitions.FromSource(source)
		if err != nil {
			return nil, err
		}
		return definitions.Compile(d)
	})
	i.programs[key] = compile
	return compile
}
