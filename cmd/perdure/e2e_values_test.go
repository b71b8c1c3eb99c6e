package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// TestLargeValues passes 50 MB from a tool through a run to its client, which is
// given a link and reads that, also after a restart, and to perdure runs result;
// and 5 MB to the step that comes next.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	large := strings.Repeat("0123456789abcdef", size/16)
	fakes := serveFakes(t, map[string]fakeTool{"be_read": textAnswer(large), "be_some": textAnswer(large[:5<<20]), "be_small": structuredAnswer(`{"ok":true}`)})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[]")+`compositeTools:
  - name: big
    description: Gives much.
    steps: [{id: read, tool: be_read}]
  - name: passes
    description: Passes much on.
    steps:
      - {id: read, tool: be_some}
      - {id: next, tool: be_small, arguments: {what: "{{.steps.read.output}}"}, dependsOn: [read]}
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
	if out := d.run(t, "call", "passes"); !strings.Contains(out, "true") || fakes.count("be_small", large[:5<<20]) != 1 {
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
	read, err := again.ReadResource(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Text string }
	contents, _ := read.Contents[0].(mcp.TextResourceContents)
	if err := json.Unmarshal([]byte(contents.Text), &got); err != nil || got.Text != large {
		t.Errorf("the resource has %d bytes, %v", len(contents.Text), err)
	}
	request.Params.URI = strings.Replace(link.URI, "big", "gib", 1)
	if _, err := again.ReadResource(t.Context(), request); err == nil || !strings.Contains(err.Error(), "no such result") {
		t.Errorf("the result of a run that there is not: %v", err)
	}
}

func clipped(s string) string { return s[:min(len(s), 500)] }
