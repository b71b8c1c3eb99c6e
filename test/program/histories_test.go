//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

var record = flag.Bool("record", false, "record workflows/testdata/histories that do not exist yet")

// A recording is a run whose history is kept.
type recording struct {
	name, source string
	answers      []runs.Answer
	request      string          // that joins the run before the answers
	asked        []runs.Question // before the answers
	cancel       bool
	resumption   *history.ResumeRequest // of the run when it has ended; its second execution is recorded
}

// recordings are the runs whose histories are kept. A name that exists is
// never recorded again: it stands for the interpreter that recorded it.
var recordings = []recording{
	{name: "chain", source: `{name: chain, description: d, steps: [
		{id: a, tool: be_echo, arguments: {n: 1}}, {id: b, tool: be_echo, dependsOn: [a], arguments: {n: "{{.steps.a.output.n}}"}}]}`},
	{name: "reads", source: `{name: reads, description: d, steps: [
		{id: a, tool: be_read, arguments: {n: 1}}, {id: b, tool: be_read, arguments: {n: 2}},
		{id: c, tool: be_read, dependsOn: [a, b], arguments: {n: "{{.steps.a.output.n}}{{.steps.b.output.n}}"}}],
		output: {properties: {n: {type: integer, description: d, value: "{{.steps.c.output.n}}"}}}}`},
	{name: "slow_read", source: `{name: slow_read, description: d, steps: [{id: a, tool: be_read_slow}]}`},
	{name: "reads_for_long", source: `{name: reads_for_long, description: d, steps: [
		{id: a, tool: be_read_while}, {id: b, tool: be_read_while, dependsOn: [a]}, {id: c, tool: be_read_while, dependsOn: [b]},
		{id: w, tool: be_echo, dependsOn: [b]}, {id: x, tool: be_echo, dependsOn: [c]}]}`},
	{name: "timeout_of_reads", source: `{name: timeout_of_reads, description: d, timeout: 400ms, steps: [
		{id: a, tool: be_read_while}, {id: b, tool: be_read_while, dependsOn: [a]}, {id: w, tool: be_echo, dependsOn: [b]}]}`},
	{name: "within_reads", source: scriptRecording("within_reads", `def reads():
    be_read_while()
    be_read_while()
    be_echo(n=1)
return [attempt(lambda: within("400ms", reads)).error.code, be_echo(n=2)]
`)},
	{name: "foreach", source: `{name: foreach, description: d, steps: [
		{id: e, type: forEach, collection: "[1,2,3,4,5]", maxParallel: 2, onError: {action: continue},
		 step: {tool: be_odd, arguments: {n: "{{.forEach.item}}"}}}]}`},
	{name: "nested_foreach", source: `{name: nested_foreach, description: d, steps: [
		{id: o, type: forEach, collection: "[[1],[2,3]]", step: {id: i, type: forEach, collection: "{{json .forEach.item}}",
		 step: {tool: be_echo, arguments: {n: "{{.forEach.item}}"}}}}]}`},
	{name: "accepted", source: gate(""), answers: []runs.Answer{{ElicitationID: "g#1", Action: "accept", Content: json.RawMessage(`{"why":"ok"}`), By: "ada"}}},
	{name: "asked_again", source: gate(""), asked: []runs.Question{{Name: "first", Outcome: runs.Invalid, Reason: "why is missing"}},
		answers: []runs.Answer{{ElicitationID: "g#1", Action: "accept", Content: json.RawMessage(`{"why":"ok"}`), By: "ada"}}},
	{name: "joined", source: gate(""), request: "another", answers: []runs.Answer{{ElicitationID: "g#1", Action: "decline", By: "ada"}}},
	{name: "declined", source: gate(""), answers: []runs.Answer{{ElicitationID: "g#1", Action: "decline", By: "ada"}}},
	{name: "declined_continue", source: gate(`, onDecline: {action: continue}`), answers: []runs.Answer{{ElicitationID: "g#1", Action: "decline", By: "ada"}}},
	{name: "skip_remaining", source: gate(`, onDecline: {action: skip_remaining}`), answers: []runs.Answer{{ElicitationID: "g#1", Action: "decline", By: "ada"}}},
	{name: "expired", source: gate(`, timeout: 300ms`)},
	{name: "cancelled_at_gate", source: gate(""), cancel: true},
	{name: "retried", source: `{name: retried, description: d, steps: [
		{id: r, tool: be_fails, onError: {action: retry, retryCount: 2, retryDelay: 20ms}}]}`},
	{name: "failed", source: `{name: failed, description: d, steps: [{id: a, tool: be_echo}, {id: b, tool: be_fails, dependsOn: [a]}, {id: c, tool: be_echo, dependsOn: [b]}]}`},
	{name: "failed_continue", source: `{name: failed_continue, description: d, steps: [
		{id: b, tool: be_fails, onError: {action: continue}, defaultResults: {n: 0}}, {id: c, tool: be_echo, dependsOn: [b], arguments: {n: "{{.steps.b.output.n}}"}}]}`},
	{name: "unknown_outcome", source: `{name: unknown_outcome, description: d, steps: [{id: a, tool: be_lost, onError: {action: retry, retryCount: 3, retryDelay: 10ms}}]}`},
	{name: "credentials", source: `{name: credentials, description: d, steps: [
		{id: a, tool: be_echo}, {id: l, tool: be_locked, dependsOn: [a], onError: {action: continue}}, {id: c, tool: be_echo, dependsOn: [l]}]}`,
		answers: []runs.Answer{{ElicitationID: "l/credentials#1", Action: "accept", By: "ada"}, {ElicitationID: "l/credentials#2", Action: "decline", By: "ada"}}},
	{name: "reconciled", source: `{name: reconciled, description: d, steps: [
		{id: a, tool: be_lost, arguments: {n: 1}, onUnknown: ask}, {id: b, tool: be_echo, dependsOn: [a], arguments: {n: "{{.steps.a.output.n}}"}}]}`,
		answers: []runs.Answer{{ElicitationID: "a/reconciliation#1", Action: "accept", Content: json.RawMessage(`{"outcome":"happened","result":"{\"n\":7}"}`), By: "ada"}}},
	{name: "reconciled_not", source: `{name: reconciled_not, description: d, steps: [{id: a, tool: be_lost, onUnknown: ask}]}`, answers: []runs.Answer{
		{ElicitationID: "a/reconciliation#1", Action: "accept", Content: json.RawMessage(`{"outcome":"not_happened"}`), By: "ada"},
		{ElicitationID: "a/reconciliation#2#1", Action: "decline", By: "ada"}}},
	{name: "probed", source: `{name: probed, description: d, steps: [{id: a, tool: be_lost, probe: {tool: be_read, delay: 10ms, arguments: {key: "{{.call.key}}"}, happened: "{{eq .output.key .call.key}}", result: '{"n": 7}'}}]}`},
	{name: "resumed", source: `{name: resumed, description: d, steps: [
		{id: a, tool: be_echo, arguments: {n: 1}, compensate: {tool: be_read}}, {id: r, tool: be_read, dependsOn: [a]},
		{id: b, tool: be_fails, dependsOn: [r]}, {id: c, tool: be_lost, dependsOn: [b], onUnknown: ask}, {id: d, tool: be_echo, dependsOn: [c]}]}`,
		resumption: &history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{"b": json.RawMessage(`{}`)}, By: "ada"},
		answers:    []runs.Answer{{ElicitationID: "c/reconciliation#1", Action: "accept", Content: json.RawMessage(`{"outcome":"happened"}`), By: "ada"}}},
	{name: "held", source: `{name: held, description: d, steps: [
		{id: e, type: forEach, collection: "[1,2,3]", maxParallel: 3, step: {tool: be_limited, arguments: {n: "{{.forEach.item}}"}}},
		{id: b, tool: be_echo, dependsOn: [e]}]}`},
	{name: "unread", source: `{name: unread, description: d, steps: [{id: a, tool: be_unread, arguments: {n: 1}}, {id: b, tool: be_echo, dependsOn: [a]}]}`},
	{name: "undone_late", cancel: true, source: `{name: undone_late, description: d, steps: [
		{id: a, tool: be_late, arguments: {n: 1}, compensate: {tool: be_echo, arguments: {n: "{{.output.n}}"}}}, {id: g, type: elicitation, message: m}]}`},
	{name: "script", source: scriptRecording("script", `log("begins")
began = now()
total = 0
for i in range(4):
    total += be_echo(n=be_read(n=i)["n"])["n"]
    progress(i + 1, 4)
failed = try_call_tool("be_fails")
sleep("20ms")
squares = map_parallel(lambda i: be_echo(n=i * i)["n"], range(5), max=2)
return {"total": total, "failed": failed.error.code, "squares": squares, "later": now() > began}
`)},
	{name: "script_gates", source: scriptRecording("script_gates", `answers = parallel([lambda: elicit("first?").action, lambda: elicit("second?", timeout="1h").action])
approve("third?")
return be_echo(said=answers)
`), answers: []runs.Answer{
		{ElicitationID: "script/main:1[0]/lambda:1#1", Action: "decline", By: "ada"},
		{ElicitationID: "script/main:1[1]/lambda:1#1", Action: "accept", Content: json.RawMessage(`{}`), By: "ada"},
		{ElicitationID: "script/main:2#1", Action: "accept", Content: json.RawMessage(`{}`), By: "bob"}}},
	{name: "script_step", source: `{name: script_step, description: d, steps: [
		{id: a, tool: be_read, arguments: {n: 3}},
		{id: s, type: script, arguments: {n: "{{.steps.a.output.n}}"}, script: "return [be_echo(n=i) for i in range(data['n'])]\n", dependsOn: [a]},
		{id: late, type: script, script: "sleep('1h')\n", timeout: 50ms, onError: {action: continue}},
		{id: e, type: forEach, collection: "[1,2]", step: {type: script, arguments: {n: "{{.forEach.item}}"}, script: "return be_echo(n=data['n'])\n"}}]}`},
	{name: "script_computes", source: scriptRecording("script_computes", `n = 0
for i in range(700000):
    n += i
return be_echo(n=n)
`)},
	{name: "script_resumed", source: scriptRecording("script_resumed", `be_echo(n=1)
be_fails()
return be_echo(n=2)
`), resumption: &history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{"script/main:2": json.RawMessage(`{}`)}, By: "ada"}},
	{name: "deadlines", cancel: true, source: `{name: deadlines, description: d, steps: [
		{id: e, type: forEach, timeout: 50m, maxParallel: 3, collection: "[1,2,3]", step: {id: i, type: elicitation, message: m, timeout: 40m}},
		{id: s, type: script, timeout: 30m, script: "return parallel([lambda: within('20m', lambda: elicit('a?', timeout='10m').action), lambda: within('25m', lambda: elicit('b?', timeout='15m').action)])\n"}]}`},
	{name: "run_timeout", source: `{name: run_timeout, description: d, timeout: 300ms, steps: [{id: g, type: elicitation, message: m}]}`},
}

// scriptRecording is a definition that is a script.
func scriptRecording(name, script string) string {
	return fmt.Sprintf("name: %s\ndescription: d\nscript: |\n  %s\n", name, strings.ReplaceAll(strings.TrimSpace(script), "\n", "\n  "))
}

func gate(fields string) string {
	return `{name: gate, description: d, steps: [
		{id: before, tool: be_read, arguments: {n: 1}},
		{id: g, type: elicitation, message: "Write {{.steps.before.output.n}}?", dependsOn: [before], schema: {type: object, properties: {why: {type: string}}}` + fields + `},
		{id: w, tool: be_echo, dependsOn: [g], arguments: {why: "{{.steps.g.output.action}}"}}]}`
}

// fakeBackend answers calls as the tool's name says.
type fakeBackend struct{}

func (fakeBackend) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	switch call.Tool {
	case "fails":
		return &backends.Result{IsError: true, Content: []backends.Content{{Type: "text", Text: "planned failure"}}}, nil
	case "lost":
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.Unknown, Err: errors.New("connection reset")}
	case "locked":
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.CredentialsNeeded, Err: &backends.CredentialsError{Reason: "it has expired"}}
	case "odd":
		if n := string(call.Arguments); len(n) > 0 && (n[len(n)-2]-'0')%2 == 0 {
			return &backends.Result{IsError: true, Content: []backends.Content{{Type: "text", Text: "even"}}}, nil
		}
	case "late": // whatever becomes of its run
		time.Sleep(1500 * time.Millisecond)
	case "read_while":
		time.Sleep(300 * time.Millisecond)
	case "read_slow":
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2500 * time.Millisecond):
		}
	}
	return &backends.Result{Structured: call.Arguments}, nil
}

func fixedSlots() (worker.WorkerTuner, error) {
	return worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{})
}

func TestRecordHistories(t *testing.T) {
	if !*record {
		t.Skip("records new histories only with -record")
	}
	quiet := slog.New(slog.DiscardHandler)
	c := startTemporal(t, quiet)
	w := worker.New(c, workflows.TaskQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&unreadTwice{}}})
	workflows.Register(w, trust)
	calls := activities.New(fakeBackend{}, quiet, activities.Options{})
	activities.Register(w, calls)
	activities.RegisterHost(w, &activities.Host{Client: c, Activities: calls, Grace: time.Second, Tuner: fixedSlots,
		Backends: map[string]backends.Limits{"be": {Rate: backends.Rate{Calls: 20, Per: time.Minute, Burst: 1}}}})
	perduretest.NoError(t, w.Start())
	defer w.Stop()
	door := runs.New(runs.Config{Keys: testKeys, Client: c, Namespace: "default", Logger: quiet})
	perduretest.NoError(t, door.HostBackend(t.Context(), "be"))
	for _, r := range recordings {
		file := filepath.Join("..", "..", "workflows", "testdata", "histories", r.name+".json")
		if _, err := os.Stat(file); err == nil {
			continue
		}
		id := start(t, door, r.source)
		after := r.attend(t, door, id, 0)
		if r.resumption != nil {
			plan, err := door.Resumptions().Plan(t.Context(), id, *r.resumption)
			if err == nil {
				err = door.Resumptions().Execute(t.Context(), plan)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.attend(t, door, id, after)
		}
		save(t, c, id, file)
	}
}

// An unreadTwice worker cannot read the calls of a tool the first two times.
type unreadTwice struct {
	interceptor.WorkerInterceptorBase
	times atomic.Int32
}

func (u *unreadTwice) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &unreadCall{interceptor.ActivityInboundInterceptorBase{Next: next}, &u.times}
}

type unreadCall struct {
	interceptor.ActivityInboundInterceptorBase
	times *atomic.Int32
}

func (u *unreadCall) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if call, ok := in.Args[0].(workflows.ToolCall); ok && call.Original == "unread" && u.times.Add(1) <= 2 {
		return nil, workflows.Unread(workflows.CallToolName, errors.New("there is no key"))
	}
	return u.Next.ExecuteActivity(ctx, in)
}

// attend follows a run after an event to its end, and answers what it asks.
func (r recording) attend(t *testing.T, door *runs.Client, id runs.RunID, after int64) int64 {
	t.Helper()
	for event, err := range door.Follow(t.Context(), id, after, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		after = event.Seq
		if event.Kind != runs.EventOpened {
			continue
		}
		if r.cancel {
			perduretest.NoError(t, door.Cancel(t.Context(), id, "recording"))
			r.cancel = false
		}
		if r.request != "" {
			attach(t, door, id, r.request)
		}
		for _, a := range r.asked {
			perduretest.NoError(t, door.ReportQuestion(t.Context(), id, event.Elicitation.ID, a))
		}
		for _, a := range r.answers {
			if a.ElicitationID != event.Elicitation.ID {
				continue
			}
			if _, err := door.Answer(t.Context(), id, a); err != nil {
				t.Fatal(err)
			}
		}
	}
	return after
}

// attach has a run be found by a request.
func attach(t *testing.T, door *runs.Client, id runs.RunID, request string) {
	t.Helper()
	if _, err := door.Attach(t.Context(), id, runs.Attended{Request: request}); err != nil {
		t.Fatal(err)
	}
	until(t, "the run to take note of a request", func() bool {
		run, err := door.Get(t.Context(), id)
		return err == nil && run.Request == request
	})
}

func start(t *testing.T, door *runs.Client, source string) runs.RunID {
	t.Helper()
	defs, diags := definitions.Parse("recording.yaml", []byte(source))
	perduretest.NoError(t, diags.Err())
	tools := map[string]definitions.Tool{}
	for _, name := range defs[0].ToolNames() {
		tool := definitions.Tool{Name: name, Backend: "be", Original: name[len("be_"):], Effect: definitions.Unsafe, Limited: name == "be_limited"}
		if len(tool.Original) >= 4 && tool.Original[:4] == "read" {
			tool.Effect = definitions.Read
		}
		tools[name] = tool
	}
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`), Caller: runs.Caller{Subject: "recorder"}, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return started.ID
}

func save(t *testing.T, c client.Client, id runs.RunID, file string) {
	t.Helper()
	history := &historypb.History{}
	events := c.GetWorkflowHistory(t.Context(), string(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event := perduretest.Must(events.Next())(t)
		history.Events = append(history.Events, event)
	}
	data := perduretest.Must(protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(history))(t)
	perduretest.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	perduretest.NoError(t, os.WriteFile(file, append(data, '\n'), 0o644))
	t.Log("recorded", file)
}
