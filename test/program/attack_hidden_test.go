package program_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guardedDefinitions are a write that only erase may make, in its own right, for
// those that ask a person first.
const guardedDefinitions = `incomingAuth: {type: token, tokenFile: tokens.yaml}
scripts: {agents: true}
authorization:
  rules:
    - {tools: ["pub_*", be_read, relay, execute_tool_script], groups: [pub]}
    - {tools: ["*"], groups: [ops]}
    - {tools: [be_wipe], composites: [erase, rollback]}
  publishers:
    - {tools: ["pub_*"], groups: [pub]}
    - {tools: ["release_*"], groups: [ci], uses: [be_read]}
compositeTools:
  - name: release
    description: Asks, and erases.
    timeout: 1h
    steps:
      - {id: gate, type: elicitation, message: Erase?, timeout: 1h}
      - {id: erase, type: workflow, workflow: erase, dependsOn: [gate]}
  - name: erase
    description: Erases.
    runAs: composite
    expose: {hidden: true, callers: [release]}
    steps: [{id: wipe, tool: be_wipe}]
  - name: rollback
    description: Erases, for operators.
    runAs: composite
    expose: {groups: [ops]}
    steps: [{id: wipe, tool: be_wipe}]
  - name: relay
    description: Calls what it is told to.
    parameters: {to: string}
    tools: ["*"]
    script: return call_workflow(data["to"])
`

// TestAttackHiddenTools: somebody who may only publish and call pub_* has what they
// publish, send and call reach a write that is behind a gate, in each way that a
// definition can call something.
func TestAttackHiddenTools(t *testing.T) {
	t.Parallel()
	fakes := serveFakes(t, map[string]fakeTool{"be_read": structuredAnswer(`{"text":"read"}`), "be_wipe": structuredAnswer(`{"text":"wiped"}`)})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), guardedDefinitions+fakes.configuration("[{tool: read, class: read}]"))
	tokens := "tokens:\n"
	for name, group := range map[string]string{"mallory": "pub", "olga": "ops", "ci": "ci"} {
		tokens += fmt.Sprintf("  - {subject: %s, groups: [%s], sha256: %x}\n", name, group, sha256.Sum256([]byte("token-of-"+name)))
		putFile(t, filepath.Join(dir, name), "token-of-"+name+"\n")
	}
	putFile(t, filepath.Join(dir, "tokens.yaml"), tokens)
	d := startDev(t, dir, "--config", "perdure.yaml")
	by := func(name string, args ...string) (string, error) {
		out, told, err := d.try(t, slices.Concat(args, []string{"--token-file", name})...)
		return out + told, err
	}

	for name, attack := range map[string]struct{ does, at, says string }{
		"a step":                 {"steps: [{id: a, type: workflow, workflow: erase}]", "4:43", "pub_x is not among its callers"},
		"a constraint":           {"steps: [{id: a, type: workflow, workflow: \"erase@>=0\"}]", "", "not found"},
		"an inner step":          {"steps: [{id: a, type: forEach, collection: '[1]', step: {type: workflow, workflow: erase}}]", "4:84", "pub_x is not among its callers"},
		"a script":               {"script: call_workflow(\"erase\")", "4:", "pub_x is not among its callers"},
		"a module":               {"script: |\n  load(\"m.star\", \"go\")\n  go()\nmodules:\n  m.star: |\n    def go():\n        return call_workflow(\"erase\")", "10:16", "pub_x is not among its callers"},
		"the tool":               {"steps: [{id: a, tool: be_wipe}]", "4:23", "you may not call it"},
		"in its own right":       {"runAs: composite\nsteps: [{id: a, tool: be_wipe}]", "5:23", "the composite tool pub_x may not call it"},
		"another name of it":     {"steps: [{id: a, tool: be.wipe}]", "4:23", "be_wipe"},
		"a compensation":         {"steps: [{id: a, tool: be_read, compensate: {tool: be_wipe}}]", "4:51", "be_wipe"},
		"a probe":                {"steps: [{id: a, tool: be_read, onUnknown: ask, probe: {tool: be_wipe, happened: 'true'}}]", "4:62", "be_wipe"},
		"a script's call":        {"script: be_wipe()", "4:", "be_wipe"},
		"a script's undo":        {"script: be_read(undo=undo(\"be_wipe\"))", "4:", "be_wipe"},
		"a tool as a value":      {"script: |\n  f = be_wipe\n  f()", "5:", "be_wipe"},
		"a computed name":        {"tools: [\"be_*\"]\nscript: call_tool(data[\"x\"])", "4:9", "be_wipe"},
		"a computed composite":   {"script: call_workflow(data[\"x\"])", "4:", "which tool is called here only a run can tell"},
		"a composite as a value": {"script: |\n  f = call_workflow\n  f(data[\"x\"])", "5:", "which tool is called here only a run can tell"},
		"a computed version":     {"script: call_workflow(\"relay\", version=data[\"x\"])", "4:", "which tool is called here only a run can tell"},
		"a listed composite":     {"tools: [rollback]\nscript: call_workflow(data[\"x\"])", "4:9", "rollback"},
		"a pattern of them":      {"tools: [\"roll*\"]\nscript: call_workflow(data[\"x\"])", "4:9", "rollback"},
		"what may come":          {"tools: [\"later_*\"]\nscript: call_tool(data[\"x\"])", "4:9", "whatever comes to match later_*"},
		"what will come":         {"steps: [{id: a, type: workflow, workflow: later}]", "4:43", "you may not call it"},
		"what a script awaits":   {"script: call_workflow(\"later\")", "4:", "you may not call it"},
		"what is called below":   {"tools: [relay]\nscript: call_workflow(data[\"x\"])", "4:9", "in relay, which it calls"},
		"a narrowed tool":        {"steps: [{id: a, type: workflow, workflow: rollback}]", "4:43", "the composite tool rollback is called"},
		"the gated one":          {"steps: [{id: a, type: workflow, workflow: release}]", "4:43", "the composite tool release is called"},
	} {
		putFile(t, filepath.Join(dir, "pub.yaml"), "name: pub_x\nversion: 1.0.0\ndescription: d\n"+attack.does+"\n")
		for _, flag := range []string{"--dry-run", "--force"} {
			if flag == "--force" && name == "a constraint" {
				continue // there is no such version, so it calls nothing
			}
			told, err := by("mallory", "publish", "pub.yaml", flag)
			if err == nil || !strings.Contains(told, attack.says) || !strings.Contains(told, attack.at) {
				t.Errorf("%s is published with %s: %v\n%s", name, flag, err, told)
			}
		}
	}

	// Only a run can tell what these call. Who calls them may call more than who has
	// published them.
	putFile(t, filepath.Join(dir, "computed.yaml"), "name: pub_computed\nversion: 1.0.0\ndescription: d\nparameters: {to: string}\ntools: [\"pub_*\"]\nscript: return call_workflow(data[\"to\"])\n")
	if told, err := by("mallory", "publish", "computed.yaml"); err != nil {
		t.Fatal(err, told)
	}
	for _, to := range []string{"erase", "rollback", "release"} {
		if told, err := by("mallory", "call", "relay", "to="+to); err == nil || !strings.Contains(told, to+" was not called") {
			t.Errorf("relay calls %s: %v\n%s", to, err, told)
		}
		for _, who := range []string{"mallory", "olga"} {
			if told, err := by(who, "call", "pub_computed", "to="+to); err == nil || !strings.Contains(told, "does not list it in tools") {
				t.Errorf("%s has pub_computed call %s: %v\n%s", who, to, err, told)
			}
		}
	}
	for _, script := range []string{`call_workflow("erase")`, `call_workflow(data["to"])`, `call_tool("be_wipe")`, `call_tool(data["tool"])`} {
		putFile(t, filepath.Join(dir, "sent.star"), script)
		if told, err := by("mallory", "script", "run", "sent.star", "--data", `{"to": "erase", "tool": "be_wipe"}`); err == nil {
			t.Errorf("the script %s was taken:\n%s", script, told)
		}
	}

	// Who publishes for others says what these may call.
	for tool, may := range map[string]bool{"be_read": true, "be_wipe": false} {
		putFile(t, filepath.Join(dir, "ci.yaml"), "name: release_notes\nversion: 1.0.0\ndescription: d\nsteps: [{id: a, tool: "+tool+"}]\n")
		if told, err := by("ci", "publish", "ci.yaml", "--dry-run"); (err == nil) != may {
			t.Errorf("a pipeline publishes what calls %s: %v\n%s", tool, err, told)
		}
	}

	// A file is no publication, and its tools are held to the same.
	putFile(t, filepath.Join(dir, "file.yaml"), "name: other\ndescription: d\nsteps: [{id: a, type: workflow, workflow: secret}]\n---\nname: secret\ndescription: d\nexpose: {hidden: true, callers: [release]}\nsteps: [{id: a, tool: be_wipe}]\n")
	if _, told, err := d.try(t, "validate", "file.yaml"); err == nil || !strings.Contains(told, "file.yaml:3:43") {
		t.Errorf("validate: %v\n%s", err, told)
	}

	if n := fakes.count("be_wipe", ""); n != 0 {
		t.Errorf("the tool behind the gate was called %d times", n)
	}
	if told, err := by("olga", "call", "rollback"); err != nil {
		t.Error(err, told)
	}
	if n := fakes.count("be_wipe", ""); n != 1 {
		t.Errorf("of an operator, the tool was called %d times", n)
	}
}
