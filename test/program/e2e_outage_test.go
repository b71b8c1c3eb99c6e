package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
)

// TestOutage takes the gateway away for 8 s from clients on the official
// TypeScript SDK as it is by default, in each era, while a write is under way
// and while a person is asked: each call ends with its result, and each write is
// made once.
func TestOutage(t *testing.T) {
	t.Parallel()
	npmPackage(t, "clients", "@modelcontextprotocol/sdk")
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	f := serveFakes(t, map[string]fakeTool{
		"be_write": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			select {
			case <-released:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return structured(map[string]any{"for": arguments["for"]}), nil
		},
		"be_publish": structuredAnswer(`{}`),
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), f.configuration("[]")+`
compositeTools:
  - name: write
    description: Writes, which takes its time.
    parameters: &for {type: object, properties: {for: {type: string}}, required: [for]}
    steps:
      - {id: write, tool: be_write, arguments: {for: "{{.params.for}}"}}
    output:
      properties:
        for: {type: string, description: For whom, value: "{{.steps.write.output.for}}"}
  - name: ask
    description: Asks, and publishes.
    parameters: *for
    steps:
      - {id: ask, type: elicitation, message: "Publish for {{.params.for}}?", schema: {type: object, properties: {reason: {type: string}}, required: [reason]}}
      - {id: publish, tool: be_publish, arguments: {for: "{{.params.for}}"}, dependsOn: [ask]}
    output:
      properties:
        for: {type: string, description: For whom, value: "{{.params.for}}"}
`)
	d := startDev(t, dir, "--config", "perdure.yaml")
	address := perduretest.Must(pgtest.FreeAddress())(t)
	link := perduretest.Must(topology.NewLink("clients to gateway", address, d.address))(t)
	t.Cleanup(link.Close)
	url := "http://" + address + endpoint

	// A client on SDK 2 does not notice that a stream of 2026-07-28 broke, so its
	// own timeout ends the call, after which it is made again.
	starts := map[string]func(tool, whom string) *script{
		"sdk1": func(tool, whom string) *script {
			return startScript(t, "sdk1.mjs", url, "call", tool, fmt.Sprintf(`{"for": %q}`, whom))
		},
		"sdk2": func(tool, whom string) *script {
			return startScript(t, "sdk2.mjs", url, tool, fmt.Sprintf(`{"for": %q}`, whom), "default")
		},
		modern: func(tool, whom string) *script {
			return startScript(t, "sdk2.mjs", url, tool, fmt.Sprintf(`{"for": %q}`, whom), modern, "15000")
		},
	}
	writing, asked := map[string]*script{}, map[string]*script{}
	for name, start := range starts {
		asked[name] = start("ask", name)
		asked[name].asked("Publish for " + name + "?")
	}
	for name, start := range starts {
		writing[name] = start("write", name)
	}
	for name := range starts {
		until(t, "the write of "+name, func() bool { return f.count("be_write", fmt.Sprintf(`"for":%q`, name)) == 1 })
	}

	link.Refuse()
	link.Cut()
	writing["sdk1"].told("trouble") // it has noticed
	time.Sleep(8 * time.Second)     // this is how long the outage is
	perduretest.NoError(t, link.Accept())
	release()

	ended := func(c *script, tool, whom string) []byte {
		t.Helper()
		raw := c.told("result")
		var result struct{ StructuredContent json.RawMessage }
		if err := json.Unmarshal(raw, &result); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		sameJSON(t, "the result for "+whom, string(result.StructuredContent), fmt.Sprintf(`{"for": %q}`, whom))
		if n := f.count(tool, fmt.Sprintf(`"for":%q`, whom)); n != 1 {
			t.Errorf("%s was called %d times for %s", tool, n, whom)
		}
		return raw
	}
	writing[modern].told("error")
	writing[modern].say(`"again"`)
	for name := range starts {
		raw := ended(writing[name], "be_write", name)
		if name == modern && !bytes.Contains(raw, []byte(`"attached":true`)) {
			t.Errorf("the call that was made again is not marked: %s", raw)
		}
		asked[name].say(yes)
		ended(asked[name], "be_publish", name)
		asked[name].sawProgress("waiting for an answer", "publish")
	}
}
