package program_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	temporal "go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology/clients"
)

// A failing call is one that comes to an error, and the error that it comes to.
type failing struct {
	code, category string
	at             string // path of the step, "" = none is to blame
	tool           string
	retryable      bool
	partial        string // perdure/partial as JSON, "" = nothing has completed
	omitted        string // perdure/omitted as JSON
	effects        string // perdure/effects as JSON, "" = calling again would repeat nothing
	status         string // of the run, "" = failed

	does      string // definition of the tool that is called, in YAML, without name and description; "" = called is not of the table
	called    string // tool, "" = the one that the code names
	arguments string // JSON, "" = {}
	version   string
	key       string // idempotency key
	answer    string // to what is asked, "" = nothing is asked
	unstarted bool   // the call is refused, and there is no run
	direct    bool   // the tool is a backend's
	local     bool   // the command line refuses it without the server
}

const (
	okStep = `{id: ok, tool: be_okread}`
	done   = `{"ok":{"ok":true}}`
)

// bad are the effects of a call of the step bad.
func bad(kind, tool string) string {
	return fmt.Sprintf(`{%q:[{"stepPath":"bad","tool":%q}]}`, kind, tool)
}

// stepping writes a definition that completes a step and then fails in another.
func stepping(fails string) string { return "steps: [" + okStep + ", " + fails + "]" }

// scripted writes a definition that is a script, which makes a call first.
func scripted(lines ...string) string {
	return "tools: [\"be_*\", \"e_*\", goner, inexistent]\n    script: |\n      be_okread()\n      " + strings.Join(lines, "\n      ")
}

const scriptDone = `{"script/main:1":{"ok":true}}`

// failures has every error that a call on a running server can be brought to, by
// its code and what is special about it.
var failures = map[string]failing{
	"tool_error": {category: "tool", at: "bad", tool: "be_fail", retryable: true, partial: done, does: stepping(`{id: bad, tool: be_fail, dependsOn: [ok]}`)},
	"refused":    {category: "tool", at: "bad", tool: "be_rpc", retryable: false, partial: done, does: stepping(`{id: bad, tool: be_rpc, dependsOn: [ok]}`)},
	"tool_error of an item": {category: "tool", at: "each[0]", tool: "be_fail", retryable: true, partial: done,
		does: stepping(`{id: each, type: forEach, collection: '["a"]', step: {tool: be_fail}, dependsOn: [ok]}`)},
	"tool_error with much done": {category: "tool", at: "bad", tool: "be_fail", retryable: true, partial: done, omitted: `["big"]`,
		does: stepping(`{id: big, tool: be_bigread, dependsOn: [ok]}, {id: bad, tool: be_fail, dependsOn: [big]}`)},
	"tool_error two deep": {category: "tool", at: "below/inner/bad", tool: "be_fail", retryable: true,
		partial: `{"ok":{"ok":true},"below/ok":{"ok":true},"below/inner/ok":{"ok":true}}`,
		does:    stepping(`{id: below, type: workflow, workflow: middle, dependsOn: [ok]}`)},
	"tool_error below a script": {category: "tool", at: "script/main:2/bad", tool: "be_fail", retryable: true,
		partial: `{"script/main:1":{"ok":true},"script/main:2/ok":{"ok":true}}`, does: scripted(`call_workflow("inner")`)},

	"tool_error after a write": {category: "tool", at: "bad", tool: "be_fail", partial: `{"w":{"ok":true}}`, effects: `{"completed":[{"stepPath":"w","tool":"be_ok"}]}`,
		does: `steps: [{id: w, tool: be_ok}, {id: bad, tool: be_fail, dependsOn: [w]}]`},
	"tool_error after a write below": {category: "tool", at: "bad", tool: "be_fail", partial: `{"below":{"ok":true}}`, effects: `{"completed":[{"stepPath":"below/w","tool":"be_ok"}]}`,
		does: `steps: [{id: below, type: workflow, workflow: writing}, {id: bad, tool: be_fail, dependsOn: [below]}]`},
	"step_timeout beside a write": {category: "timeout", at: "bad", tool: "be_slowread", partial: done, effects: `{"unknown":[{"stepPath":"w","tool":"be_slow"}]}`,
		does: stepping(`{id: w, tool: be_slow}, {id: bad, tool: be_slowread, timeout: 1s, dependsOn: [ok]}`)},
	"run_timeout after a write": {category: "timeout", partial: `{"w":{"ok":true}}`, status: "timed_out", effects: `{"completed":[{"stepPath":"w","tool":"be_ok"}]}`,
		does: "timeout: 4s\n    steps: [{id: w, tool: be_ok}, {id: bad, type: wait, for: 1h, dependsOn: [w]}]"},
	"step_timeout of a within": {category: "timeout", at: "script/main:4", partial: `{"script/main:1":{"ok":true},"script/f:3":{"ok":true}}`, effects: `{"completed":[{"stepPath":"script/f:3","tool":"be_ok"}]}`,
		does: scripted(`def f():`, `    return [be_ok(), sleep("1h")]`, `within("2s", f)`)},

	"connection_lost": {category: "outcome_unknown", at: "bad", tool: "be_lost", partial: done, effects: bad("unknown", "be_lost"), does: stepping(`{id: bad, tool: be_lost, dependsOn: [ok]}`)},
	"connection_lost of a read": {category: "tool", at: "bad", tool: "be_lostread", retryable: true, partial: done,
		does: stepping(`{id: bad, tool: be_lostread, dependsOn: [ok], timeout: 20s}`)},
	"backend_unavailable": {category: "tool", at: "bad", tool: "be_busy", retryable: true, partial: done, does: stepping(`{id: bad, tool: be_busy, dependsOn: [ok], onError: {action: retry, retryCount: 1, retryDelay: 100ms}}`)},
	"step_timeout":        {category: "outcome_unknown", at: "bad", tool: "be_slow", partial: done, effects: bad("unknown", "be_slow"), does: stepping(`{id: bad, tool: be_slow, timeout: 1s, dependsOn: [ok]}`)},
	"step_timeout of a read": {category: "timeout", at: "bad", tool: "be_slowread", retryable: true, partial: done,
		does: stepping(`{id: bad, tool: be_slowread, timeout: 1s, dependsOn: [ok]}`)},
	"run_timeout": {category: "timeout", retryable: true, partial: done, status: "timed_out", does: "timeout: 4s\n    " + stepping(`{id: bad, type: wait, for: 1h, dependsOn: [ok]}`)},

	"elicitation_timeout":   {category: "timeout", at: "script/main:2", retryable: true, partial: scriptDone, does: scripted(`approve("Go on?", timeout="1s", by="group:nobody")`)},
	"declined":              {category: "declined", at: "gate", partial: done, answer: "decline", does: stepping(`{id: gate, type: elicitation, message: Go on?, dependsOn: [ok]}`)},
	"elicitation_cancelled": {category: "declined", at: "gate", partial: done, answer: "cancel", does: stepping(`{id: gate, type: elicitation, message: Go on?, dependsOn: [ok]}`)},
	"declined two deep": {category: "declined", at: "below/gate", partial: `{"ok":{"ok":true},"below/ok":{"ok":true}}`, answer: "decline",
		does: stepping(`{id: below, type: workflow, workflow: asking, dependsOn: [ok]}`)},
	"cancelled":          {category: "cancelled", partial: scriptDone, status: "cancelled", effects: `{"unknown":[{"stepPath":"script/main:2","tool":"be_end"}]}`, does: scripted(`be_end(run=run.id, how="cancel")`)},
	"terminated":         {category: "terminated", status: "terminated", does: scripted(`be_end(run=run.id, how="terminate")`)},
	"workflow_cancelled": {category: "tool", at: "below", partial: `{"ok":{"ok":true},"below/script/main:1":{"ok":true}}`, effects: `{"unknown":[{"stepPath":"below/script/main:2","tool":"be_end"}]}`, does: stepping(`{id: below, type: workflow, workflow: ending, dependsOn: [ok]}`)},

	"template_failed":  {category: "template", at: "bad", tool: "be_ok", partial: done, does: stepping(`{id: bad, tool: be_ok, dependsOn: [ok], arguments: {pullNumber: '{{index .steps.ok.output 7}}'}}`)},
	"output_failed":    {category: "template", partial: done, does: "steps: [" + okStep + "]\n    output: {properties: {n: {type: integer, description: A number., value: '{{.steps.ok.output.ok}}'}}}"},
	"too_many_items":   {category: "limit", at: "each", partial: done, does: stepping(`{id: each, type: forEach, maxIterations: 1, collection: '["a", "b"]', step: {tool: be_ok}, dependsOn: [ok]}`)},
	"output_too_large": {category: "limit", at: "bad", tool: "be_vast", partial: done, effects: bad("completed", "be_vast"), does: stepping(`{id: bad, tool: be_vast, dependsOn: [ok]}`)},
	"result_too_large": {category: "limit", omitted: `["big"]`, does: `steps: [{id: big, tool: be_bigread}]` + "\n    output: {properties: {a: {type: string, description: A., value: '{{.steps.big.output.text}}'}, b: {type: string, description: B., value: '{{.steps.big.output.text}}'}}}"},
	"arguments_too_large of a step": {category: "limit", at: "bad", tool: "be_ok", omitted: `["big"]`,
		does: `steps: [{id: big, tool: be_bigread}, {id: bad, tool: be_ok, arguments: {a: "{{.steps.big.output.text}}", b: "{{.steps.big.output.text}}"}}]`},
	"elicitation_too_large": {category: "limit", at: "gate", omitted: `["big"]`, does: `steps: [{id: big, tool: be_bigread}, {id: gate, type: elicitation, message: "{{.steps.big.output.text}}"}]`},

	"script_failed": {category: "tool", at: "script/main:2", partial: scriptDone, does: scripted(`fail("no luck")`)},
	"mine":          {category: "timeout", at: "script/main:2", partial: scriptDone, does: scripted(`fail("no luck", code="mine", category="timeout")`)},
	"script_error":  {category: "template", at: "script/main:2", partial: scriptDone, does: scripted(`return 1 + "a"`)},
	"script_failed in a pretended category": {category: "tool", at: "script/main:2", partial: scriptDone,
		does: scripted(`fail(struct(code="cancelled", category="outcome_unknown", message="no", path="script/main:1", tool="be_ok"))`)},
	"script_failed of a sent script": {category: "tool", at: "script/main:2", partial: scriptDone, called: scriptTool,
		arguments: `{"script":"be_okread()\nfail(struct(code=\"cancelled\", category=\"cancelled\", message=\"no\"))"}`},
	"script_steps":     {category: "limit", at: "script/main:2", partial: scriptDone, does: scripted(`for i in range(10 * 1000 * 1000):`, `    i += 1`)},
	"script_memory":    {category: "limit", at: "script/main:2", partial: scriptDone, does: scripted(`return [0] * 100000000`)},
	"script_calls":     {category: "limit", at: "script/main:3", does: scripted(`for i in range(100):`, `    now()`), partial: scriptDone},
	"script_width":     {category: "limit", at: "script/main:2", partial: scriptDone, does: scripted(`parallel([lambda: 1] * 20)`)},
	"script_value":     {category: "limit", at: "script/main:2", tool: "", partial: scriptDone, does: scripted(`be_bigread()`), omitted: `["script/main:2"]`},
	"script_nesting":   {category: "limit", at: "script/main:6", partial: scriptDone, does: scripted(`v = []`, `for i in range(200):`, `    v = [v]`, ``, `be_ok(v=v)`)},
	"script_depth":     {category: "limit", at: "script/f:3", partial: scriptDone, does: scripted(`def f(n):`, `    return f(n + 1) if n < 30 else n`, `f(0)`)},
	"script_integer":   {category: "limit", at: "script/main:2", partial: scriptDone, does: scripted(`return (1 << 511) * 4`)},
	"script_time":      {category: "limit", at: "script", partial: scriptDone, does: scripted(`sleep("1h")`)},
	"unknown_tool":     {category: "tool", at: "script/main:2", tool: "be_nothing", partial: scriptDone, does: scripted(`call_tool("be_" + "nothing")`)},
	"unknown_workflow": {category: "tool", at: "script/main:2", tool: "inexistent", retryable: true, partial: scriptDone, does: scripted(`call_workflow("in" + "existent")`)},
	"invalid_workflow": {category: "validation", at: "script/main:2", tool: "no name!", partial: scriptDone, does: scripted(`call_workflow("no name" + "!")`)},
	"workflow_too_deep": {category: "limit", at: "script/main:2/script/main:2/script/main:2", tool: "e_workflow_too_deep", does: scripted(`call_workflow("e_workflow_" + "too_deep")`),
		partial: `{"script/main:1":{"ok":true},"script/main:2/script/main:1":{"ok":true},"script/main:2/script/main:2/script/main:1":{"ok":true}}`},
	"elicitation_schema": {category: "validation", at: "script/main:2", partial: scriptDone, does: scripted(`elicit("?", schema={"type": "arr" + "ay"})`)},

	"permission_denied":        {category: "permission", at: "bad", tool: "se_secret", unstarted: true, does: stepping(`{id: bad, tool: se_secret, dependsOn: [ok]}`)},
	"permission_denied midway": {category: "permission", at: "bad", tool: "se_secret", partial: done, does: stepping(`{id: bad, tool: se_secret, dependsOn: [ok], condition: "{{eq 1 1}}"}`)},
	"invalid_arguments":        {category: "validation", unstarted: true, local: true, arguments: `{"n": "many"}`, does: "parameters: {n: integer}\n    " + stepping(`{id: bad, tool: be_ok}`)},
	"unknown_version":          {category: "validation", unstarted: true, local: true, version: "9", does: stepping(`{id: bad, tool: be_ok}`)},
	"arguments_too_large":      {category: "limit", unstarted: true, arguments: `{"n": "` + strings.Repeat("x", 2<<20) + `"}`, does: "parameters: {n: string}\n    " + stepping(`{id: bad, tool: be_ok}`)},
	"tool_unavailable":         {category: "tool", retryable: true, unstarted: true, version: "1"},
	"tool_drift":               {category: "tool", tool: "be_changing", unstarted: true},
	"workflow_unavailable":     {category: "tool", at: "script/main:2", tool: "goner", retryable: true, partial: scriptDone, does: scripted(`call_workflow("go" + "ner")`)},
	"invalid_output":           {category: "internal", at: "bad", tool: "be_strange", partial: done, effects: bad("completed", "be_strange"), does: stepping(`{id: bad, tool: be_strange, dependsOn: [ok]}`)},
	"key_reused":               {category: "validation", unstarted: true, key: "used", arguments: `{"n": 2}`, local: true, does: "parameters: {n: integer}\n    " + stepping(`{id: bad, tool: be_ok}`)},
	"duplicate":                {category: "validation", unstarted: true, arguments: `{"n": 1}`, does: "parameters: {n: integer}\n    businessKey: 'order {{.params.n}}'\n    onDuplicate: reject\n    " + stepping(`{id: bad, tool: be_ok}`)},
	"run_not_found":            {category: "validation", called: awaitTool, arguments: `{"runId":"e_declined/none"}`, unstarted: true, direct: true},

	"not_sent":         {category: "tool", called: "be_busy", tool: "be_busy", retryable: true, direct: true},
	"no_answer":        {category: "tool", called: "be_lostread", tool: "be_lostread", retryable: true, direct: true},
	"outcome_unknown":  {category: "outcome_unknown", called: "be_lost", tool: "be_lost", direct: true},
	"refused of a 400": {category: "tool", called: "be_bad", tool: "be_bad", direct: true},
}

// shownElsewhere has the codes that no call here comes to, and the test that shows
// each.
var shownElsewhere = map[string]string{
	"invalid_definition":    "TestErrorsOfTheRun",
	"credentials_needed":    "TestCredentialsOfALongRun",
	"held":                  "TestHeld",
	"quota":                 "TestOpenRunsAreBounded",
	"worker_without_rules":  "TestWorkerWithoutRules",
	"sent_before":           "TestReset",
	"undone_since":          "TestAttackResetToBehindWhatWasUndone",
	"worker_lost":           "TestErrorsOfTheRun",
	"under_way":             "TestResumeOfACallUnderWay",
	"called_run_gone":       "TestCalledRunIsDeleted",
	"workflow_terminated":   "TestCalledRunIsTerminated",
	"parent_gone":           "TestErrorsOfTheRun",
	"quarantined":           "TestAttackWorkerKiller",
	"run_too_long":          "TestErrorsOfTheRun",
	"too_many_runs":         "TestTreesOfRuns",
	"input_too_large":       "TestArgumentsHaveALimit",
	"output_too_large_here": "TestOutputTooLarge",
	"unavailable":           "TestTemporalRestarted",
	"start_unknown":         "TestAttackStartThatIsNotKnown",
	"run_lost":              "TestTemporalWentBack",
	"internal":              "TestErrorsOfTheRun",
	"invalid_result":        "TestOutcome",
}

// called by the definitions of the table.
const calledWhenFailing = `
  - {name: middle, description: Calls one that fails., steps: [{id: ok, tool: be_okread}, {id: inner, type: workflow, workflow: inner, dependsOn: [ok]}]}
  - {name: writing, description: Writes., steps: [{id: w, tool: be_ok}]}
  - {name: inner, description: Fails., steps: [{id: ok, tool: be_okread}, {id: bad, tool: be_fail, dependsOn: [ok]}]}
  - {name: asking, description: Asks., steps: [{id: ok, tool: be_okread}, {id: gate, type: elicitation, message: Go on?, dependsOn: [ok]}]}
  - name: ending
    description: Is cancelled.
    tools: ["be_*"]
    script: |
      be_okread()
      be_end(run=run.id, how="cancel")
`

// calls is the name of the tool that a failing call calls.
func (f failing) calls(name string) string {
	return cmp.Or(f.called, "e_"+regexp.MustCompile(`\W+`).ReplaceAllString(name, "_"))
}

// A told error is what a client is told of a failed call.
type toldError struct {
	Error, Partial, Omitted, Effects string // JSON; of the error without what differs between two runs
	Run, Status                      string
}

// A failureWorld is dev with the definitions of the table.
type failureWorld struct {
	*devProcess
}

func newFailureWorld(t *testing.T) *failureWorld {
	var at atomic.Pointer[devProcess]
	lost := func(context.Context, map[string]any) (*mcp.CallToolResult, error) { panic(http.ErrAbortHandler) }
	slow := func(ctx context.Context, _ map[string]any) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	big := strings.Repeat("b", 1<<20)
	backend := serveFakes(t, map[string]fakeTool{
		"be_ok": structuredAnswer(`{"ok":true}`), "be_okread": structuredAnswer(`{"ok":true}`), "se_secret": structuredAnswer(`{}`),
		"be_fail": failingAnswer("the disk is full"), "be_lost": lost, "be_lostread": lost, "be_slow": slow, "be_slowread": slow,
		"be_bigread": structuredAnswer(`{"text":"` + big + `"}`), "be_vast": structuredAnswer(`{"text":"` + big + big + `"}`),
		"be_soon": structuredAnswer(`{}`), "be_changing": structuredAnswer(`{}`), "be_strange": structuredAnswer(`{"n":1e999999999}`),
		"be_busy": structuredAnswer(`{}`), "be_bad": structuredAnswer(`{}`),
		"be_rpc": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
			return nil, fmt.Errorf("no such row")
		},
		"be_end": func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			c := at.Load().temporal(t)
			if err := endRun(ctx, c, fmt.Sprint(arguments["run"]), fmt.Sprint(arguments["how"])); err != nil {
				return nil, err
			}
			return slow(ctx, nil)
		},
	})
	front := refusing(t, backend.web.URL, map[string]int{"busy": http.StatusTooManyRequests, "bad": http.StatusBadRequest})
	dir := t.TempDir()
	configuration := strings.ReplaceAll(backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`), backend.web.URL, front)
	putFile(t, filepath.Join(dir, "perdure.yaml"), configuration+failureDefinitions())
	w := &failureWorld{startDev(t, dir, "--config", "perdure.yaml")}
	at.Store(w.devProcess)
	w.publishAndChange(t, backend)
	return w
}

// publishAndChange publishes what uses a tool that goes away after that, or
// becomes another one.
func (w *failureWorld) publishAndChange(t *testing.T, backend *fakeServers) {
	t.Helper()
	for _, one := range []struct{ name, version, tool string }{
		{"e_tool_unavailable", "1.0.0", "be_soon"}, {"e_tool_unavailable", "2.0.0", "be_ok"}, {"e_tool_drift", "1.0.0", "be_changing"}, {"goner", "1.0.0", "be_soon"},
	} {
		putFile(t, filepath.Join(w.dir, "one.yaml"), fmt.Sprintf("{name: %s, version: %s, description: Fails., steps: [{id: bad, tool: %s}]}", one.name, one.version, one.tool))
		w.run(t, "publish", "one.yaml")
	}
	backend.servers["be"].DeleteTools("soon")
	backend.redefine("be_changing", `{"type":"object","properties":{"where":{"type":"string"}},"required":["where"]}`)
	until(t, "the drift to be seen", func() bool {
		out, _, err := w.try(t, "definitions", "drift")
		return err != nil && strings.Contains(out, "be_soon is gone: no backend offers it") && strings.Contains(out, "calls of be_changing may fail: ")
	})
}

func endRun(ctx context.Context, c temporal.Client, run, how string) error {
	if how == "terminate" {
		return c.TerminateWorkflow(ctx, run, "", "stuck")
	}
	return c.CancelWorkflow(ctx, run, "")
}

// refusing is a server before another one that refuses calls of tools by an HTTP
// status.
func refusing(t *testing.T, target string, status map[string]int) string {
	t.Helper()
	to := perduretest.Must(url.Parse(target))(t)
	through := httputil.NewSingleHostReverseProxy(to)
	through.FlushInterval = -1
	through.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var call struct {
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(body, &call) == nil && call.Method == "tools/call" && status[call.Params.Name] != 0 {
			http.Error(w, "not now", status[call.Params.Name])
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}

func failureDefinitions() string {
	var b strings.Builder
	b.WriteString(`
authorization:
  publishers: [{tools: ["*"], groups: ["*"]}]
  rules: [{tools: ["be_*", "e_*", goner, middle, inner, asking, ending, writing, execute_tool_script], groups: ["*"]}]
scripts:
  agents: true
  limits: {steps: 200000, memory: 10485760, calls: 20, width: 5, branches: 10, value: 200000, depth: 20, time: 10s}
maxWorkflowDepth: 2
publishing: {drift: fail}
compositeTools:` + calledWhenFailing)
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		if f := failures[name]; f.does != "" {
			fmt.Fprintf(&b, "  - name: %s\n    description: Fails.\n    %s\n", f.calls(name), f.does)
		}
	}
	return b.String()
}

// TestErrors calls what fails in each way there is, and has every client told the
// same of it: in both eras, as tasks, by the handle on the run, and at the
// command line.
func TestErrors(t *testing.T) {
	t.Parallel()
	w := newFailureWorld(t)
	first := dial(t, w.url(), modern, nil)
	toolCall{name: "e_key_reused", arguments: map[string]any{"n": 1}, key: "used"}.must(t, first)
	toolCall{name: "e_duplicate", arguments: map[string]any{"n": 1}}.must(t, first)
	for name, f := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.code, _, _ = strings.Cut(name, " ")
			f.called = f.calls(name)
			f.arguments = cmp.Or(f.arguments, "{}")
			session := w.inSession(t, f)
			f.check(t, session)
			for way, tell := range w.ways(f, session.Run) {
				t.Run(way, func(t *testing.T) {
					t.Parallel()
					session.same(t, tell(t))
				})
			}
		})
	}
}

// ways are those in which clients other than the first are told of a failure.
func (w *failureWorld) ways(f failing, run string) map[string]func(*testing.T) toldError {
	by := func(way func(*failureWorld, *testing.T, failing) toldError) func(*testing.T) toldError {
		return func(t *testing.T) toldError { return way(w, t, f) }
	}
	ways := map[string]func(*testing.T) toldError{"without sessions": by((*failureWorld).sessionless)}
	if !f.direct {
		ways["as a task"] = by((*failureWorld).asTask)
		ways["as a task without sessions"] = by((*failureWorld).asModernTask)
	}
	if !f.local {
		ways["perdure call"] = by((*failureWorld).atTerminal)
	}
	if !f.unstarted && !f.direct {
		ways[awaitTool] = func(t *testing.T) toldError { return w.awaited(t, run) }
		ways["perdure runs show"] = func(t *testing.T) toldError { return w.shown(t, run) }
	}
	return ways
}

// check holds what a client is told against the table.
func (f failing) check(t *testing.T, told toldError) {
	t.Helper()
	var e struct {
		Code, Category, Message, StepPath, Tool string
		StepID                                  string `json:"stepId"`
		Step                                    string `json:"step_id"`
		Retryable                               *bool
	}
	if err := json.Unmarshal([]byte(told.Error), &e); err != nil {
		t.Fatalf("%v in %s", err, told.Error)
	}
	step, _, _ := strings.Cut(f.at, "/")
	step, _, _ = strings.Cut(step, "[")
	switch {
	case e.Code != f.code || e.Category != f.category || e.Tool != f.tool || e.Retryable == nil || *e.Retryable != f.retryable || e.Message == "":
		t.Errorf("the error is %s, want %s of %s", told.Error, f.code, f.category)
	case e.StepPath != f.at || e.StepID != step || e.Step != step:
		t.Errorf("the error is of step %q at %q, want %q at %q", e.StepID, e.StepPath, step, f.at)
	}
	sameJSON(t, "what has completed", cmp.Or(told.Partial, "{}"), cmp.Or(f.partial, "{}"))
	sameJSON(t, "what is left out", cmp.Or(told.Omitted, "[]"), cmp.Or(f.omitted, "[]"))
	sameJSON(t, "what would be repeated", cmp.Or(told.Effects, "{}"), cmp.Or(f.effects, "{}"))
	if want := cmp.Or(f.status, "failed"); told.Run != "" && told.Status != want {
		t.Errorf("the run has %s, want %s", told.Status, want)
	}
}

// same compares what two clients are told of the same failure.
func (a toldError) same(t *testing.T, b toldError) {
	t.Helper()
	sameJSON(t, "the error", b.Error, a.Error)
	sameJSON(t, "what has completed", cmp.Or(b.Partial, "{}"), cmp.Or(a.Partial, "{}"))
	sameJSON(t, "what is left out", cmp.Or(b.Omitted, "[]"), cmp.Or(a.Omitted, "[]"))
	sameJSON(t, "what would be repeated", cmp.Or(b.Effects, "{}"), cmp.Or(a.Effects, "{}"))
	if a.Status != b.Status {
		t.Errorf("the run has %s, want %s", b.Status, a.Status)
	}
}

// toldBy reads the result of a call, which must be an error.
func toldBy(t *testing.T, raw json.RawMessage) toldError {
	t.Helper()
	var result struct {
		IsError bool
		Content []struct{ Text string }
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &result); err != nil || !result.IsError || len(result.Content) == 0 || result.Content[0].Text == "" {
		t.Fatalf("no error: %v %.1000s", err, raw)
	}
	told := toldIn(t, result.Meta)
	text := result.Content[0].Text
	for _, tool := range regexp.MustCompile(`"tool":"(\w+)"`).FindAllStringSubmatch(told.Effects, -1) {
		if !strings.Contains(text, tool[1]) {
			t.Errorf("%q does not name %s", text, tool[1])
		}
	}
	if told.Effects != "" && strings.Contains(text, "may help") {
		t.Errorf("%q invites to call again what has taken effect", text)
	}
	return told
}

// toldIn reads what is said of an error beside a result.
func toldIn(t *testing.T, meta map[string]json.RawMessage) toldError {
	t.Helper()
	if meta["perdure/error"] == nil {
		t.Fatalf("there is no perdure/error in %v", slices.Collect(maps.Keys(meta)))
	}
	var run struct{ ID, Status string }
	if meta["perdure/run"] != nil {
		perduretest.NoError(t, json.Unmarshal(meta["perdure/run"], &run))
	}
	return toldError{Error: comparableError(t, meta["perdure/error"]), Partial: string(meta["perdure/partial"]), Omitted: string(meta["perdure/omitted"]), Effects: string(meta["perdure/effects"]), Run: run.ID, Status: run.Status}
}

// differs is what may be otherwise in messages about two runs of a tool: names,
// times, and whether the run or the call was the first to see that its time was up.
var differs = regexp.MustCompile(`e_\w+/\w+|127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?|\d{4}-\d\d-\d\dT[\d:]+Z|:? timed out (after \w+|waiting for \w+)`)

// comparableError is an error without what differs between two runs, and in the
// names that clients of MCP get.
func comparableError(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if step, ok := e["stepId"]; ok {
		e["step_id"] = step
	}
	delete(e, "runId")
	return differs.ReplaceAllString(asJSON(t, e), "…")
}

func (f failing) params() string {
	meta := ""
	switch {
	case f.version != "":
		meta = fmt.Sprintf(`"_meta":{"perdure/version":%q},`, f.version)
	case f.key != "":
		meta = fmt.Sprintf(`"_meta":{"perdure/idempotency-key":%q},`, f.key)
	}
	return meta + fmt.Sprintf(`"name":%q,"arguments":%s`, f.called, f.arguments)
}

func (f failing) asked() answerer {
	return func(context.Context, string) (string, any, error) { return f.answer, nil, nil }
}

func (w *failureWorld) inSession(t *testing.T, f failing) toldError {
	t.Helper()
	return toldBy(t, newResumer(t, w.url(), f.asked()).must(t, "tools/call", "{"+f.params()+"}", nil))
}

// asTask makes the call a task of 2025-11-25.
func (w *failureWorld) asTask(t *testing.T, f failing) toldError {
	t.Helper()
	c := newResumer(t, w.url(), f.asked())
	raw, err := c.Request(t.Context(), 1, "tools/call", "{"+f.params()+`,"task":{}}`)
	if f.unstarted {
		var refused struct {
			Message string
			Data    map[string]json.RawMessage
		}
		if err == nil || json.Unmarshal([]byte(strings.TrimPrefix(err.Error(), "JSON-RPC error ")), &refused) != nil {
			t.Fatalf("no JSON-RPC error: %v %s", err, raw)
		}
		return toldIn(t, refused.Data)
	}
	var created struct{ Task struct{ TaskID string } }
	if err != nil || json.Unmarshal(raw, &created) != nil {
		t.Fatalf("no task: %v %s", err, raw)
	}
	return toldBy(t, c.must(t, "tasks/result", fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID), nil))
}

// A modernResult is a result of 2026-07-28, or a task.
type modernResult struct {
	ResultType, RequestState, TaskID, Status string
	InputRequests                            map[string]json.RawMessage
	Result                                   json.RawMessage
	Meta                                     map[string]json.RawMessage `json:"_meta"`
}

// answers are those to what a result asks.
func (r modernResult) answers(t *testing.T, action string) string {
	t.Helper()
	answers := map[string]any{}
	for gate := range r.InputRequests {
		answers[gate] = map[string]any{"action": action}
	}
	return asJSON(t, answers)
}

// sessionless makes the call as a client of 2026-07-28, which repeats it with
// what it is asked.
func (w *failureWorld) sessionless(t *testing.T, f failing) toldError {
	t.Helper()
	c := clients.Sessionless{URL: w.url(), Capabilities: `{"elicitation":{}}`}
	params := f.params()
	for id := 1; ; id++ {
		raw, r := modernRequest(t, &c, id, "tools/call", f.called, params)
		if r.ResultType != string(mcp.ResultTypeInputRequired) {
			return toldBy(t, raw)
		}
		params = f.params() + fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, r.RequestState, r.answers(t, f.answer))
	}
}

func modernRequest(t *testing.T, c *clients.Sessionless, id int, method, name, params string) (raw json.RawMessage, r modernResult) {
	t.Helper()
	raw, err := c.Request(t.Context(), id, method, name, params)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return raw, r
}

// asModernTask makes the call as a client of 2026-07-28 that takes tasks.
func (w *failureWorld) asModernTask(t *testing.T, f failing) toldError {
	t.Helper()
	c := clients.Sessionless{URL: w.url(), Capabilities: `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	raw, r := modernRequest(t, &c, 1, "tools/call", f.called, f.params())
	if r.ResultType != "task" {
		return toldBy(t, raw)
	}
	named := fmt.Sprintf(`"taskId":%q`, r.TaskID)
	until(t, "the task to end", func() bool {
		_, r = modernRequest(t, &c, 2, "tasks/get", r.TaskID, named)
		if len(r.InputRequests) > 0 {
			modernRequest(t, &c, 3, "tasks/update", r.TaskID, named+`,"inputResponses":`+r.answers(t, f.answer))
		}
		return r.Status == "completed" || r.Status == "cancelled"
	})
	if r.Result == nil {
		return toldIn(t, r.Meta)
	}
	return toldBy(t, r.Result)
}

// awaited is what perdure_run_await says of a run.
func (w *failureWorld) awaited(t *testing.T, run string) toldError {
	t.Helper()
	return toldBy(t, newResumer(t, w.url(), nil).must(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"runId":%q}}`, awaitTool, run), nil))
}

// atTerminal makes the call with perdure call.
func (w *failureWorld) atTerminal(t *testing.T, f failing) toldError {
	t.Helper()
	file := filepath.Join(t.TempDir(), "arguments.json")
	putFile(t, file, f.arguments)
	called := f.called
	if f.version != "" {
		called += "@" + f.version
	}
	args := []string{"call", called, "-o", "json", "--args", "@" + file}
	if f.answer != "" {
		args = append(args, "--answer", f.answer)
	}
	out, errOut, err := w.try(t, args...)
	if err == nil || out == "" {
		t.Fatalf("perdure %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return toldBy(t, json.RawMessage(out))
}

// shown is what perdure runs show and perdure runs result say of a run, which
// must be the same.
func (w *failureWorld) shown(t *testing.T, run string) toldError {
	t.Helper()
	type ended struct {
		Status  string
		Failure struct{ Error, Partial, Omitted, Effects json.RawMessage }
	}
	var shown struct {
		Status  string
		Outcome ended
	}
	perduretest.NoError(t, json.Unmarshal([]byte(w.run(t, "runs", "show", run, "-o", "json")), &shown))
	var result ended
	out, _, failed := w.try(t, "runs", "result", run, "-o", "json")
	if err := json.Unmarshal([]byte(out), &result); err != nil || failed == nil {
		t.Fatalf("runs result: %v, %v in %s", failed, err, out)
	}
	sameJSON(t, "runs result", asJSON(t, result), asJSON(t, shown.Outcome))
	if shown.Status != shown.Outcome.Status {
		t.Errorf("runs show says that the run has %s, and its outcome %s", shown.Status, shown.Outcome.Status)
	}
	f := shown.Outcome.Failure
	return toldError{Error: comparableError(t, f.Error), Partial: string(f.Partial), Omitted: string(f.Omitted), Effects: string(f.Effects), Run: run, Status: shown.Status}
}

// TestErrorsAreComplete finds codes of the reference that no test brings about.
func TestErrorsAreComplete(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for name := range failures {
		code, _, _ := strings.Cut(name, " ")
		shown[code] = true
	}
	tests := testNames(t)
	for _, entry := range codes.Table() {
		code := string(entry.Code)
		test, elsewhere := shownElsewhere[code]
		switch {
		case shown[code] == elsewhere:
			t.Errorf("%s must be either in failures, with a call that comes to it, or in shownElsewhere, with a test that shows it", code)
		case elsewhere && !tests[test]:
			t.Errorf("%s is shown by %s, which does not exist", code, test)
		}
	}
	for name, f := range failures {
		code, _, _ := strings.Cut(name, " ")
		i := slices.IndexFunc(codes.Table(), func(e codes.Entry) bool { return string(e.Code) == code })
		if i < 0 {
			continue // of a script
		}
		entry := codes.Table()[i]
		if !slices.Contains(entry.Categories, codes.Category(f.category)) || f.retryable && !entry.Retryable {
			t.Errorf("%s comes to the category %s, retryable %t; the table of codes has %+v", name, f.category, f.retryable, entry)
		}
	}
}
