package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// An Outlook is what a resumption of a run would do.
type Outlook string

// The outlooks, in the order in which a Preview has them.
const (
	Resumes        Outlook = "resumes"         // the run resumes
	Repeats        Outlook = "repeats"         // it resumes, and an unsafe call may take effect twice
	OutcomeUnknown Outlook = "outcome_unknown" // it does not resume before the outcome of a call is recorded
	Impossible     Outlook = "impossible"      // it cannot be resumed in this way
	Resumed        Outlook = "resumed"         // it was resumed already
)

var outlooks = []Outlook{Resumes, Repeats, OutcomeUnknown, Impossible, Resumed}

// A Preview is what a resumption of many runs would do, by groups of runs with which it
// would do the same.
type Preview struct {
	Groups      []PreviewGroup      `json:"groups"`
	Definitions []PreviewDefinition `json:"definitions"` // that the runs have, the most frequent first
}

// A PreviewGroup is runs with which a resumption would do the same.
type PreviewGroup struct {
	Outlook Outlook               `json:"outlook"`
	Steps   []history.PlannedStep `json:"steps,omitempty"`  // that began before; an item of a forEach is [*]
	Reason  string                `json:"reason,omitempty"` // of Impossible; see Cause

	// RepeatedCall is what a call gives that is repeated once its run is resumed.
	RepeatedCall string `json:"repeatedCall,omitempty"`

	WithoutForwarded bool `json:"withoutForwarded,omitempty"` // see history.ResumePlan

	Runs []PreviewRun `json:"runs"`
}

// A PreviewRun is a run of a Preview.
type PreviewRun struct {
	ID        RunID  `json:"runId"`
	Execution string `json:"execution"` // Temporal's run ID of the one that is repeated
}

// A PreviewDefinition is a definition that runs of a Preview have.
type PreviewDefinition struct {
	workflows.Pinned
	Runs int `json:"runs"`
}

// Count is the number of runs with an outlook.
func (p *Preview) Count(o Outlook) (n int) {
	for _, g := range p.Groups {
		if g.Outlook == o {
			n += len(g.Runs)
		}
	}
	return n
}

// previewWidth is how many runs are planned at a time.
const previewWidth = 4

// Preview plans the resumption of runs. It changes nothing, and returns an error only if
// Temporal or the workers do not answer, or ctx ends.
func (r Resumptions) Preview(ctx context.Context, ids []RunID, req history.ResumeRequest) (*Preview, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newPreviewer()
	places := make(chan struct{}, previewWidth)
	var all sync.WaitGroup
	for _, id := range ids {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			plan, err := r.Plan(ctx, id, req)
			if errors.Is(err, ErrUnavailable) {
				cancel(err)
				return
			}
			p.add(id, plan, err)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("planning resumptions: %w", context.Cause(ctx))
	}
	return p.preview(), nil
}

// ExecuteAs resumes a run of a group of a preview, if that would still do what the
// preview shows. If not, the error is ErrChanged.
func (r Resumptions) ExecuteAs(ctx context.Context, group PreviewGroup, run PreviewRun, req history.ResumeRequest) error {
	plan, err := r.Plan(ctx, run.ID, req)
	if errors.Is(err, ErrNotResumable) {
		return fmt.Errorf("run %s: %w", run.ID, ErrChanged)
	}
	if err != nil {
		return err
	}
	if now := groupOf(plan, nil); plan.Execution != run.Execution || now.key() != group.key() {
		return fmt.Errorf("run %s: %w", run.ID, ErrChanged)
	}
	return r.Execute(ctx, plan)
}

// A previewer collects plans. Its methods may be called at the same time.
type previewer struct {
	mu          sync.Mutex
	groups      map[string]*PreviewGroup
	definitions map[string]*PreviewDefinition // by digest
}

func newPreviewer() *previewer {
	return &previewer{groups: map[string]*PreviewGroup{}, definitions: map[string]*PreviewDefinition{}}
}

func (p *previewer) add(id RunID, plan *history.ResumePlan, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := groupOf(plan, err)
	known := p.groups[g.key()]
	if known == nil {
		known = &g
		p.groups[g.key()] = known
	}
	run := PreviewRun{ID: id}
	if plan != nil {
		run.Execution = plan.Execution
		p.has(plan.Was.Definition)
	}
	known.Runs = append(known.Runs, run)
}

func (p *previewer) has(d workflows.Pinned) {
	known := p.definitions[d.Digest]
	if known == nil {
		known = &PreviewDefinition{Pinned: d}
		p.definitions[d.Digest] = known
	}
	known.Runs++
}

func (p *previewer) preview() *Preview {
	all := &Preview{Groups: []PreviewGroup{}, Definitions: []PreviewDefinition{}}
	for _, g := range p.groups {
		slices.SortFunc(g.Runs, func(a, b PreviewRun) int { return cmp.Compare(a.ID, b.ID) })
		all.Groups = append(all.Groups, *g)
	}
	slices.SortFunc(all.Groups, func(a, b PreviewGroup) int {
		return cmp.Or(slices.Index(outlooks, a.Outlook)-slices.Index(outlooks, b.Outlook), len(b.Runs)-len(a.Runs), cmp.Compare(a.key(), b.key()))
	})
	for _, d := range p.definitions {
		all.Definitions = append(all.Definitions, *d)
	}
	slices.SortFunc(all.Definitions, func(a, b PreviewDefinition) int {
		return cmp.Or(b.Runs-a.Runs, cmp.Compare(a.Digest, b.Digest))
	})
	return all
}

// groupOf is the group, without runs, of a run that is planned so.
func groupOf(plan *history.ResumePlan, err error) PreviewGroup {
	switch {
	case errors.Is(err, ErrNotResumable):
		return PreviewGroup{Outlook: Resumed}
	case err != nil:
		return PreviewGroup{Outlook: Impossible, Reason: general(err.Error(), "")}
	}
	g := PreviewGroup{Outlook: Resumes, Steps: sites(plan), RepeatedCall: general(plan.RepeatedCall(), ""), WithoutForwarded: plan.WithoutForwarded}
	switch {
	case len(plan.OutcomeUnknown) > 0:
		g.Outlook = OutcomeUnknown
	case len(plan.AtRisk()) > 0:
		g.Outlook = Repeats
	}
	return g
}

// sites are the steps of a plan and the calls whose outcome is unknown, without the
// numbers of items.
func sites(plan *history.ResumePlan) []history.PlannedStep {
	steps := slices.Clone(plan.Steps)
	for _, u := range plan.OutcomeUnknown {
		steps = slices.DeleteFunc(steps, func(s history.PlannedStep) bool { return s.Path == u.Path })
		steps = append(steps, history.PlannedStep{Path: u.Path, Tool: u.Call.Tool, Plan: history.PlanUnknown})
	}
	for i, s := range steps {
		steps[i].Path = workflows.StepPath(items.ReplaceAllString(string(s.Path), "[*]"))
	}
	slices.SortStableFunc(steps, func(a, b history.PlannedStep) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Plan, b.Plan))
	})
	return slices.Compact(steps)
}

// key is the same for groups of the same.
func (g PreviewGroup) key() string {
	steps, _ := json.Marshal(g.Steps) // of texts
	return strings.Join([]string{string(g.Outlook), g.Reason, g.RepeatedCall, strconv.FormatBool(g.WithoutForwarded), string(steps)}, "\n")
}
