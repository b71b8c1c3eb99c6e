package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// killDefinitions are five reads, a question and a write, with a step in
// between that takes its time.
const killDefinitions = `
compositeTools:
  - name: review
    description: Five reads, a question, a write.
    timeout: 24h
    parameters: {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: info, tool: be_read, arguments: {key: "{{.params.key}}-info"}}
      - {id: commits, tool: be_read, arguments: {key: "{{.params.key}}-commits"}}
      - {id: diff, tool: be_read, arguments: {key: "{{.params.key}}-diff"}}
      - {id: files, tool: be_read, arguments: {key: "{{.params.key}}-files"}}
      - {id: people, tool: be_read, arguments: {key: "{{.params.key}}-people"}}
      - id: approval
        type: elicitation
        message: Write {{.params.key}}?
        timeout: 24h
        schema: {type: object, properties: {verdict: {type: string}}, required: [verdict]}
        dependsOn: [info, commits, diff, files, people]
      - id: write
        tool: be_write
        condition: '{{eq .steps.approval.output.action "accept"}}'
        arguments: {key: "{{.params.key}}", text: "{{.steps.info.output.read}}: {{.steps.approval.output.content.verdict}}"}
        dependsOn: [approval]
        defaultResults: {written: ""}
    output:
      properties:
        read: {type: string, description: What the last read read, value: "{{.steps.people.output.read}}"}
        written: {type: string, description: What was written, value: "{{.steps.write.output.written}}"}
  - name: slow_read
    description: Reads of which one is slow, and a write.
    parameters: {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: before, tool: be_read, arguments: {key: "{{.params.key}}-before"}}
      - {id: slow, tool: be_slow_read, arguments: {key: "{{.params.key}}"}, dependsOn: [before]}
      - {id: beside, tool: be_read, arguments: {key: "{{.params.key}}-beside"}, dependsOn: [before]}
      - {id: write, tool: be_write, arguments: {key: "{{.params.key}}", text: "{{.steps.slow.output.read}}"}, dependsOn: [slow, beside]}
  - name: slow_write
    description: A write that takes its time.
    parameters: {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: before, tool: be_read, arguments: {key: "{{.params.key}}-before"}}
      - id: write
        tool: be_slow_write
        arguments: {key: "{{.params.key}}"}
        dependsOn: [before]
        onError: {action: retry, retryCount: 3, retryDelay: 10ms}
`

// A killWorld is dev with a backend whose tools wait until they are let go.
type killWorld struct {
	*devProcess
	backend *fakeServers

	release func()        // lets the slow tools go
	slow    chan struct{} // closed by release

	mu     sync.Mutex
	writes []string // what the write tool has written
}

func newKillWorld(t *testing.T) *killWorld {
	w := &killWorld{slow: make(chan struct{})}
	w.release = sync.OnceFunc(func() { close(w.slow) })
	t.Cleanup(w.release)
	w.backend = serveFakes(t, map[string]fakeTool{
		"be_read": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{"read": arguments["key"]}), nil
		},
		"be_slow_read": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			if err := w.wait(ctx); err != nil {
				return nil, err
			}
			return structured(map[string]any{"read": arguments["key"]}), nil
		},
		"be_slow_write": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{}), w.wait(ctx)
		},
		"be_write": w.write,
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"),
		w.backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+killDefinitions)
	w.devProcess = startDev(t, dir, "--config", "perdure.yaml")
	return w
}

func (w *killWorld) wait(ctx context.Context) error {
	select {
	case <-w.slow:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *killWorld) write(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	text := fmt.Sprint(arguments["text"])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, text)
	return structured(map[string]any{"written": text}), nil
}

func (w *killWorld) written(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, have := range w.writes {
		if have == text {
			n++
		}
	}
	return n
}

// executed fails the test unless a tool was executed so often.
func (w *killWorld) executed(t *testing.T, tool, key string, want int) {
	t.Helper()
	if got := w.backend.count(tool, `"key":"`+key+`"`); got != want {
		t.Errorf("%s was executed %d times for %s, want %d", tool, got, key, want)
	}
}

// readOnce fails the test unless each of the five reads was executed once.
func (w *killWorld) readOnce(t *testing.T, key string) {
	t.Helper()
	for _, step := range []string{"info", "commits", "diff", "files", "people"} {
		w.executed(t, "be_read", key+"-"+step, 1)
	}
}

func structured(content map[string]any) *mcp.CallToolResult {
	return mcp.NewToolResultStructuredOnly(content)
}

// A pending is a call that has not come back.
type pending struct {
	result chan *mcp.CallToolResult
	err    chan error
}

func begin(t *testing.T, c *client.Client, call toolCall) pending {
	p := pending{make(chan *mcp.CallToolResult, 1), make(chan error, 1)}
	go func() {
		if result, err := call.by(t.Context(), c); err != nil {
			p.err <- err
		} else {
			p.result <- result
		}
	}()
	return p
}

func reviewCall(key string) toolCall {
	return toolCall{name: "review", arguments: map[string]any{"key": key}, key: "call-" + key}
}

// TestKill ends the program with kill -9 once while runs are at every place
// where they can be, and looks at what became of each.
func TestKill(t *testing.T) {
	t.Parallel()
	w := newKillWorld(t)

	// A client of today that is asked, does not answer and dies with the server.
	asked := make(chan string, 1)
	gone := begin(t, w.dial(t, legacy, silent(asked)), reviewCall("gone"))
	if question := receive(t, asked, "the question"); question != "Write gone?" {
		t.Errorf("asked %q", question)
	}

	// A sessionless client whose person takes so long that the server has died
	// and come back in between.
	back := make(chan struct{})
	asked2 := make(chan struct{}, 2)
	patient := begin(t, w.dial(t, modern, answerer(func(ctx context.Context, _ string) (string, any, error) {
		asked2 <- struct{}{}
		<-back
		return "accept", map[string]any{"verdict": "late"}, nil
	})), reviewCall("patient"))
	receive(t, asked2, "the question")

	// A client that cannot be asked and goes away.
	ctx, leave := context.WithCancel(t.Context())
	go func() { _, _ = reviewCall("left").by(ctx, w.dial(t, modern, nil)) }()

	// A read that is so slow that it has become an activity of its own, and a
	// write of unknown outcome.
	begin(t, w.dial(t, legacy, nil), toolCall{name: "slow_read", arguments: map[string]any{"key": "slow"}})
	begin(t, w.dial(t, legacy, nil), toolCall{name: "slow_write", arguments: map[string]any{"key": "unsure"}})
	until(t, "the slow read to be called as an activity", func() bool { return w.backend.count("be_slow_read", `"slow"`) >= 2 })
	until(t, "the slow write to be called", func() bool { return w.backend.count("be_slow_write", "unsure") == 1 })
	w.waiting(t, 3)
	leave()

	// And a read that has only just been called.
	begin(t, w.dial(t, legacy, nil), toolCall{name: "slow_read", arguments: map[string]any{"key": "quick"}})
	until(t, "the read to be called", func() bool { return w.backend.count("be_slow_read", "quick") == 1 })

	w.kill()
	select {
	case <-gone.err:
	case <-gone.result:
		t.Error("a call whose server was killed has a result")
	case <-time.After(patience):
		t.Error("a call whose server was killed still waits")
	}
	w.release()
	w.start()

	t.Run("answered with the command", func(t *testing.T) { w.answeredByCommand(t) })
	t.Run("answered by the patient client", func(t *testing.T) {
		close(back)
		select {
		case result := <-patient.result:
			sameJSON(t, "the result", sent(t, result), `{"read": "patient-people", "written": "patient-info: late"}`)
		case err := <-patient.err:
			t.Fatal(err)
		case <-time.After(patience):
			t.Fatal("no result")
		}
		if len(asked2) > 0 {
			t.Error("the person was asked twice")
		}
		w.readOnce(t, "patient")
		if n := w.written("patient-info: late"); n != 1 {
			t.Errorf("written %d times", n)
		}
	})
	t.Run("declined", func(t *testing.T) {
		id := w.find(t, "left")
		w.run(t, "runs", "answer", id, "--decline")
		until(t, "the run to fail", func() bool { _, _, err := w.try(t, "runs", "result", id); return err != nil })
		w.executed(t, "be_write", "left", 0)
		w.readOnce(t, "left")
	})
	t.Run("slow read", func(t *testing.T) { w.slowRead(t, "slow", 1) })
	// Reads of less than two seconds are in history together, once the last of
	// them is done: until then kill -9 may repeat reads, and nothing but reads.
	t.Run("read that was just called", func(t *testing.T) { w.slowRead(t, "quick", 2) })
	t.Run("unsafe write", func(t *testing.T) { w.outcomeUnknown(t) })
	t.Run("every run has ended", func(t *testing.T) {
		want := map[string]string{"review": "completed completed failed", "slow_read": "completed completed", "slow_write": "failed"}
		for tool, states := range want {
			until(t, "the runs of "+tool+" to be "+states, func() bool { return w.states(t, tool) == states })
		}
	})
}

// waiting waits until so many runs wait for an answer.
func (w *killWorld) waiting(t *testing.T, n int) {
	t.Helper()
	until(t, "gates to be open", func() bool { return len(w.open(t)) == n })
}

func (w *killWorld) open(t *testing.T) []json.RawMessage {
	t.Helper()
	var list []json.RawMessage
	perduretest.NoError(t, json.Unmarshal([]byte(w.run(t, "runs", "list", "--waiting", "-o", "json")), &list))
	return list
}

// find gives the ID of the run that asks "Write KEY?".
func (w *killWorld) find(t *testing.T, key string) string {
	t.Helper()
	for _, raw := range w.open(t) {
		var run struct{ ID string }
		if strings.Contains(string(raw), "Write "+key+"?") && json.Unmarshal(raw, &run) == nil {
			return run.ID
		}
	}
	t.Fatalf("no run waits for %s: %s", key, w.open(t))
	return ""
}

// answeredByCommand finds the run of the client that died, answers it, and gets
// its result by command and by a client that makes the same call again.
func (w *killWorld) answeredByCommand(t *testing.T) {
	id := w.find(t, "gone")
	w.readOnce(t, "gone")
	if out := w.run(t, "runs", "answer", id, "--accept", "--content", `{"verdict": "fine"}`); !strings.Contains(out, "approval: accept") {
		t.Errorf("the answer says %s", out)
	}
	const want = `{"read": "gone-people", "written": "gone-info: fine"}`
	var out string
	until(t, "the result", func() bool {
		var err error
		out, _, err = w.try(t, "runs", "result", id)
		return err == nil
	})
	sameJSON(t, "the result", out, want)
	for _, version := range []string{legacy, modern} {
		c := w.dial(t, version, nil)
		sameJSON(t, "the awaited result", toolCall{name: awaitTool, arguments: map[string]any{"runId": id}}.must(t, c), want)
		sameJSON(t, "the result of the same call", reviewCall("gone").must(t, c), want)
	}
	if _, _, err := w.try(t, "runs", "answer", id, "--accept", "--content", `{"verdict": "again"}`); err == nil {
		t.Error("a second answer is taken")
	}
	w.readOnce(t, "gone")
	w.executed(t, "be_write", "gone", 1)
	if n := w.written("gone-info: fine"); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// slowRead sees a run end whose read was interrupted: that one may be repeated,
// those beside and before it are executed so often at most.
func (w *killWorld) slowRead(t *testing.T, key string, reads int) {
	until(t, "the write", func() bool { return w.written(key) > 0 })
	for _, step := range []string{"before", "beside"} {
		if n := w.backend.count("be_read", key+"-"+step); n < 1 || n > reads {
			t.Errorf("%s was read %d times, want 1 to %d", step, n, reads)
		}
	}
	w.executed(t, "be_write", key, 1)
}

// states tells how the runs of a tool stand.
func (w *killWorld) states(t *testing.T, tool string) string {
	t.Helper()
	var states []string
	for _, run := range w.runs(t, tool) {
		states = append(states, run.Status)
	}
	slices.Sort(states)
	return strings.Join(states, " ")
}

// outcomeUnknown sees a run fail whose write may have happened.
func (w *killWorld) outcomeUnknown(t *testing.T) {
	id := w.onlyRun(t, "slow_write", "failed")
	var outcome struct {
		Failure struct {
			Error struct{ Category, StepID, Message string }
		}
	}
	out, _, _ := w.try(t, "runs", "result", id, "-o", "json")
	if err := json.Unmarshal([]byte(out), &outcome); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if e := outcome.Failure.Error; e.Category != "outcome_unknown" || e.StepID != "write" {
		t.Errorf("failed with %+v", e)
	}
	w.executed(t, "be_slow_write", "unsure", 1)
	w.executed(t, "be_read", "unsure-before", 1)
}

// TestKillPrepareReview is the story of the README: the definition that ships
// with the program, on a real repository, killed at its gate. A listener on the
// pipe to the backend counts what is really asked of it.
func TestKillPrepareReview(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	definition := perduretest.Must(filepath.Abs("../../definitions/library/prepare_review.yaml"))(t)
	putFile(t, filepath.Join(repository, ".perdure", "perdure.yaml"), `
backends:
  - name: repo
    transport: stdio
    command: sh
    args: [-c, "tee -a .perdure/requests.jsonl | perdure backend repo"]
    effects: [{tool: "write_*", class: unsafe}, {tool: "*", class: read}]
`)
	d := startDev(t, repository, "--config", ".perdure/perdure.yaml", "--definitions", definition)
	asked := make(chan string, 1)
	c := d.dial(t, legacy, silent(asked))
	go func() { _, _ = toolCall{name: "prepare_review"}.by(t.Context(), c) }()
	receive(t, asked, "the question")
	id := d.onlyRun(t, "prepare_review", "waiting")
	d.kill()
	if files, _ := filepath.Glob(filepath.Join(repository, ".perdure/reviews/*")); len(files) > 0 {
		t.Errorf("written before the answer: %v", files)
	}
	d.start()
	d.run(t, "runs", "answer", id, "--accept", "--content", `{"verdict": "approve", "note": "Good."}`)
	d.onlyRun(t, "prepare_review", "completed")
	var result struct {
		Decision, ReviewPath string
		ChangedFiles         []struct{ Path string }
	}
	perduretest.NoError(t, json.Unmarshal([]byte(d.run(t, "runs", "result", id)), &result))
	if result.Decision != "accept" || len(result.ChangedFiles) != 1 || result.ChangedFiles[0].Path != "docs/guide.md" {
		t.Errorf("the result is %+v", result)
	}
	review, err := os.ReadFile(filepath.Join(repository, result.ReviewPath))
	if err != nil || !strings.Contains(string(review), "Good.") {
		t.Errorf("the review: %v\n%s", err, review)
	}
	if files, _ := filepath.Glob(filepath.Join(repository, ".perdure/reviews/*")); len(files) != 1 {
		t.Errorf("reviews: %v", files)
	}
	requests := perduretest.Read(t, filepath.Join(repository, ".perdure/requests.jsonl"))
	for _, tool := range []string{"info", "log", "diff", "changed_files", "contributors", "write_review"} {
		if n := calls(requests, tool); n != 1 {
			t.Errorf("the backend was asked for %s %d times", tool, n)
		}
	}
}

// calls counts the tools/call of a tool among JSON-RPC messages.
func calls(messages []byte, tool string) int {
	n := 0
	for _, line := range strings.Split(string(messages), "\n") {
		var m struct {
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == "tools/call" && m.Params.Name == tool {
			n++
		}
	}
	return n
}
