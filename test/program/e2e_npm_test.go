package program_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
)

// requireVar names what tests must not be skipped for the lack of, with commas.
const requireVar = "PERDURE_TEST_REQUIRE"

// npmServers is the directory of the servers from npm.
func npmServers(t *testing.T) string {
	t.Helper()
	return filepath.Dir(npmPackage(t, "servers", "@modelcontextprotocol/server-everything"))
}

// npmPackage is the directory of a package that make servers has installed in
// testdata/SET; without it, the test is skipped, or fails where
// PERDURE_TEST_REQUIRE says npm.
func npmPackage(t *testing.T, set, name string) string {
	t.Helper()
	dir := perduretest.Must(filepath.Abs(filepath.Join("testdata", set, "node_modules", name)))(t)
	_, noNode := exec.LookPath("node")
	_, noPackage := os.Stat(dir)
	if noNode == nil && noPackage == nil {
		return dir
	}
	const why = "needs Node.js and what make servers installs"
	if slices.Contains(strings.Split(os.Getenv(requireVar), ","), "npm") {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// TestNPMServers calls composites over servers that others have written.
func TestNPMServers(t *testing.T) {
	t.Parallel()
	servers := npmServers(t)
	folder := perduretest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	config := perduretest.Read(t, "testdata/e2e/npm/perdure.yaml")
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), strings.NewReplacer(
		"$SERVERS", servers, "$FOLDER", folder, "$EVERYTHING", serveEverything(t, servers)).Replace(string(config)))
	d := startDev(t, dir, "--config", "perdure.yaml")

	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			c := d.dial(t, version, nil)
			have := names(t, c)
			for _, name := range []string{"everything_get-sum", "web_get-sum", "files_write_file", "sums", "weather", "slow", "notes"} {
				if !slices.Contains(have, name) {
					t.Errorf("%s is not among %v", name, have)
				}
			}
			sameJSON(t, "sums", toolCall{name: "sums", arguments: map[string]any{"a": 2}}.must(t, c), `{
				"child": "The sum of 2 and 40 is 42.", "http": "The sum of 2 and 40 is 42.",
				"large": 9007199254740993, "of": {"a": 2, "b": 40}}`)
			sameJSON(t, "weather", toolCall{name: "weather"}.must(t, c),
				`{"temperatures": [33, 36, 73], "completed": 1, "failed": 1}`)
			notes := []map[string]any{{"name": version + "-a.txt", "text": "one"}, {"name": version + "-b.txt", "text": "two\n\"quoted\""}}
			got := toolCall{name: "notes", arguments: map[string]any{"notes": notes}}.must(t, c)
			for _, want := range []string{`"written":2`, `[FILE] ` + version + `-b.txt`, `"texts":["one","two\n\"quoted\""]`} {
				if !strings.Contains(got, want) {
					t.Errorf("notes lack %s: %s", want, got)
				}
			}
			if text, err := os.ReadFile(filepath.Join(folder, version+"-b.txt")); string(text) != "two\n\"quoted\"" {
				t.Errorf("the file says %q, %v", text, err)
			}
			outside := toolCall{name: "files_write_file", arguments: map[string]any{"path": "/outside", "content": ""}}
			if result, err := outside.by(t.Context(), c); err != nil || !result.IsError {
				t.Errorf("the server's refusal came as %v, %v", result, err)
			}
		})
	}
	t.Run("progress", func(t *testing.T) {
		c := d.dial(t, legacy, nil)
		var mu sync.Mutex
		var told []string
		last := -1.0
		c.OnNotification(func(n mcp.JSONRPCNotification) {
			mu.Lock()
			defer mu.Unlock()
			message, _ := n.Params.AdditionalFields["message"].(string)
			told = append(told, message)
			progress, _ := n.Params.AdditionalFields["progress"].(float64)
			if progress <= last {
				t.Errorf("progress %v comes after %v", progress, last)
			}
			last = progress
		})
		got := toolCall{name: "slow", progress: true}.must(t, c)
		if !strings.Contains(got, "Long running operation completed") {
			t.Errorf("slow says %s", got)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, step := range []string{"work", " of 8", "after"} {
			if !slices.ContainsFunc(told, func(m string) bool { return strings.Contains(m, step) }) {
				t.Errorf("the client was not told of %s: %q", step, told)
			}
		}
	})
}

// serveEverything starts server-everything over HTTP and gives its address.
func serveEverything(t *testing.T, servers string) string {
	t.Helper()
	address := perduretest.Must(pgtest.FreeAddress())(t)
	_, port, _ := net.SplitHostPort(address)
	cmd := group(t.TempDir(), exec.Command("node", filepath.Join(servers, "server-everything/dist/index.js"), "streamableHttp"))
	cmd.Env = append(cmd.Env, "PORT="+port)
	output := &topology.Transcript{}
	cmd.Stdout, cmd.Stderr = output, output
	perduretest.NoError(t, cmd.Start())
	t.Cleanup(func() {
		killGroup(cmd)
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(output)
		}
	})
	until(t, "server-everything to listen", func() bool {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	return "http://" + address + "/mcp"
}
