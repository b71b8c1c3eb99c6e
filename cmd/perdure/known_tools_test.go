package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/service"
)

// What a server says of its tools, and whether it hides some, is asked once.
func TestKnownToolsAskOnce(t *testing.T) {
	t.Parallel()
	s := mcpserver.NewMCPServer("perdure", "1")
	s.AddTool(mcp.NewTool("be_echo"), nil)
	var asked atomic.Int32
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpserver.NewStreamableHTTPServer(s))
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"partial": true, "tools": [{"name": "be_echo", "backend": "be", "original": "echo"}, {"name": "be_hidden", "backend": "be", "original": "hidden", "hidden": true}]}`)
	})
	listener := httptest.NewServer(mux)
	t.Cleanup(listener.Close)

	known := perduretest.Must(validateCommand{againstFlags: againstFlags{Against: listener.URL + "/mcp"}}.knownTools(t.Context()))(t)
	if len(known.listed) != 2 || !known.part || asked.Load() != 1 {
		t.Errorf("%d tools, part = %v, asked %d times", len(known.listed), known.part, asked.Load())
	}
}

// servedTools are those of a server that names composite tools otherwise than their
// definitions are called.
func servedTools(t *testing.T) *toolSource {
	t.Helper()
	schema := json.RawMessage(`{"type": "object", "properties": {"to": {"type": "string"}, "by": {"default": "air"}}, "required": ["to", "by"]}`)
	listed := []remoteTool{{Name: "be_echo", Backend: "be", Original: "echo"}, {Name: "ship"}, {Name: "wf_pack", InputSchema: schema}, {Name: "old_sort", InputSchema: schema}, {Name: "sort"}}
	away := false
	return &toolSource{listed: listed, byName: perduretest.Must(toolsOf(listed))(t), served: []service.CompositeStatus{
		{Name: "ship"}, {Name: "wf_pack", Definition: "pack"}, {Name: "wf_seal", Definition: "seal", Hidden: true},
		{Name: "wf_lost", Definition: "lost", Available: &away}, {Name: "old_sort", Definition: "sort"}, {Name: "sort"},
	}}
}

// Rules name composite tools by their definitions, available or not.
func TestRulesNameDefinitions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	perduretest.NoError(t, os.WriteFile(file, []byte("backends: [{name: be, url: \"http://127.0.0.1:1/mcp\"}]\n"+
		"incomingAuth: {type: token, tokenFile: tokens}\nauthorization: {rules: [{tools: [pack, seal, lost, sort, old_sort, be_echo], groups: [a]}]}\n"), 0o600))
	found, _ := config.Load(config.Sources{Config: file})
	var unmatched []string
	for _, d := range servedTools(t).against(found) {
		if d.Check == "no-match" {
			unmatched = append(unmatched, d.Message)
		}
	}
	if len(unmatched) != 1 || !strings.Contains(unmatched[0], `"old_sort" matches no tool`) {
		t.Errorf("%q", unmatched)
	}
}

// Composite tools of the server are no tools that a step calls, and are known where a
// step calls them as they are called.
func TestKnownCompositeTools(t *testing.T) {
	t.Parallel()
	known := servedTools(t)
	step := "name: a\ndescription: d\nsteps:\n  - {id: a, "
	for text, want := range map[string]string{
		"type: workflow, workflow: ship}": "",
		"type: workflow, workflow: shop}": `step "a": composite tool "shop" not found here (did you mean "ship"?); the definition is not offered without it`,
		"tool: ship}":                     `step "a": no backend has a tool "ship" at present, but it is a composite tool: write type: workflow and workflow: ship; the definition is not offered without it`,
		"tool: be_echo}":                  "",

		// by the name of the definition, with its arguments
		"type: workflow, workflow: pack, arguments: {to: x}}": "",
		"type: workflow, workflow: pack, arguments: {too: x}}": `step "a": workflow "pack" requires argument "to"
step "a": workflow "pack" does not say that it takes arguments.too (did you mean "to"?)`,
		"type: workflow, workflow: seal}":                      "",
		"type: workflow, workflow: pack@1, arguments: {y: x}}": "",
		"type: workflow, workflow: sort, arguments: {y: x}}":   "",
		"type: workflow, workflow: lost}":                      `step "a": composite tool "lost" not found here; the definition is not offered without it`,
		"type: script, script: \"return call_workflow('pack', too = 1)\"}": `step "a": workflow "pack" does not say that it takes too (did you mean "to"?)
step "a": workflow "pack" requires argument "to": write to=…`,
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		perduretest.NoError(t, os.WriteFile(file, []byte(step+text), 0o600))
		found, diags := config.Load(config.Sources{Definitions: []string{file}})
		var got []string
		for _, d := range known.check(found, diags) {
			got = append(got, d.Message)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
