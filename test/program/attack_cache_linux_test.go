package program_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

const waitingDefinition = `
compositeTools:
  - name: wait
    description: Waits for a person.
    parameters: {type: object, properties: {values: {type: array}}}
    steps:
      - {id: approval, type: elicitation, message: "Go on?", timeout: 24h, schema: {type: object, properties: {ok: {type: boolean}}}}
    output: {properties: {done: {type: boolean, description: Done, value: "true"}}}
`

// TestAttackRunsOfManyValues: runs whose arguments are many small values, which take thirty
// times as much memory as their text, do not fill the memory of the process that waits with them.
func TestAttackRunsOfManyValues(t *testing.T) {
	t.Parallel()
	const limit, count = 400, 28 // MB; runs that take 30 MB each
	dir := t.TempDir()
	perduretest.NoError(t, os.WriteFile(filepath.Join(dir, "perdure.yaml"), []byte(waitingDefinition), 0o600))
	d := newDev(t, dir, "--config", "perdure.yaml")
	d.env = append(d.env, fmt.Sprintf("GOMEMLIMIT=%dMiB", limit))
	d.start()
	values := strings.Repeat("{},", 400_000) + "{}"
	for i := range count {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"name":"wait","arguments":{"values":[%d,%s]}}}`, i, i, values)
		for started := false; !started; { // it is refused while there is no room
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url(), strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			req.Header.Set("Mcp-Method", "tools/call")
			req.Header.Set("Mcp-Name", "wait")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			answer, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			started = res.StatusCode == http.StatusOK
			if refused := res.StatusCode == http.StatusServiceUnavailable; err != nil || !refused && !strings.Contains(string(answer), "runId") {
				t.Fatalf("call %d: %s, %v\n%s", i, res.Status, err, answer)
			}
		}
	}
	status := perduretest.Read(t, fmt.Sprintf("/proc/%d/status", d.serving.PID()))
	peak, err := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(status))[1])
	if err != nil || peak>>10 > 2*limit {
		t.Errorf("%d runs took the process to %d MB, %v", count, peak>>10, err)
	}
	if got := strings.Count(d.run(t, "runs", "list", "--tool", "wait", "--limit", "100", "-o", "json"), `"waiting"`); got != count {
		t.Errorf("%d runs wait, want %d", got, count)
	}
}
