package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

type runsShowCommand struct {
	temporalFlags `embed:""`

	ID     string `arg:"" help:"Run ID; any unique part of it works."`
	Script bool   `help:"Also print the script of the run, with line numbers."`
	Watch  bool   `help:"Print each step as it starts and ends; when the run has ended, show it."`
}

func (runsShowCommand) Help() string {
	return "Example:\n\n    perdure runs show prepare_review/k3v9a2m4qx"
}

func (s runsShowCommand) Run(ctx context.Context, c *console) error {
	return s.onRun(ctx, s.ID, func(rc *runs.Client, id runs.RunID) error { return s.show(ctx, c, rc, id) })
}

func (s runsShowCommand) show(ctx context.Context, c *console, rc *runs.Client, id runs.RunID) error {
	if s.Watch {
		if err := watch(ctx, c, rc, id); err != nil {
			return err
		}
	}
	detail, err := rc.Show(ctx, id)
	if err != nil {
		return err
	}
	detail.Outcome = runs.Explained(detail.Outcome, id)
	var graph []runs.StepReport
	if detail.Status != workflows.Quarantined { // asked, such a run would take the worker down
		graph, _ = rc.Graph(ctx, id) // without a worker, steps that have not started are not shown
	}
	if s.Output == "json" {
		return c.printJSON(struct {
			*runs.Detail
			Graph []runs.StepReport `json:"graph,omitempty"` // where each step of the definition is
		}{detail, graph})
	}
	return s.print(c, detail, graph)
}

// watch prints the events of a run, past and new, until it ends.
func watch(ctx context.Context, c *console, rc *runs.Client, id runs.RunID) error {
	for e, err := range rc.Follow(ctx, id, 0, runs.AllEvents) {
		if err != nil {
			return err
		}
		switch {
		case e.Kind == runs.EventStep && e.StepStatus == runs.StepSkipped:
			c.notef("  %s: %s: %s", e.StepPath, e.StepStatus, firstLine(e.StepError))
		case e.Kind == runs.EventStep && e.StepEnded:
			c.notef("  %s: %s", e.StepPath, e.StepStatus)
		case e.Kind == runs.EventQuarantined:
			c.notef("  quarantined: %s", e.What)
		case e.Kind == runs.EventReleased:
			c.notef("  released %s", e.What)
		case e.Kind == runs.EventSaid:
			c.notef("  %s: %s", e.StepPath, firstLine(e.What))
		case e.Kind == runs.EventStep:
			c.notef("  %s: %s", e.StepPath, firstLine(e.What))
		case e.Kind == runs.EventOpened:
			c.notef("  %s asks: %s", e.Elicitation.StepPath, firstLine(e.Elicitation.Message))
		case e.Kind == runs.EventClosed:
			c.notef("  %s: %s", e.Elicitation.StepPath, firstLine(runs.Decided(*e.Elicitation)))
		}
	}
	return nil
}

func (s runsShowCommand) print(c *console, d *runs.Detail, graph []runs.StepReport) error {
	out := &lines{w: c.out}
	s.printState(c, out, d)
	if len(d.Steps)+len(graph) > 0 {
		out.printf("\nsteps")
		printSteps(c, out, d, graph)
	}
	if len(d.Said) > 0 {
		out.printf("\nlog")
		printSaid(c, out, d)
	}
	if len(d.Refused) > 0 {
		out.printf("\nignored signals (unsigned, or with an invalid signature)")
		printRefused(c, out, d)
	}
	if s.Script && d.Script != "" {
		out.printf("\nscript\n%s", runs.NumberedLines(d.Script))
	}
	state := "waits for"
	if d.Outcome != nil {
		state = "has not had"
	}
	for _, u := range d.Unchecked {
		out.printf("\nsignal %s %s a worker with the signing key %s: %s", u.Name, state, u.Key, strings.Join([]string{u.ElicitationID, u.By}, " "))
	}
	for _, e := range d.Open() {
		printQuestion(out, c, d, s.again(), e)
	}
	if d.Outcome != nil {
		printOutcome(out, d.Outcome)
	}
	return out.err
}

// printState prints what a run is, and what it waits for.
func (s runsShowCommand) printState(c *console, out *lines, d *runs.Detail) {
	out.printf("%s  %s", c.outStyle(bold, string(d.ID)), c.outStyle(statusStyle(string(d.Status)), string(d.Status)))
	out.printf("  tool       %s", strings.TrimSpace(d.Tool+" "+d.Version))
	out.printf("  caller     %s", d.Caller)
	if d.Parent != nil {
		out.printf("  called by  step %s of %s", d.Parent.StepPath, d.Parent.RunID)
	}
	out.printf("  started    %s, %s", d.Started.Local().Format(time.DateTime), ended(d))
	out.printf("  arguments  %s", brief(d.Arguments))
	if q := d.Quarantine; q != nil {
		out.printf("  quarantined since %s: %s", q.Since.Local().Format(time.DateTime), q.Reason)
		out.printf("  It is not executed until you release or end it:\n    perdure runs release %s   (or perdure runs fail, perdure runs terminate)", string(d.ID)+s.again())
	}
	if d.Cancelling && d.Closed == nil {
		out.printf("  cancelling cancellation was requested; the run ends when a worker has processed it")
	}
	if why, held := heldFor[d.WaitingFor]; held {
		out.printf("  waits for  %s; it resumes by itself", why)
	}
	if d.Problem != "" {
		out.printf("    %s", view.Line(d.Problem))
	}
}

// heldFor are the reasons for which a run waits without needing a person.
var heldFor = map[string]string{
	backends.HeldByBreaker:     "the circuit breaker of a backend",
	backends.HeldByRate:        "the rate limit of a backend",
	backends.HeldByConcurrency: "the concurrency limit of a backend",
	runs.NoWorker:              "a worker that can execute it: its task fails again and again",
	workflows.HeldByKey:        "a worker with the key that signed an answer or a signal",
	workflows.HeldByPayload:    "a worker that can read a call",
	workflows.HeldByParent:     "a worker that executes the runs above, which may have been stopped",
	workflows.HeldByBackend:    "a backend that cannot be reached",
}

func ended(d *runs.Detail) string {
	if d.Closed == nil {
		return took(d.Started, nil) + " ago"
	}
	return "took " + took(d.Started, d.Closed)
}

func printSteps(c *console, out *lines, d *runs.Detail, graph []runs.StepReport) {
	w := c.table(out)
	for _, step := range d.Steps {
		status := step.Status
		switch {
		case step.Next != nil:
			status = fmt.Sprintf("waits for attempt %d, %s", step.Attempts, soon(*step.Next))
		case step.Attempts > 1:
			status += fmt.Sprintf(" (attempt %d)", step.Attempts)
		}
		fmt.Fprintf(w, "  +%s\t%s\t%s\t%s\t%s\n", took(d.Started, &step.Started), step.Path, firstLine(step.What), c.outStyle(stepStyles[step.Status], status), took(step.Started, step.Ended))
		if step.Run != "" {
			fmt.Fprintf(w, "  \t\trun %s\n", strings.TrimSpace(string(step.Run)+"  "+step.Version))
		}
		if step.Error != "" {
			fmt.Fprintf(w, "  \t\t%s\n", view.Line(step.Error))
		}
		if step.Decided != "" {
			fmt.Fprintf(w, "  \t\t%s\n", view.Line(step.Decided))
		}
	}
	for _, step := range notStarted(d, graph) {
		fmt.Fprintf(w, "  \t%s\t%s\t%s\n", step.ID, view.Line(cmp.Or(step.Why, step.Error, step.What)), c.outStyle(faint, step.Status))
	}
	_ = w.Flush() // out keeps the error
}

// notStarted are the steps of the graph that have left no trace: nothing of them was
// executed.
func notStarted(d *runs.Detail, graph []runs.StepReport) []runs.StepReport {
	return slices.DeleteFunc(slices.Clone(graph), func(g runs.StepReport) bool {
		return g.Status == "running" || g.Status == "completed" || slices.ContainsFunc(d.Steps, func(r runs.StepRecord) bool { return r.Path.Top() == g.ID })
	})
}

// stepStyles are how statuses of steps look; others are plain.
var stepStyles = map[string]style{
	"running": yellow, "failed": red, "timed_out": red, "cancelled": faint, "terminated": red, "held": yellow, "needs_credentials": yellow,
}

// soon says when the next attempt of a call is made.
func soon(at time.Time) string {
	if left := time.Until(at).Round(time.Second); left > 0 {
		return "in " + left.String()
	}
	return "as soon as a worker takes it"
}

func printSaid(c *console, out *lines, d *runs.Detail) {
	w := c.table(out)
	for _, said := range d.Said {
		fmt.Fprintf(w, "  +%s\t%s\t%s\n", took(d.Started, &said.At), said.StepPath, firstLine(said.String()))
	}
	_ = w.Flush() // out keeps the error
}

func printRefused(c *console, out *lines, d *runs.Detail) {
	w := c.table(out)
	for _, r := range d.Refused {
		claim := ""
		if r.Action != "" {
			claim = fmt.Sprintf("%s %s, claims to be from %s", r.ElicitationID, r.Action, cmp.Or(r.By, "nobody"))
		}
		fmt.Fprintf(w, "  +%s\t%s\t%s\t%s\n", took(d.Started, &r.At), r.Signal, firstLine(claim), r.Reason)
	}
	_ = w.Flush() // out keeps the error
}

// printQuestion prints an open elicitation and how to answer it; flags are those with
// which other commands find the run.
func printQuestion(out *lines, c *console, d *runs.Detail, flags string, e runs.Elicitation) {
	command := string(d.ID) + flags
	until := ""
	if !e.Expires.IsZero() {
		until = ", until " + e.Expires.Local().Format(time.DateTime)
	}
	out.printf("\n%s asks%s:", e.StepPath, until)
	out.printf("  %s", c.outStyle(bold, strings.ReplaceAll(e.Message, "\n", "\n  ")))
	if e.Kind == runs.Reconciliation && e.Call != nil {
		out.printf("    tool       %s", e.Call.Tool)
		out.printf("    arguments  %s", brief(e.Call.Arguments))
		out.printf("    key        %s", e.Call.Key)
		out.printf("    sent       %s", e.Call.Sent.Local().Format(time.DateTime))
		step := e.StepPath.Before(runs.StepPath(runs.Reconciliation))
		out.printf("check at the backend, and record the outcome with\n  perdure runs reconcile %s --step %s --happened --result '{…}'   (or --not-happened, --fail)", command, view.ShellWord(string(step)))
		return
	}
	if len(e.Approvers) > 0 {
		out.printf("    for        %s", strings.Join(e.Approvers, ", "))
	}
	if e.NeedsSignIn() {
		out.printf("answer on the approvals page: %s of the server; with dev, open it with\n  perdure approvals open %s", approvals.Path(d.ID), command)
		return
	}
	example, again := "", ""
	if d.AnswerUnderWay(e.ID) {
		again = "an answer was sent, and no worker has processed it yet; should the run ignore it, "
	}
	if len(d.Open()) > 1 {
		command += " --step " + view.ShellWord(string(e.StepPath))
	}
	for _, f := range view.NewForm(e.Schema).Fields {
		out.printf("    %s", describeField(f, "    "))
		if f.Required {
			example += " " + view.ShellWord(f.Name) + "=…"
		}
	}
	out.printf(again+"answer with\n  perdure runs answer %s --accept%s   (or --decline, --cancel)", command, example)
}

func printOutcome(out *lines, o *runs.Outcome) {
	switch {
	case o.Unread != nil:
		out.printf("\nresult\n  cannot be read: %s", o.Unread)
		return
	case o.Failure == nil:
		out.printf("\nresult\n  %s", brief(o.Output))
		return
	}
	e := o.Failure.Error
	out.printf("\n%s: %s", cmp.Or(string(e.Code), string(o.Status)), e.Message)
	if e.Hint != "" {
		out.printf("  %s", e.Hint)
	}
	if e.StepPath != "" {
		out.printf("  at step %s", e.StepPath)
	}
	if e.Backtrace != "" {
		out.printf("  %s", strings.ReplaceAll(strings.TrimSpace(e.Backtrace), "\n", "\n  "))
	}
}

// brief is JSON on a line, cut if it is long.
func brief(raw json.RawMessage) string {
	text := view.JSONLine(orNull(raw))
	cut := shorten(text, 300)
	if cut != text {
		cut += " (all of it: perdure runs result)"
	}
	return cut
}

func statusStyle(status string) style {
	switch status {
	case "completed":
		return green
	case "running", "waiting":
		return yellow
	default:
		return red
	}
}

// lines writes lines and keeps the first error.
type lines struct {
	w   io.Writer
	err error
}

func (l *lines) printf(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

// Write does nothing after an error.
func (l *lines) Write(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.w.Write(p)
	l.err = err
	return n, err
}
