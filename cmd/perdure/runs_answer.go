package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/internal/runs"
)

type runsAnswerCommand struct {
	temporalFlags `embed:""`
	signFlags     `embed:""`

	ID          string   `arg:"" optional:"" help:"Run ID; any unique part of it works."`
	Fields      []string `arg:"" optional:"" name:"name=value" help:"Fields of the answer, with --accept. They have the types in its form; an object or a list is written as JSON."`
	Accept      bool     `help:"Accept." xor:"action" required:""`
	Decline     bool     `help:"Decline." xor:"action" required:""`
	Cancel      bool     `help:"Cancel the elicitation." xor:"action" required:""`
	Content     string   `help:"All fields of the answer as one JSON object, with --accept." placeholder:"JSON"`
	Step        string   `help:"Step whose elicitation to answer, if several are open." xor:"which"`
	Elicitation string   `help:"ID of the elicitation, if several are open." xor:"which"`
	By          string   `help:"Name to record as the person who answers. Default: your user name."`

	Query string  `help:"Answer the open elicitations of all runs that match this list filter of Temporal, such as PerdureTool = 'deploy', in the same way. Their forms must be the same." placeholder:"FILTER"`
	Rate  float64 `help:"With --query: maximum number of answers per second." default:"5"`
	Limit int     `help:"With --query: maximum number of runs." default:"1000"`
	Yes   bool    `short:"y" help:"With --query: do not ask for confirmation."`
}

func (runsAnswerCommand) Help() string {
	return `The first valid answer counts. See what is asked with "perdure runs show". An
elicitation with mode: url can be answered on the approvals page only, and one that
names who answers (by) by these people only, there or in their clients. Examples:

    perdure runs answer prepare_review/k3v9a2m4qx --accept verdict=approve note='Looks good.'
    perdure runs answer k3v9a2 --accept --content '{"verdict": "approve"}'
    perdure runs answer k3v9a2 --decline
    perdure runs answer --query "PerdureTool = 'deploy'" --step approve --accept`
}

func (a runsAnswerCommand) Run(ctx context.Context, c *console) error {
	if err := a.check(); err != nil {
		return err
	}
	rc, done, err := a.signFlags.client(ctx, a.temporalFlags)
	if err != nil {
		return err
	}
	defer done()
	if a.Query != "" {
		return (&bulkAnswer{runsAnswerCommand: a, console: c, client: rc}).run(ctx)
	}
	return a.answerOne(ctx, c, rc)
}

// check reports flags that do not go together.
func (a runsAnswerCommand) check() error {
	switch {
	case (a.ID == "") == (a.Query == ""):
		return usagef("name a run, or use --query for many runs")
	case a.Query != "" && a.Elicitation != "":
		return usagef("--elicitation is for one run; with --query, use --step")
	case a.Content != "" && !a.Accept:
		return usagef("--content needs --accept")
	case len(a.Fields) > 0 && !a.Accept:
		return usagef("fields need --accept")
	}
	if err := checkBulk(a.Rate, a.Limit); err != nil {
		return err
	}
	if a.Content != "" && !json.Valid([]byte(a.Content)) {
		return usagef("--content is not JSON: %s", a.Content)
	}
	return nil
}

// answerOne answers an elicitation of one run.
func (a runsAnswerCommand) answerOne(ctx context.Context, c *console, rc *runs.Client) error {
	id, err := findRun(ctx, rc, a.ID, runs.Filter{Waiting: true})
	if err != nil {
		return err
	}
	question, err := openElicitation(ctx, rc, id, a.selects, cmp.Or(a.Step, a.Elicitation))
	if err != nil {
		return err
	}
	if question.NeedsSignIn() {
		return fmt.Errorf("%s of %s %s: open %s of the server; with dev: perdure approvals open %s%s",
			question.StepPath, id, onlySignedIn(question), approvals.Path(id), id, dataFlag(a.Data))
	}
	content := a.content()
	if len(a.Fields) > 0 {
		if content, err = callArguments(question.Schema, content, a.Fields); err != nil {
			return fmt.Errorf("%s still waits: %w", question.StepPath, err)
		}
	}
	err = a.send(ctx, c, rc, id, question, runs.Answer{Action: a.action(), Content: content, By: a.By})
	if _, invalid := errors.AsType[*runs.InvalidAnswerError](err); invalid {
		return fmt.Errorf("the answer does not fit, and %s still waits: %w; write fields as NAME=VALUE, as perdure runs show %s says", question.StepPath, err, id)
	}
	return err
}

// send answers an elicitation and prints what has become of it.
func (f temporalFlags) send(ctx context.Context, c *console, rc *runs.Client, id runs.RunID, question runs.Elicitation, answer runs.Answer) error {
	answer.ElicitationID, answer.By, answer.Via = question.ID, cmp.Or(answer.By, userName()), runs.ViaCommand
	decision, err := rc.Answer(ctx, id, answer)
	if err != nil {
		return err
	}
	f.noteTarget(c)
	return printDecision(c, f.Output, id, question, decision)
}

// onlySignedIn says where an elicitation that needs a sign-in is answered, and by whom.
func onlySignedIn(e runs.Elicitation) string {
	switch by := strings.Join(e.Approvers, ", "); {
	case by == "":
		return "can only be answered on the approvals page, by a person who is signed in"
	case e.Mode == definitions.URLMode:
		return "can only be answered on the approvals page, by " + by
	default:
		return "can only be answered by " + by + ", on the approvals page or in their client"
	}
}

// selects reports whether the flags select an elicitation.
func (a runsAnswerCommand) selects(e runs.Elicitation) bool {
	return (a.Step == "" || a.Step == string(e.StepPath) || a.Step == e.StepID) && (a.Elicitation == "" || a.Elicitation == e.ID)
}

func (a runsAnswerCommand) action() string {
	switch {
	case a.Accept:
		return "accept"
	case a.Decline:
		return "decline"
	default:
		return "cancel"
	}
}

func (a runsAnswerCommand) content() json.RawMessage {
	switch {
	case a.Content != "":
		return json.RawMessage(a.Content)
	case a.Accept:
		return json.RawMessage("{}")
	default:
		return nil
	}
}

func printDecision(c *console, output string, id runs.RunID, question runs.Elicitation, d runs.Decision) error {
	what := cmp.Or(string(d.Means), d.Action)
	if output == "json" {
		err := c.printJSON(map[string]any{"runId": id, "elicitationId": question.ID, "won": d.Won, "action": d.Action, "decision": what, "by": d.By, "via": d.Via})
		if err != nil {
			return err
		}
	} else if d.Won {
		fmt.Fprintf(c.out, "%s: %s\n", question.StepPath, what)
	}
	if !d.Won {
		c.notef("perdure: %s was already answered: %s, by %s", question.StepPath, what, d.By)
		return errReported
	}
	return nil
}
