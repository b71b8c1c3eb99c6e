package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
)

type callCommand struct {
	serverFlags `embed:""`

	Name    string        `arg:"" help:"Tool to call, composite or of a backend; a composite one by the name of its definition, or the one that clients see. A version of it is NAME@VERSION, such as deploy@1.2.0 or deploy@^1."`
	Values  []string      `arg:"" optional:"" name:"key=value" help:"Arguments. The tool's schema gives them their types; lists and objects are JSON." sep:"none"`
	Args    string        `help:"Arguments as a JSON object, @FILE, or - for standard input." placeholder:"JSON"`
	JSON    bool          `help:"Print the whole result as it came, and no steps; the same as -o json."`
	Answer  string        `help:"Answer every elicitation with this action: accept, decline or cancel." enum:",accept,decline,cancel" default:""`
	Content string        `help:"Content of the answers, with --answer accept." placeholder:"JSON"`
	Timeout time.Duration `help:"Stop waiting after this time, as with Ctrl-C. Default: never."`
	DryRun  bool          `help:"Call nothing, and print what the call would do, as far as the arguments say."`
	Output  string        `short:"o" help:"How to print: text, or json for the whole result or the plan of a dry run." enum:"text,json" default:"text"`
}

func (callCommand) Help() string {
	return `Steps are printed on standard error, the result on standard output. On a terminal
the elicitations of the run are asked there; elsewhere the call waits until they
are answered by "perdure runs answer", or --answer answers them.
A call outlives the server: it goes on when the server is back. Ctrl-C stops
waiting: a run that waits for an answer goes on, another is cancelled after the
server's --disconnect-grace, unless it has onDisconnect: continue. A large
result that the server only links to is read there; --json prints the link.
Examples:

    perdure call prepare_review --dry-run
    perdure call prepare_review base=HEAD~1
    perdure call deploy@1.2.0 environment=staging
    perdure call prepare_review --answer accept --content '{"verdict": "comment"}'`
}

func (k callCommand) Run(ctx context.Context, c *console) error {
	if k.Content != "" && k.Answer != "accept" {
		return usagef("--content belongs to --answer accept")
	}
	if k.Content != "" && !json.Valid([]byte(k.Content)) {
		return usagef("--content is not JSON: %s", k.Content)
	}
	switch {
	case k.DryRun && (k.JSON || k.Answer != ""):
		return usagef("--dry-run asks nobody and has no result: it goes with -o json, and not with --json or --answer")
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
	result, err := k.call(ctx, c, to)
	if err != nil {
		return k.interrupted(ctx, err)
	}
	return k.print(c, result)
}

// interrupted says what became of a call that was not waited for.
func (k callCommand) interrupted(ctx context.Context, err error) error {
	var unfit *unfitContentError
	switch {
	case errors.As(err, &unfit):
		return unfit
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no result within %s: a run that waits for an answer goes on, another is cancelled soon; see perdure runs list", k.Timeout)
	case ctx.Err() != nil:
		return errors.New("stopped waiting: a run that waits for an answer goes on, another is cancelled soon; see perdure runs list")
	default:
		return err
	}
}

func (k callCommand) call(ctx context.Context, c *console, to target) (callResult, error) {
	who := k.whoAnswers(c)
	s, err := connect(ctx, to, who...)
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
	p := pendingCall{c: c, to: to, name: tool.Name, arguments: arguments, options: who, meta: tool.meta(nil), whole: !k.JSON}
	if tool.runs {
		p.key = rand.Text()
	}
	if !k.JSON {
		p.tell = (&steps{c: c, data: k.Data, elsewhere: who == nil, seen: map[string]bool{}}).notified
	}
	return p.result(ctx)
}

// arguments are those of the command line, as the tool's schema wants them.
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
		tellDeprecated(c, v)
		d, err := definitions.FromSource(v.Source)
		if err != nil {
			return nil, err
		}
		schema = d.InputSchema()
	}
	return callArguments(schema, given, k.Values)
}

// whoAnswers decides how questions are answered: by --answer, by a person at
// the terminal, or elsewhere.
func (k callCommand) whoAnswers(c *console) []client.ClientOption {
	switch {
	case k.Answer != "":
		return []client.ClientOption{client.WithElicitationHandler(fixedAnswer{
			action: mcp.ElicitationResponseAction(k.Answer), content: json.RawMessage(k.Content),
		})}
	case c.inTerminal && c.errTerminal && k.Args != "-":
		return []client.ClientOption{client.WithElicitationHandler(newConsoleForm(c))}
	default:
		return nil
	}
}

// awaitTool is the tool of a perdure server by which a client that cannot be
// asked goes on waiting for a run.
const awaitTool = "perdure_run_await"

// reconnectPause is how long a call waits before it looks again whether the
// server is back.
const reconnectPause = time.Second

// A pendingCall is one call of a tool. That of a composite tool goes on when
// the server was away, since it has a key by which the server knows it again.
type pendingCall struct {
	c         *console
	to        target
	name      string
	arguments json.RawMessage
	meta      map[string]any // nil = nothing
	key       string         // "" = the call is not repeated
	options   []client.ClientOption
	whole     bool                          // a large result is read where it is linked
	tell      func(mcp.JSONRPCNotification) // nil = nobody is told of progress
	page      string                        // that the user was told of last
}

// tellPage says where a question is answered that is not asked here.
func (p *pendingCall) tellPage(url string) {
	if url != "" && url != p.page && p.tell != nil {
		p.c.notef("  answer it at %s", url)
	}
	p.page = url
}

func (p *pendingCall) result(ctx context.Context) (callResult, error) {
	for away := false; ; away = true {
		result, err := p.once(ctx)
		if err == nil || p.key == "" || ctx.Err() != nil || !connectionLost(err) {
			return result, err
		}
		if !away {
			p.c.notef("the server is away; the run is not lost, and the call goes on when the server is back")
		}
		select {
		case <-time.After(reconnectPause):
		case <-ctx.Done():
			return callResult{}, ctx.Err()
		}
	}
}

// once makes the call on a connection of its own, and waits on where the
// result is but a handle on the run.
func (p *pendingCall) once(ctx context.Context) (callResult, error) {
	s, err := connect(ctx, p.to, p.options...)
	if err != nil {
		return callResult{}, err
	}
	defer s.close()
	if p.tell != nil {
		s.client.OnNotification(p.tell)
	}
	meta := p.meta
	if p.key != "" {
		meta = map[string]any{keyMeta: p.key}
		maps.Copy(meta, p.meta)
	}
	result, err := s.call(ctx, p.name, p.arguments, meta)
	for err == nil && result.goesOn() {
		p.tellPage(result.Meta.Run.ApprovalURL)
		var run json.RawMessage
		if run, err = json.Marshal(map[string]string{"runId": result.Meta.Run.ID}); err == nil {
			result, err = s.call(ctx, awaitTool, run, nil)
		}
	}
	if link := result.link(); err == nil && link != "" && p.whole && p.ofARun() {
		result.Structured, err = s.read(ctx, link)
	}
	return result, err
}

// ofARun says whether the result is that of a run: what a backend links to is
// none, whatever it is called.
func (p *pendingCall) ofARun() bool { return p.key != "" || p.name == awaitTool }

func (k callCommand) print(c *console, r callResult) error {
	switch {
	case k.JSON:
		if err := c.printJSON(r.raw); err != nil {
			return err
		}
	case r.IsError:
		fmt.Fprintln(c.err, c.errStyle(red, r.text()))
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

// Steps tells of the steps of a run, a line each.
type steps struct {
	c         *console
	data      dataDir // directory of the dev that is called
	elsewhere bool    // questions are answered by other means

	mu   sync.Mutex
	seen map[string]bool
}

// notified prints a progress notification that says something new: servers
// repeat themselves to keep a connection alive, and when a call goes on.
func (s *steps) notified(n mcp.JSONRPCNotification) {
	message, _ := n.Params.AdditionalFields["message"].(string)
	if n.Method != "notifications/progress" || message == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	step, _ := n.Params.Meta[stepMeta].(string)
	if step == "" && s.seen[message] || s.seen[step+" "+message] {
		return
	}
	s.seen[message], s.seen[step+" "+message] = true, true
	s.c.notef("%s", s.c.errStyle(faint, "  "+message))
	run, _ := n.Params.Meta[runMeta].(map[string]any)
	if id, _ := run["id"].(string); s.elsewhere && id != "" && strings.HasPrefix(message, "waiting for an answer") {
		s.c.notef("  answer it with: perdure runs answer %s%s --step '%s' --accept (or --decline, --cancel), or on the approvals page: perdure approvals open", id, dataFlag(s.data), step)
	}
}
