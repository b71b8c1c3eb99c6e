package program_test

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// callingScripts are scripts that call composite tools, and tools whose names are
// no identifiers or come with the arguments.
const callingScripts = `
compositeTools:
  - name: outer
    description: Writes, has another write, and tells.
    timeout: 24h
    parameters: {key: string, tool: string}
    script: |
      be_write(text=data["key"] + " before")
      r = call_workflow("inner", key=data["key"], tool=data["tool"])
      return {"told": r["written"]}
  - name: inner
    description: Asks, and writes with a tool that only a run can tell.
    expose: {hidden: true, callers: [outer]}
    timeout: 24h
    parameters: {key: string, tool: string}
    tools: ["my-be_*", "be_write"]
    script: |
      answer = approve("Write %s?" % data["key"], schema={"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]})
      return {"written": call_tool(data["tool"], {"text": data["key"] + " " + answer["why"]})["written"]}
  - name: hyphens
    description: Calls a tool by each of its names.
    script: |
      names = [my_be.do_it(text="a"), my_be_do_it(text="b"), call_tool("my-be_do-it", text="c"), call_tool("my-be.do-it", text="d")]
      return {"all": [n["written"] for n in names]}
  - name: ranged
    description: Calls versions of another.
    tools: [saying]
    script: |
      said = lambda version: call_workflow("saying", version=version)["text"]
      return {"latest": said(""), "range": said("^1.0"), "exact": said("1.0.0")}
  - name: counted
    description: Makes four calls, with a question after the first.
    timeout: 24h
    parameters: {key: string}
    script: |
      be_write(text=data["key"] + " 0")
      approve("Go on?", timeout="24h")
      for i in range(1, 4):
          be_write(text="%s %d" % (data["key"], i))
      return {"calls": 4}
`

func outerCall(key, tool string) toolCall {
	return toolCall{name: "outer", arguments: map[string]any{"key": key, "tool": tool}, key: "call-" + key}
}

// TestScriptsCall has scripts call composite tools that are scripts: what these
// ask reaches the caller, each effect comes once, and a resumption goes down.
func TestScriptsCall(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	write := func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
		if text, _ := arguments["text"].(string); broken.Load() && !strings.HasSuffix(text, "before") {
			return mcp.NewToolResultError("the disk is full"), nil
		}
		return structured(map[string]any{"written": arguments["text"]}), nil
	}
	backend := serveFakes(t, map[string]fakeTool{"be_write": write, "my-be_do-it": write})
	dir := t.TempDir()
	configuration := backend.configuration(`[{tool: "*", class: unsafe}]`) + callingScripts
	putFile(t, filepath.Join(dir, "perdure.yaml"), configuration)
	w := startDev(t, dir, "--config", "perdure.yaml")
	fine := says("accept", map[string]any{"why": "fine"})
	once := func(t *testing.T, tool, text string) {
		t.Helper()
		if n := backend.count(tool, `"text":"`+text+`"`); n != 1 {
			t.Errorf("%s has written %q %d times", tool, text, n)
		}
	}
	result := func(t *testing.T, id, want string) {
		t.Helper()
		var out string
		until(t, "the result of "+id, func() bool {
			var err error
			out, _, err = w.try(t, "runs", "result", id)
			return err == nil
		})
		sameJSON(t, "the result", out, want)
	}

	for _, version := range []string{legacy, modern} {
		sameJSON(t, "the result in "+version, outerCall(version, "my-be_do-it").must(t, w.dial(t, version, fine)), `{"told": "`+version+` fine"}`)
		once(t, "be_write", version+" before")
		once(t, "my-be_do-it", version+" fine")
	}
	t.Run("names that are no identifiers", func(t *testing.T) {
		sameJSON(t, "the result", toolCall{name: "hyphens"}.must(t, w.dial(t, modern, nil)), `{"all": ["a", "b", "c", "d"]}`)
	})
	t.Run("a tool that the called script does not list", func(t *testing.T) {
		result, err := outerCall("unlisted", "be_nothing").by(t.Context(), w.dial(t, modern, fine))
		if err != nil || !result.IsError || !strings.Contains(asJSON(t, result.Content), "be_nothing") {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("versions", func(t *testing.T) {
		for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
			putFile(t, filepath.Join(dir, "saying.yaml"), "name: saying\nversion: "+version+"\ndescription: Says.\nscript: |\n  return {\"text\": \""+version+"\"}\n")
			w.run(t, "publish", "saying.yaml")
		}
		until(t, "ranged to be offered", func() bool { return strings.Contains(w.run(t, "tools", "-o", "json"), `"ranged"`) })
		sameJSON(t, "the result", toolCall{name: "ranged"}.must(t, w.dial(t, legacy, nil)), `{"latest": "2.0.0", "range": "1.1.0", "exact": "1.0.0"}`)
	})
	t.Run("killed while the called script asks", func(t *testing.T) {
		asked := make(chan string, 1)
		begin(t, w.dial(t, legacy, silent(asked)), outerCall("killed", "be_write"))
		receive(t, asked, "the question")
		w.kill()
		w.start()
		id := w.onlyWaiting(t)
		w.run(t, "runs", "answer", id, "--accept", "--content", `{"why": "late"}`)
		result(t, id, `{"told": "killed late"}`)
		once(t, "be_write", "killed before")
		once(t, "be_write", "killed late")
	})
	t.Run("cancelled while the called script asks", func(t *testing.T) {
		asked := make(chan string, 1)
		begin(t, w.dial(t, legacy, silent(asked)), outerCall("cancelled", "be_write"))
		receive(t, asked, "the question")
		outer := w.onlyWaiting(t)
		called := regexp.MustCompile(`"run": ?"(inner/[^"]+)"`).FindStringSubmatch(w.run(t, "runs", "show", outer, "-o", "json"))
		if called == nil {
			t.Fatalf("the run is shown as\n%s", w.run(t, "runs", "show", outer, "-o", "json"))
		}
		w.run(t, "runs", "cancel", outer)
		until(t, "nothing to wait any more", func() bool { return strings.TrimSpace(w.run(t, "runs", "list", "--waiting", "-o", "json")) == "[]" })
		for _, id := range []string{outer, called[1]} {
			until(t, id+" to be cancelled", func() bool {
				shown := w.run(t, "runs", "show", id)
				return strings.Contains(strings.SplitN(shown, "\n", 2)[0], "cancelled")
			})
		}
		if n := backend.count("be_write", "cancelled fine"); n != 0 {
			t.Errorf("written %d times", n)
		}
	})
	t.Run("resumed", func(t *testing.T) {
		broken.Store(true)
		failed, err := outerCall("broken", "be_write").by(t.Context(), w.dial(t, modern, fine))
		if err != nil || !failed.IsError || !strings.Contains(asJSON(t, failed.Content), "the disk is full") {
			t.Fatalf("%+v, %v", failed, err)
		}
		broken.Store(false)
		id := ""
		until(t, "the failed run to be listed", func() bool {
			for _, run := range w.runs(t, "outer") {
				if run.Status == "failed" && strings.Contains(w.run(t, "runs", "show", run.ID), `"key":"broken"`) {
					id = run.ID
				}
			}
			return id != ""
		})
		w.run(t, "runs", "resume", id, "--yes")
		result(t, id, `{"told": "broken fine"}`)
		once(t, "be_write", "broken before")
		if n := backend.count("be_write", `"text":"broken fine"`); n != 2 {
			t.Errorf("written %d times; the one that failed was the first", n)
		}
	})
	t.Run("limits that are lowered while a run waits", func(t *testing.T) {
		asked := make(chan string, 1)
		counted := toolCall{name: "counted", arguments: map[string]any{"key": "early"}}
		begin(t, w.dial(t, legacy, silent(asked)), counted)
		receive(t, asked, "the question")
		w.interrupt(time.Minute)
		putFile(t, filepath.Join(dir, "perdure.yaml"), configuration+"scripts: {limits: {calls: 3}}\n")
		w.start()
		id := w.onlyWaiting(t)
		w.run(t, "runs", "answer", id, "--accept")
		result(t, id, `{"calls": 4}`)
		counted.arguments = map[string]any{"key": "late"}
		failed, err := counted.by(t.Context(), w.dial(t, legacy, says("accept", nil)))
		if err != nil || !failed.IsError || !strings.Contains(asJSON(t, failed.Meta), `"category":"limit"`) {
			t.Errorf("a run that starts later: %+v, %v", failed, err)
		}
		if n := backend.count("be_write", "late 3"); n != 0 {
			t.Errorf("it made its last call %d times", n)
		}
	})
}
