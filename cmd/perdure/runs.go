package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/inbox"
	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/mtls"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/signing"
)

type runsCommand struct {
	List   runsListCommand   `cmd:"" help:"List runs, the newest first."`
	Show   runsShowCommand   `cmd:"" help:"Show a run: its steps, what it waits for, how it ended."`
	Logs   runsLogsCommand   `cmd:"" help:"Tell what has happened to a run, in the order of time."`
	Result runsResultCommand `cmd:"" help:"Print the result of a run that has finished."`
	Answer runsAnswerCommand `cmd:"" help:"Answer the question that a run waits with."`
	Cancel runsCancelCommand `cmd:"" help:"Cancel a run: no further step starts."`

	Terminate runsTerminateCommand `cmd:"" help:"End a run at once: nothing of it is told or undone."`
	Release   runsReleaseCommand   `cmd:"" help:"Have a quarantined run executed again."`
	Fail      runsFailCommand      `cmd:"" help:"Have a quarantined run fail, without executing it."`
	Retry     runsRetryCommand     `cmd:"" help:"Let a failed, timed-out or cancelled run go on from where it failed."`
	Reconcile runsReconcileCommand `cmd:"" help:"Say whether a call of which nobody knows it was executed."`
}

// temporalFlags say where the runs are, and how to print.
type temporalFlags struct {
	connectionFlags `embed:""`
	payloadFlags    `embed:""`
	databaseFlags   `embed:""`

	Data   dataDir `help:"Data directory of the dev whose runs to see, and of no other. Default: .perdure." placeholder:"DIR"`
	Output string  `short:"o" help:"How to print: text or json." enum:"text,json" default:"text"`
}

// again are the flags by which another command comes to the same runs.
func (f temporalFlags) again() string {
	flags := dataFlag(f.Data)
	if f.Address != "" {
		flags += " --address " + f.Address
	}
	if f.Namespace != "" {
		flags += " --namespace " + f.Namespace
	}
	return flags
}

// dataFlag is the flag for a data directory that is not the usual one.
func dataFlag(dir dataDir) string {
	if dir == defaultData || dir == "" {
		return ""
	}
	return " --data '" + string(dir) + "'"
}

// runsClient is a connection to where the runs are; close ends it. By it nobody
// tells runs anything.
func (f temporalFlags) runsClient(ctx context.Context) (c *runs.Client, close func(), err error) {
	return f.signingClient(ctx, nil)
}

// signingClient is one that signs what it tells runs.
func (f temporalFlags) signingClient(ctx context.Context, keys *signing.Keys) (c *runs.Client, close func(), err error) {
	options, err := f.where()
	if err != nil {
		return nil, nil, err
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err := f.seal(ctx, &options); err != nil {
		return nil, nil, err
	}
	writing, done, err := readValues(ctx, f.databaseFlags, f.Data.String(), &options)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("no Temporal answers at %s; start perdure dev, or name another with --address: %w", options.HostPort, err)
	}
	c = runs.New(runs.Config{
		Client: temporal, Namespace: options.Namespace, DataConverter: options.DataConverter, Keys: keys, LargeInputs: writing, Logger: slog.New(slog.DiscardHandler),
	})
	return c, func() { temporal.Close(); done() }, nil
}

// signFlags say with which key answers are signed.
type signFlags struct {
	KeyFile string `help:"File with the key of the gateways and workers, which signs the answer: runs take none that is not signed. Default: the key in PERDURE_KEY, or that of the running dev of --data." placeholder:"FILE"`
}

// signingKeys are those of the flags, else those of the dev to whose runs f leads;
// nil = that has none.
func (s signFlags) signingKeys(f temporalFlags) (*signing.Keys, error) {
	flags := keyFlags{KeyFile: s.KeyFile}
	if flags.KeyFile == "" && environ.Secret(keyVar) == "" {
		if options, err := f.clientOptions(); err != nil || options.HostPort != "" && (f.Address != "" || f.Data == "") {
			return nil, cmp.Or(err, usagef("a run takes no answer that is not signed: give the key of the gateways and workers by --key-file or PERDURE_KEY, or answer on the approvals page"))
		}
		flags.KeyFile = keyOf(f.Data.String())
		if _, err := os.Stat(flags.KeyFile); errors.Is(err, fs.ErrNotExist) {
			return nil, nil // nor is there a dev, as will be said
		}
	}
	k, err := flags.keys()
	return k.proofs, err
}

// where is the Temporal of the flags, else that of the running dev.
func (f temporalFlags) where() (client.Options, error) {
	options, err := f.clientOptions()
	if err != nil {
		return options, err
	}
	if options.HostPort == "" || f.Address == "" && f.Data != "" {
		dev, err := f.Data.running()
		if err != nil {
			return options, err
		}
		if dev == nil {
			return options, fmt.Errorf("no dev is running with its data in %s; start perdure dev, or say where Temporal is with --address", f.Data)
		}
		pair, err := mtls.Load(temporalKey(f.Data.String()))
		if err != nil {
			return options, err
		}
		options.ConnectionOptions.TLS = pair.Client()
		options.HostPort = dev.Temporal
		options.Namespace = cmp.Or(options.Namespace, dev.Namespace)
	}
	options.Namespace = cmp.Or(options.Namespace, client.DefaultNamespace)
	return options, nil
}

// tell names the Temporal to whose runs something was done.
func (f temporalFlags) tell(c *console) {
	if options, err := f.where(); err == nil {
		c.notef("at Temporal %s, namespace %s", options.HostPort, options.Namespace)
	}
}

// findRun gives the ID of the run that is meant: all of it, or enough of its
// beginning or end to be the only one of those that the filter selects.
func findRun(ctx context.Context, c *runs.Client, id string, among runs.Filter) (runs.RunID, error) {
	_, err := c.Get(ctx, runs.RunID(id))
	if !errors.Is(err, runs.ErrNotFound) {
		return runs.RunID(id), err
	}
	among.Limit = 1000
	list, err := c.List(ctx, among)
	if err != nil {
		return "", err
	}
	var found []string
	for _, run := range list {
		if name := string(run.ID); strings.HasPrefix(name, id) || strings.HasSuffix(name, id) || strings.Contains(name, "/"+id) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1:
		return runs.RunID(found[0]), nil
	case len(found) > 1:
		slices.Sort(found)
		return "", fmt.Errorf("%q may be any of %s; give more of it", id, strings.Join(found, ", "))
	case among.Waiting:
		return "", fmt.Errorf("no run %q waits for an answer; perdure runs list --waiting shows those that do", id)
	default:
		return "", fmt.Errorf("there is no run %q; perdure runs list shows those that there are", id)
	}
}

type runsListCommand struct {
	temporalFlags `embed:""`

	Tool    string        `help:"Only runs of this composite tool."`
	Status  string        `help:"Only runs in this state: running, waiting, quarantined, completed, failed, cancelled, timed_out." enum:",running,waiting,quarantined,completed,failed,cancelled,timed_out" default:""`
	Caller  string        `help:"Only runs that this caller started."`
	Waiting waitingFlag   `help:"Only runs that wait for a person, or, with a value, for that: approval, compensation, reconciliation, credentials, key, payload, breaker, rate, concurrency." placeholder:"REASON"`
	Since   time.Duration `help:"Only runs that started within this time, e.g. 24h."`
	Called  bool          `help:"Also runs that steps of others have called."`
	Query   string        `help:"Only runs that match a list filter of Temporal's as well." placeholder:"FILTER"`
	Limit   int           `help:"At most so many." default:"50"`
}

func (runsListCommand) Help() string {
	return "Examples:\n\n    perdure runs list --waiting\n    perdure runs list --waiting rate\n    perdure runs list --tool prepare_review --since 24h -o json\n    perdure runs list --called\n    perdure runs list --status quarantined"
}

func (l runsListCommand) Run(ctx context.Context, c *console) error {
	rc, done, err := l.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	filter := l.Waiting.filter(runs.Filter{Tool: l.Tool, Status: runs.Status(l.Status), Caller: l.Caller, Called: l.Called, Query: l.Query, Limit: l.Limit})
	if l.Since > 0 {
		filter.Since = time.Now().Add(-l.Since)
	}
	list, err := rc.List(ctx, filter)
	if err != nil {
		return err
	}
	if l.Output == "json" {
		return c.printJSON(append([]runs.Run{}, list...))
	}
	if len(list) == 0 {
		c.notef("no runs")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATUS\tSTARTED\tTOOK\tCALLER\tWAITS FOR")
	for _, run := range list {
		var waits []string
		for _, e := range run.Open() {
			waits = append(waits, e.StepPath)
		}
		if len(waits) == 0 && run.WaitingFor != "" {
			waits = []string{run.WaitingFor}
		}
		if run.Unreadable != "" {
			waits = append(waits, "(cannot be read)")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", run.ID, run.Status, run.Started.Local().Format(time.DateTime),
			took(run.Started, run.Closed), run.Caller, strings.Join(waits, ", "))
	}
	return w.Flush()
}

// took is how long something has taken, to the digits that a person wants.
func took(started time.Time, ended *time.Time) string {
	end := time.Now()
	if ended != nil {
		end = *ended
	}
	d := max(end.Sub(started), 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

type runsResultCommand struct {
	temporalFlags `embed:""`

	ID string `arg:"" help:"Run, or enough of its ID to be the only one."`
}

func (runsResultCommand) Help() string {
	return "It ends with status 1 if the run failed or has not finished. Example:\n\n    perdure runs result prepare_review/k3v9a2m4qx"
}

func (r runsResultCommand) Run(ctx context.Context, c *console) error {
	rc, done, err := r.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	id, err := findRun(ctx, rc, r.ID, runs.Filter{})
	if err != nil {
		return err
	}
	outcome, err := rc.Result(ctx, id)
	if errors.Is(err, runs.ErrNotFinished) {
		return fmt.Errorf("%s has not finished; perdure runs show %s says what it does", id, id)
	} else if err != nil {
		return err
	}
	if r.Output == "json" {
		if err := c.printJSON(outcome); err != nil {
			return err
		}
	} else if outcome.Failure == nil {
		return c.printJSON(orNull(outcome.Output))
	} else {
		c.notef("%s %s: %s", id, outcome.Status, outcome.Failure.Text())
		if trace := outcome.Failure.Error.Backtrace; trace != "" {
			c.notef("%s", strings.TrimSpace(trace))
		}
	}
	if outcome.Failure != nil {
		return errReported
	}
	return nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

type runsAnswerCommand struct {
	temporalFlags `embed:""`
	signFlags     `embed:""`

	ID          string `arg:"" help:"Run, or enough of its ID to be the only one."`
	Accept      bool   `help:"Accept." xor:"action" required:""`
	Decline     bool   `help:"Decline." xor:"action" required:""`
	Cancel      bool   `help:"Dismiss the question." xor:"action" required:""`
	Content     string `help:"What to answer, with --accept." placeholder:"JSON"`
	Step        string `help:"Step that asks, where several do." xor:"which"`
	Elicitation string `help:"ID of the question, where several are open." xor:"which"`
	By          string `help:"Who answers. Default: the user of this machine."`
}

func (runsAnswerCommand) Help() string {
	return `The first valid answer counts, whoever gives it. perdure runs show says what is
asked. A question with mode: url is refused here: it is answered on the approvals
page alone. Examples:

    perdure runs answer prepare_review/k3v9a2m4qx --accept --content '{"verdict": "approve"}'
    perdure runs answer k3v9a2 --decline`
}

func (a runsAnswerCommand) Run(ctx context.Context, c *console) error {
	if a.Content != "" && !a.Accept {
		return usagef("--content belongs to --accept")
	}
	if a.Content != "" && !json.Valid([]byte(a.Content)) {
		return usagef("--content is not JSON: %s", a.Content)
	}
	keys, err := a.signingKeys(a.temporalFlags)
	if err != nil {
		return err
	}
	rc, done, err := a.signingClient(ctx, keys)
	if err != nil {
		return err
	}
	defer done()
	id, err := findRun(ctx, rc, a.ID, runs.Filter{Waiting: true})
	if err != nil {
		return err
	}
	question, err := openElicitation(ctx, rc, id, func(e runs.Elicitation) bool {
		return (a.Step == "" || a.Step == e.StepPath || a.Step == e.StepID) && (a.Elicitation == "" || a.Elicitation == e.ID)
	}, cmp.Or(a.Step, a.Elicitation))
	if err != nil {
		return err
	}
	if question.Mode == definitions.URLMode {
		return fmt.Errorf("%s of %s is answered on the approvals page by a person who is signed in there, and in no other way: open %s of the server; beside dev: perdure approvals open %s%s",
			question.StepPath, id, inbox.Path(id), id, dataFlag(a.Data))
	}
	decision, err := rc.Answer(ctx, id, runs.Answer{
		ElicitationID: question.ID, Action: a.action(), Content: a.content(), By: cmp.Or(a.By, userName()), Via: runs.ViaCommand,
	})
	var invalid *runs.InvalidAnswerError
	if errors.As(err, &invalid) {
		return fmt.Errorf("%s still waits, since the answer does not fit: %w", question.StepPath, err)
	} else if err != nil {
		return err
	}
	a.tell(c)
	return printDecision(c, a.Output, id, question, decision)
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

// openElicitation finds what is to be answered: the only open elicitation that
// is wanted. Named is how the flags name it, "" if they do not.
func openElicitation(ctx context.Context, rc *runs.Client, id runs.RunID, wanted func(runs.Elicitation) bool, named string) (runs.Elicitation, error) {
	run, err := rc.Get(ctx, id)
	if err != nil {
		return runs.Elicitation{}, err
	}
	var open []runs.Elicitation
	var names []string
	for _, e := range run.Open() {
		names = append(names, e.StepPath)
		if wanted(e) {
			open = append(open, e)
		}
	}
	switch {
	case len(open) == 1:
		return open[0], nil
	case len(open) > 1:
		return runs.Elicitation{}, fmt.Errorf("%s waits with several questions; say which with --step: %s", id, strings.Join(names, ", "))
	case len(names) > 0 && named != "":
		return runs.Elicitation{}, fmt.Errorf("%s does not wait at %s but at %s", id, named, strings.Join(names, ", "))
	case len(names) > 0:
		return runs.Elicitation{}, fmt.Errorf("%s waits for something else, at %s; perdure runs show %s says what it asks", id, strings.Join(names, ", "), id)
	case run.Unreadable != "":
		return runs.Elicitation{}, fmt.Errorf("what %s asks cannot be read: %s", id, run.Unreadable)
	default:
		return runs.Elicitation{}, fmt.Errorf("%s (%s) waits for no answer; perdure runs show %s says what it does", id, run.Status, id)
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
		c.notef("perdure: %s was answered before: %s, by %s", question.StepPath, what, d.By)
		return errReported
	}
	return nil
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "perdure"
}

// endFlags say which run is ended, and why.
type endFlags struct {
	temporalFlags `embed:""`

	ID     string `arg:"" help:"Run, or enough of its ID to be the only one."`
	Reason string `help:"Why, for the record."`
}

// end ends a run by one of the ways in which that can be done; done is the
// member of the JSON that says so, told what a person reads.
func (k endFlags) end(ctx context.Context, c *console, by func(*runs.Client, context.Context, runs.RunID, string) error, done, told string) error {
	rc, hangUp, err := k.runsClient(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	id, err := findRun(ctx, rc, k.ID, runs.Filter{})
	if err != nil {
		return err
	}
	if err := by(rc, ctx, id, k.Reason); err != nil {
		return err
	}
	k.tell(c)
	if k.Output == "json" {
		return c.printJSON(map[string]any{"runId": id, done: true})
	}
	_, err = fmt.Fprintf(c.out, "%s: %s\n", id, told)
	return err
}

type runsCancelCommand struct {
	endFlags `embed:""`
}

func (runsCancelCommand) Help() string {
	return "Example:\n\n    perdure runs cancel prepare_review/k3v9a2m4qx --reason 'wrong branch'"
}

func (k runsCancelCommand) Run(ctx context.Context, c *console) error {
	return k.end(ctx, c, func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		if err := rc.Cancel(ctx, id, reason); err != nil {
			return err
		}
		if run, err := rc.Get(ctx, id); err == nil && run.Status == runs.Quarantined {
			c.notef("perdure: the run is quarantined and hears of it when it is released; perdure runs fail or terminate ends it now")
		}
		return nil
	}, "cancelled", "asked to cancel")
}

type runsTerminateCommand struct {
	endFlags `embed:""`
}

func (runsTerminateCommand) Help() string {
	return `For a run that cannot be cancelled: its calls under way are not told, and what
it has completed is not undone. perdure runs retry can let it go on. Example:

    perdure runs terminate prepare_review/k3v9a2m4qx --reason 'stuck'`
}

func (k runsTerminateCommand) Run(ctx context.Context, c *console) error {
	return k.end(ctx, c, (*runs.Client).Terminate, "terminated", "terminated")
}
