package gateway_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

// sendsScripts lets agents send scripts, by a policy for those named ann.
func sendsScripts(o *gateway.Options) {
	o.Scripts = true
	o.Policy = &auth.Policy{Rules: []auth.Rule{
		{Grant: auth.Grant{Tools: []string{"execute_tool_script", "be_echo"}, Subjects: []string{"user-ann"}}},
		{Grant: auth.Grant{Tools: []string{"be_*", "execute_tool_scrip"}, Subjects: []string{"user-bob"}}},
	}}
}

func scriptCall(t *testing.T, script string, more map[string]any) string {
	t.Helper()
	arguments := map[string]any{"script": script}
	for name, value := range more {
		arguments[name] = value
	}
	encoded := perduretest.Must(json.Marshal(arguments))(t)
	return string(encoded)
}

// A script that was sent is a run like any other, with what its sender may call.
func TestExecuteScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){
		"execute_tool_script": func(p *play) { p.complete(`{"n":1}`) },
	}, sendsScripts)
	w.catalogue.set(tool("echo"), tool("secret"))
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	call := scriptCall(t, `return {"n": be_echo(n=data["n"])["n"]}`, map[string]any{"data": map[string]any{"n": 1}, "idempotencyKey": "k"})
	c.call("1", "execute_tool_script", call, "").result(false).structuredIs(t, `{"n":1}`)
	c.call("2", "execute_tool_script", call, "").result(false).structuredIs(t, `{"n":1}`)
	if w.runs.starts != 2 || len(w.runs.runs) != 1 {
		t.Errorf("the same key gave %d runs", len(w.runs.runs))
	}
	for _, run := range w.runs.runs {
		if got := string(run.req.Arguments); got != `{"n":1}` || run.req.Tools["be_echo"].Name != "be_echo" || len(run.req.Tools) != 1 {
			t.Errorf("started with %s and the tools %v", got, run.req.Tools)
		}
	}
	dynamic := scriptCall(t, `return [call_tool(name) for name in data["names"]]`, map[string]any{"data": map[string]any{"names": []string{}}})
	c.call("3", "execute_tool_script", dynamic, "").result(false)
	for _, run := range w.runs.runs {
		if _, secret := run.req.Tools["be_secret"]; secret {
			t.Error("a script may call what its sender may not")
		}
	}
	for script, want := range map[string]string{
		`return be_secret()`: `script:1:8: `,
		`return (`:           "[script-syntax]",
		`return be_ecko()`:   "be_ecko",
	} {
		m := c.call("4", "execute_tool_script", scriptCall(t, script, nil), "").result(true)
		if err := hasAll(m.text(), want, "nothing was called"); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
	plan := c.call("5", "execute_tool_script", call, `{"perdure/dry-run":true}`).result(false)
	if err := hasAll(plan.text(), "runs a script", "line 1: calls be_echo"); err != nil {
		t.Error(err)
	}
}

// Callers who may not send scripts do not see that others may. Callers who may send
// them learn how, and which tools a script can call.
func TestScriptToolsAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){}, sendsScripts)
	w.catalogue.set(tool("echo"), tool("secret"))
	ann, bob := w.descriptions("ann"), w.descriptions("bob")
	if err := hasAll(ann["execute_tool_script"], "Starlark", "parallel(", "- be_echo(): tool echo"); err != nil {
		t.Error(err)
	}
	if strings.Contains(ann["execute_tool_script"], "be_secret") {
		t.Error("a tool is listed that may not be called")
	}
	if _, ok := bob["execute_tool_script"]; ok {
		t.Error("bob sees that scripts can be sent")
	}
	if _, ok := bob["perdure_script_check"]; ok {
		t.Error("bob may check scripts that he may not send")
	}
}

// descriptions are those of the tools that somebody is offered.
func (w *world) descriptions(caller string) map[string]string {
	w.Helper()
	var listed struct {
		Result struct {
			Tools []struct{ Name, Description string }
		}
	}
	text := connect(w.T, w.url, caller, "2025-11-25", `{}`).post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).messageText()
	if err := json.Unmarshal(text, &listed); err != nil {
		w.Fatal(err)
	}
	tools := map[string]string{}
	for _, tool := range listed.Result.Tools {
		tools[tool.Name] = tool.Description
	}
	return tools
}

// Agents get the names of tools as a script can write them, whatever the tool's own
// name is, and of the composite tools those that may be called.
func TestScriptToolsAreListedAsTheyAreCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"secret": nil, "shown": nil}, sendsScripts, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Rules: []auth.Rule{{Grant: auth.Grant{Tools: []string{"execute_tool_script", "shown", "be*", "print", "from"}, Subjects: []string{"user-ann"}}}}}
	})
	called := func(name, schema string) backends.Tool {
		tool := tool(name)
		tool.Name, tool.InputSchema = name, json.RawMessage(schema)
		return tool
	}
	w.catalogue.set(tool("echo"), tool("pull-request.read"), tool("pull_request-read"), tool("2/x"), called("print", `{"properties":{"text":{}},"required":["text"]}`),
		called("from", `{}`), called("be", `{}`))
	got := w.descriptions("ann")["execute_tool_script"]
	if err := hasAll(got, `
Composite tools (* = required):
- call_workflow("shown", message, n): does shown
`, "- be_pull_request_read(): tool pull-request.read\n", `- call_tool("be_pull_request-read"): tool pull_request-read`, "- be_2_x(): tool 2/x\n",
		`- call_tool("print", text*): tool print`, `- call_tool("from"): tool from`, `- call_tool("be"): tool be`, "iterate(", "call_workflow(", "now()", "are written _"); err != nil {
		t.Error(err)
	}
	if strings.Contains(got, `"secret"`) {
		t.Error("a composite tool is listed that may not be called")
	}
}

// A script is checked without being run.
func TestScriptCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){}, sendsScripts)
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	check := func(script string) *msg {
		return c.call("1", "perdure_script_check", scriptCall(t, script, nil), "").result(false)
	}
	check("for i in range(3):\n  be_echo(n=i)\n").structuredIs(t, `{"calls":[{"kind":"tool","name":"be_echo","again":true,"file":"script","line":2}],"ok":true,"problems":[]}`)
	wrong := check("x = 1\nreturn be_secret(x)\n")
	if err := hasAll(string(wrong.Result.Structured), `"ok":false`, `"line":2`, `"check":"unknown-tool"`); err != nil {
		t.Error(err)
	}
	if w.runs.starts != 0 {
		t.Error("checking has started a run")
	}
}

// A script that a client sends cannot call tools hidden from clients.
func TestScriptsDoNotCallWhatIsHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){
		"execute_tool_script": func(p *play) { p.complete(`null`) },
	}, func(o *gateway.Options) { o.Scripts = true })
	hidden := tool("secret")
	hidden.Hidden = true
	w.catalogue.set(tool("echo"), hidden)
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	if m := c.call("1", "execute_tool_script", scriptCall(t, `return be_secret()`, nil), "").result(true); !strings.Contains(m.text(), "nothing was called") {
		t.Errorf("it was answered with %s", m.text())
	}
	c.call("2", "execute_tool_script", scriptCall(t, `return [call_tool(name) for name in data["names"]]`, map[string]any{"data": map[string]any{"names": []string{}}}), "").result(false)
	for _, run := range w.runs.runs {
		if _, ok := run.req.Tools["be_secret"]; ok || run.req.Tools["be_echo"].Name == "" {
			t.Errorf("a script may call %v", run.req.Tools)
		}
	}
}

// A script that was sent loads what its sender may read; what they may not is not
// there, and not listed.
func TestScriptsLoadModules(t *testing.T) {
	t.Parallel()
	kept := perduretest.Must(store.OpenRegistryFile(filepath.Join(t.TempDir(), "registry.jsonl")))(t)
	t.Cleanup(kept.Close)
	modules := registry.New(registry.Options{Store: kept})
	w := newWorld(t, map[string]func(*play){
		"execute_tool_script": func(p *play) { p.complete(`{"n":1}`) },
	}, func(o *gateway.Options) {
		o.Scripts, o.Registry = true, modules
		o.Policy = &auth.Policy{
			Rules: []auth.Rule{
				{Grant: auth.Grant{Tools: []string{"execute_tool_script", "be_*", "open.star"}, Groups: []string{"*"}}},
				{Grant: auth.Grant{Tools: []string{"*"}, Subjects: []string{"user-ann"}}},
			},
			Publishers: []auth.Publisher{{Grant: auth.Grant{Tools: []string{"*"}, Subjects: []string{"user-ann"}}}},
		}
	})
	w.catalogue.set(tool("echo"), tool("secret"))
	var q registry.Request
	for _, name := range []string{"open", "closed"} {
		q.Files = append(q.Files, registry.File{Name: name + ".star", Text: "# version: 1.2.0\ndef one(n = 1):\n    return be_echo(n = n)[\"n\"]\n"})
	}
	if code, body := w.request("POST", "publish", "ann", q); code != 200 || strings.Contains(body, `"severity":"error"`) {
		t.Fatalf("publishing gave %d %s", code, body)
	}
	load := func(module string) string {
		return scriptCall(t, "load(\""+module+"\", \"one\")\nreturn {\"n\": one()}", nil)
	}
	ann, bob := connect(t, w.url, "ann", "2025-11-25", `{}`), connect(t, w.url, "bob", "2025-11-25", `{}`)
	ann.call("1", "execute_tool_script", load("closed.star@^1.0"), "").result(false)
	bob.call("2", "execute_tool_script", load("open.star@1"), "").result(false)
	loads := 0
	for _, run := range w.runs.runs {
		if strings.Contains(string(run.req.Definition.Source()), `"version":"1.2.0"`) && run.req.Tools["be_echo"].Name == "be_echo" {
			loads++
		}
	}
	if loads != 2 {
		t.Errorf("%d runs carry what they load, with the tools of that", loads)
	}
	for module, want := range map[string]string{
		"closed.star@1": "script:1:1: the script loads closed.star@1: published module closed.star not found",
		"ghost.star@1":  "script:1:1: the script loads ghost.star@1: published module ghost.star not found",
		"open.star@2":   "open.star has no version 2; known versions: 1.2.0",
		"open.star":     "a published module is loaded as NAME.star@VERSION",
		"open@1":        "write NAME.star@VERSION",
	} {
		m := bob.call("3", "execute_tool_script", load(module), "").result(true)
		if err := hasAll(m.text(), want, "nothing was called"); err != nil {
			t.Errorf("%s: %v", module, err)
		}
		checked := bob.call("4", "perdure_script_check", load(module), "").result(false)
		if err := hasAll(string(checked.Result.Structured), `"ok":false`, "script-load"); err != nil {
			t.Errorf("checking %s: %v", module, err)
		}
	}
	if err := hasAll(string(bob.call("5", "perdure_script_check", load("open.star@1"), "").result(false).Result.Structured), `"ok":true`, "be_echo"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		client *wire
		has    bool
	}{{ann, true}, {bob, false}} {
		listed := string(c.client.post(`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`).messageText())
		if err := hasAll(listed, "open.star@1.2.0: one(n=…)"); err != nil || strings.Contains(listed, "closed.star") != c.has {
			t.Errorf("%v; listed is %s", err, listed)
		}
	}
}

// Composite tools that the sender may not call are not there for a script, also
// where it is only planned or checked; nor is the probe of a tool that it calls.
func TestScriptsAndWhatTheirSenderMayNotCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"execute_tool_script": func(p *play) { p.complete(`null`) }}, sendsScripts)
	probed := tool("echo")
	probed.Probe = json.RawMessage(`{"tool":"secret"}`)
	w.catalogue.set(probed, tool("secret"))
	var offers []gateway.Offer
	for _, text := range []string{
		"{name: be_hidden, description: d, expose: {hidden: true, callers: ['*']}, steps: [{id: a, tool: be_echo}]}",
		"{name: be_others, description: d, expose: {subjects: [user-bob]}, steps: [{id: a, tool: be_echo}]}",
	} {
		defs, diags := definitions.Parse("f.yaml", []byte(text))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		offers = append(offers, gateway.Offer{Entry: registry.Entry{Definition: defs[0]}})
	}
	w.gateway.SetOffers(offers)
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	for _, name := range []string{"be_hidden", "be_others", "be_nowhere"} {
		call := scriptCall(t, `return call_workflow("`+name+`")`, nil)
		for _, meta := range []string{"", `{"perdure/dry-run":true}`} {
			if m := c.call("1", "execute_tool_script", call, meta).result(true); !strings.Contains(m.text(), `composite tool "`+name+`" not found`) {
				t.Errorf("%s %s: %s", name, meta, m.text())
			}
		}
		if m := c.call("2", "perdure_script_check", call, "").result(false); !strings.Contains(string(m.Result.Structured), `"ok":false`) {
			t.Errorf("%s: %s", name, m.Result.Structured)
		}
	}
	c.call("3", "execute_tool_script", scriptCall(t, `return [be_echo()] + [call_tool(name) for name in data["names"]]`, map[string]any{"data": map[string]any{"names": []string{}}}), "").result(false)
	for _, run := range w.runs.runs {
		if probe := run.req.Tools["be.secret"]; !probe.ForProbe || run.req.Tools["be_echo"].ForProbe {
			t.Errorf("a script may call %+v", run.req.Tools)
		}
	}
}

// A script that fails reports where in its text, which is what models read.
func TestScriptErrors(t *testing.T) {
	t.Parallel()
	fails := func(p *play) {
		p.f.change(func() {
			p.run().end("failed", runs.Outcome{Failure: &runs.Failure{Error: runs.Error{
				Code: "script_error", Category: "template", Message: "cannot insert into frozen dict", StepID: "script", StepPath: "script/g:1",
				Backtrace: "Traceback (most recent call last):\n  script:4:2: in main\n  script:1:10: in g",
			}}})
		})
	}
	w := newWorld(t, map[string]func(*play){"execute_tool_script": fails, "simple": fails}, sendsScripts, func(o *gateway.Options) { o.Policy = nil })
	w.catalogue.set(tool("echo"))
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	where := "\nTraceback (most recent call last):\n  script:4:2: in main\n  script:1:10: in g"
	sent := c.call("1", "execute_tool_script", scriptCall(t, `return 1`, nil), "").result(true)
	want := `step "script/g:1" failed: cannot insert into frozen dict. Correct the script; sending it again as it is will not help. (run ` + string(w.runs.begins(t, "execute_tool_script")) + `)` + where
	if sent.text() != want {
		t.Errorf("got\n%s\nwant\n%s", sent.text(), want)
	}
	w.runs.plays["execute_tool_script"] = func(p *play) {
		p.f.change(func() {
			p.run().end("failed", runs.Outcome{Failure: &runs.Failure{Error: runs.Error{
				Code: "script_error", Category: "template", Message: "helper failed", StepID: "script", Tool: "helper",
			}}})
		})
	}
	if m := c.call("3", "execute_tool_script", scriptCall(t, `return 2`, nil), "").result(true); strings.Contains(m.text(), "Correct the script") {
		t.Errorf("for what has failed in what it calls: %s", m.text())
	}
	called := c.call("2", "simple", `{}`, "").result(true)
	if err := hasAll(called.text(), "calling again with the same arguments will not help", where); err != nil {
		t.Error(err)
	}
}

// A script that was sent is a task where the client asks for one, in each era.
func TestScriptAsATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){
		"execute_tool_script": func(p *play) { p.complete(`{"n":1}`) },
	}, sendsScripts)
	w.catalogue.set(tool("echo"))
	script := scriptCall(t, `return {"n": be_echo(n=1)["n"]}`, nil)
	c := connect(t, w.url, "ann", "2025-11-25", takesTasks)
	created := c.request("tools/call", `{"name":"execute_tool_script","arguments":`+script+`,"task":{}}`).ok()
	if created.Task == nil {
		t.Fatalf("no task: %+v", created)
	}
	until(t, "completed", func() taskView { return c.request("tasks/get", of(created.Task.TaskID)).ok() })
	result := string(c.request("tasks/result", of(created.Task.TaskID)).messageText())
	if !strings.Contains(result, `"structuredContent":{"n":1}`) {
		t.Errorf("its result is %s", result)
	}

	w = newWorld(t, map[string]func(*play){"execute_tool_script": gated}, func(o *gateway.Options) {
		sendsScripts(o)
		o.TaskPatience = 20 * time.Millisecond
	})
	w.catalogue.set(tool("echo"))
	m := &wire{T: t, url: w.url, caller: "ann"}
	task := m.modernCall("execute_tool_script", script, takesTasks, "").ok()
	if task.ResultType != "task" {
		t.Fatalf("no task: %+v", task)
	}
	get := func() taskView { return m.modernTask("tasks/get", task.TaskID, "").ok() }
	until(t, "input_required", get)
	m.modernTask("tasks/update", task.TaskID, `"inputResponses":{"gate":{"action":"accept","content":{"reason":"r"}}}`).ok()
	if done := until(t, "completed", get); len(done.Result) == 0 {
		t.Errorf("it has no result: %+v", done)
	}
}
