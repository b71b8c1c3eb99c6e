package gateway

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
)

// Names of the tools with which agents send scripts.
const (
	scriptTool      = runs.ScriptTool
	scriptCheckTool = "perdure_script_check"
)

// isScriptTool reports whether a tool is one with which agents send scripts,
// which only those are offered who may.
func isScriptTool(name string) bool { return name == scriptTool || name == scriptCheckTool }

// Names of the tools with which a model handles runs that it was given a
// handle on. There is none with which it could answer for its user.
const (
	awaitTool  = "perdure_run_await"
	cancelTool = "perdure_run_cancel"
	listTool   = "perdure_run_list"
)

// A builtInTool is one that no backend has.
type builtInTool struct {
	title, description string
	input              string
	hints              mcp.ToolAnnotation
	call               func(ctx context.Context, x *exchange)
}

// listed is the tool as clients see it.
func (t builtInTool) listed(name string) mcp.Tool {
	hints := t.hints
	hints.Title = t.title
	return mcp.Tool{Name: name, Title: t.title, Description: t.description, RawInputSchema: json.RawMessage(t.input), Annotations: hints}
}
