package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology"
)

const resumeDefinitions = `
compositeTools:
  - name: order
    description: Pays once, and says so.
    timeout: 24h
    parameters: {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: pay, tool: be_pay, arguments: {key: "{{.params.key}}"}, onUnknown: ask}
      - {id: tell, tool: be_write, arguments: {key: "{{.params.key}}", text: "paid {{.steps.pay.output.id}}"}, dependsOn: [pay]}
    output: {properties: {told: {type: string, description: What was told, value: "{{.steps.tell.output.text}}"}}}
  - name: five
    description: Five steps, the fourth of which may be broken.
    parameters: {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: one, tool: be_write, arguments: {key: "{{.params.key}}", text: "1"}}
      - {id: two, tool: be_read, arguments: {key: "{{.params.key}}", text: "{{.steps.one.output.text}}2"}}
      - {id: three, tool: be_write, arguments: {key: "{{.params.key}}", text: "{{.steps.two.output.text}}3"}}
      - {id: four, tool: be_fragile, arguments: {key: "{{.params.key}}", text: "{{.steps.three.output.text}}4"}}
      - {id: five, tool: be_write, arguments: {key: "{{.params.key}}", text: "{{.steps.four.output.text}}5"}}
    output: {properties: {all: {type: string, description: What all did, value: "{{.steps.five.output.text}}"}}}
`

// A resumeWorld is dev with a backend whose payments are executed and whose
// first answer to each is lost, and with a tool that can be broken.
type resumeWorld struct {
	*devProcess
	backend *fakeServers
	broken  atomic.Bool
	answers sync.Map // key → whether the answer was lost
}

func newResumeWorld(t *testing.T) *resumeWorld {
	w := &resumeWorld{}
	echo := func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
		return structured(map[string]any{"text": arguments["text"]}), nil
	}
	w.backend = serveFakes(t, map[string]fakeTool{
		"be_write": echo, "be_read": echo,
		"be_pay": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			if _, lost := w.answers.LoadOrStore(arguments["key"], true); !lost {
				panic(http.ErrAbortHandler) // executed, and the connection is dropped
			}
			return structured(map[string]any{"id": "second"}), nil
		},
		"be_fragile": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			if w.broken.Load() {
				return mcp.NewToolResultError("out of order"), nil
			}
			return echo(ctx, arguments)
		},
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"),
		w.backend.configuration(`[{tool: read, class: read}, {tool: "*", class: unsafe}]`)+resumeDefinitions)
	w.devProcess = startSealedDev(t, dir, "--config", "perdure.yaml")
	return w
}

// failedRun breaks the tool, and gives the ID of a run of five that fails for it.
func (w *resumeWorld) failedRun(t *testing.T) (id string) {
	t.Helper()
	w.broken.Store(true)
	c := w.dial(t, legacy, nil)
	if got, err := (toolCall{name: "five", arguments: map[string]any{"key": "k"}}).by(t.Context(), c); err != nil || !got.IsError {
		t.Fatalf("got %+v, %v", got, err)
	}
	return w.onlyRun(t, "five", "failed")
}

// fiveAlone is the definition of five as a file of its own.
func fiveAlone() string {
	_, five, _ := strings.Cut(resumeDefinitions, "  - name: five\n")
	return "name: five" + strings.ReplaceAll("\n"+five, "\n    ", "\n")
}

// TestReconcileALostAnswer loses the answers of unsafe calls: the runs wait, and
// go on as they are told, with the result for the caller who still waits.
func TestReconcileALostAnswer(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	for _, tc := range []struct {
		key, result string
		flags       []string
		pays        int
	}{
		{"happened", `"told":"paid 17"`, []string{"--happened", "--result", `{"id": "17"}`}, 1},
		{"not", `"told":"paid second"`, []string{"--not-happened"}, 2},
		{"fail", "is not known", []string{"--fail"}, 1},
	} {
		t.Run(tc.key, func(t *testing.T) {
			t.Parallel()
			c := w.dial(t, legacy, nil)
			call := toolCall{name: "order", arguments: map[string]any{"key": tc.key}, key: tc.key}
			if got, err := call.by(t.Context(), c); err != nil || !strings.Contains(asJSON(t, got), "waiting_for_approval") {
				t.Fatalf("got %+v, %v, want a handle", got, err)
			}
			id := w.waitingRun(t, tc.key)
			if shown := w.run(t, "runs", "show", id); !strings.Contains(shown, "perdure runs reconcile "+id+" --step pay") || !strings.Contains(shown, tc.key) {
				t.Errorf("show says:\n%s", shown)
			}
			if listed := w.run(t, "runs", "list", "--query", "PerdureWaiting = 'reconciliation'"); !strings.Contains(listed, id) {
				t.Errorf("listed by what it waits for:\n%s", listed)
			}
			if _, refused, err := w.try(t, "runs", "reconcile", id, "--happened", "--result", "[1]"); err == nil || !strings.Contains(refused, "still waits") {
				t.Errorf("a result that is none: %v, %s", err, refused)
			}
			w.run(t, append([]string{"runs", "reconcile", id, "--step", "pay"}, tc.flags...)...)
			got, err := call.by(t.Context(), c)
			if text := strings.ReplaceAll(asJSON(t, got), `\"`, `"`); err != nil || !strings.Contains(text, tc.result) {
				t.Errorf("got %s, %v, want %s", text, err, tc.result)
			}
			if pays := w.backend.count("be_pay", `"key":"`+tc.key+`"`); pays != tc.pays {
				t.Errorf("paid %d times, want %d", pays, tc.pays)
			}
		})
	}
}

// waitingRun finds the run with a key that waits.
func (w *resumeWorld) waitingRun(t *testing.T, key string) (id string) {
	t.Helper()
	until(t, "the run "+key+" to wait", func() bool {
		for _, run := range w.runs(t, "order") {
			var detail struct{ Arguments struct{ Key string } }
			if run.Status == "waiting" && json.Unmarshal([]byte(w.run(t, "runs", "show", run.ID, "-o", "json")), &detail) == nil && detail.Arguments.Key == key {
				id = run.ID
			}
		}
		return id != ""
	})
	return id
}

// TestResumeWithAnotherDefinition resumes a run by what it does in its fourth
// step, and another argument. The caller who calls again with the same key gets
// what comes of it.
func TestResumeWithAnotherDefinition(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	w.broken.Store(true)
	c := w.dial(t, legacy, nil)
	call := toolCall{name: "five", arguments: map[string]any{"key": "k"}, key: "once"}
	if got, err := call.by(t.Context(), c); err != nil || !got.IsError {
		t.Fatalf("got %+v, %v", got, err)
	}
	id := w.onlyRun(t, "five", "failed")
	fixed := fiveAlone()
	putFile(t, filepath.Join(w.dir, "fixed.yaml"), strings.Replace(fixed, "be_fragile, arguments: {key: \"{{.params.key}}\"", "be_write, arguments: {key: \"{{.params.key}}!\"", 1))
	if _, refused, err := w.try(t, "runs", "resume", id, "--definition", "fixed.yaml"); err == nil || !strings.Contains(refused, "be_write may take effect twice") {
		t.Errorf("without a yes: %v, %s", err, refused)
	}
	if _, refused, err := w.try(t, "runs", "resume", id, "--set", "params.key=[1]", "--yes"); err == nil || !strings.Contains(refused, "key") {
		t.Errorf("an argument that does not fit: %v, %s", err, refused)
	}
	w.run(t, "publish", "fixed.yaml", "--version", "2.0.0")
	if plan := w.run(t, "runs", "resume", id, "--definition", "^2", "--dry-run", "-o", "json"); !strings.Contains(plan, `"reused_if_same"`) {
		t.Errorf("the plan with what was published: %s", plan)
	}
	w.run(t, "publish", "fixed.yaml", "--version", "2.0.1-rc.1")
	w.run(t, "definitions", "deprecate", "five@2.0.1-rc.1", "--reason", "writes twice")
	putFile(t, filepath.Join(w.dir, "other.yaml"), strings.Replace(strings.Replace(fixed, "required: [key]", "required: [key, who]", 1), "key: {type: string}", "key: {type: string}, who: {type: string}", 1))
	w.run(t, "publish", "other.yaml", "--version", "3.0.0")
	for version, why := range map[string]string{
		"4.0.0": "five has no version 4.0.0", "five@4": "five has no version 4", "3.0.0": "who is required", "six@1": "the run is one of five",
		"text.star@1.0.0": "the run is one of five", "fine.yaml": "fine.yaml",
	} {
		if _, refused, err := w.try(t, "runs", "resume", id, "--definition", version, "--yes"); err == nil || !strings.Contains(refused, why) {
			t.Errorf("with %s: %v, %s", version, err, refused)
		}
	}
	if _, told, err := w.try(t, "runs", "resume", id, "--definition", "2.0.1-rc.1", "--dry-run"); err != nil || !strings.Contains(told, "five 2.0.1-rc.1 is deprecated: writes twice") {
		t.Errorf("with a deprecated version: %v, %s", err, told)
	}
	w.run(t, "runs", "resume", id, "--definition", "five@2.0.0", "--yes")
	if got := call.must(t, c); !strings.Contains(got, `"all":"12345"`) {
		t.Errorf("called again: %s", got)
	}
	if shown := w.run(t, "runs", "show", id); !strings.Contains(shown, "five 2.0.0") {
		t.Errorf("the run is shown as %s", shown)
	}
	if n := w.backend.count("be_write", `"text":"1234"`); n != 1 || w.backend.count("be_fragile", "") != 1 || w.backend.count("be_write", "") != 4 {
		t.Errorf("calls: %+v", w.backend.seen())
	}
}

// A definition with which a run is resumed lacks steps that have written: what they did is
// shown, stays an effect of the run, and is not done again with a definition that has them.
func TestAttackResumeWithoutSteps(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	id := w.failedRun(t)
	const head = "name: five\ndescription: d\nparameters: {key: string}\nsteps:\n"
	putFile(t, filepath.Join(w.dir, "renamed.yaml"), head+`  - {id: uno, tool: be_write, arguments: {key: "{{.params.key}}", text: "1"}}`)
	if plan := w.run(t, "runs", "resume", id, "--definition", "renamed.yaml", "--dry-run", "-o", "json"); strings.Count(plan, `"left"`) != 3 || strings.Count(plan, `"risk": true`) != 2 {
		t.Errorf("the plan with a step by another name: %s", plan)
	}
	putFile(t, filepath.Join(w.dir, "without.yaml"), head+`  - {id: four, tool: be_fragile, arguments: {key: "{{.params.key}}", text: "1234"}}`)
	w.run(t, "runs", "resume", id, "--definition", "without.yaml", "--yes")
	until(t, "the run to fail again", func() bool { return w.backend.count("be_fragile", "") == 2 && w.runs(t, "five")[0].Status == "failed" })
	if shown := w.run(t, "runs", "show", id); !strings.Contains(shown, "would repeat be_write (step one) and be_write (step three)") {
		t.Errorf("it is shown as %s", shown)
	}
	w.broken.Store(false)
	putFile(t, filepath.Join(w.dir, "again.yaml"), fiveAlone())
	w.run(t, "runs", "resume", id, "--definition", "again.yaml", "--yes")
	until(t, "the run to complete", func() bool { return w.runs(t, "five")[0].Status == "completed" })
	for text, tool := range map[string]string{"1": "be_write", "12": "be_read", "123": "be_write", "12345": "be_write"} {
		if n := w.backend.count(tool, fmt.Sprintf(`"text":%q`, text)); n != 1 {
			t.Errorf("%s was executed %d times with %s", tool, n, text)
		}
	}
}

// TestResumeARun lets runs fail in the fourth of five steps, repairs the backend
// and resumes them: one by its ID, the others all at once.
func TestResumeARun(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	w.broken.Store(true)
	c := w.dial(t, legacy, nil)
	for _, key := range []string{"a", "b", "c"} {
		got, err := toolCall{name: "five", arguments: map[string]any{"key": key}}.by(t.Context(), c)
		if err != nil || !strings.Contains(asJSON(t, got.Content), "out of order") {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	id := ""
	until(t, "three failed runs", func() bool {
		list := w.runs(t, "five")
		if len(list) == 3 {
			id = list[0].ID
		}
		return len(list) == 3 && list[0].Status == "failed"
	})
	w.broken.Store(false)
	plan := w.run(t, "runs", "resume", id, "--dry-run", "-o", "json")
	if strings.Count(plan, `"plan": "reused"`) != 3 || !strings.Contains(plan, `"resumed": false`) {
		t.Errorf("the plan is %s", plan)
	}
	if _, refused, err := w.try(t, "runs", "resume", id, "--from", "three"); err == nil || !strings.Contains(refused, "--yes") {
		t.Errorf("with a change and without a word: %v, %s", err, refused)
	}
	w.run(t, "runs", "resume", id)
	until(t, "the result", func() bool {
		out, _, err := w.try(t, "runs", "result", id)
		return err == nil && strings.Contains(out, `"all": "12345"`)
	})
	if shown := w.run(t, "runs", "show", id, "--watch"); !strings.Contains(shown, "completed") {
		t.Errorf("show says:\n%s", shown)
	}
	all := w.run(t, "runs", "resume", "--query", "PerdureTool = 'five'", "--rate", "50")
	if !strings.Contains(all, "2 found, 2 resumed") {
		t.Errorf("all at once: %s", all)
	}
	until(t, "all to complete", func() bool {
		return strings.Count(w.run(t, "runs", "list", "--tool", "five", "--status", "completed"), "completed") == 3
	})
	if all := w.run(t, "runs", "resume", "--query", "PerdureTool = 'five'"); !strings.Contains(all, "0 found") {
		t.Errorf("once more: %s", all)
	}
	for _, key := range []string{"a", "b", "c"} {
		for text, want := range map[string]int{"1": 1, "12": 1, "123": 1, "12345": 1} {
			tool := map[bool]string{true: "be_read", false: "be_write"}[text == "12"]
			if got := w.backend.count(tool, fmt.Sprintf(`"key":%q,"text":%q`, key, text)); got != want {
				t.Errorf("%s: %s was executed %d times with %s, want %d", key, tool, got, text, want)
			}
		}
		if got := w.backend.count("be_fragile", fmt.Sprintf(`"key":%q`, key)); got != 2 {
			t.Errorf("%s: the broken tool was executed %d times, want 2", key, got)
		}
	}
}

// TestInterruptedResume interrupts the resumption of many runs in the middle, and does
// what it says to go on: each is resumed once, also those that fail once more.
func TestInterruptedResume(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	w.broken.Store(true)
	c := w.dial(t, legacy, nil)
	const all = 8
	for i := range all {
		got, err := toolCall{name: "five", arguments: map[string]any{"key": fmt.Sprint("k", i)}}.by(t.Context(), c)
		if err != nil || !got.IsError {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	until(t, "the failed runs to be listed", func() bool {
		return strings.Count(w.run(t, "runs", "list", "--tool", "five", "--status", "failed"), "five/") == all
	})
	cmd, output := w.program("runs", "resume", "--query", "PerdureTool = 'five'", "--rate", "3"), &topology.Transcript{}
	cmd.Stdout, cmd.Stderr = output, output
	perduretest.NoError(t, cmd.Start())
	t.Cleanup(func() { killGroup(cmd) })
	until(t, "some to be resumed", func() bool { return strings.Contains(output.String(), "3/8 ") })
	perduretest.NoError(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil {
		t.Errorf("it ends with status 0: %s", output)
	}
	_, rest, ok := strings.Cut(output.String(), "perdure runs resume --query '")
	if !ok || !strings.Contains(output.String(), "8 found") {
		t.Fatalf("it says\n%s", output)
	}
	rest, _, _ = strings.Cut(rest, "'\n")
	w.broken.Store(false)
	again := w.run(t, "runs", "resume", "--query", strings.ReplaceAll(rest, `'\''`, "'"), "--rate", "50")
	if strings.Contains(again, "8 found") || strings.Contains(again, " 0 found") {
		t.Errorf("once more: %s", again)
	}
	for i := range all {
		key := fmt.Sprintf(`"key":"k%d"`, i)
		until(t, "all to be resumed", func() bool { return w.backend.count("be_fragile", key) >= 2 })
	}
	until(t, "all to end", func() bool {
		return !strings.Contains(w.run(t, "runs", "list", "--tool", "five"), "running")
	})
	for i := range all {
		key := fmt.Sprintf(`"key":"k%d"`, i)
		if n := w.backend.count("be_fragile", key); n != 2 {
			t.Errorf("%s: the broken tool was called %d times, want 2", key, n)
		}
		if n := w.backend.count("be_write", key+`,"text":"123"`); n != 1 {
			t.Errorf("%s: what was done is done %d times", key, n)
		}
	}
}

// TestResumeInATerminal says no and then yes to a resumption that changes something,
// and watches one of many runs.
func TestResumeInATerminal(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	id := w.failedRun(t)
	for _, tc := range []struct {
		says, shows string
		threes      int
	}{
		{"n", "nothing was done", 1},
		{"", "nothing was done", 1},
		{"yes", "resumed", 2},
	} {
		term := startInTerminal(t, w.program("runs", "resume", id, "--from", "three"))
		term.shows("Resume the run? [y/N] ")
		if !strings.Contains(term.text(), "be_write may take effect twice") {
			t.Errorf("before it asks, it says\n%s", term.text())
		}
		term.enter(tc.says)
		if err := receive(t, term.ended, "the command to end"); err != nil || !strings.Contains(term.text(), tc.shows) {
			t.Errorf("upon %q: %v\n%s", tc.says, err, term.text())
		}
		until(t, "the run to end", func() bool {
			return w.backend.count("be_fragile", "") == tc.threes && strings.Contains(w.run(t, "runs", "list", "--status", "failed"), id)
		})
		if n := w.backend.count("be_write", `"key":"k","text":"123"`); n != tc.threes {
			t.Errorf("after %q the step was executed %d times, want %d", tc.says, n, tc.threes)
		}
	}
	w.broken.Store(false)
	term := startInTerminal(t, w.program("runs", "resume", "--query", "PerdureTool = 'five'"))
	if err := receive(t, term.ended, "the command to end"); err != nil {
		t.Error(err)
	}
	bar := regexp.MustCompile(`\[#{` + "30" + `}\] 1/1  1 resumed\nat Temporal \S+, namespace default\n1 found, 1 resumed`)
	if !bar.MatchString(term.text()) {
		t.Errorf("the bar:\n%q", term.text())
	}
}
