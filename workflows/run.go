package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows/record"
)

// A run is one execution of a composite tool, made of parts. Each part owns its state:
// others use its methods. Coroutines take turns, so nothing needs a lock.
type run struct {
	*origin
	tasks   *tasks
	journal *record.Journal
	budget  *budget

	deadlines    *deadlines
	steps        *steps
	failures     *failures
	board        *board
	elicitations *elicitations
	gates        *gates
	signals      *signals
	sent         *sent
	holds        *holds
	calls        *calls
	references   *references
	relay        *relay
	children     *children
	parent       *parent
	undo         *undoing
	scripts      *scripts
	ledger       *ledger
}

func newRun(ctx workflow.Context, in RunInput, prog *definitions.Program, i *interpreter) (*run, error) {
	o, err := newOrigin(ctx, in, prog, i.program)
	if err != nil {
		return nil, err
	}
	r := &run{
		origin: o, tasks: &tasks{}, journal: o.newJournal(),
		sent: newSent(in.EarlierUnknown), holds: newHolds(in.Unread), elicitations: &elicitations{origin: o},
	}
	r.deadlines = &deadlines{tasks: r.tasks}
	r.budget = &budget{origin: o, journal: r.journal}
	r.failures = &failures{origin: o, journal: r.journal, root: ctx}
	r.signals = &signals{origin: o, tasks: r.tasks, journal: r.journal, budget: r.budget, trust: i.trust}
	r.parent = newParent(o, r.tasks, r.signals, r.failures, r.elicitations)
	r.scripts = &scripts{tasks: r.tasks, running: map[StepPath]*scriptHost{}}
	r.board = newBoard(board{origin: o, tasks: r.tasks, elicitations: r.elicitations, signals: r.signals, holds: r.holds, scripts: r.scripts, failures: r.failures, parent: r.parent})
	r.gates = newGates(gates{origin: o, journal: r.journal, budget: r.budget, signals: r.signals, failures: r.failures, board: r.board, elicitations: r.elicitations, deadlines: r.deadlines})
	results := newResults()
	r.calls = &calls{
		origin: o, tasks: r.tasks, journal: r.journal, budget: r.budget, gates: r.gates, elicitations: r.elicitations, sent: r.sent, holds: r.holds,
		parent: r.parent, results: results, slots: workflow.NewSemaphore(ctx, maxPending),
	}
	r.references = &references{origin: o, tasks: r.tasks, journal: r.journal, budget: r.budget, holds: r.holds, root: ctx, resolutions: map[string]workflow.Future{}}
	r.relay = &relay{gates: r.gates, signals: r.signals, called: map[StepPath]*called{}}
	r.children = &children{
		origin: o, tasks: r.tasks, journal: r.journal, budget: r.budget, signals: r.signals, references: r.references,
		results: results, relay: r.relay, tree: in.Tree, slots: workflow.NewSemaphore(ctx, maxPending),
	}
	r.undo = &undoing{origin: o, journal: r.journal, calls: r.calls, gates: r.gates, sent: r.sent, failures: r.failures, times: map[StepPath]int{}}
	r.steps = &steps{origin: o, graph: newGraph(prog), journal: r.journal, failures: r.failures, elicitations: r.elicitations, undo: r.undo, scripts: r.scripts, board: r.board}
	r.ledger = &ledger{origin: o, journal: r.journal, sent: r.sent, undo: r.undo}
	r.tie()
	return r, nil
}

// tie gives parts the references to parts that are made after them.
func (r *run) tie() {
	r.board.steps = r.steps
	r.budget.ending = func() bool { return r.failures.why() != nil || r.steps.skips() }
	r.signals.changed, r.holds.changed = r.board.publishNow, r.board.showHolds
	r.gates.passOn, r.gates.reportAgain = r.relay.passOn, r.parent.reportAgain
	r.undo.scopeAt = r.steps.scopeAt
	r.steps.execute = func(ctx workflow.Context, kind StepKind, n *definitions.Node, at place) Outcome {
		return kind.Execute(ctx, StepRun{Node: n, run: r, at: at})
	}
}

// listen makes the run receive signals.
func (r *run) listen(ctx workflow.Context) {
	r.signals.listen(ctx,
		&mailbox{name: AnswerSignal, read: r.gates.readAnswer},
		&mailbox{name: QuestionSignal, read: r.gates.readQuestion},
		&mailbox{name: AttachSignal, read: readRequest},
		&mailbox{name: ChildSignal, read: r.relay.readReport},
		&mailbox{name: AdoptSignal, read: r.parent.readAdoption},
	)
}
