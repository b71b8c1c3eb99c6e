package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
)

// Limits of what the description of execute_tool_script lists.
const (
	maxListedTools = 150
	maxListedBytes = 12 << 10
)

// scriptGuide teaches how a script is written.
const scriptGuide = `Runs a script that calls several tools, and returns what the script returns. ` +
	`Use it instead of many tool calls where results are looped over, filtered or combined: only the result comes back to you. ` +
	`The run is durable: it goes on by itself if it takes long or waits for a person, and no call is repeated.

The script is Starlark (a small Python without import, classes, try or with):
- Call a tool as a function with named arguments: pr = github_pull_request_read(number=7), or call_tool("github_pull_request_read", number=7). In the names of functions - . and / are written _. An argument whose name is no identifier, or a word such as from, goes in a dict: f(**{"from": 1}). The result is the tool's data: dicts and lists (pr["title"]). A failure ends the script.
- try_call_tool("name", ...) does not fail: r.ok, r.value, r.error.message.
- for item in iterate("name", {"state": "open"}, page="page"): goes through all pages of a tool.
- call_workflow("name", x=1) calls a composite tool.
- parallel([lambda: a(x=1), lambda: b(y=2)]) and map_parallel(lambda i: a(x=i), items, max=5) call beside each other; results in order.
- retry(lambda: a(x=1), attempts=3), sleep("10s"), log("text"), progress(3, 10, "message"), fail("why").
- elicit("Question?", schema={...}) asks a person: .action is accept, decline, cancel or timeout, .content the answer. approve("Do it?") goes on only if a person accepts.
- data holds the argument data. now() is the time. json.encode/json.decode, math and struct are there.
- return VALUE at the top level is the result.
Example:
issues = tracker_list(state="open")["issues"]
stale = [i for i in issues if i["days"] > data["days"]]
details = map_parallel(lambda i: tracker_get(id=i["id"]), stale, max=5)
return {"count": len(stale), "titles": [d["title"] for d in details]}`

// Scripts are the tools with which agents send scripts.
type scripts struct {
	tools      *toolset
	rights     *rights
	results    *results
	registry   *registry.Registry // nil = there are no published modules
	composites *composites
	computes   *computing
	maxDepth   int
}

// all are the tools by name.
func (sc *scripts) all() map[string]builtInTool {
	yes, no := true, false
	return map[string]builtInTool{
		scriptTool: {
			title:       "Run a script of tool calls",
			description: scriptGuide,
			input: `{"type":"object","properties":{` +
				`"script":{"type":"string","minLength":1,"description":"Starlark; see the description of the tool"},` +
				`"data":{"type":"object","description":"what the script reads as data"},` +
				`"idempotencyKey":{"type":"string","maxLength":256,"description":"the same key, script and data again give the same run instead of a second one"}` +
				`},"required":["script"],"additionalProperties":false}`,
			hints: mcp.ToolAnnotation{ReadOnlyHint: &no, DestructiveHint: &yes, IdempotentHint: &no, OpenWorldHint: &yes},
			call:  sc.execute,
		},
		scriptCheckTool: {
			title: "Check a script of tool calls",
			description: "Checks a script for " + scriptTool + " without running it: syntax, names of tools and their arguments. " +
				"Says what is wrong and where, and which calls the script makes.",
			input: `{"type":"object","properties":{"script":{"type":"string","minLength":1}},"required":["script"],"additionalProperties":false}`,
			hints: mcp.ToolAnnotation{ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no},
			call:  sc.check,
		},
	}
}

// execute runs a script as what it is: a definition that is called once.
func (sc *scripts) execute(ctx context.Context, x *exchange) {
	var in struct {
		Script         string          `json:"script"`
		Data           json.RawMessage `json:"data"`
		IdempotencyKey string          `json:"idempotencyKey"`
	}
	if !sc.results.decodeArguments(x, &in) {
		return
	}
	var d *definitions.Definition
	var wrong []string
	err := sc.computes.do(ctx, func() {
		var diags definitions.Diagnostics
		d, diags = sc.scriptDefinition(x.who, in.Script)
		wrong = sc.scriptErrors(x.who, d, diags)
	})
	if err != nil {
		sc.composites.notStarted(ctx, x, scriptTool, err)
		return
	}
	if wrong != nil {
		sc.results.refuse(x, "the script cannot run, and nothing was called:\n"+strings.Join(wrong, "\n"))
		return
	}
	x.params.Arguments = orEmpty(in.Data)
	if in.IdempotencyKey != "" {
		x.params.Meta.IdempotencyKey = in.IdempotencyKey
	}
	if len(x.params.Meta.IdempotencyKey) > maxKey {
		sc.results.refuse(x, fmt.Sprintf("idempotencyKey has at most %d bytes", maxKey))
		return
	}
	c := &composite{def: d}
	if x.params.Meta.DryRun {
		sc.composites.dryRun(ctx, x, c)
		return
	}
	sc.composites.call(ctx, x, c)
}

// scriptDefinition is the definition that a script is which was sent, with what
// it loads, and what is wrong with that. It may call, and load, what its sender
// may.
func (sc *scripts) scriptDefinition(who auth.Identity, source string) (*definitions.Definition, definitions.Diagnostics) {
	d, diags := definitions.NewScript(scriptTool, "A script that "+who.Caller()+" has sent.", source).WithModules(sc.modules(who))
	d.Timeout = definitions.Duration(runs.MaxScriptTime)
	if d.Scripts().CallDynamically() {
		d.Tools = []string{"*"}
	}
	return d, diags
}

// modules finds published modules for an identity, which must be allowed to call or
// publish them.
func (sc *scripts) modules(who auth.Identity) definitions.Modules {
	return func(ref definitions.Reference) (*definitions.Module, error) {
		if sc.registry == nil || !sc.rights.mayRead(who, auth.Object{Tool: ref.Name}) {
			return nil, fmt.Errorf("published module %s not found", ref.Name)
		}
		m, err := sc.registry.Module(ref)
		var missing *registry.NotFoundError
		if errors.As(err, &missing) && len(missing.Versions) == 0 {
			return nil, fmt.Errorf("published module %s not found", ref.Name)
		}
		return m, err
	}
}

// scriptErrors reports what keeps a script from running.
func (sc *scripts) scriptErrors(who auth.Identity, d *definitions.Definition, loading definitions.Diagnostics) []string {
	var wrong []string
	for _, diagnostic := range append(loading, sc.diagnose(who, d)...) {
		if diagnostic.Severity == definitions.SeverityError {
			wrong = append(wrong, diagnostic.String())
		}
	}
	return wrong
}

// diagnose checks a script against the tools that its sender may call. An unknown tool
// is an error here: no backend is expected to bring it.
func (sc *scripts) diagnose(who auth.Identity, d *definitions.Definition) definitions.Diagnostics {
	find := sc.tools.steps()
	diags := definitions.Check([]*definitions.Definition{d}, definitions.CheckOptions{Tools: func(name string) (definitions.Tool, bool) {
		t, ok := find(name)
		return t, ok && sc.rights.maySend(who, t.Name)
	}, Definitions: sc.rights.maySendTo(who), MaxDepth: sc.maxDepth})
	for i := range diags {
		if diags[i].Check == "unknown-tool" || diags[i].Check == "unknown-workflow" {
			diags[i].Severity = definitions.SeverityError
		}
	}
	return diags
}

func (sc *scripts) check(ctx context.Context, x *exchange) {
	var in struct {
		Script string `json:"script"`
	}
	if !sc.results.decodeArguments(x, &in) {
		return
	}
	var d *definitions.Definition
	var found definitions.Diagnostics
	err := sc.computes.do(ctx, func() {
		d, found = sc.scriptDefinition(x.who, in.Script)
		found = append(found, sc.diagnose(x.who, d)...)
	})
	if err != nil {
		x.respond("", sc.results.finish(x.client, errorResult("", err)))
		return
	}
	type problem struct {
		Line     int    `json:"line"`
		Column   int    `json:"column"`
		Severity string `json:"severity"`
		Message  string `json:"message"`
		Check    string `json:"check"`
	}
	problems, ok := []problem{}, true
	for _, p := range found {
		problems = append(problems, problem{p.Pos.Line, p.Pos.Column, string(p.Severity), p.Message, p.Check})
		ok = ok && p.Severity != definitions.SeverityError
	}
	calls := d.Scripts().Calls()
	if calls == nil {
		calls = []definitions.ScriptCall{}
	}
	x.respond("", sc.results.finish(x.client, structured(mustEncode(map[string]any{"ok": ok, "problems": problems, "calls": calls}))))
}

// describe lists in the description of execute_tool_script what the identity may call
// with it.
func (sc *scripts) describe(who auth.Identity, tool mcp.Tool) mcp.Tool {
	var b strings.Builder
	b.WriteString(tool.Description)
	listLines(&b, "\n\nComposite tools (* = required):\n", sc.compositeLines(who))
	listLines(&b, "\n\nTools (* = required):\n", sc.toolLines(who))
	sc.listModules(&b, who)
	tool.Description = b.String()
	return tool
}

// listLines adds lines as far as there is room for them.
func listLines(b *strings.Builder, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString(heading)
	listed := 0
	for _, line := range lines {
		if listed < maxListedTools && b.Len()+len(line) <= maxListedBytes {
			listed++
			b.WriteString(line + "\n")
		}
	}
	if left := len(lines) - listed; left > 0 {
		fmt.Fprintf(b, "and %d more, as they are listed beside this tool\n", left)
	}
}

// toolLines show how scripts of the identity call tools.
func (sc *scripts) toolLines(who auth.Identity) []string {
	var lines []string
	all := sc.tools.ofBackends()
	taken := map[string]bool{} // names that mean something else
	for _, t := range all {
		taken[t.Backend], taken[definitions.Identifier(t.Backend)] = true, true
	}
	for _, t := range all {
		if t.Hidden || !sc.rights.allow(who, auth.Call, auth.Object{Tool: t.Name}) {
			continue
		}
		arguments := argumentNames(t.InputSchema)
		name, ok := definitions.FunctionName(t.Name)
		if !ok || taken[name] {
			name, arguments = "call_tool", append([]string{strconv.Quote(t.Name)}, arguments...)
		}
		taken[name] = name != "call_tool"
		lines = append(lines, scriptLine(name, arguments, t.Description))
	}
	return lines
}

// compositeLines show the same for composite tools.
func (sc *scripts) compositeLines(who auth.Identity) []string {
	var lines []string
	for _, c := range sc.tools.now().composites {
		if sc.rights.mayCall(who, c.def) {
			arguments := append([]string{strconv.Quote(c.def.Name)}, argumentNames(c.def.InputSchema())...)
			lines = append(lines, scriptLine("call_workflow", arguments, c.def.Description))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func scriptLine(name string, arguments []string, description string) string {
	line := "- " + name + "(" + strings.Join(arguments, ", ") + ")"
	if about := firstSentence(description); about != "" {
		line += ": " + about
	}
	return line
}

// listModules adds what scripts of the identity may load.
func (sc *scripts) listModules(b *strings.Builder, who auth.Identity) {
	if sc.registry == nil {
		return
	}
	heading := "\nModules, as in load(\"text.star@^1.0\", \"slug\") at the top of a script:\n"
	for _, m := range sc.registry.Modules() {
		var functions []string
		for _, e := range m.Exports() {
			functions = append(functions, e.String())
		}
		line := "- " + m.Name + "@" + m.Version + ": " + strings.Join(functions, ", ") + "\n"
		if b.Len()+len(heading)+len(line) > maxListedBytes || !sc.rights.mayRead(who, auth.Object{Tool: m.Name}) {
			continue
		}
		b.WriteString(heading + line)
		heading = ""
	}
}

// argumentNames are the properties of a schema, those that are required first.
func argumentNames(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.NewDecoder(bytes.NewReader(schema)).Decode(&s) != nil {
		return nil
	}
	var required, optional []string
	for name := range s.Properties {
		if slices.Contains(s.Required, name) {
			required = append(required, name+"*")
		} else {
			optional = append(optional, name)
		}
	}
	slices.Sort(required)
	slices.Sort(optional)
	return append(required, optional...)
}

const maxAbout = 100 // bytes of a tool's description in a list

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end]
	}
	if len(text) > maxAbout {
		text = strings.ToValidUTF8(text[:maxAbout], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}
