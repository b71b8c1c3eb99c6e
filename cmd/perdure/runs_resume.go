package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
)

type runsResumeCommand struct {
	temporalFlags `embed:""`

	ID         string   `arg:"" optional:"" help:"Run ID; any unique part of it works."`
	Unknown    []string `help:"Outcome of calls left unknown: happened, not-happened or ask, for all calls or, as PATH=happened, for one. Repeatable." placeholder:"[PATH=]WHAT" sep:"none"`
	StepResult []string `help:"Use this JSON object as the result of a tool step, as PATH=JSON. Repeatable." placeholder:"PATH=JSON" sep:"none"`
	From       []string `help:"Execute this step again, and all steps that depend on it. Repeatable." placeholder:"STEP" sep:"none"`
	Set        []string `help:"Resume with another value of an argument, as params.NAME=JSON. Repeatable." placeholder:"params.NAME=JSON" sep:"none"`
	Definition string   `help:"Resume with another definition of the tool: a file, or a published version such as 1.2.0, ^1 or deploy@1.2.0." placeholder:"FILE|[NAME@]VERSION"`
	URL        string   `help:"MCP endpoint of the server that has the version of --definition. Default: the running dev of --data, else http://127.0.0.1:4483/mcp." env:"PERDURE_URL" placeholder:"URL" group:"Which server:"`
	tokenFlags `embed:""`
	DryRun     bool   `help:"Print what would be done, and do nothing."`
	Yes        bool   `short:"y" help:"Do not ask for confirmation."`
	By         string `help:"Name to record as the person who resumes. Default: your user name."`

	Query string  `help:"Resume all failed, timed-out, cancelled and terminated runs that match this list filter of Temporal, such as PerdureTool = 'deploy'." placeholder:"FILTER"`
	Rate  float64 `help:"With --query: maximum number of runs per second." default:"5"`
	Limit int     `help:"With --query: maximum number of runs." default:"1000"`
}

func (runsResumeCommand) Help() string {
	return `The run resumes where it failed, under the same ID. Results of completed steps and
answers are reused; an elicitation that was declined or expired is asked again. If
the outcome of a call is unknown, record it with --unknown. Examples:

    perdure runs resume k3v9a2
    perdure runs resume k3v9a2 --unknown create=not-happened
    perdure runs resume k3v9a2 --definition fixed.yaml --set params.count=3
    perdure runs resume k3v9a2 --definition 1.2.1
    perdure runs resume --query "PerdureTool = 'deploy' AND StartTime > '2026-11-01T00:00:00Z'" --dry-run
    perdure runs resume --query "PerdureTool = 'deploy'" --definition fixed.yaml`
}

func (r runsResumeCommand) Run(ctx context.Context, c *console) error {
	req, err := r.request()
	if err != nil {
		return err
	}
	switch {
	case (r.ID == "") == (r.Query == ""):
		return usagef("name a run, or use --query for many runs")
	case r.Query != "" && len(req.Results)+len(req.Unknown) > 0:
		return usagef("--step-result and --unknown PATH=WHAT are for one run; with --query, use --unknown WHAT")
	}
	if err := checkBulk(r.Rate, r.Limit); err != nil {
		return err
	}
	rc, done, err := r.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	if r.Query != "" {
		b := &bulkResume{runsResumeCommand: r, console: c, resumptions: rc.Resumptions(), request: req}
		return b.run(ctx, rc)
	}
	id, err := findRun(ctx, rc, r.ID, runs.Filter{})
	if err != nil {
		return err
	}
	return r.resumeOne(ctx, c, rc, id, req)
}

// request converts the flags to the request for each run.
func (r runsResumeCommand) request() (history.ResumeRequest, error) {
	req := history.ResumeRequest{
		From: r.From, By: cmp.Or(r.By, userName()),
		Unknown: map[runs.StepPath]string{}, Results: map[runs.StepPath]json.RawMessage{}, Arguments: map[string]json.RawMessage{},
	}
	for _, text := range r.Unknown {
		path, said, named := strings.Cut(text, "=")
		if !named {
			path, said = "", text
		}
		said = strings.ReplaceAll(said, "-", "_")
		switch said {
		case runs.Happened, runs.NotHappened, history.AskAgain:
		default:
			return req, usagef("--unknown %s: must be happened, not-happened or ask", text)
		}
		if named {
			req.Unknown[runs.StepPath(path)] = said
		} else {
			req.Otherwise = said
		}
	}
	for _, text := range r.StepResult {
		path, result, ok := strings.Cut(text, "=")
		if !ok || !json.Valid([]byte(result)) {
			return req, usagef("--step-result %s: must be PATH=JSON", text)
		}
		req.Results[runs.StepPath(path)] = json.RawMessage(result)
	}
	for _, text := range r.Set {
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "params."), "=")
		if !ok || !strings.HasPrefix(text, "params.") {
			return req, usagef("--set %s: must be params.NAME=JSON", text)
		}
		if !json.Valid([]byte(value)) { // a string without quotes
			quoted, err := json.Marshal(value)
			if err != nil {
				return req, usagef("--set %s: %v", text, err)
			}
			value = string(quoted)
		}
		req.Arguments[name] = json.RawMessage(value)
	}
	return req, nil
}

func (r runsResumeCommand) resumeOne(ctx context.Context, c *console, rc *runs.Client, id runs.RunID, req history.ResumeRequest) error {
	if r.Definition != "" {
		run, err := rc.Get(ctx, id)
		if err != nil {
			return err
		}
		if req.Definition, err = r.definition(ctx, c, run.Tool); err != nil {
			return err
		}
	}
	plan, err := rc.Resumptions().Plan(ctx, id, req)
	if err != nil {
		return err
	}
	if r.Output != "json" || !r.DryRun {
		r.printPlan(c, plan)
		if req.Definition != nil {
			difference, err := definitionDiff(plan.Was.Definition, req.Definition)
			if err != nil {
				return err
			}
			fmt.Fprint(c.err, difference)
		}
	}
	switch {
	case r.DryRun:
		return r.report(c, plan, false)
	case len(plan.OutcomeUnknown) > 0:
		return errReported
	}
	if ok, err := r.confirmed(ctx, c, req, plan); err != nil || !ok {
		return err
	}
	if err := rc.Resumptions().Execute(ctx, plan); err != nil {
		return err
	}
	r.temporalFlags.noteTarget(c)
	return r.report(c, plan, true)
}

// definition reads --definition: a file, or else a published version.
func (r runsResumeCommand) definition(ctx context.Context, c *console, tool string) (*definitions.Definition, error) {
	server := serverFlags{URL: r.URL, Data: r.Data, tokenFlags: r.tokenFlags}
	name, version, named := strings.Cut(r.Definition, "@")
	if !named {
		name, version = tool, r.Definition
	}
	_, missing := os.Stat(r.Definition)
	if missing != nil && name != tool {
		return nil, usagef("the run is one of %s; --definition must be a file or a version of that tool, not %s", tool, r.Definition)
	}
	if _, err := definitions.ParseReference(tool + "@" + version); missing == nil || err != nil {
		return definitionFlags{Definition: tool, Definitions: []string{r.Definition}}.find(c, server.modules(ctx))
	}
	return server.definition(ctx, c, tool+"@"+version)
}

// confirmed asks for confirmation of a resumption that changes something.
func (r runsResumeCommand) confirmed(ctx context.Context, c *console, req history.ResumeRequest, plan *history.ResumePlan) (bool, error) {
	if !req.ChangesRun() && len(plan.AtRisk()) == 0 && !plan.WithoutForwarded {
		return true, nil
	}
	return confirmed(ctx, c, r.Yes, "Resume the run? [y/N] ")
}

// confirmed asks for a yes, unless it was given already.
func confirmed(ctx context.Context, c *console, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !c.inTerminal {
		return false, fmt.Errorf("nothing was done; check the plan and repeat the command with --yes")
	}
	form := newConsoleForm(c)
	form.forget()
	line, err := form.ask(ctx, question)
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
		c.notef("nothing was done")
		return false, nil
	}
	return true, nil
}

func (r runsResumeCommand) report(c *console, plan *history.ResumePlan, resumed bool) error {
	if r.Output == "json" {
		return c.printJSON(struct {
			*history.ResumePlan
			Resumed      bool   `json:"resumed"`
			RepeatedCall string `json:"repeatedCall,omitempty"`
		}{plan, resumed, plan.RepeatedCall()})
	}
	if says := plan.RepeatedCall(); says != "" {
		c.notef("%s", says)
	}
	if resumed {
		_, err := fmt.Fprintf(c.out, "%s: resumed\n", plan.ID)
		return err
	}
	return nil
}

// planWords describe what a resumption does with each step.
var planWords = map[string]string{
	history.PlanReused:       "result reused",
	history.PlanGiven:        "result given",
	history.PlanReusedIfSame: "result reused if its arguments stay the same",
	history.PlanAgain:        "executed again",
	history.PlanExecuted:     "executed",
	history.PlanAsked:        "outcome unknown; the run waits for reconciliation",
	history.PlanUnknown:      "outcome unknown; record it with --unknown",
	history.PlanLeft:         "not in the new definition; what it did remains",
	history.PlanUnderWay:     "still under way; awaited",
}

const withoutForwarded = "the headers and _meta that the caller sent for backends are no longer kept: calls are made without them"

// printPlan prints what would be done.
func (r runsResumeCommand) printPlan(c *console, plan *history.ResumePlan) {
	printPlanned(c, plan.Steps)
	if plan.WithoutForwarded {
		c.notef(withoutForwarded)
	}
	for _, u := range plan.OutcomeUnknown {
		c.notef("\n%s\n  tool       %s\n  arguments  %s\n  key        %s", u.Error.Message, u.Call.Tool, brief(u.Call.Arguments), u.Call.Key)
		c.notef("check at the backend, and record the outcome with one of\n  --unknown %[1]s=happened [--step-result %[1]s='{…}']\n  --unknown %[1]s=not-happened\n  --unknown %[1]s=ask", u.Path)
	}
}

func printPlanned(c *console, steps []history.PlannedStep) {
	w := tabwriter.NewWriter(c.err, 0, 0, 2, ' ', 0)
	for _, step := range steps {
		words := planWords[step.Plan]
		if step.Risk {
			words += c.errStyle(red, "; "+step.Tool+" may take effect twice")
		}
		fmt.Fprintf(w, "  %s\t%s\n", step.Path, words)
	}
	_ = w.Flush()
}
