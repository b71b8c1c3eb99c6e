package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// badOrder takes the id of a payment for JSON, which it is not.
const badOrder = `name: order
description: Pays, and says so.
parameters: {type: object, properties: {key: {type: string}}, required: [key]}
steps:
  - {id: pay, tool: be_pay, arguments: {key: "{{.params.key}}"}}
  - {id: tell, tool: be_write, arguments: {text: "paid {{fromJson .steps.pay.output.id}} for {{.params.key}}"}, dependsOn: [pay]}
output: {properties: {told: {type: string, description: What was told, value: "{{.steps.tell.output.text}}"}}}
`

// The corrected definition also has a parameter more, with a default.
var fixedOrder = strings.NewReplacer("fromJson .steps.pay.output.id", ".steps.pay.output.id",
	"key: {type: string}}", "key: {type: string}, note: {type: string, default: none}}").Replace(badOrder)

// An operator is a shell in the directory of a running dev, in which the commands of
// docs/operations.md are typed as they are there.
type operator struct{ *devProcess }

func newOperator(t *testing.T, dir string, args ...string) operator {
	return operator{startSealedDev(t, dir, args...)}
}

// types runs a line of a shell, and returns what it prints to both outputs.
func (o operator) types(t *testing.T, line string) (string, error) {
	t.Helper()
	like := o.program("version")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = like.Dir, like.Env
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// documented are the commands of a section of docs/operations.md, in order.
func documented(t *testing.T, heading string) (lines []string) {
	t.Helper()
	page := perduretest.Read(t, "../../docs/operations.md")
	_, section, found := strings.Cut(string(page), "### "+heading+"\n")
	if !found {
		t.Fatalf("docs/operations.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	inBlock := false
	for line := range strings.Lines(section) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "```"):
			inBlock = line == "```sh"
		case inBlock:
			lines = append(lines, line)
		}
	}
	return lines
}

// TestRunbookOfABadDefinition follows the runbook for a bad definition as it is in
// docs/operations.md: runs have failed because of it, one for another reason, and of one
// the outcome of a call is unknown. Nothing is paid twice, and calls that are sent again
// with their keys get the results.
func TestRunbookOfABadDefinition(t *testing.T) {
	t.Parallel()
	backend := serveFakes(t, map[string]fakeTool{
		"be_write": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{"text": arguments["text"]}), nil
		},
		"be_pay": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			switch arguments["key"] {
			case "lost":
				panic(http.ErrAbortHandler)
			case "broke":
				return mcp.NewToolResultError("customer 17 has no money"), nil
			}
			return structured(map[string]any{"id": fmt.Sprint("p-", arguments["key"])}), nil
		},
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), backend.configuration(`[{tool: "*", class: unsafe}]`))
	perduretest.NoError(t, os.Mkdir(filepath.Join(dir, "definitions"), 0o755))
	putFile(t, filepath.Join(dir, "definitions", "order.yaml"), badOrder)
	putFile(t, filepath.Join(dir, "fixed.yaml"), fixedOrder)
	o := newOperator(t, dir, "--config", "perdure.yaml", "--definitions", "definitions")
	c := o.dial(t, legacy, nil)
	calls := map[string]toolCall{}
	for _, key := range []string{"a", "b", "c", "lost", "broke"} {
		calls[key] = toolCall{name: "order", arguments: map[string]any{"key": key}, key: "key-" + key}
		if got, err := calls[key].by(t.Context(), c); err != nil || !got.IsError {
			t.Fatalf("%s: %+v, %v", key, got, err)
		}
	}
	until(t, "five failed runs", func() bool {
		return strings.Count(o.run(t, "runs", "list", "--status", "failed"), "order/") == 5
	})

	lines := documented(t, "Many runs failed after a bad definition")
	if len(lines) != 6 {
		t.Fatalf("the runbook has the commands\n%s", strings.Join(lines, "\n"))
	}
	shows := func(i int, status int, wants ...string) {
		t.Helper()
		output, err := o.types(t, lines[i])
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() != status || err == nil && status != 0 {
			t.Errorf("%s: %v, want status %d", lines[i], err, status)
		}
		for _, want := range wants {
			if !strings.Contains(output, want) {
				t.Errorf("%s prints\n%s\nwithout %q", lines[i], output, want)
			}
		}
	}
	shows(0, 0, "3     template_failed", `fromJson: "…" is not JSON`, "1     tool_error", "customer # has no money", "1     connection_lost")
	shows(1, 0)
	shows(2, 0)
	until(t, "the corrected definition to be offered", func() bool { return strings.Contains(o.run(t, "definitions", "show", "order"), "note") })
	preview := []string{"3 resume, and may repeat an effect, such as order/", "pay   result reused if its arguments stay the same; be_pay may take effect twice", "tell  executed",
		"1 have a call with unknown outcome", "-      text: paid {{fromJson .steps.pay.output.id}}", "+      text: paid {{.steps.pay.output.id}}", "gets the result of the resumed run"}
	shows(3, 1, append(preview, "5 found, 4 would resume (3 of them may repeat an effect), 1 have a call with unknown outcome, 0 resumed already, 0 could not be resumed")...)
	if n := backend.count("be_pay", ""); n != 5 {
		t.Errorf("a dry run paid: %d calls", n)
	}
	shows(4, 1, append(preview, "5 found, 4 resumed, 1 have a call with unknown outcome")...)
	until(t, "the runs to end", func() bool {
		return strings.Count(o.run(t, "runs", "list", "--status", "completed"), "order/") == 3
	})
	shows(5, 0, "1     tool_error", "1     connection_lost")
	for _, key := range []string{"a", "b", "c"} {
		if got := calls[key].must(t, c); !strings.Contains(got, "paid p-"+key+" for "+key) {
			t.Errorf("%s, called again with its key: %s", key, got)
		}
		if n := backend.count("be_pay", fmt.Sprintf(`"key":%q`, key)); n != 1 {
			t.Errorf("%s was paid %d times", key, n)
		}
	}
}

// TestRepeatedCallAfterAResumption does what the command says of a call that is sent again
// with its key.
func TestRepeatedCallAfterAResumption(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t)
	w.broken.Store(true)
	c := w.dial(t, legacy, nil)
	call := toolCall{name: "five", arguments: map[string]any{"key": "k"}, key: "once"}
	if got, err := call.by(t.Context(), c); err != nil || !got.IsError {
		t.Fatalf("got %+v, %v", got, err)
	}
	id := w.onlyRun(t, "five", "failed")
	w.broken.Store(false)
	_, told, err := w.try(t, "runs", "resume", id, "--set", "params.key=other", "--yes")
	if err != nil || !strings.Contains(told, "the arguments that it had, gets the result of the resumed run") || !strings.Contains(told, "key_reused") {
		t.Errorf("the command says: %v, %s", err, told)
	}
	if got := call.must(t, c); !strings.Contains(got, `"all":"12345"`) {
		t.Errorf("with the arguments that it had: %s", got)
	}
	call.arguments = map[string]any{"key": "other"}
	if got, err := call.by(t.Context(), c); err == nil && !strings.Contains(asJSON(t, got), "key_reused") {
		t.Errorf("with the arguments set: %s, %v", asJSON(t, got), err)
	}
}

// TestAnswerMany answers what many runs ask, once with the same form, and not where the
// forms differ.
func TestAnswerMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "release.yaml"), `
name: release
description: Asks.
parameters: {type: object, properties: {build: {type: string}}, required: [build]}
steps:
  - {id: approve, type: elicitation, message: "Release {{.params.build}}?", schema: {type: object, properties: {why: {type: string}}, required: [why]}}
output: {properties: {why: {type: string, description: Why, value: "{{.steps.approve.output.content.why}}"}}}
`)
	putFile(t, filepath.Join(dir, "deploy.yaml"), `
name: deploy
description: Asks in another way.
steps: [{id: approve, type: elicitation, message: "Deploy?"}]
`)
	o := newOperator(t, dir, "--definitions", ".")
	c := o.dial(t, legacy, nil)
	for _, call := range []toolCall{
		{name: "release", arguments: map[string]any{"build": "1"}}, {name: "release", arguments: map[string]any{"build": "2"}}, {name: "deploy"},
	} {
		if got, err := call.by(t.Context(), c); err != nil || !strings.Contains(asJSON(t, got), "waiting_for_approval") {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	until(t, "three runs to wait", func() bool { return strings.Count(o.run(t, "runs", "list", "--waiting"), "approve") == 3 })
	all := `runs answer --query "ExecutionStatus = 'Running'" --step approve --accept`
	releases := `runs answer --query "PerdureTool = 'release'" --step approve --accept`
	for _, refused := range []struct{ command, says string }{
		{all + " --yes", "2 different forms; nothing was answered"},
		{releases + " --yes", "the answer does not fit"},
		{releases + ` --content '{"why": "tested"}'`, "nothing was done; check"},
		{`runs answer order/1 --query x --accept`, "name a run, or use --query"},
	} {
		if output, err := o.types(t, "perdure "+refused.command); err == nil || !strings.Contains(output, refused.says) {
			t.Errorf("%s: %v\n%s\nwant %q", refused.command, err, output, refused.says)
		}
	}
	if waiting := o.run(t, "runs", "list", "--waiting"); strings.Count(waiting, "approve") != 3 {
		t.Errorf("after the refusals:\n%s", waiting)
	}
	answered, err := o.types(t, "perdure "+releases+` --content '{"why": "tested"}' --yes -o json 2> asked`)
	var report struct{ Found, Answered int }
	if err != nil || json.Unmarshal([]byte(answered), &report) != nil || report.Found != 2 || report.Answered != 2 {
		t.Errorf("%v\n%s", err, answered)
	}
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || !strings.Contains(string(asked), "Release 1?") || !strings.Contains(string(asked), "Release 2?") {
		t.Errorf("it shows\n%s, %v", asked, err)
	}
	until(t, "the releases to complete", func() bool {
		return strings.Count(o.run(t, "runs", "list", "--status", "completed"), "release/") == 2
	})
	if waiting := o.run(t, "runs", "list", "--waiting"); !strings.Contains(waiting, "deploy/") || strings.Contains(waiting, "release/") {
		t.Errorf("what waits then:\n%s", waiting)
	}
}

// TestCancelMany cancels the open runs of a query after a yes, and no others.
func TestCancelMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"release", "deploy"} {
		putFile(t, filepath.Join(dir, name+".yaml"), `
name: `+name+`
description: Asks.
steps: [{id: approve, type: elicitation, message: "Go?"}]
`)
	}
	o := newOperator(t, dir, "--definitions", ".")
	c := o.dial(t, legacy, nil)
	for _, name := range []string{"release", "release", "deploy"} {
		if got, err := (toolCall{name: name}).by(t.Context(), c); err != nil || !strings.Contains(asJSON(t, got), "waiting_for_approval") {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	until(t, "three runs to wait", func() bool { return strings.Count(o.run(t, "runs", "list", "--waiting"), "approve") == 3 })
	const releases = `runs cancel --query "PerdureTool = 'release' OR PerdureTool = 'none'"`
	for _, refused := range []struct{ command, says string }{
		{releases, "nothing was done; check"},
		{releases + " --rate 0", "--rate must be"},
		{`runs cancel order/1 --query x`, "name a run, or use --query"},
	} {
		if output, err := o.types(t, "perdure "+refused.command); err == nil || !strings.Contains(output, refused.says) {
			t.Errorf("%s: %v\n%s\nwant %q", refused.command, err, output, refused.says)
		}
	}
	if waiting := o.run(t, "runs", "list", "--waiting"); strings.Count(waiting, "approve") != 3 {
		t.Errorf("after the refusals:\n%s", waiting)
	}
	if out, err := o.types(t, "perdure "+releases+" --limit 1 --yes -o json 2> shown"); err != nil || !strings.Contains(out, `"cancelled": 1`) || !strings.Contains(out, `"othersQuery": "(`) {
		t.Errorf("%v\n%s", err, out)
	}
	shown, err := os.ReadFile(filepath.Join(dir, "shown"))
	others := regexp.MustCompile(`more runs match than --limit 1; .*\n  (--query .*StartTime <= .*)`).FindSubmatch(shown)
	if err != nil || !strings.Contains(string(shown), "1 of release (waiting), such as release/") || others == nil {
		t.Fatalf("it shows\n%s, %v", shown, err)
	}
	until(t, "one to be cancelled", func() bool { return strings.Count(o.run(t, "runs", "list", "--status", "cancelled"), "release/") == 1 })
	if out, err := o.types(t, "perdure runs cancel "+string(others[1])+" --yes 2> shown"); err != nil || !strings.Contains(out, "1 found, cancellation requested: 1, errors: 0") {
		t.Errorf("%v\n%s", err, out)
	}
	until(t, "the other to be cancelled", func() bool { return strings.Count(o.run(t, "runs", "list", "--status", "cancelled"), "release/") == 2 })
	if waiting := o.run(t, "runs", "list", "--waiting"); !strings.Contains(waiting, "deploy/") || strings.Contains(waiting, "release/") {
		t.Errorf("what waits then:\n%s", waiting)
	}
	if out, err := o.types(t, `perdure runs terminate --query "PerdureTool = 'deploy'" --yes`); err != nil || !strings.Contains(out, "1 found, terminated: 1, errors: 0") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := o.types(t, `perdure runs fail --query "PerdureTool = 'deploy'" --yes`); err != nil || !strings.Contains(out, "0 found, failed: 0, errors: 0") {
		t.Errorf("%v\n%s", err, out)
	}
}
