package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology/clients"
)

// deepDefinitions ask two levels below what clients call: at once for two of
// these, in a form and on the page.
const deepDefinitions = `
compositeTools:
  - name: top
    description: Has two others ask.
    timeout: 24h
    parameters: {key: string}
    steps:
      - {id: left, type: workflow, workflow: middle, arguments: {key: "{{.params.key}}-left"}}
      - {id: right, type: workflow, workflow: middle, arguments: {key: "{{.params.key}}-right"}}
    output: {properties: {said: {type: string, description: What was said., value: "{{.steps.left.output.said}} {{.steps.right.output.said}}"}}}
  - name: paged
    description: Has another ask on the page.
    timeout: 24h
    parameters: {key: string}
    steps: [{id: below, type: workflow, workflow: middle, arguments: {key: "{{.params.key}}-below", ask: on_page}}]
    output: {properties: {said: {type: string, description: What was said., value: "{{.steps.below.output.said}}"}}}
  - name: middle
    description: Has another ask.
    expose: {hidden: true, callers: [top, paged]}
    timeout: 24h
    parameters: {key: string, ask: string = in_form}
    tools: [in_form, on_page]
    script: |
      return {"said": call_workflow(data["ask"], key=data["key"])["said"]}
    output: {properties: {said: {type: string, description: What was said.}}}
  - name: in_form
    description: Asks, and writes what is said.
    expose: {hidden: true, callers: [middle]}
    timeout: 24h
    parameters: {key: string}
    steps:
      - {id: ok, type: elicitation, message: "Write {{.params.key}}?", timeout: 24h, schema: &verdict {type: object, properties: {verdict: {type: string}}, required: [verdict]}}
      - {id: write, tool: be_write, arguments: {key: "{{.params.key}}", text: "{{.steps.ok.content.verdict}}"}, dependsOn: [ok]}
    output: &said {properties: {said: {type: string, description: What was said., value: "{{.steps.write.output.written}}"}}}
  - name: on_page
    description: Asks on the page, and writes what is said.
    expose: {hidden: true, callers: [middle]}
    timeout: 24h
    parameters: {key: string}
    steps:
      - {id: ok, type: elicitation, mode: url, message: "Write {{.params.key}}?", timeout: 24h, schema: *verdict}
      - {id: write, tool: be_write, arguments: {key: "{{.params.key}}", text: "{{.steps.ok.content.verdict}}"}, dependsOn: [ok]}
    output: *said
`

// A deepWorld is dev with these definitions.
type deepWorld struct {
	*devProcess
	backend *fakeServers
}

// TestCalledRunAsksInEachWay has runs ask that are called by runs that are called:
// whoever waits for the one at the top is asked, in each way that clients know.
func TestCalledRunAsksInEachWay(t *testing.T) {
	t.Parallel()
	backend := serveFakes(t, map[string]fakeTool{"be_write": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
		return structured(map[string]any{"written": arguments["text"]}), nil
	}})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), backend.configuration(`[{tool: "*", class: unsafe}]`)+deepDefinitions)
	w := deepWorld{startDev(t, dir, "--config", "perdure.yaml"), backend}
	for name, way := range map[string]struct {
		tool string
		call func(deepWorld, *testing.T, toolCall) (structured string)
	}{
		"form-in-a-session":       {"top", func(w deepWorld, t *testing.T, k toolCall) string { return k.must(t, w.dial(t, legacy, fineSaid)) }},
		"form-without-sessions":   {"top", func(w deepWorld, t *testing.T, k toolCall) string { return k.must(t, w.dial(t, modern, fineSaid)) }},
		"page-in-a-session":       {"paged", func(w deepWorld, t *testing.T, k toolCall) string { return k.must(t, w.dialOpening(t, legacy)) }},
		"page-without-sessions":   {"paged", func(w deepWorld, t *testing.T, k toolCall) string { return k.must(t, w.dialOpening(t, modern)) }},
		"task-in-a-session":       {"top", deepWorld.sessionTask},
		"task-without-sessions":   {"top", deepWorld.modernTask},
		"handle-and-page":         {"top", deepWorld.onPage},
		"handle-of-what-is-paged": {"paged", deepWorld.onPage},
		"handle-and-command":      {"top", deepWorld.byCommand},
		"call-at-the-terminal":    {"top", deepWorld.atTerminal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, below := "fine fine", []string{"-left", "-right"}
			if way.tool == "paged" {
				said, below = "fine", []string{"-below"}
			}
			got := way.call(w, t, toolCall{name: way.tool, arguments: map[string]any{"key": name}})
			sameJSON(t, "the result", got, `{"said": "`+said+`"}`)
			for _, one := range below {
				if n := backend.count("be_write", `"key":"`+name+one+`"`); n != 1 {
					t.Errorf("written %d times for %s", n, one)
				}
			}
		})
	}
}

var fineSaid = says("accept", map[string]any{"verdict": "fine"})

// An opener is the user of a client that opens pages, and answers there.
type opener struct {
	t        *testing.T
	approver *clients.Approver
	busy     *sync.WaitGroup // with pages: a run ends, and with it a test, before its page has answered
}

func (o opener) Elicit(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if r.Params.Mode != mcp.ElicitationModeURL || r.Params.URL == "" {
		o.t.Errorf("asked %+v", r.Params)
	}
	o.busy.Add(1)
	defer o.busy.Done()
	ctx = context.WithoutCancel(ctx) // the question is withdrawn while the page still answers
	if err := o.approver.Answer(ctx, r.Params.URL, "", "accept", map[string]string{"verdict": "fine"}); err != nil {
		o.t.Errorf("answering on the page: %v", err)
	}
	result := &mcp.ElicitationResult{}
	result.Action = mcp.ElicitationResponseActionAccept
	return result, nil
}

// dialOpening opens a client that opens pages.
func (w deepWorld) dialOpening(t *testing.T, version string) *client.Client {
	t.Helper()
	http, err := transport.NewStreamableHTTP(w.url(), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	var busy sync.WaitGroup
	t.Cleanup(busy.Wait)
	c := client.NewClient(http, client.WithElicitationHandler(opener{t, w.approver(t), &busy}), client.WithClientCapabilities(mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
	}))
	return initialize(t, c, version)
}

func (w deepWorld) sessionTask(t *testing.T, k toolCall) string {
	c := newResumer(t, w.url(), fineSaid)
	var created struct{ Task struct{ TaskID string } }
	c.must(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"task":{}}`, k.name, asJSON(t, k.arguments)), &created)
	named := fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID)
	until(t, "the task to require input", func() bool {
		var task struct{ Status string }
		c.must(t, "tasks/get", named, &task)
		return task.Status == "input_required"
	})
	return structuredContent(c.must(t, "tasks/result", named, nil))
}

func (w deepWorld) modernTask(t *testing.T, k toolCall) string {
	c := clients.Sessionless{URL: w.url(), Capabilities: `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	_, r := modernRequest(t, &c, 1, "tools/call", k.name, fmt.Sprintf(`"name":%q,"arguments":%s`, k.name, asJSON(t, k.arguments)))
	named := fmt.Sprintf(`"taskId":%q`, r.TaskID)
	until(t, "the task to complete", func() bool {
		_, r = modernRequest(t, &c, 2, "tasks/get", r.TaskID, named)
		answers := map[string]any{}
		for gate := range r.InputRequests {
			answers[gate] = map[string]any{"action": "accept", "content": map[string]any{"verdict": "fine"}}
		}
		if len(answers) > 0 {
			modernRequest(t, &c, 3, "tasks/update", r.TaskID, named+`,"inputResponses":`+asJSON(t, answers))
		}
		return r.Status == "completed"
	})
	return structuredContent(r.Result)
}

// handle calls as a client that cannot be asked, and gives the run and where its
// questions are answered.
func (w deepWorld) handle(t *testing.T, k toolCall) (id, page string) {
	t.Helper()
	raw := newResumer(t, w.url(), nil).must(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, k.name, asJSON(t, k.arguments)), nil)
	var result struct {
		Content []struct{ Text string }
		Meta    struct {
			Run struct{ ID, Status, ApprovalURL string } `json:"perdure/run"`
		} `json:"_meta"`
	}
	perduretest.NoError(t, json.Unmarshal(raw, &result))
	run := result.Meta.Run
	if run.Status != "waiting_for_approval" || run.ApprovalURL == "" || !strings.Contains(result.Content[0].Text, "Write "+fmt.Sprint(k.arguments["key"])) {
		t.Fatalf("no handle: %s", raw)
	}
	return run.ID, run.ApprovalURL
}

// questions are the open ones of a run, by the path of the step that asks.
func (w deepWorld) questions(t *testing.T, id string, want int) (paths []string) {
	t.Helper()
	until(t, "the questions of "+id, func() bool {
		var run struct {
			Elicitations []struct{ StepPath, State string }
		}
		perduretest.NoError(t, json.Unmarshal([]byte(w.run(t, "runs", "show", id, "-o", "json")), &run))
		paths = nil
		for _, e := range run.Elicitations {
			if e.State == "open" {
				paths = append(paths, e.StepPath)
			}
		}
		return len(paths) == want
	})
	return paths
}

// deepQuestions is how many questions a tool asks.
func deepQuestions(k toolCall) int { return map[string]int{"top": 2, "paged": 1}[k.name] }

func (w deepWorld) await(t *testing.T, id string) string {
	t.Helper()
	return toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, w.dial(t, modern, nil))
}

func (w deepWorld) onPage(t *testing.T, k toolCall) string {
	id, page := w.handle(t, k)
	for left := deepQuestions(k); left > 0; left-- {
		w.questions(t, id, left)
		if err := w.approver(t).Answer(t.Context(), page, "", "accept", map[string]string{"verdict": "fine"}); err != nil {
			t.Fatal(err)
		}
	}
	return w.await(t, id)
}

func (w deepWorld) byCommand(t *testing.T, k toolCall) string {
	id, _ := w.handle(t, k)
	for _, path := range w.questions(t, id, deepQuestions(k)) {
		if !strings.HasSuffix(path, "/script/main:1/ok") {
			t.Errorf("the question is asked at %s", path)
		}
		w.run(t, "runs", "answer", id, "--step", path, "--accept", "--content", `{"verdict": "fine"}`)
	}
	return w.await(t, id)
}

func (w deepWorld) atTerminal(t *testing.T, k toolCall) string {
	return w.run(t, "call", k.name, "--args", asJSON(t, k.arguments), "--answer", "accept", "--content", `{"verdict": "fine"}`)
}
