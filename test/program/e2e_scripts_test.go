package program_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// scriptDefinitions are scripts that are killed at places where only a script
// can stand.
const scriptDefinitions = `
scripts: {agents: true}
compositeTools:
  - name: loop
    description: Twenty slow calls in a loop, and a write after each.
    timeout: 24h
    script: |
      total = 0
      for i in range(20):
          total += be_slow_step(n=i)["n"]
          be_write(text="loop %d" % i)
      return {"total": total}
  - name: pause
    description: Two writes, and a pause between them.
    scriptFile: pause.star
`

const pauseScript = `load("lib/say.star", "say")

say("before")
sleep("5s")
say("after")
return {"done": True}
`

// gatesScript asks two people at once, and writes what they said.
const gatesScript = `
be_write(text="first of " + data["key"])
def ask(who):
    return elicit("Write for %s?" % who, timeout="10h", schema={"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]})
answers = map_parallel(ask, ["ada", "bob"])
for a in answers:
    be_write(text="%s: %s" % (a.action, a.content.get("why", "-")))
return {"said": [a.action for a in answers]}
`

// TestKillScripts ends the program with kill -9 while scripts are in the middle
// of a loop, at gates inside parallel, and between two calls.
func TestKillScripts(t *testing.T) {
	t.Parallel()
	w := &killWorld{slow: make(chan struct{})}
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	w.backend = serveFakes(t, map[string]fakeTool{
		"be_slow_step": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			if arguments["n"] == float64(10) && w.backend.count("be_slow_step", `"n":10`) == 1 {
				select { // until the program that called is gone
				case <-held:
				case <-ctx.Done():
				}
			}
			return structured(map[string]any{"n": arguments["n"]}), nil
		},
		"be_write": w.write,
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), w.backend.configuration(`[{tool: "slow_*", class: idempotent}, {tool: "*", class: unsafe}]`)+scriptDefinitions)
	putFile(t, filepath.Join(dir, "pause.star"), pauseScript)
	putFile(t, filepath.Join(dir, "lib", "say.star"), "def say(text):\n    be_write(text=text)\n")
	w.devProcess = startSealedDev(t, dir, "--config", "perdure.yaml")

	begin(t, w.dial(t, legacy, nil), toolCall{name: "loop"})
	begin(t, w.dial(t, legacy, nil), toolCall{name: "pause"})
	begin(t, w.dial(t, legacy, nil), toolCall{name: scriptTool, arguments: map[string]any{"script": gatesScript, "data": map[string]any{"key": "gates"}}})
	until(t, "the loop to be in its middle", func() bool { return w.backend.count("be_slow_step", `"n":10`) == 1 })
	until(t, "the pause", func() bool { return w.written("before") == 1 })
	gates := w.onlyRun(t, scriptTool, "waiting")
	until(t, "both questions to be open", func() bool {
		return strings.Count(w.run(t, "runs", "show", gates), "answer with") == 2
	})
	if out := w.run(t, "runs", "show", gates, "--script"); !strings.Contains(out, "\n  4      return elicit(") {
		t.Errorf("runs show --script does not show the lines: %s", out)
	}
	if out := w.run(t, "runs", "show", gates); strings.Contains(out, "return elicit") || !strings.Contains(out, " --step 'script/main:5[0]/ask:4' --accept") {
		t.Errorf("runs show does not say how to answer the question of that line: %s", out)
	}
	w.kill()
	w.start()

	t.Run("in the middle of a loop", func(t *testing.T) {
		id := w.onlyRun(t, "loop", "completed")
		sameJSON(t, "the result", w.run(t, "runs", "result", id), `{"total": 190}`)
		for i := range 20 {
			n := string(rune('0'+i/10)) + string(rune('0'+i%10))
			n = strings.TrimPrefix(n, "0")
			if got := w.written("loop " + n); got != 1 {
				t.Errorf("loop %s was written %d times", n, got)
			}
			if got := w.backend.count("be_slow_step", `"n":`+n+`}`); got != 1 && i != 10 || i == 10 && got != 2 {
				t.Errorf("step %s was executed %d times", n, got)
			}
		}
	})
	t.Run("between two calls", func(t *testing.T) {
		w.onlyRun(t, "pause", "completed")
		if before, after := w.written("before"), w.written("after"); before != 1 || after != 1 {
			t.Errorf("written %d times before, %d times after", before, after)
		}
	})
	t.Run("at gates inside parallel", func(t *testing.T) {
		w.run(t, "runs", "answer", gates, "--step", "script/main:5[1]/ask:4", "--accept", "--content", `{"why": "late"}`)
		w.run(t, "runs", "answer", gates, "--step", "script/main:5[0]/ask:4", "--decline")
		w.onlyRun(t, scriptTool, "completed")
		sameJSON(t, "the result", w.run(t, "runs", "result", gates), `{"said": ["decline", "accept"]}`)
		for _, text := range []string{"first of gates", "decline: -", "accept: late"} {
			if n := w.written(text); n != 1 {
				t.Errorf("%q was written %d times", text, n)
			}
		}
	})
	t.Run("promoted", func(t *testing.T) {
		w.run(t, "script", "promote", gates, "--name", "ask_both", "--dir", dir)
		if out := w.run(t, "test", filepath.Join(dir, "ask_both_test.yaml")); !strings.Contains(out, "1 case, 0 failed") {
			t.Errorf("the recorded test says %s", out)
		}
		definition, err := os.ReadFile(filepath.Join(dir, "ask_both.yaml"))
		if err != nil || !strings.Contains(string(definition), "key:\n      type: string") {
			t.Errorf("the definition is %s, %v", definition, err)
		}
	})
	t.Run("run by the command", func(t *testing.T) {
		putFile(t, filepath.Join(dir, "sum.star"), "return {\"n\": be_slow_step(n=data[\"n\"])[\"n\"] + 1}\n")
		sameJSON(t, "the result", w.run(t, "script", "run", filepath.Join(dir, "sum.star"), "--data", `{"n": 41}`), `{"n": 42}`)
		if _, out, err := w.try(t, "script", "run", filepath.Join(dir, "ask_both.yaml")); err == nil || !strings.Contains(out, "script-syntax") {
			t.Errorf("a file that is no script: %v, %s", err, out)
		}
	})
}
