package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology/clients"
)

// replicaDefinitions have gates of every arrangement, each before a write.
const replicaDefinitions = `
compositeTools:
  - name: review
    description: One gate.
    parameters: &key {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: read, tool: be_read, arguments: {key: "{{.params.key}}"}}
      - {id: approval, type: elicitation, message: "Write {{.params.key}}?", timeout: 24h, schema: &verdict {type: object, properties: {verdict: {type: string}}, required: [verdict]}, dependsOn: [read]}
      - {id: write, tool: be_write, arguments: {text: "{{.params.key}}:{{.steps.approval.output.content.verdict}}"}, dependsOn: [approval]}
    output: &written
      properties:
        written: {type: string, description: What was written, value: "{{.steps.write.output.written}}"}
  - name: stages
    description: Two gates in a row.
    parameters: *key
    steps:
      - {id: first, type: elicitation, message: "First of {{.params.key}}?", timeout: 24h, schema: *verdict}
      - {id: between, tool: be_write, arguments: {text: "{{.params.key}}-between:{{.steps.first.output.content.verdict}}"}, dependsOn: [first]}
      - {id: second, type: elicitation, message: "Second of {{.params.key}}?", timeout: 24h, schema: *verdict, dependsOn: [between]}
      - {id: write, tool: be_write, arguments: {text: "{{.params.key}}:{{.steps.second.output.content.verdict}}"}, dependsOn: [second]}
    output: *written
  - name: pair
    description: Two gates open at once.
    parameters: *key
    steps:
      - {id: left, type: elicitation, message: "Left of {{.params.key}}?", timeout: 24h, schema: *verdict}
      - {id: right, type: elicitation, message: "Right of {{.params.key}}?", timeout: 24h, schema: *verdict}
      - {id: write, tool: be_write, arguments: {text: "{{.params.key}}:{{.steps.left.output.content.verdict}}{{.steps.right.output.content.verdict}}"}, dependsOn: [left, right]}
    output: *written
  - name: slow_read
    description: A read that takes its time, and a write.
    parameters: *key
    steps:
      - {id: slow, tool: be_slow_read, arguments: {key: "{{.params.key}}"}}
      - {id: write, tool: be_write, arguments: {text: "{{.steps.slow.output.read}}:fine"}, dependsOn: [slow]}
    output: *written
  - name: slow_write
    description: A write that takes its time.
    parameters: *key
    steps:
      - {id: write, tool: be_slow_write, arguments: {key: "{{.params.key}}"}, onError: {action: retry, retryCount: 3, retryDelay: 10ms}}
  - name: slow_gate
    description: One gate, and a write that takes its time.
    parameters: *key
    steps:
      - {id: approval, type: elicitation, message: "Write {{.params.key}}?", timeout: 24h, schema: *verdict}
      - {id: write, tool: be_slow_write, arguments: {key: "{{.params.key}}"}, dependsOn: [approval]}
    output:
      properties:
        written: {type: string, description: What was written, value: "{{.params.key}}"}
        verdict: {type: string, description: What the person said, value: "{{.steps.approval.content.verdict}}"}
`

// gateTools are those with gates, and how many each of them opens.
var gateTools = map[string]int{"review": 1, "stages": 2, "pair": 2}

// Replicas are two gateways and two workers on one Temporal, and a backend that
// notes each write on the disk.
type replicas struct {
	t         *testing.T
	temporal  *temporalServer
	namespace string
	dir       string
	backend   *fakeServers
	slow      chan struct{} // the slow tools wait until it is closed
	release   func()        // closes it

	gateways, workers [2]*process

	mu     sync.Mutex
	writes *os.File
}

// newReplicas starts them in a namespace of their own; flags go to the gateways.
func newReplicas(t *testing.T, temporal *temporalServer, namespace string, flags ...string) *replicas {
	t.Helper()
	r := prepareReplicas(t, temporal, namespace, flags...)
	r.launch()
	return r
}

// launch starts them all at once.
func (r *replicas) launch() {
	r.t.Helper()
	for _, p := range slices.Concat(r.gateways[:], r.workers[:]) {
		p.launch()
	}
	for _, p := range slices.Concat(r.gateways[:], r.workers[:]) {
		p.awaitReady()
	}
}

// prepareReplicas prepares everything and starts no process.
func prepareReplicas(t *testing.T, temporal *temporalServer, namespace string, flags ...string) *replicas {
	t.Helper()
	r := prepareBackend(t)
	r.temporal, r.namespace = temporal, namespace
	// The gateways are in the middle of a change of keys: one signs with the
	// new one already, the other does not yet.
	older, newer := strings.Repeat("0123456789abcdef", 4)+"\n", strings.Repeat("fedcba9876543210", 4)+"\n"
	putFile(t, filepath.Join(r.dir, "key0"), newer+older)
	putFile(t, filepath.Join(r.dir, "key1"), older+newer)
	for i := range 2 {
		r.gateways[i] = r.process("gateway", "--listen", append(flags, "--key-file", fmt.Sprintf("key%d", i))...)
		r.workers[i] = r.process("worker", "--health-listen", "--key-file", fmt.Sprintf("key%d", i))
	}
	return r
}

// prepareBackend has the backend serve, and writes the configuration.
func prepareBackend(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{t: t, dir: t.TempDir(), slow: make(chan struct{})}
	r.release = sync.OnceFunc(func() { close(r.slow) })
	t.Cleanup(r.release)
	var err error
	if r.writes, err = os.OpenFile(filepath.Join(r.dir, "writes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.writes.Close() })
	r.backend = serveFakes(t, map[string]fakeTool{
		"be_read": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{"read": arguments["key"]}), nil
		},
		"be_slow_read": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{"read": arguments["key"]}), r.wait(ctx)
		},
		"be_slow_write": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			_, err := r.write(ctx, map[string]any{"text": arguments["key"]})
			if err == nil {
				err = r.wait(ctx)
			}
			return structured(map[string]any{}), err
		},
		"be_write": r.write,
	})
	approvers := filepath.Join(r.dir, "approvers.yaml")
	perduretest.NoError(t, os.WriteFile(approvers, []byte(clients.ApproverFile), 0o600))
	putFile(t, filepath.Join(r.dir, "perdure.yaml"), clients.ApproverSettings(approvers)+
		r.backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+replicaDefinitions)
	return r
}

// process is one of the replicas; listen is the flag with its address.
func (r *replicas) process(command, listen string, flags ...string) *process {
	r.t.Helper()
	address, err := pgtest.FreeAddress()
	if err != nil {
		r.t.Fatal(err)
	}
	args := append([]string{command, "--config", "perdure.yaml", listen, address,
		"--address", r.temporal.address, "--namespace", r.namespace, "--create-namespace", "--grace", "5s"}, flags...)
	return &process{t: r.t, dir: r.dir, address: address, args: args, env: slices.Clone(r.temporal.env)}
}

// balancer is a proxy before the gateways.
func (r *replicas) balancer(t *testing.T) *balancer {
	return newBalancer(t, r.gateways[0].address, r.gateways[1].address)
}

func (r *replicas) wait(ctx context.Context) error {
	select {
	case <-r.slow:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *replicas) write(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	text := fmt.Sprint(arguments["text"])
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := fmt.Fprintln(r.writes, text); err != nil {
		return nil, err
	}
	return structured(map[string]any{"written": text}), r.writes.Sync()
}

// wrote fails the test unless exactly these texts were written for a key, each
// once.
func (r *replicas) wrote(t *testing.T, key string, want ...string) {
	t.Helper()
	all := perduretest.Read(t, r.writes.Name())
	var got []string
	for line := range strings.Lines(string(all)) {
		if line = strings.TrimSpace(line); line == key || strings.HasPrefix(line, key+":") || strings.HasPrefix(line, key+"-") {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("written for %s is %q, want %q", key, got, want)
	}
}

// completed checks the result of a call of a tool whose gates were answered
// with the verdict ok, and what it wrote.
func (r *replicas) completed(t *testing.T, tool, key, result string) {
	t.Helper()
	want := []string{key + ":ok"}
	switch tool {
	case "pair":
		want = []string{key + ":okok"}
	case "stages":
		want = append(want, key+"-between:ok")
	}
	sameJSON(t, "the result of "+tool, result, asJSON(t, map[string]any{"written": want[0]}))
	r.wrote(t, key, want...)
}

// perdure runs a command about the runs.
func (r *replicas) perdure(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := r.command(t, args...).Output()
	return string(out), err
}

// command is a command about the runs, with the key of the installation.
func (r *replicas) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, r.dir, append(args, "--address", r.temporal.address, "--namespace", r.namespace)...)
	cmd.Env = append(cmd.Env, r.temporal.env...)
	if key, err := os.ReadFile(filepath.Join(r.dir, "key0")); err == nil {
		cmd.Env = append(cmd.Env, keyVar+"="+string(key))
	}
	return cmd
}

// gates waits until the only run whose questions name a key waits with so many
// of them, and gives its ID.
func (r *replicas) gates(t *testing.T, key string, n int) string {
	t.Helper()
	var id string
	until(t, "gates of "+key, func() bool {
		out, err := r.perdure(t, "runs", "list", "--waiting", "-o", "json")
		var list []struct {
			ID           string
			Elicitations []struct{ Message, State string }
		}
		if err != nil || json.Unmarshal([]byte(out), &list) != nil {
			return false
		}
		for _, run := range list {
			open := 0
			for _, e := range run.Elicitations {
				if e.State == "open" && strings.Contains(e.Message, " "+key+"?") {
					open++
				}
			}
			if open == n {
				id = run.ID
				return true
			}
		}
		return false
	})
	return id
}

// answer answers a gate by command.
func (r *replicas) answer(t *testing.T, id, step string) {
	t.Helper()
	until(t, "the answer to be taken", func() bool {
		_, err := r.perdure(t, "runs", "answer", id, "--step", step, "--accept", "--content", `{"verdict": "ok"}`)
		return err == nil
	})
}

var approves = says("accept", map[string]any{"verdict": "ok"})

func keyed(tool, key string) toolCall {
	return toolCall{name: tool, arguments: map[string]any{"key": key}}
}

// TestReplicas has clients of every kind go through gates, each request at
// another replica than the one before.
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "replicas")
	t.Run("on the approvals page", func(t *testing.T) {
		t.Parallel()
		r.onThePage(t)
	})
	for tool, gates := range gateTools {
		t.Run("asked on the stream/"+tool, func(t *testing.T) {
			t.Parallel()
			b := r.balancer(t)
			key := "stream-" + tool
			r.completed(t, tool, key, keyed(tool, key).must(t, dial(t, b.url(), legacy, approves)))
			b.spread(t, "POST tools/call", "POST response")
		})
		t.Run("input required/"+tool, func(t *testing.T) {
			t.Parallel()
			b := r.balancer(t)
			key := "modern-" + tool
			r.completed(t, tool, key, keyed(tool, key).must(t, dial(t, b.url(), modern, approves)))
			b.spread(t, "POST tools/call")
		})
		t.Run("task of 2025-11-25/"+tool, func(t *testing.T) {
			t.Parallel()
			r.sessionTask(t, tool)
		})
		t.Run("task of the extension/"+tool, func(t *testing.T) {
			t.Parallel()
			r.modernTask(t, tool)
		})
		for _, version := range []string{"2024-11-05", "2025-06-18", legacy, modern} {
			t.Run("not asked/"+version+"/"+tool, func(t *testing.T) {
				t.Parallel()
				r.notAsked(t, version, tool, gates)
			})
		}
	}
}

// notAsked is a call of a client that cannot be asked: it gets a handle, and its
// model waits for the run until somebody else has answered.
func (r *replicas) notAsked(t *testing.T, version, tool string, gates int) {
	b := r.balancer(t)
	c := dial(t, b.url(), version, nil)
	key := "muted-" + version + "-" + tool
	result := perduretest.Must(keyed(tool, key).by(t.Context(), c))(t)
	id := r.handle(t, result)
	open := 1
	if tool == "pair" {
		open = 2
	}
	if got := r.gates(t, key, open); got != id {
		t.Errorf("the handle is on %s, the gates are of %s", id, got)
	}
	switch tool {
	case "review":
		r.answer(t, id, "approval")
	case "stages":
		r.answer(t, id, "first")
		r.answer(t, id, "second")
	case "pair":
		r.answer(t, id, "left")
		r.answer(t, id, "right")
	}
	r.completed(t, tool, key, toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, c))
	b.spread(t, "POST tools/call")
}

// handle is the ID of the run on which a result is a handle.
func (r *replicas) handle(t *testing.T, result *mcp.CallToolResult) string {
	t.Helper()
	var text string
	if len(result.Content) > 0 {
		if content, ok := result.Content[0].(mcp.TextContent); ok {
			text = content.Text
		}
	}
	_, after, ok := strings.Cut(text, "goes on")
	_, id, named := strings.Cut(text, "error: run ")
	id, _, _ = strings.Cut(id, " ")
	if !ok || !named || !strings.Contains(after, awaitTool) {
		t.Fatalf("no handle: %s", asJSON(t, result))
	}
	return id
}

// sessionTask makes a call a task of 2025-11-25, polls it and takes questions
// and result from the stream of tasks/result.
func (r *replicas) sessionTask(t *testing.T, tool string) {
	b := r.balancer(t)
	c := newResumer(t, b.url(), approves)
	key := "task-" + tool
	var created struct{ Task struct{ TaskID string } }
	c.must(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"key":%q},"task":{}}`, tool, key), &created)
	named := fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID)
	until(t, "the task to require input", func() bool {
		var task struct{ Status string }
		c.must(t, "tasks/get", named, &task)
		return task.Status == "input_required"
	})
	raw := c.must(t, "tasks/result", named, nil)
	r.completed(t, tool, key, structuredContent(raw))
	b.spread(t, "POST tools/call", "POST tasks/get")
	b.spread(t, "POST tasks/result", "POST response")
}

// modernTask calls as a client of 2026-07-28 that takes tasks, and polls.
func (r *replicas) modernTask(t *testing.T, tool string) {
	b := r.balancer(t)
	key := "extension-" + tool
	type message struct {
		ResultType, TaskID, Status string
		InputRequests              map[string]json.RawMessage
		Result                     json.RawMessage
	}
	id := 0
	c := clients.Sessionless{URL: b.url(), Capabilities: `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	send := func(method, name, params string) (result message) {
		id++
		raw, err := c.Request(t.Context(), id, method, name, params)
		if err == nil {
			err = json.Unmarshal(raw, &result)
		}
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		return result
	}
	created := send("tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{"key":%q}`, tool, key))
	if created.ResultType != "task" {
		t.Fatalf("no task: %+v", created)
	}
	named := fmt.Sprintf(`"taskId":%q`, created.TaskID)
	var result json.RawMessage
	until(t, "the task to complete", func() bool {
		task := send("tasks/get", created.TaskID, named)
		answers := map[string]any{}
		for gate := range task.InputRequests {
			answers[gate] = map[string]any{"action": "accept", "content": map[string]any{"verdict": "ok"}}
		}
		if len(answers) > 0 {
			send("tasks/update", created.TaskID, named+`,"inputResponses":`+asJSON(t, answers))
		}
		result = task.Result
		return task.Status == "completed"
	})
	r.completed(t, tool, key, structuredContent(result))
	b.spread(t, "POST tools/call", "POST tasks/get", "POST tasks/update")
}

// onThePage answers with a browser that gets the form from one gateway and
// sends it to the other.
func (r *replicas) onThePage(t *testing.T) {
	b := r.balancer(t)
	c := dial(t, b.url(), legacy, nil)
	result := perduretest.Must(keyed("review", "page").by(t.Context(), c))(t)
	id := r.handle(t, result)
	if link := "/approvals/" + id; !strings.Contains(asJSON(t, result), link) {
		t.Errorf("the handle has no link %s: %s", link, asJSON(t, result))
	}
	approver := perduretest.Must(clients.SignInByToken(t.Context(), b.web.URL, clients.ApproverToken))(t)
	if err := approver.Answer(t.Context(), b.web.URL+"/approvals/"+id, "", "accept", map[string]string{"verdict": "ok"}); err != nil {
		t.Fatal(err)
	}
	r.completed(t, "review", "page", toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, c))
	if from, to := b.where("GET "), b.where("POST ?"); len(from) == 0 || len(to) == 0 || from[0] == to[0] {
		t.Errorf("the form came from %v and went to %v", from, to)
	}
}

// TestReplicaKilled kills gateways with kill -9 while clients wait, and workers
// in mid-step.
func TestReplicaKilled(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "killed", "--call-patience", "0s")
	r.gatewayKilled(t)
	r.workerKilled(t)
}

func (r *replicas) gatewayKilled(t *testing.T) {
	b := r.balancer(t)
	// A client of today that resumes its stream and answers only after that.
	back := make(chan struct{})
	hesitant := func(asked chan struct{}) answerer {
		return func(ctx context.Context, _ string) (string, any, error) {
			asked <- struct{}{}
			<-back
			return "accept", map[string]any{"verdict": "ok"}, nil
		}
	}
	askedOnStream, askedModern := make(chan struct{}, 9), make(chan struct{}, 9)
	resuming := newResumer(t, b.url(), hesitant(askedOnStream))
	resumed := r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := resuming.call(ctx, 7, "stages", `{"key":"resumed"}`)
		return structuredContent(raw), err
	})
	receive(t, askedOnStream, "the question on the stream")
	streamedBy := last(b.where("POST tools/call"))

	// A sessionless one that has the question already.
	patient := begin(t, dial(t, b.url(), modern, hesitant(askedModern)), keyed("pair", "patient"))
	receive(t, askedModern, "the question")

	// One that cannot be asked and has named its call.
	named := toolCall{name: "review", arguments: map[string]any{"key": "named"}, key: "named"}
	broken := begin(t, dial(t, "http://"+streamedBy+endpoint, legacy, nil), named)
	id := r.gates(t, "named", 1)

	g := r.gateway(streamedBy)
	g.kill()
	receive(t, broken.err, "the call that broke")
	close(back)

	r.completed(t, "stages", "resumed", receive(t, resumed, "the result of the resumed stream"))
	if resuming.Resumed == 0 {
		t.Error("the stream was not resumed")
	}
	r.completed(t, "pair", "patient", sent(t, receive(t, patient.result, "the result of the sessionless client")))
	r.answer(t, id, "approval")
	r.completed(t, "review", "named", named.must(t, dial(t, b.url(), legacy, nil)))
	g.start()
}

// workerKilled kills the only worker while it calls tools; another one goes on.
func (r *replicas) workerKilled(t *testing.T) {
	r.workers[1].stop(syscall.SIGTERM, time.Minute)
	b := r.balancer(t)
	read := begin(t, dial(t, b.url(), legacy, nil), keyed("slow_read", "slow"))
	unsure := begin(t, dial(t, b.url(), legacy, nil), keyed("slow_write", "unsure"))
	until(t, "the slow read to be called as an activity", func() bool { return r.backend.count("be_slow_read", "slow") >= 2 })
	until(t, "the slow write to be called", func() bool { return r.backend.count("be_slow_write", "unsure") == 1 })
	r.workers[0].kill()
	r.release()
	r.workers[1].start()

	sameJSON(t, "the result", sent(t, receive(t, read.result, "the result of the read")), `{"written": "slow:fine"}`)
	r.wrote(t, "slow", "slow:fine")
	result := receive(t, unsure.result, "the result of the write")
	if text := asJSON(t, result.Content); !result.IsError || !strings.Contains(asJSON(t, result), "outcome_unknown") {
		t.Errorf("a write that a dead worker has begun ends with %s", text)
	}
	r.wrote(t, "unsure", "unsure")
	r.workers[0].start()
}

// TestTemporalRestarted kills Temporal while runs wait, and starts it again.
func TestTemporalRestarted(t *testing.T) {
	t.Parallel()
	temporal := newTemporal(t)
	r := newReplicas(t, temporal, "restarted", "--call-patience", "0s")
	b := r.balancer(t)
	back := make(chan struct{})
	asked := make(chan struct{}, 9)
	waits := answerer(func(context.Context, string) (string, any, error) {
		asked <- struct{}{}
		<-back
		return "accept", map[string]any{"verdict": "ok"}, nil
	})
	stream := newResumer(t, b.url(), waits)
	streamed := r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := stream.call(ctx, 1, "stages", `{"key":"streamed"}`)
		return structuredContent(raw), err
	})
	sessionless := begin(t, dial(t, b.url(), modern, waits), keyed("review", "sessionless"))
	muted := begin(t, dial(t, b.url(), legacy, nil), keyed("review", "muted"))
	for range 2 {
		receive(t, asked, "the question")
	}
	r.gates(t, "muted", 1)

	temporal.kill()
	until(t, "the gateways to be unready", func() bool { return !ready(r.gateways[0].address) && !ready(r.gateways[1].address) })
	result, err := keyed("review", "early").by(t.Context(), dial(t, b.url(), modern, approves))
	if err != nil || !result.IsError || !strings.Contains(asJSON(t, result.Content), "Calling again may help") {
		t.Errorf("a call without Temporal: %v, %s", err, asJSON(t, result))
	}
	temporal.start()
	for _, p := range slices.Concat(r.gateways[:], r.workers[:]) {
		p.awaitReady()
	}
	close(back)
	r.completed(t, "stages", "streamed", receive(t, streamed, "the result on the stream"))
	r.completed(t, "review", "sessionless", sent(t, receive(t, sessionless.result, "the result of the sessionless client")))
	r.answer(t, r.gates(t, "muted", 1), "approval")
	r.completed(t, "review", "muted", sent(t, receive(t, muted.result, "the result of the client that cannot be asked")))
	r.wrote(t, "early")

	// A tool is at work when Temporal goes away, and ends before it is back.
	// The result may come too late to be believed, but nothing is done twice.
	unsure := begin(t, dial(t, b.url(), legacy, nil), keyed("slow_write", "unsure"))
	until(t, "the slow write to be called", func() bool { return r.backend.count("be_slow_write", "unsure") == 1 })
	temporal.kill()
	r.release()
	temporal.start()
	if result = receive(t, unsure.result, "the result of the write"); result.IsError && !strings.Contains(asJSON(t, result), "outcome_unknown") {
		t.Errorf("the write ends with %s", asJSON(t, result))
	}
	r.wrote(t, "unsure", "unsure")
}

// TestRollingRestart ends each gateway with SIGTERM, one after the other, under
// clients of every kind that are in a call.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "rolling", "--call-patience", "0s")
	b := r.balancer(t)
	back := make(chan struct{})
	asked := make(chan struct{}, 9)
	waits := answerer(func(context.Context, string) (string, any, error) {
		asked <- struct{}{}
		<-back
		return "accept", map[string]any{"verdict": "ok"}, nil
	})
	calls := map[string]<-chan string{}
	for _, tool := range []string{"stages", "pair"} {
		c := newResumer(t, b.url(), waits)
		calls[tool] = r.inBackground(func(ctx context.Context) (string, error) {
			raw, err := c.call(ctx, 1, tool, fmt.Sprintf(`{"key":%q}`, "rolling-"+tool))
			return structuredContent(raw), err
		})
	}
	task := newResumer(t, b.url(), waits)
	var created struct{ Task struct{ TaskID string } }
	task.must(t, "tools/call", `{"name":"review","arguments":{"key":"rolling-review"},"task":{}}`, &created)
	calls["review"] = r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := task.Request(ctx, 100, "tasks/result", fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID))
		return structuredContent(raw), err
	})
	sessionless := begin(t, dial(t, b.url(), modern, waits), keyed("review", "sessionless"))
	muted := map[string]*client.Client{}
	handles := map[string]pending{}
	for _, version := range []string{"2024-11-05", "2025-06-18", modern} {
		muted[version] = dial(t, b.url(), version, nil)
		handles[version] = begin(t, muted[version], keyed("review", "muted-"+version))
	}
	// One that is asked, but cannot come back to its stream.
	silenced := make(chan string, 1)
	muted["asked"] = dial(t, b.url(), "2025-06-18", silent(silenced))
	handles["asked"] = begin(t, muted["asked"], keyed("review", "muted-asked"))
	receive(t, silenced, "the question")
	// One that is not asked, but comes back.
	unasked := newResumer(t, b.url(), nil)
	calls["unasked"] = r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := unasked.call(ctx, 1, "review", `{"key":"rolling-unasked"}`)
		return structuredContent(raw), err
	})
	direct := begin(t, dial(t, b.url(), "2025-06-18", nil), toolCall{name: "be_slow_read", arguments: map[string]any{"key": "direct"}})
	for range 5 { // pair asks two
		receive(t, asked, "the question")
	}
	for version := range muted {
		r.gates(t, "muted-"+version, 1)
	}
	until(t, "the direct call to reach the backend", func() bool { return r.backend.count("be_slow_read", "direct") == 1 })
	time.AfterFunc(time.Second, r.release) // while the gateways drain

	for _, g := range r.gateways {
		g.stop(syscall.SIGTERM, time.Minute)
		g.start()
	}
	sameJSON(t, "the result of the direct call", sent(t, receive(t, direct.result, "the result of the direct call")), `{"read": "direct"}`)
	close(back)
	r.answer(t, r.gates(t, "rolling-unasked", 1), "approval")
	for name, result := range calls {
		tool := name
		if name == "unasked" {
			tool = "review"
		}
		r.completed(t, tool, "rolling-"+name, receive(t, result, "the result of "+name))
	}
	r.completed(t, "review", "sessionless", sent(t, receive(t, sessionless.result, "the result of the sessionless client")))
	for version, call := range handles {
		id := r.handle(t, receive(t, call.result, "the handle of "+version))
		r.answer(t, id, "approval")
		r.completed(t, "review", "muted-"+version, toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, muted[version]))
	}
}

// TestServe restarts two processes that are gateway and worker at once, one
// after the other, under a client at a gate and a call of a tool.
func TestServe(t *testing.T) {
	t.Parallel()
	r := prepareReplicas(t, newTemporal(t), "serve")
	for i := range 2 {
		r.gateways[i] = r.process("serve", "--listen", "--key-file", "key0", "--call-patience", "0s")
		r.gateways[i].start()
	}
	b := r.balancer(t)
	back, asked := make(chan struct{}), make(chan struct{}, 9)
	c := newResumer(t, b.url(), func(context.Context, string) (string, any, error) {
		asked <- struct{}{}
		<-back
		return "accept", map[string]any{"verdict": "ok"}, nil
	})
	gated := r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := c.call(ctx, 1, "stages", `{"key":"served"}`)
		return structuredContent(raw), err
	})
	receive(t, asked, "the question")
	writes := newResumer(t, b.url(), nil)
	written := r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := writes.call(ctx, 1, "slow_write", `{"key":"written"}`)
		return structuredContent(raw), err
	})
	until(t, "the write to be called", func() bool { return r.backend.count("be_slow_write", "written") == 1 })
	time.AfterFunc(time.Second, r.release) // while its process drains
	for _, p := range r.gateways {
		p.stop(syscall.SIGTERM, time.Minute)
		p.start()
	}
	close(back)
	r.completed(t, "stages", "served", receive(t, gated, "the result at the gate"))
	sameJSON(t, "the result of the write", receive(t, written, "the result of the write"), `{}`)
	r.wrote(t, "written", "written")
}

// TestWorkersDrain ends each worker with SIGTERM while it calls a tool: the
// call gets the time that it takes, and its result counts.
func TestWorkersDrain(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "draining", "--call-patience", "0s")
	c := dial(t, r.balancer(t).url(), modern, nil)
	write := begin(t, c, keyed("slow_write", "drained"))
	read := begin(t, c, keyed("slow_read", "drained"))
	until(t, "the slow tools to be called", func() bool {
		return r.backend.count("be_slow_write", "drained") == 1 && r.backend.count("be_slow_read", "drained") >= 1
	})
	for _, w := range r.workers {
		perduretest.NoError(t, w.serving.Signal(syscall.SIGTERM))
	}
	until(t, "the workers to stop", func() bool {
		return strings.Contains(r.workers[0].output.String(), "msg=stopping") && strings.Contains(r.workers[1].output.String(), "msg=stopping")
	})
	r.release()
	for _, w := range r.workers {
		receive(t, w.ended, "the end of a worker")
		w.start()
	}
	sameJSON(t, "the result of the write", sent(t, receive(t, write.result, "the result of the write")), `{}`)
	sameJSON(t, "the result of the read", sent(t, receive(t, read.result, "the result of the read")), `{"written": "drained:fine"}`)
	r.wrote(t, "drained", "drained", "drained:fine")
	if n := r.backend.count("be_slow_write", "drained"); n != 1 {
		t.Errorf("the unsafe tool was called %d times", n)
	}
}

// inBackground runs a call; its result comes on the channel, and an error fails
// the test.
func (r *replicas) inBackground(call func(context.Context) (string, error)) <-chan string {
	result := make(chan string, 1)
	go func() {
		text, err := call(r.t.Context())
		if err != nil && r.t.Context().Err() == nil {
			r.t.Error(err)
		}
		result <- text
	}()
	return result
}

func structuredContent(result json.RawMessage) string {
	var r struct{ StructuredContent json.RawMessage }
	if json.Unmarshal(result, &r) != nil || len(r.StructuredContent) == 0 {
		return string(result)
	}
	return string(r.StructuredContent)
}

func last[T any](list []T) T { return list[len(list)-1] }
