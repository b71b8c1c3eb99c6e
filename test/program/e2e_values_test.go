package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestLargeValues passes 50 MB from a tool through a run to its client, which is
// given a link and reads that, also after a restart, and to perdure runs result;
// and 20 MB to the step that comes next and into an output block.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	large := strings.Repeat("0123456789abcdef", size/16)
	fakes := serveFakes(t, map[string]fakeTool{"be_read": textAnswer(large), "be_some": textAnswer(large[:20<<20]), "be_two": textAnswer(large[:2<<20]), "be_small": structuredAnswer(`{"ok":true}`),
		"be_link": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent("said"), mcp.NewResourceLink(fmt.Sprint(arguments["what"]), "a", "b", "application/json")}}, nil
		}})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[]")+`compositeTools:
  - name: big
    description: Gives much.
    steps: [{id: read, tool: be_read}]
  - name: two
    description: Gives what is linked.
    steps: [{id: read, tool: be_two}]
  - name: passes
    description: Passes much on.
    steps:
      - {id: read, tool: be_some}
      - {id: next, tool: be_small, arguments: {what: "{{.steps.read.output.text}}"}, dependsOn: [read]}
    output: {properties: {text: {type: string, description: what it gave, value: "{{.steps.read.output.text}}"}}}
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--large-values", "--call-patience", "0s")
	c := d.dial(t, modern, nil)
	result, err := toolCall{name: "big"}.by(t.Context(), c)
	if err != nil || result.IsError || len(result.Content) != 2 {
		t.Fatalf("the call came to %v, %v", err, clipped(asJSON(t, result)))
	}
	link, ok := result.Content[1].(mcp.ResourceLink)
	if !ok || result.StructuredContent != nil {
		t.Fatalf("the client is given %s", clipped(asJSON(t, result)))
	}
	id := d.onlyRun(t, "big", "completed")
	if out := d.run(t, "runs", "result", id); !strings.Contains(out, large) {
		t.Errorf("the result of the run has %d bytes", len(out))
	}
	if out := d.run(t, "runs", "list", "--database", "postgres://nobody@127.0.0.1:1/none"); !strings.Contains(out, id) {
		t.Errorf("while the database of values is away, listed are\n%s", out)
	}
	if out := d.run(t, "call", "two"); !strings.Contains(out, large[:2<<20]) {
		t.Errorf("the command prints %s", clipped(out))
	}
	// What a backend links to is none of the runs of who calls it.
	if out := d.run(t, "call", "be_link", "--args", `{"what":"`+link.URI+`"}`); strings.Contains(out, large[:100]) || !strings.Contains(out, "said") {
		t.Errorf("of a link of a backend the command prints %s", clipped(out))
	}
	if out := d.run(t, "call", "passes"); !strings.Contains(out, large[:20<<20]) || fakes.count("be_small", large[:20<<20]) != 1 {
		t.Errorf("what was passed on came to %s", clipped(out))
	}
	if info, err := os.Stat(filepath.Join(dir, ".perdure", "temporal.db")); err != nil || info.Size() > size/2 {
		t.Errorf("Temporal keeps %d bytes, %v", info.Size(), err)
	}
	d.interrupt(patience)
	d.start()
	again := d.dial(t, modern, nil)
	var request mcp.ReadResourceRequest
	request.Params.URI = link.URI
	read := perduretest.Must(again.ReadResource(t.Context(), request))(t)
	var got struct{ Text string }
	contents, _ := read.Contents[0].(mcp.TextResourceContents)
	if err := json.Unmarshal([]byte(contents.Text), &got); err != nil || got.Text != large {
		t.Errorf("the resource has %d bytes, %v", len(contents.Text), err)
	}
	request.Params.URI = strings.Replace(link.URI, "big", "gib", 1)
	if _, err := again.ReadResource(t.Context(), request); err == nil || !strings.Contains(err.Error(), "result not found") {
		t.Errorf("the result of a run that there is not: %v", err)
	}
}

// TestLargeJournal gives a call 4 MB of arguments, and has its run fail after steps
// that came to 9 MB. It is resumed from what they have given, by a command and
// with everything sealed, and nothing that was large is lost or read again.
func TestLargeJournal(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("planted-", 3<<17) // 3 MB
	var mended atomic.Bool
	fakes := serveFakes(t, map[string]fakeTool{
		"be_read": textAnswer(large), "be_echo": structuredAnswer(`{"ok":true}`),
		"be_flaky": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
			if mended.Load() {
				return mcp.NewToolResultText("mended"), nil
			}
			return mcp.NewToolResultError("not today"), nil
		},
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "payload.keys"), "first:"+strings.Repeat("0a", 32)+"\n")
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[]")+`compositeTools:
  - name: heavy
    description: Holds much, and may fail.
    parameters: {type: object, properties: {text: {type: string}}, required: [text]}
    steps:
      - {id: one, tool: be_read}
      - {id: two, tool: be_read, dependsOn: [one]}
      - {id: called, type: workflow, workflow: below, dependsOn: [two]}
      - {id: flaky, tool: be_flaky, dependsOn: [called]}
      - {id: check, tool: be_echo, arguments: {what: "{{.params.text}}", first: "{{.steps.one.output.text}}", below: "{{.steps.called.output.text}}"}, dependsOn: [flaky]}
  - name: below
    description: Gives much to its caller.
    steps: [{id: read, tool: be_read}]
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--large-values", "--payload-key-file", "payload.keys", "--call-patience", "0s")
	sealed := []string{"--payload-key-file", "payload.keys"}
	argument := strings.Repeat("argument", 1<<19)
	c := d.dial(t, modern, nil)
	result, err := toolCall{name: "heavy", arguments: map[string]any{"text": argument}}.by(t.Context(), c)
	if err != nil || !result.IsError {
		t.Fatalf("the call of what is broken: %v, %s", err, clipped(asJSON(t, result)))
	}
	var id string
	until(t, "the run to be listed", func() bool {
		id = runIn(d.run(t, append([]string{"runs", "list", "--status", "failed"}, sealed...)...), "heavy/")
		return id != ""
	})
	mended.Store(true)
	d.run(t, append([]string{"runs", "resume", id}, sealed...)...)
	until(t, "the resumed run to end", func() bool {
		out, _, err := d.try(t, append([]string{"runs", "result", id}, sealed...)...)
		return err == nil && strings.Contains(out, `"ok": true`)
	})
	if n := fakes.count("be_read", ""); n != 3 {
		t.Errorf("three reads were made %d times", n)
	}
	if n := fakes.count("be_echo", argument); n != 1 || fakes.count("be_echo", large) != 1 {
		t.Errorf("the last step was called with the arguments %d times", n)
	}
	planted := plantedSecrets{}
	planted.plant("a large value", strings.Repeat("planted-", 16))
	planted.plant("a large argument", strings.Repeat("argument", 16))
	planted.absentFromFiles(t, filepath.Join(dir, ".perdure"))
}

// TestValuesOfACalledRunThatIsGone has Temporal forget a called run whose large
// result the run that called it still needs, also at the next start: it is swept
// with that one, not before.
func TestValuesOfACalledRunThatIsGone(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789", 30<<10)
	fakes := serveFakes(t, map[string]fakeTool{"be_read": textAnswer(large), "be_echo": structuredAnswer(`{"ok":true}`)})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[]")+`compositeTools:
  - name: above
    description: Calls what gives much, and waits.
    timeout: 24h
    steps:
      - {id: called, type: workflow, workflow: below}
      - {id: gate, type: elicitation, message: Go?, schema: {type: object}, timeout: 12h, dependsOn: [called]}
      - {id: check, tool: be_echo, arguments: {what: "{{.steps.called.output.text}}"}, dependsOn: [gate]}
  - name: below
    description: Gives much.
    steps: [{id: read, tool: be_read}]
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--large-values")
	_, _, _ = d.try(t, "call", "above", "--timeout", "1s")
	above := d.onlyRun(t, "above", "waiting")
	list, err := d.temporal(t).ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "ParentWorkflowId = '" + above + "'"})
	if err != nil || len(list.Executions) != 1 {
		t.Fatalf("the called run: %v, %v", list, err)
	}
	marks := func(name string) []string {
		found := perduretest.Must(filepath.Glob(filepath.Join(dir, ".perdure", "values", "*", name)))(t)
		return found
	}
	sweep := func(awaited string, done func() bool) { // at the start, of what was looked at an hour ago
		t.Helper()
		d.interrupt(patience)
		past := time.Now().Add(-2 * time.Hour)
		for _, mark := range marks("run") {
			perduretest.NoError(t, os.Chtimes(mark, past, past))
		}
		d.start()
		until(t, awaited, done)
	}
	looked := func() bool {
		return !slices.ContainsFunc(marks("run"), func(mark string) bool {
			info, err := os.Stat(mark)
			return err != nil || time.Since(info.ModTime()) > time.Hour
		})
	}
	forget := func(id string) {
		t.Helper()
		c := d.temporal(t)
		if _, err := c.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		}); err != nil {
			t.Fatal(err)
		}
		until(t, id+" to be forgotten", func() bool {
			_, err := c.DescribeWorkflowExecution(t.Context(), id, "")
			var gone *serviceerror.NotFound
			return errors.As(err, &gone)
		})
	}

	sweep("the run that has called the other to be noted", func() bool { return len(marks("parent")) == 1 })
	forget(list.Executions[0].Execution.WorkflowId)
	sweep("all to be looked at", looked)
	d.run(t, "runs", "answer", above, "--accept", "--content", "{}")
	if id := d.onlyRun(t, "above", "completed"); id != above || fakes.count("be_echo", large) != 1 {
		t.Errorf("the last step was called %d times with what the called run has given", fakes.count("be_echo", ""))
	}
	kept := len(marks("*"))
	sweep("all to be looked at when all has ended", looked)
	if got := len(marks("*")); got != kept || kept == 0 {
		t.Errorf("of %d values of runs that have ended and are kept, %d are left", kept, got)
	}
	forget(above)
	sweep("all values to go", func() bool { return len(marks("*")) == 0 })
}

func clipped(s string) string { return s[:min(len(s), 500)] }
