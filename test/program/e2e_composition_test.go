package program_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// composedDefinitions are a tool that clients call, and one that only it calls,
// with a read, a question and a write.
const composedDefinitions = `
compositeTools:
  - name: ship
    description: Reviews, and tells.
    timeout: 24h
    parameters: {key: string}
    steps:
      - {id: review, type: workflow, workflow: review, arguments: {key: "{{.params.key}}"}}
      - {id: tell, tool: be_write, arguments: {key: "{{.params.key}}-tell", text: "{{.steps.review.output.written}}"}, dependsOn: [review]}
    output:
      properties:
        told: {type: string, description: What was told, value: "{{.steps.tell.output.written}}"}
  - name: review
    version: 1.2.0
    description: Reads, asks, writes.
    expose: {hidden: true, callers: [ship]}
    timeout: 24h
    parameters: {key: string}
    steps:
      - {id: look, tool: be_read, arguments: {key: "{{.params.key}}"}}
      - id: ok
        type: elicitation
        message: Write {{.params.key}}?
        timeout: 24h
        schema: {type: object, properties: {verdict: {type: string}}, required: [verdict]}
        dependsOn: [look]
      - {id: write, tool: be_write, arguments: {key: "{{.params.key}}-review", text: "{{.steps.ok.content.verdict}}"}, dependsOn: [ok]}
`

func shipCall(key string) toolCall {
	return toolCall{name: "ship", arguments: map[string]any{"key": key}, key: "call-" + key}
}

// TestComposition calls a tool that calls another, in each era, kills the program
// while that one waits for a person, and sees each effect once.
func TestComposition(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	backend := serveFakes(t, map[string]fakeTool{
		"be_read": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{"read": arguments["key"]}), nil
		},
		"be_write": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			if broken.Load() {
				return mcp.NewToolResultError("the disk is full"), nil
			}
			return structured(map[string]any{"written": arguments["text"]}), nil
		},
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+composedDefinitions)
	w := startSealedDev(t, dir, "--config", "perdure.yaml")
	once := func(t *testing.T, key string) {
		t.Helper()
		for _, call := range []struct{ tool, key string }{{"be_read", key}, {"be_write", key + "-review"}, {"be_write", key + "-tell"}} {
			if n := backend.count(call.tool, `"key":"`+call.key+`"`); n != 1 {
				t.Errorf("%s was executed %d times for %s", call.tool, n, call.key)
			}
		}
	}
	fine := says("accept", map[string]any{"verdict": "fine"})
	for _, version := range []string{legacy, modern} {
		sameJSON(t, "the result in "+version, shipCall(version).must(t, w.dial(t, version, fine)), `{"told": "fine"}`)
		once(t, version)
	}

	// A sessionless client whose person takes so long that the server has died and
	// come back in between, and one that dies with it.
	back, asked := make(chan struct{}), make(chan string, 1)
	asked2 := make(chan struct{}, 2)
	patient := begin(t, w.dial(t, modern, answerer(func(context.Context, string) (string, any, error) {
		asked2 <- struct{}{}
		<-back
		return "accept", map[string]any{"verdict": "late"}, nil
	})), shipCall("patient"))
	receive(t, asked2, "the question")
	begin(t, w.dial(t, legacy, silent(asked)), shipCall("gone"))
	receive(t, asked, "the question")
	w.kill()
	w.start()

	t.Run("answered by the patient client", func(t *testing.T) {
		close(back)
		select {
		case result := <-patient.result:
			sameJSON(t, "the result", sent(t, result), `{"told": "late"}`)
		case err := <-patient.err:
			t.Fatal(err)
		}
		once(t, "patient")
		if len(asked2) > 0 {
			t.Error("the person was asked twice")
		}
	})
	t.Run("answered with the command", func(t *testing.T) {
		id := w.onlyWaiting(t)
		if shown := w.run(t, "runs", "show", id); !strings.Contains(shown, "review/ok") {
			t.Errorf("the run is shown as\n%s", shown)
		}
		called := regexp.MustCompile(`(?m)^ +run (review/\S+)  1\.2\.0$`).FindStringSubmatch(w.run(t, "runs", "show", id))
		if called == nil {
			t.Fatalf("the run that it has called is not shown:\n%s", w.run(t, "runs", "show", id))
		}
		if shown := w.run(t, "runs", "show", called[1]); !strings.Contains(shown, "  called by  step review of "+id+"\n") {
			t.Errorf("the run that was called is shown as\n%s", shown)
		}
		if without, with := w.run(t, "runs", "list"), w.run(t, "runs", "list", "--called"); strings.Contains(without, called[1]) || !strings.Contains(with, called[1]) || !strings.Contains(with, id) {
			t.Errorf("listed are\n%sand with those that were called\n%s", without, with)
		}
		w.run(t, "runs", "answer", id, "--accept", "--content", `{"verdict": "ordered"}`)
		if _, _, err := w.try(t, "runs", "answer", id, "--accept", "--content", `{"verdict": "again"}`); err == nil {
			t.Error("a second answer is taken")
		}
		var out string
		until(t, "the result", func() bool {
			var err error
			out, _, err = w.try(t, "runs", "result", id)
			return err == nil
		})
		sameJSON(t, "the result", out, `{"told": "ordered"}`)
		sameJSON(t, "the result of the same call", shipCall("gone").must(t, w.dial(t, modern, nil)), `{"told": "ordered"}`)
		once(t, "gone")
	})
	t.Run("failed, told in each era, and resumed", func(t *testing.T) {
		broken.Store(true)
		for _, version := range []string{legacy, modern} {
			key := "broken-" + version
			result, err := shipCall(key).by(t.Context(), w.dial(t, version, fine))
			if err != nil || !result.IsError {
				t.Fatalf("%s: %+v, %v", version, result, err)
			}
			meta := perduretest.Must(json.Marshal(result.Meta))(t)
			for _, part := range []string{`"code":"tool_error"`, `"category":"tool"`, `the disk is full`, `"step_id":"review"`, `"stepPath":"review/write"`, `"retryable":true`,
				`"perdure/partial":{"review/look":{"read":"` + key + `"},"review/ok":`} {
				if !strings.Contains(string(meta), part) {
					t.Errorf("%s: %s is not in %s", version, part, meta)
				}
			}
		}
		broken.Store(false)
		for _, run := range w.runs(t, "ship") {
			if run.Status == "failed" {
				w.run(t, "runs", "resume", run.ID)
			}
		}
		for _, version := range []string{legacy, modern} {
			key := "broken-" + version
			sameJSON(t, "the result in "+version, shipCall(key).must(t, w.dial(t, version, nil)), `{"told": "fine"}`)
			if reads, writes := backend.count("be_read", `"key":"`+key+`"`), backend.count("be_write", key+"-review"); reads != 1 || writes != 2 {
				t.Errorf("%s: read %d times, written %d times; the one that failed was the first", key, reads, writes)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		asked := make(chan string, 1)
		begin(t, w.dial(t, legacy, silent(asked)), shipCall("cancelled"))
		receive(t, asked, "the question")
		w.run(t, "runs", "cancel", w.onlyWaiting(t))
		until(t, "nothing to wait any more", func() bool { return strings.TrimSpace(w.run(t, "runs", "list", "--waiting", "-o", "json")) == "[]" })
		if n := backend.count("be_write", "cancelled"); n != 0 {
			t.Errorf("written %d times", n)
		}
	})
	t.Run("the tool that is called cannot be called by clients", func(t *testing.T) {
		if tools := w.run(t, "tools", "-o", "json"); strings.Contains(tools, `"review"`) || !strings.Contains(tools, `"ship"`) {
			t.Errorf("listed are %s", tools)
		}
		if result, err := (toolCall{name: "review", arguments: map[string]any{"key": "x"}}).by(t.Context(), w.dial(t, modern, fine)); err == nil {
			t.Errorf("it was called: %+v", result)
		}
	})
}

// onlyWaiting is the run that waits for a person, where it is the only one.
func (d *devProcess) onlyWaiting(t *testing.T) string {
	t.Helper()
	var list []struct{ ID string }
	until(t, "one run to wait", func() bool {
		list = nil
		return json.Unmarshal([]byte(d.run(t, "runs", "list", "--waiting", "-o", "json")), &list) == nil && len(list) == 1
	})
	return list[0].ID
}
