package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
)

type callCommand struct {
	serverFlags `embed:""`

	Name    string        `arg:"" help:"Tool to call: a composite tool, by the name of its definition or the name that clients see, or a backend tool. NAME@VERSION calls a published version, such as deploy@1.2.0 or deploy@^1."`
	Values  []string      `arg:"" optional:"" name:"key=value" help:"Arguments. The tool's schema gives them their types; lists and objects are JSON." sep:"none"`
	Args    string        `help:"Arguments as a JSON object, @FILE, or - for standard input." placeholder:"JSON"`
	JSON    bool          `help:"Print the whole result as received, and no steps; the same as -o json."`
	Answer  string        `help:"Answer every elicitation with this action: accept, decline or cancel." enum:",accept,decline,cancel" default:""`
	Content string        `help:"Content of the answers, with --answer accept." placeholder:"JSON"`
	Timeout time.Duration `help:"Stop waiting after this time, as Ctrl-C does. Default: never."`
	DryRun  bool          `help:"Call nothing, and print what the call would do, as far as the arguments determine it."`
	Output  string        `short:"o" help:"Output format: text, or json for the whole result or the plan of a dry run." enum:"text,json" default:"text"`
}

func (callCommand) Help() string {
	return `Prints the steps on standard error and the result on standard output. On a
terminal, it shows the elicitations of the run as forms; elsewhere the call waits
until somebody answers them with "perdure runs answer" or on the approvals page, or
--answer answers them.

A call survives a restart of the server: it continues when the server is back.
Ctrl-C stops waiting. A run that waits for an answer then continues; any other is
cancelled after the server's --disconnect-grace, unless its definition has
onDisconnect: continue. A large result is a link to a resource, which this
command reads; --json prints the link. Examples:

    perdure call prepare_review --dry-run
    perdure call prepare_review base=HEAD~1
    perdure call deploy@1.2.0 environment=staging
    perdure call prepare_review --answer accept --content '{"verdict": "comment"}'`
}

func (k callCommand) Run(ctx context.Context, c *console) error {
	if k.Content != "" && k.Answer != "accept" {
		return usagef("--content needs --answer accept")
	}
	if k.Content != "" && !json.Valid([]byte(k.Content)) {
		return usagef("--content is not JSON: %s", k.Content)
	}
	switch {
	case k.DryRun && (k.JSON || k.Answer != ""):
		return usagef("--dry-run cannot be combined with --json or --answer; use -o json for the plan as JSON")
	}
	k.JSON = k.JSON || k.Output == "json" && !k.DryRun
	to, err := k.target()
	if err != nil {
		return err
	}
	if k.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.Timeout)
		defer cancel()
	}
	if k.DryRun {
		return k.dryRun(ctx, c, to)
	}
	began := time.Now()
	result, err := k.call(ctx, c, to)
	if err != nil {
		return k.interrupted(ctx, err)
	}
	err = k.print(c, result)
	if k.JSON {
		return err
	}
	if result.Meta.Error.Code == codes.BackendUnavailable {
		c.noteDown(ctx, to)
	}
	if result.Meta.Run.ID != "" {
		k.printEnd(c, result, time.Since(began))
	}
	return err
}

// interrupted explains what happens to a call after this command stops waiting.
func (k callCommand) interrupted(ctx context.Context, err error) error {
	var unfit *unfitContentError
	switch {
	case errors.As(err, &unfit):
		return unfit
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no result within %s; a run that waits for an answer continues, any other will be cancelled; see perdure runs list", k.Timeout)
	case ctx.Err() != nil:
		return errors.New("stopped waiting; a run that waits for an answer continues, any other will be cancelled; see perdure runs list")
	default:
		return err
	}
}

func (k callCommand) call(ctx context.Context, c *console, to target) (callResult, error) {
	who := k.answerer(c)
	s, err := connect(ctx, to)
	if err != nil {
		return callResult{}, err
	}
	defer s.close()
	tool, err := find(ctx, to, s, k.Name)
	if err != nil {
		return callResult{}, err
	}
	arguments, err := k.arguments(ctx, c, tool)
	if err != nil {
		return callResult{}, err
	}
	p := pendingCall{c: c, to: to, name: tool.Name, arguments: arguments, meta: tool.meta(nil), whole: !k.JSON}
	if tool.runs {
		p.key = rand.Text()
	}
	if !k.JSON {
		p.steps = newSteps(c, k.Data, who == nil)
	}
	if who != nil {
		p.options = []client.ClientOption{client.WithElicitationHandler(p.steps.over(who))}
	}
	result, err := p.result(ctx)
	p.steps.finish(err == nil && !result.IsError, result.text())
	return result, err
}

// arguments converts the arguments of the command line to the types of the tool's schema.
func (k callCommand) arguments(ctx context.Context, c *console, tool calledTool) (json.RawMessage, error) {
	given, err := readArguments(k.Args, c.in)
	if err != nil {
		return nil, err
	}
	schema := tool.InputSchema
	if tool.version != "" {
		v, err := k.serverFlags.version(ctx, tool.reference().String())
		if err != nil {
			return nil, err
		}
		noteDeprecated(c, v)
		d, err := definitions.FromSource(v.Source)
		if err != nil {
			return nil, err
		}
		schema = d.InputSchema()
	}
	return callArguments(schema, given, k.Values)
}

// answerer answers elicitations: --answer, or a person at the terminal; nil = they are
// answered elsewhere.
func (k callCommand) answerer(c *console) client.ElicitationHandler {
	switch {
	case k.Answer != "":
		return fixedAnswer{action: mcp.ElicitationResponseAction(k.Answer), content: json.RawMessage(k.Content)}
	case c.inTerminal && c.errTerminal && k.Args != "-":
		return newConsoleForm(c)
	default:
		return nil
	}
}

// awaitTool is the tool of a perdure server that waits for a run, for clients
// without elicitation.
const awaitTool = "perdure_run_await"

// reconnectPause is how long a call waits before it tries to reach a lost server
// again.
const reconnectPause = time.Second

// A pendingCall is one call of a tool. A call of a composite tool survives a
// restart of the server: its idempotency key joins it to the same run.
type pendingCall struct {
	c         *console
	to        target
	name      string
	arguments json.RawMessage
	meta      map[string]any // nil = nothing
	key       string         // idempotency key; "" = the call is not repeated
	options   []client.ClientOption
	whole     bool   // replace a link to a large result by the result
	steps     *steps // show its progress; nil = nothing does
	page      string // approvals page printed last
}

// notePage prints where to answer an elicitation that this command does not show.
func (p *pendingCall) notePage(url string) {
	switch {
	case url == "" || url == p.page || p.steps == nil:
	case !p.steps.elsewhere:
		p.note("  answer at %s", url)
	case url != p.steps.address(): // else the line above names it
		p.note("  or at %s", url)
	}
	p.page = url
}

func (p *pendingCall) note(format string, args ...any) {
	if p.steps == nil {
		p.c.notef(format, args...)
		return
	}
	p.steps.note(format, args...)
}

func (p *pendingCall) result(ctx context.Context) (callResult, error) {
	for away := false; ; away = true {
		result, err := p.once(ctx)
		if err == nil || p.key == "" || ctx.Err() != nil || !connectionLost(err) {
			return result, err
		}
		if !away {
			p.note("connection to the server lost; the run is kept, and the call continues when the server is back")
		}
		if err := pauseBeforeRetry(ctx); err != nil {
			return callResult{}, err
		}
	}
}

// pauseBeforeRetry waits before the server is asked again; the error is that of ctx.
func pauseBeforeRetry(ctx context.Context) error {
	select {
	case <-time.After(reconnectPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once makes the call on a connection of its own. A result that is only a handle
// on the run is awaited.
func (p *pendingCall) once(ctx context.Context) (callResult, error) {
	s, err := connect(ctx, p.to, p.options...)
	if err != nil {
		return callResult{}, err
	}
	defer s.close()
	if p.steps != nil {
		s.client.OnNotification(p.steps.notified)
	}
	meta := p.meta
	if p.key != "" {
		meta = map[string]any{keyMeta: p.key}
		maps.Copy(meta, p.meta)
	}
	result, err := s.call(ctx, p.name, p.arguments, meta)
	for err == nil && result.unfinished() {
		p.notePage(result.Meta.Run.ApprovalURL)
		result, err = p.await(ctx, s, result.Meta.Run.ID)
	}
	if link := result.link(); err == nil && link != "" && p.whole && p.ofARun() {
		result.Structured, err = s.read(ctx, link)
	}
	return result, err
}

// await waits for a run that a handle names, also while the server cannot reach it.
func (p *pendingCall) await(ctx context.Context, s *server, run string) (callResult, error) {
	args, err := json.Marshal(map[string]string{"runId": run})
	if err != nil {
		return callResult{}, err
	}
	for away := false; ; away = true {
		result, err := s.call(ctx, awaitTool, args, nil)
		if err != nil || result.Meta.Error.Code != codes.Unavailable {
			return result, err
		}
		if !away {
			p.note("the server cannot reach the run at the moment; it is kept, and the call continues when it can")
		}
		if err := pauseBeforeRetry(ctx); err != nil {
			return callResult{}, err
		}
	}
}

// ofARun reports whether the result is that of a run. Links in results of backend
// tools are left alone, whatever their URI.
func (p *pendingCall) ofARun() bool { return p.key != "" || p.name == awaitTool }

func (k callCommand) print(c *console, r callResult) error {
	switch {
	case k.JSON:
		if err := c.printJSON(r.raw); err != nil {
			return err
		}
	case r.IsError:
		c.notef("%s", c.errStyle(red, r.text()))
	case len(r.Structured) > 0 && string(r.Structured) != "null" && c.outTerminal:
		return c.printFolded(r.Structured, r.whole())
	case len(r.Structured) > 0 && string(r.Structured) != "null":
		return c.printJSON(r.Structured)
	default:
		fmt.Fprintln(c.exact, r.text())
	}
	if r.IsError {
		return errReported
	}
	return nil
}
