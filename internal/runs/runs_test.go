package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// The tests share one Temporal server; each has a worker's tools to itself by
// the names of the tools.
var shared struct {
	once   sync.Once
	err    error
	server *devserver.Server
	client client.Client
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "perdure-runs-test")
	if err != nil {
		panic(err)
	}
	dataDir = dir
	code := m.Run()
	for _, server := range []*devserver.Server{shared.server, composing.server} {
		if server != nil {
			server.Stop()
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

var dataDir string

// connect returns the door to runs on the shared server, and a client of that
// server for what the door does not show.
func connect(t testing.TB) (*runs.Client, client.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Temporal server")
	}
	shared.once.Do(func() {
		shared.server, shared.err = devserver.Start(context.Background(), devserver.Options{
			Dir: dataDir, SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler),
		})
		if shared.err != nil {
			return
		}
		if shared.client, shared.err = dial(shared.server); shared.err == nil {
			shared.err = startWorker(shared.client)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return runs.New(runs.Config{Keys: testKeys, Client: shared.client}), shared.client
}

func dial(server *devserver.Server) (client.Client, error) {
	return client.Dial(client.Options{
		HostPort:          server.Address(),
		Logger:            slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: server.TLS(), GrpcCompression: &client.GrpcCompressionNone{}},
	})
}

func startWorker(c client.Client) error {
	w := worker.New(c, workflows.TaskQueue, worker.Options{WorkerStopTimeout: time.Second})
	workflows.Register(w, trust)
	registerActivities(w, c)
	return w.Start()
}

// registerActivities registers what each run needs, and callTool.
func registerActivities(w worker.Worker, c client.Client) {
	w.RegisterActivityWithOptions(callTool, activity.RegisterOptions{Name: workflows.CallToolName})
	read := activities.New(nil, nil, activities.Options{UndoneSteps: runs.New(runs.Config{Keys: testKeys, Client: c}).CallHistory().UndoneSteps})
	w.RegisterActivityWithOptions(read.UndoneSteps, activity.RegisterOptions{Name: workflows.UndoneName})
}

// broken are the tools that fail for now, by their argument "as".
var broken sync.Map

// scripted are functions, by the argument "as", that get each call and may fail it.
var scripted sync.Map

// callTool is a backend that echoes its arguments. The tool busy reports that it is
// half done, and continues until it is cancelled.
func callTool(ctx context.Context, call workflows.ToolCall) (workflows.ToolResult, error) {
	if call.Original == "busy" {
		activity.RecordHeartbeat(ctx, workflows.StepProgress{StepPath: call.StepPath, Progress: 1, Total: 2, Message: "half"})
		<-ctx.Done()
		return workflows.ToolResult{}, ctx.Err()
	}
	var args struct{ As string }
	_ = json.Unmarshal(call.Arguments, &args)
	if f, ok := scripted.Load(args.As); ok {
		if err := f.(func(workflows.ToolCall) error)(call); err != nil {
			return workflows.ToolResult{}, err
		}
	}
	if _, fails := broken.Load(args.As); fails || call.Original == "fail" {
		e := workflows.Error{Code: "tool_error", Category: codes.CategoryTool, Message: "it does not work", StepID: call.StepID, Tool: call.Tool}
		return workflows.ToolResult{}, temporal.NewNonRetryableApplicationError(e.Message, string(e.Category), nil, e)
	}
	output, err := json.Marshal(map[string]json.RawMessage{"said": call.Arguments})
	return workflows.ToolResult{Output: output}, err
}

var tools = map[string]definitions.Tool{
	"read":  {Name: "read", Backend: "echo", Original: "read", Effect: definitions.Read},
	"write": {Name: "write", Backend: "echo", Original: "write"},
	"fail":  {Name: "fail", Backend: "echo", Original: "fail"},
	"busy":  {Name: "busy", Backend: "echo", Original: "busy"},
}

// definition parses YAML; it must be right.
func definition(t testing.TB, yaml string) *definitions.Definition {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(yaml))
	perduretest.NoError(t, diags.Err())
	return defs[0]
}

const gated = `
name: publish
description: Reads, asks, writes.
version: 1.2.3
parameters:
  type: object
  properties:
    as: {type: string}
steps:
  - id: look
    tool: read
    arguments: {text: hello}
  - id: ask
    type: elicitation
    dependsOn: [look]
    message: Shall I?
    schema:
      type: object
      properties:
        count: {type: integer}
      required: [count]
    onDecline: {action: skip_remaining}
  - id: save
    tool: write
    dependsOn: [ask]
    arguments: {text: "{{.steps.ask.content.count}}", as: "{{.params.as}}"}
`

const plain = `
name: plain
description: Reads and writes.
steps:
  - id: look
    tool: read
    arguments: {text: hello}
  - id: save
    tool: write
    dependsOn: [look]
    arguments: {text: world}
`

func request(t testing.TB, yaml string) runs.StartRequest {
	return runs.StartRequest{
		Definition: definition(t, yaml),
		Arguments:  json.RawMessage(`{"as":"` + t.Name() + `"}`),
		Caller:     runs.Caller{Subject: "alice", Client: "test 1.0"},
		Tools:      tools,
	}
}

func start(t testing.TB, c *runs.Client, req runs.StartRequest) runs.RunID {
	t.Helper()
	started := perduretest.Must(c.Start(t.Context(), req))(t)
	if started.Attached {
		t.Fatalf("attached to %s, want a new run", started.ID)
	}
	return started.ID
}

// followTo collects events until one of a kind.
func followTo(t testing.TB, c *runs.Client, id runs.RunID, after int64, kind runs.EventKind) []runs.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []runs.Event
	for e, err := range c.Follow(ctx, id, after, runs.AllEvents) {
		if err != nil {
			t.Fatalf("after %v: %v", tell(events), err)
		}
		events = append(events, e)
		if e.Kind == kind {
			return events
		}
	}
	t.Fatalf("no event %s in %v", kind, tell(events))
	return nil
}

// tell is one line per event.
func tell(events []runs.Event) []string {
	var lines []string
	for _, e := range events {
		line := string(e.Kind)
		switch e.Kind {
		case runs.EventStep:
			line = fmt.Sprintf("%s %s %s ended=%t %s", line, e.StepPath, e.What, e.StepEnded, e.StepStatus)
		case runs.EventOpened, runs.EventClosed:
			line = fmt.Sprintf("%s %s %s %s", line, e.Elicitation.ID, e.Elicitation.State, e.Elicitation.Action)
		case runs.EventDone:
			line = fmt.Sprintf("%s %s", line, e.Outcome.Status)
		}
		lines = append(lines, fmt.Sprintf("%s (%g/%g)", strings.TrimSpace(line), e.Done, e.Total))
	}
	return lines
}

func answer(t testing.TB, c *runs.Client, id runs.RunID, a runs.Answer) runs.Decision {
	t.Helper()
	d := perduretest.Must(c.Answer(t.Context(), id, a))(t)
	return d
}

func TestRunWithAGate(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, gated))

	events := followTo(t, c, id, 0, runs.EventOpened)
	gate := events[len(events)-1].Elicitation
	if gate.ID != "ask#1" || gate.Message != "Shall I?" || len(gate.Schema) == 0 {
		t.Errorf("got elicitation %+v", gate)
	}
	run := perduretest.Must(c.Get(t.Context(), id))(t)
	if run.Status != workflows.Waiting || run.Tool != "publish" || run.Version != "1.2.3" || run.Caller != "alice" || len(run.Open()) != 1 {
		t.Errorf("got run %+v", run)
	}
	if _, err := c.Result(t.Context(), id); !errors.Is(err, runs.ErrNotFinished) {
		t.Errorf("result of a waiting run: got %v, want ErrNotFinished", err)
	}

	d := answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "accept", Content: json.RawMessage(`{"count":9007199254740993}`), By: "bob"})
	if want := (runs.Decision{Won: true, Action: "accept", By: "bob"}); d != want {
		t.Errorf("got %+v, want %+v", d, want)
	}
	all := followTo(t, c, id, 0, runs.EventDone)
	want := []string{
		"step look read ended=true completed (1/3)",
		"opened ask#1 open (1/3)",
		"closed ask#1 answered accept (2/3)",
		"step save write ended=false (2/3)",
		"step save write ended=true completed (3/3)",
		"done completed (3/3)",
	}
	if diff := cmp.Diff(want, tell(all)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for i, e := range all { // from any point on, the rest is the same
		if diff := cmp.Diff(all[i+1:], rest(t, c, id, e.Seq)); diff != "" {
			t.Errorf("after event %d (-want +got):\n%s", i, diff)
		}
	}
	if got := string(all[5].Outcome.Output); got != `{"said":{"as":"TestRunWithAGate","text":"9007199254740993"}}` && got != `{"said":{"as":"TestRunWithAGate","text":9007199254740993}}` {
		t.Errorf("got output %s", got)
	}
	outcome := perduretest.Must(c.Result(t.Context(), id))(t)
	if diff := cmp.Diff(all[5].Outcome, outcome); diff != "" {
		t.Errorf("result and event differ:\n%s", diff)
	}

	detail := perduretest.Must(c.Show(t.Context(), id))(t)
	var steps []string
	for _, s := range detail.Steps {
		steps = append(steps, fmt.Sprintf("%s %s %s %d %s %s", s.Path, s.What, s.Status, s.Attempts, s.Arguments, s.Output))
		if s.Ended == nil || s.Ended.Before(s.Started) {
			t.Errorf("step %s: started %v, ended %v", s.Path, s.Started, s.Ended)
		}
	}
	wantSteps := []string{
		`look read completed 1  {"said":{"text":"hello"}}`,
		`ask Shall I? completed 0  {"action":"accept","content":{"count":9007199254740993},"by":"bob"}`,
		steps[len(steps)-1],
	}
	if diff := cmp.Diff(wantSteps, steps); diff != "" || !strings.HasPrefix(steps[2], `save write completed 1 {"as":"TestRunWithAGate"`) {
		t.Errorf("steps %q (-want +got):\n%s", steps, diff)
	}
	if detail.Status != workflows.Completed || detail.Closed == nil || !strings.HasPrefix(detail.Digest, "sha256:") {
		t.Errorf("got detail %+v", detail)
	}
}

// rest is what Follow tells after a Seq, of a run that has ended.
func rest(t testing.TB, c *runs.Client, id runs.RunID, after int64) []runs.Event {
	t.Helper()
	events := []runs.Event{}
	for e, err := range c.Follow(t.Context(), id, after, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func TestAnswerIsCheckedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, gated))
	followTo(t, c, id, 0, runs.EventOpened)
	tests := []struct {
		name   string
		answer runs.Answer
		want   string
	}{
		{"unknown action", runs.Answer{Action: "maybe"}, "maybe"},
		{"missing field", runs.Answer{Action: "accept"}, "count"},
		{"wrong type", runs.Answer{Action: "accept", Content: json.RawMessage(`{"count":"x"}`)}, "count"},
		{"no JSON", runs.Answer{Action: "accept", Content: json.RawMessage(`{`)}, ""},
		{"too large", runs.Answer{Action: "accept", Content: json.RawMessage(`"` + strings.Repeat("x", definitions.MaxAnswerSize) + `"`)}, "limit"},
	}
	for _, tt := range tests {
		tt.answer.ElicitationID = "ask#1"
		_, err := c.Answer(t.Context(), id, tt.answer)
		var invalid *runs.InvalidAnswerError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, tt.want) {
			t.Errorf("%s: got %v, want an InvalidAnswerError about %q", tt.name, err, tt.want)
		}
	}
	_, err := c.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#2", Action: "accept"})
	if !errors.Is(err, runs.ErrNoSuchGate) {
		t.Errorf("unknown elicitation: got %v, want ErrNoSuchGate", err)
	}
	_, err = c.Answer(t.Context(), "publish/none", runs.Answer{ElicitationID: "ask#1", Action: "accept"})
	if !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("unknown run: got %v, want ErrNotFound", err)
	}
	run, err := c.Get(t.Context(), id)
	if err != nil || len(run.Open()) != 1 {
		t.Errorf("the elicitation is no longer open: %+v, %v", run, err)
	}
}

// TestClientsDoNotAnswerForThePage: a question of mode url is not for clients,
// whatever the front end.
func TestClientsDoNotAnswerForThePage(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, "name: paged\ndescription: Asks on the page.\nsteps:\n  - {id: ask, type: elicitation, message: Shall I?, mode: url}\n"))
	followTo(t, c, id, 0, runs.EventOpened)
	answer := runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "alice", Via: runs.ViaForm}
	if _, err := c.Answer(t.Context(), id, answer); !errors.Is(err, runs.ErrNotPermitted) {
		t.Errorf("a client's answer: got %v, want ErrNotPermitted", err)
	}
	answer.Via = runs.ViaPage
	if d, err := c.Answer(t.Context(), id, answer); err != nil || !d.Won {
		t.Errorf("an answer on the page: got %+v, %v", d, err)
	}
}

// TestAnswerIsAllowed: whether an answer is allowed is asked of the very question
// that it is for.
func TestAnswerIsAllowed(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, "name: some\ndescription: Asks some.\nscript: |\n  return elicit('Shall I?', by='group:leads', validate=False, schema={'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}).content\n"))
	followTo(t, c, id, 0, runs.EventOpened)
	given := runs.Answer{ElicitationID: "script/main:1#1", Action: "accept", By: "alice", Content: json.RawMessage(`{"n":"many"}`)}
	given.Allowed = func(e runs.Elicitation) bool { return !slices.Contains(e.Approvers, "group:leads") }
	if _, err := c.Answer(t.Context(), id, given); !errors.Is(err, runs.ErrNotPermitted) {
		t.Errorf("not allowed: got %v, want ErrNotPermitted", err)
	}
	given.Allowed, given.Via = nil, runs.ViaCommand
	if _, err := c.Answer(t.Context(), id, given); !errors.Is(err, runs.ErrNotPermitted) {
		t.Errorf("at the command line: got %v, want ErrNotPermitted", err)
	}
	given.Allowed, given.Via = func(e runs.Elicitation) bool { return slices.Contains(e.Approvers, "group:leads") }, runs.ViaForm
	if d, err := c.Answer(t.Context(), id, given); err != nil || !d.Won {
		t.Errorf("allowed: %+v, %v", d, err)
	}
	followTo(t, c, id, 0, runs.EventDone)
	if out, err := c.Result(t.Context(), id); err != nil || string(out.Output) != `{"n":"many"}` {
		t.Errorf("the script gets %+v, %v", out, err)
	}
}

func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, gated))
	followTo(t, c, id, 0, runs.EventOpened)

	const rivals = 8
	decisions := make([]runs.Decision, rivals)
	var all sync.WaitGroup
	for i := range rivals {
		all.Go(func() {
			content := json.RawMessage(fmt.Sprintf(`{"count":%d}`, i))
			d, err := c.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#1", Action: "accept", Content: content, By: fmt.Sprint("rival ", i)})
			if err != nil {
				t.Error(err)
			}
			decisions[i] = d
		})
	}
	all.Wait()
	winners := slices.Collect(func(yield func(string) bool) {
		for i, d := range decisions {
			if d.Won && !yield(fmt.Sprint("rival ", i)) {
				return
			}
		}
	})
	if len(winners) != 1 {
		t.Fatalf("winners: %v, want one: %+v", winners, decisions)
	}
	late := answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "late"})
	for _, d := range append(decisions, late) {
		if d.By != winners[0] || d.Action != "accept" {
			t.Errorf("got %+v, want the answer of %s", d, winners[0])
		}
	}
	if late.Won {
		t.Error("an answer to a closed elicitation has won")
	}
}

func TestStartAttaches(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	req := request(t, gated)
	req.ID = runs.NewID("publish")
	id := start(t, c, req)

	again := func(when string) {
		started, err := c.Start(t.Context(), req)
		if want := (runs.Started{ID: id, Attached: true}); err != nil || started != want {
			t.Errorf("%s: got %+v, %v, want %+v", when, started, err, want)
		}
	}
	again("running")
	followTo(t, c, id, 0, runs.EventOpened)
	answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "bob"})
	done := followTo(t, c, id, 0, runs.EventDone)
	again("finished")
	if got := tell(done[len(done)-1:]); got[0] != "done completed (3/3)" {
		t.Errorf("got %s", got)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, gated))
	followTo(t, c, id, 0, runs.EventOpened)
	for range 2 {
		if err := c.Cancel(t.Context(), id, "context deadline exceeded: the request timed out"); err != nil { // the words mean nothing
			t.Fatal(err)
		}
	}
	events := followTo(t, c, id, 0, runs.EventDone)
	outcome := events[len(events)-1].Outcome
	if outcome.Status != workflows.Cancelled || outcome.Failure.Error.Category != codes.CategoryCancelled || outcome.Failure.Partial["look"] == nil {
		t.Errorf("got %+v", outcome)
	}
	if err := c.Cancel(t.Context(), id, "again"); err != nil {
		t.Errorf("cancelling a run that has ended: %v", err)
	}
	if err := c.Cancel(t.Context(), "publish/none", ""); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("cancelling no run: got %v, want ErrNotFound", err)
	}
	_, err := c.Answer(t.Context(), id, runs.Answer{ElicitationID: "ask#1", Action: "accept", Content: json.RawMessage(`{"count":1}`)})
	if !errors.Is(err, runs.ErrNoSuchGate) {
		t.Errorf("answering a run that was cancelled: got %v, want ErrNoSuchGate", err)
	}
}

func TestFailedRun(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, strings.Replace(plain, "tool: write", "tool: fail", 1)))
	events := followTo(t, c, id, 0, runs.EventDone)
	want := []string{
		"step look read ended=true completed (1/2)",
		"step save fail ended=false (1/2)",
		"step save fail ended=true failed (2/2)",
		"done failed (2/2)",
	}
	if diff := cmp.Diff(want, tell(events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	f := events[3].Outcome.Failure
	if f.Error.Category != codes.CategoryTool || !strings.Contains(f.Error.Message, "it does not work") || f.Partial["look"] == nil {
		t.Errorf("got failure %+v", f)
	}
}

func TestArgumentsHaveALimit(t *testing.T) {
	t.Parallel()
	t.Run("in Temporal", func(t *testing.T) { checkArgumentsLimit(t, runs.Config{}, runs.MaxArguments) })
	t.Run("elsewhere", func(t *testing.T) { checkArgumentsLimit(t, runs.Config{MaxValue: 64 << 20}, runs.MaxLargeArguments) })
}

func checkArgumentsLimit(t *testing.T, cfg runs.Config, limit int) {
	t.Parallel()
	c := runs.New(cfg) // nobody is asked
	large := strings.Repeat("x", limit)
	tests := []struct {
		name string
		edit func(*runs.StartRequest)
		code string
	}{
		{"arguments", func(r *runs.StartRequest) { r.Arguments = json.RawMessage(`"` + large + `"`) }, "arguments_too_large"},
		{"schemas", func(r *runs.StartRequest) {
			schema := json.RawMessage(`"` + large + `"`)
			r.Tools = map[string]definitions.Tool{"a": {InputSchema: schema}, "b": {OutputSchema: schema}}
		}, "input_too_large"},
	}
	for _, tt := range tests {
		req := request(t, plain)
		tt.edit(&req)
		_, err := c.Start(t.Context(), req)
		var e *runs.Error
		if !errors.As(err, &e) || e.Category != codes.CategoryLimit || string(e.Code) != tt.code {
			t.Errorf("%s: got %v, want code %s", tt.name, err, tt.code)
		}
	}
}

func TestUnknownRun(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	calls := map[string]func() error{
		"Get":    func() error { _, err := c.Get(t.Context(), "no/run"); return err },
		"Show":   func() error { _, err := c.Show(t.Context(), "no/run"); return err },
		"Result": func() error { _, err := c.Result(t.Context(), "no/run"); return err },
		"Follow": func() error {
			for _, err := range c.Follow(t.Context(), "no/run", 0, runs.AllEvents) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
}

// A namespace may have workflows of others that are no runs: perdure neither shows nor
// ends them.
func TestWorkflowsOfOthers(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	other, err := tc.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: t.Name(), TaskQueue: "of-others"}, "Other", "input")
	if err != nil {
		t.Fatal(err)
	}
	id := runs.RunID(other.GetID())
	for name, call := range map[string]func() error{
		"Get":        func() error { _, err := c.Get(t.Context(), id); return err },
		"Show":       func() error { _, err := c.Show(t.Context(), id); return err },
		"CalledWith": func() error { _, err := c.CalledWith(t.Context(), id); return err },
		"Cancel":     func() error { return c.Cancel(t.Context(), id, "") },
		"Terminate":  func() error { return c.Terminate(t.Context(), id, "") },
		"Answer": func() error {
			_, err := c.Answer(t.Context(), id, runs.Answer{ElicitationID: "x#1", Action: "cancel"})
			return err
		},
	} {
		if err := call(); err == nil || name != "CalledWith" && !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d, err := tc.DescribeWorkflowExecution(t.Context(), other.GetID(), "")
	if err != nil || d.WorkflowExecutionInfo.CloseTime != nil || d.WorkflowExtendedInfo.GetCancelRequested() {
		t.Errorf("the workflow is %v, %v", d.GetWorkflowExecutionInfo().GetStatus(), err)
	}
	if err := tc.TerminateWorkflow(t.Context(), other.GetID(), "", "the test ends"); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	odd := `o'brien \ "x" 100% _`
	req := request(t, strings.Replace(gated, "name: publish", "name: list_gated", 1))
	req.Caller.Subject = odd
	waiting := start(t, c, req)
	followTo(t, c, waiting, 0, runs.EventOpened)
	req = request(t, strings.Replace(plain, "name: plain", "name: list_plain", 1))
	req.Caller.Subject = odd
	done := start(t, c, req)
	followTo(t, c, done, 0, runs.EventDone)

	tests := []struct {
		name   string
		filter runs.Filter
		want   []runs.RunID
	}{
		{"caller", runs.Filter{Caller: odd}, []runs.RunID{done, waiting}},
		{"limit", runs.Filter{Caller: odd, Limit: 1, Waiting: true}, []runs.RunID{waiting}},
		{"tool", runs.Filter{Tool: "list_plain"}, []runs.RunID{done}},
		{"waiting", runs.Filter{Caller: odd, Waiting: true}, []runs.RunID{waiting}},
		{"status waiting", runs.Filter{Caller: odd, Status: workflows.Waiting}, []runs.RunID{waiting}},
		{"status completed", runs.Filter{Caller: odd, Status: workflows.Completed}, []runs.RunID{done}},
		{"status running", runs.Filter{Caller: odd, Status: workflows.Running}, nil},
		{"status failed", runs.Filter{Caller: odd, Status: workflows.Failed}, nil},
		{"status timed out", runs.Filter{Caller: odd, Status: workflows.TimedOut}, nil},
		{"status cancelled", runs.Filter{Caller: odd, Status: workflows.Cancelled}, nil},
		{"unknown status", runs.Filter{Caller: odd, Status: "odd'"}, nil},
		{"status that is a query", runs.Filter{Caller: odd, Status: `\' OR WorkflowType IS NOT NULL -- `}, nil},
		{"since", runs.Filter{Caller: odd, Since: time.Now().Add(time.Hour)}, nil},
	}
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		want := runs.Held{Open: 1, Waiting: 1}
		var got runs.Held
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(15 * time.Second); got != want && time.Now().Before(deadline); <-tick.C {
			var err error
			if got, err = c.Held(t.Context(), odd); err != nil {
				t.Fatal(err)
			}
		}
		if none, err := c.Held(t.Context(), "nobody"); got != want || err != nil || none != (runs.Held{}) {
			t.Errorf("got %+v; of nobody %+v, %v", got, none, err)
		}
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []runs.RunID
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(15 * time.Second); ; <-tick.C { // visibility follows a moment later
				list := perduretest.Must(c.List(t.Context(), tt.filter))(t)
				got = nil
				for _, run := range list {
					got = append(got, run.ID)
					if open := len(run.Open()); run.ID == waiting && open != 1 {
						t.Errorf("%d open elicitations in the list, want 1", open)
					}
				}
				if slices.Equal(got, tt.want) || time.Now().After(deadline) {
					break
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsOfARun(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	for what, yaml := range map[string]string{"waits": gated, "has ended": plain} {
		id := start(t, c, request(t, yaml))
		if what == "waits" {
			followTo(t, c, id, 0, runs.EventOpened)
		} else {
			followTo(t, c, id, 0, runs.EventDone)
		}
		if got, err := c.CalledWith(t.Context(), id); err != nil || string(got.Arguments) != `{"as":"`+t.Name()+`"}` {
			t.Errorf("of a run that %s: %s, %v", what, got, err)
		}
	}
	if _, err := c.CalledWith(t.Context(), "publish/none"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
}

func TestListPage(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	var want []runs.RunID
	for range 3 {
		id := start(t, c, request(t, strings.Replace(gated, "name: publish", "name: paged_gated", 1)))
		followTo(t, c, id, 0, runs.EventOpened)
		want = append(want, id)
	}
	slices.Sort(want)
	var got []runs.RunID
	for deadline := time.Now().Add(time.Minute); !slices.Equal(got, want) && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		got = nil
		for from, first := "", true; first || from != ""; first = false { // visibility follows a moment later
			page, next, err := c.ListPage(t.Context(), runs.Filter{Tool: "paged_gated", Waiting: true, Limit: 1}, from)
			if err != nil || len(page) > 1 {
				t.Fatalf("a page of %d runs, %v", len(page), err)
			}
			for _, run := range page {
				got = append(got, run.ID)
			}
			from = next
		}
		slices.Sort(got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, _, err := c.ListPage(t.Context(), runs.Filter{}, "no page"); err == nil {
		t.Error("a page that begins nowhere was found")
	}
}

func TestAsked(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, gated))
	followTo(t, c, id, 0, runs.EventOpened)
	for _, question := range []string{"one", "one", "two"} {
		if err := c.ReportQuestion(t.Context(), id, "ask#1", runs.Question{Name: question, Outcome: runs.Invalid, Reason: "count is missing"}); err != nil {
			t.Fatal(err)
		}
		run := perduretest.Must(c.Get(t.Context(), id))(t)
		if open := run.Open(); len(open) != 1 || open[0].Questions[len(open[0].Questions)-1].Name != question {
			t.Errorf("after %s: %+v", question, open)
		}
	}
	if err := c.ReportQuestion(t.Context(), id, "ask#2", runs.Question{Name: "three", Outcome: runs.Unable}); err != nil {
		t.Errorf("of what was never asked: %v", err)
	}
	if err := c.ReportQuestion(t.Context(), "publish/none", "ask#1", runs.Question{Name: "one"}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("of an unknown run: %v", err)
	}
	answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "bob"})
	var told []string
	var place int64
	for _, e := range followTo(t, c, id, 0, runs.EventDone) {
		if e.Kind == runs.EventQuestion {
			told = append(told, e.Elicitation.ID+" "+e.Question.Name+" "+e.Question.Reason)
			place = e.Seq
		}
	}
	if diff := cmp.Diff([]string{"ask#1 one count is missing", "ask#1 two count is missing"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if after := rest(t, c, id, place); after[0].Kind != runs.EventClosed {
		t.Errorf("after the last comes %+v", after[0])
	}
}

// Runs are found by the request that waits for them; the one that joined last
// counts.
func TestFindByRequest(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	req := request(t, gated)
	req.Request = "first-" + t.Name()
	id := start(t, c, req)
	find := func(f runs.Filter) runs.RunID {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if found, err := c.List(t.Context(), f); err != nil {
				t.Fatal(err)
			} else if len(found) == 1 {
				return found[0].ID
			}
		}
		t.Fatalf("nothing is found by %+v", f)
		return ""
	}
	if got := find(runs.Filter{Request: req.Request}); got != id {
		t.Errorf("found %s by request, want %s", got, id)
	}
	for range 2 {
		if _, err := c.Attach(t.Context(), id, runs.Attended{Request: "second-" + t.Name()}); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(runs.Filter{Request: "second-" + t.Name()}); got != id {
		t.Errorf("found %s by the second request, want %s", got, id)
	}
	answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "bob"})
	followTo(t, c, id, 0, runs.EventDone)
	if noted, err := c.Attach(t.Context(), id, runs.Attended{Request: "third"}); err != nil || noted {
		t.Errorf("joining what has ended: %v, %v", noted, err)
	}
	if run, err := c.Get(t.Context(), id); err != nil || run.Request != "second-"+t.Name() {
		t.Errorf("got %+v, %v", run, err)
	}
	if _, err := c.Attach(t.Context(), "publish/none", runs.Attended{Request: "x"}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("joining an unknown run: %v", err)
	}
}
