package program_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestClients calls a composite tool that asks with the clients of others, each
// in its eras: the official TypeScript SDK and MCP Inspector's two command
// lines. mcp-go's client is that of the other tests.
func TestClients(t *testing.T) {
	t.Parallel()
	modules := filepath.Dir(filepath.Dir(npmPackage(t, "clients", "@modelcontextprotocol/inspector")))
	cancelled := make(chan struct{}, 1)
	f := serveFakes(t, map[string]fakeTool{
		"be_look":    structuredAnswer(`{"version": 7}`),
		"be_publish": structuredAnswer(`{}`),
		"be_work": func(ctx context.Context, _ map[string]any) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			cancelled <- struct{}{}
			return nil, ctx.Err()
		},
	})
	config := perduretest.Read(t, "testdata/clients/perdure.yaml")
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), string(config)+f.configuration("[{tool: look, class: read}]"))
	d := startDev(t, dir, "--config", "perdure.yaml")

	// published checks a result, and that this was published once.
	published := func(t *testing.T, result []byte, whom string) {
		t.Helper()
		var r struct {
			StructuredContent json.RawMessage `json:"structuredContent"`
		}
		if err := json.Unmarshal(result, &r); err != nil {
			t.Fatalf("%v in %s", err, result)
		}
		sameJSON(t, "the result", string(r.StructuredContent), fmt.Sprintf(`{"version": 7, "for": %q, "reason": "it is time"}`, whom))
		if n := f.count("be_publish", fmt.Sprintf(`"for":%q`, whom)); n != 1 {
			t.Errorf("for %s it was published %d times", whom, n)
		}
	}
	t.Run("each", func(t *testing.T) {
		t.Run("SDK 1, blocking", func(t *testing.T) {
			t.Parallel()
			c := startScript(t, "sdk1.mjs", d.url(), "call", "release", `{"for": "sdk1"}`)
			c.asked("Publish version 7 for sdk1?")
			c.say(yes)
			published(t, c.told("result"), "sdk1")
			c.sawProgress("waiting for an answer", "publish")
		})
		t.Run("SDK 1, task", func(t *testing.T) {
			t.Parallel()
			c := startScript(t, "sdk1.mjs", d.url(), "task", "release", `{"for": "sdk1 task"}`)
			c.told("taskCreated")
			c.asked("Publish version 7 for sdk1 task?")
			c.say(yes)
			published(t, c.told("result"), "sdk1 task")
		})
		t.Run("SDK 1, cancelled", func(t *testing.T) {
			t.Parallel()
			c := startScript(t, "sdk1.mjs", d.url(), "call", "slow", `{}`)
			until(t, "the backend to be at work", func() bool { return f.count("be_work", "") == 1 })
			c.say("cancel")
			c.told("error")
			receive(t, cancelled, "the backend's call to be cancelled")
			d.onlyRun(t, "slow", "cancelled")
		})
		t.Run("SDK 2", func(t *testing.T) {
			t.Parallel()
			c := startScript(t, "sdk2.mjs", d.url(), "release", `{"for": "sdk2"}`)
			c.asked("Publish version 7 for sdk2?")
			c.say(`{"action": "accept", "content": {"reason": 1}}`)
			c.asked("The answer was not taken")
			c.say(yes)
			published(t, c.told("result"), "sdk2")
			c.sawProgress("waiting for an answer")
		})
		for _, era := range []string{"legacy", "modern"} {
			t.Run("Inspector, "+era, func(t *testing.T) {
				t.Parallel()
				i := newInspector(t, modules)
				config := filepath.Join(i.home, "mcp.json")
				putFile(t, config, fmt.Sprintf(`{"mcpServers": {"perdure": {"type": "streamable-http", "url": %q, "elicitCapability": "off"}}}`, d.url()))
				cli := func(args ...string) []byte {
					return i.run("mcp-inspector", append([]string{"--cli", "--quiet", "--config", config, "--server", "perdure", "--protocol-era", era, "--connect-timeout", "60000"}, args...)...)
				}
				if list := cli("--method", "tools/list"); !bytes.Contains(list, []byte(`"release"`)) {
					t.Errorf("release is not among the tools: %s", list)
				}
				answered := make(chan error, 1) // the client cannot be asked, so somebody else is
				go func() {
					answered <- d.answerWaiting("Publish version 7 for inspector "+era+"?", `{"reason": "it is time"}`)
				}()
				result := cli("--method", "tools/call", "--tool-name", "release", "--tool-args-json", `{"for": "inspector `+era+`"}`)
				if err := receive(t, answered, "the run to be answered"); err != nil {
					t.Error(err)
				}
				if era == "legacy" { // in the other it takes tasks, and polls
					var handle struct {
						StructuredContent struct{ Status, RunID string }
					}
					if err := json.Unmarshal(result, &handle); err != nil || handle.StructuredContent.Status != "waiting_for_approval" {
						t.Fatalf("the handle is %s: %v", result, err)
					}
					result = cli("--method", "tools/call", "--tool-name", awaitTool, "--tool-args-json", fmt.Sprintf(`{"runId": %q}`, handle.StructuredContent.RunID))
				}
				published(t, result, "inspector "+era)
			})
		}
		t.Run("mcpdo, tasks extension", func(t *testing.T) {
			t.Parallel()
			i := newInspector(t, modules)
			i.run("mcpdo", "--format", "json", "connect", d.url(), "--transport", "http", "--era", "modern", "--connect-timeout", "60000")
			mcpdo := func(args ...string) []byte {
				return i.run("mcpdo", append([]string{"--format", "json", "--connection", d.url()}, args...)...)
			}
			var pending struct {
				ElicitationPending struct{ ElicitationID, Message, Origin string }
			}
			out := mcpdo("tools/call", "release", `{"for": "mcpdo"}`)
			if err := json.Unmarshal(out, &pending); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			q := pending.ElicitationPending
			if q.Message != "Publish version 7 for mcpdo?" || q.Origin != "task-input-required" {
				t.Fatalf("it asks %+v: %s", q, out)
			}
			published(t, mcpdo("elicitation/respond", q.ElicitationID, "reason:=it is time"), "mcpdo")
		})
	})
	t.Run("SDK 1, after kill -9", func(t *testing.T) {
		c := startScript(t, "sdk1.mjs", d.url(), "call", "release", `{"for": "killed"}`, "60") // a start may take long on a busy machine
		c.asked("Publish version 7 for killed?")
		d.kill()
		d.start()
		c.say(yes)
		published(t, c.told("result"), "killed")
	})
}

// yes is what a person answers.
const yes = `{"action": "accept", "content": {"reason": "it is time"}}`

// answerWaiting answers the run that asks a question, as an operator does.
func (d *devProcess) answerWaiting(question, content string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		out, _, err := d.try(d.t, "runs", "list", "--waiting", "-o", "json")
		if err != nil {
			return err
		}
		var waiting []struct {
			ID           string
			Elicitations []struct{ Message string }
		}
		if err := json.Unmarshal([]byte(out), &waiting); err != nil {
			return err
		}
		for _, run := range waiting {
			if len(run.Elicitations) == 1 && run.Elicitations[0].Message == question {
				_, errOut, err := d.try(d.t, "runs", "answer", run.ID, "--accept", "--content", content)
				if err != nil {
					return fmt.Errorf("%w: %s", err, errOut)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("nobody asked %q", question)
}

// A script is a client of testdata/clients at work.
type script struct {
	t     *testing.T
	in    io.Writer
	lines chan scriptLine
	seen  []scriptLine // all that was told
}

type scriptLine struct {
	What  string          `json:"what"`
	Value json.RawMessage `json:"value"`
}

func startScript(t *testing.T, name string, args ...string) *script {
	t.Helper()
	cmd := group("testdata/clients", exec.Command("node", append([]string{name}, args...)...))
	in := perduretest.Must(cmd.StdinPipe())(t)
	out := perduretest.Must(cmd.StdoutPipe())(t)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	perduretest.NoError(t, cmd.Start())
	c := &script{t: t, in: in, lines: make(chan scriptLine, 1000)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(c.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			var line scriptLine
			if json.Unmarshal(scanner.Bytes(), &line) == nil {
				c.lines <- line
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		killGroup(cmd)
		<-ended
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s told %s\n%s", name, asJSON(t, c.seen), errOut.String())
		}
	})
	return c
}

// told waits until the client tells something, and gives it.
func (c *script) told(what string) json.RawMessage {
	c.t.Helper()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the client ended before it told of %s", what)
			}
			c.seen = append(c.seen, line)
			if line.What == what {
				return line.Value
			}
		case <-time.After(2 * patience): // a client comes back to a server only after some seconds
			c.t.Fatalf("the client has not told of %s", what)
		}
	}
}

// asked waits until the client asks its user.
func (c *script) asked(question string) {
	c.t.Helper()
	if got := string(c.told("asked")); !strings.Contains(got, question) {
		c.t.Fatalf("the client asks %s, want %s", got, question)
	}
}

func (c *script) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

// sawProgress checks that progress increased and told of some things.
func (c *script) sawProgress(messages ...string) {
	c.t.Helper()
	var told []string
	last := -1.0
	for _, line := range c.seen {
		var p struct {
			Progress float64
			Message  string
		}
		if line.What != "progress" {
			continue
		}
		if err := json.Unmarshal(line.Value, &p); err != nil {
			c.t.Fatal(err)
		}
		if strings.HasPrefix(p.Message, "Fulfilling input") {
			continue // SDK 2 counts rounds as progress, too
		}
		if p.Progress <= last {
			c.t.Errorf("progress %v comes after %v", p.Progress, last)
		}
		last = p.Progress
		told = append(told, p.Message)
	}
	for _, m := range messages {
		if !strings.Contains(strings.Join(told, "\n"), m) {
			c.t.Errorf("the client was not told of %q: %q", m, told)
		}
	}
}

// An inspector is MCP Inspector, with a home of its own for what it keeps and
// for the process that it leaves in the background.
type inspector struct {
	t             *testing.T
	modules, home string
}

func newInspector(t *testing.T, modules string) inspector {
	t.Helper()
	home := perduretest.Must(os.MkdirTemp("", "inspector"))(t)
	i := inspector{t: t, modules: modules, home: home}
	t.Cleanup(func() {
		_ = i.command("mcpdo", "daemon", "stop").Run() // there may be none
		_ = os.RemoveAll(home)
	})
	return i
}

func (i inspector) command(name string, args ...string) *exec.Cmd {
	cmd := group(i.home, exec.Command("node", append([]string{filepath.Join(i.modules, ".bin", name)}, args...)...))
	cmd.Env = append(cmd.Env, "HOME="+i.home, "MCP_INSPECTOR_DAEMON_DIR="+filepath.Join(i.home, "daemon"), "MCP_INSPECTOR_SECRET_STORE=memory")
	return cmd
}

// run gives what a command prints.
func (i inspector) run(name string, args ...string) []byte {
	i.t.Helper()
	cmd := i.command(name, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	watchdog := time.AfterFunc(2*patience, func() { killGroup(cmd) })
	defer watchdog.Stop()
	if err := cmd.Run(); err != nil {
		i.t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.Bytes()
}
