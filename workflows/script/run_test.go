package script_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

func TestResult(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "null",
		"x = 1":                               "null",
		"return":                              "null",
		"return None":                         "null",
		"return {'b': 1, 'a': (1, 2.0)}":      `{"a":[1,2],"b":1}`,
		"if data:\n    return data\nreturn 1": `{"n":12345678901234567890}`,
		"for i in [1, 2]:\n    return i":      "1",
		"return struct(x = now())":            `{"x":"2026-01-02T03:04:05Z"}`,
		"return range(3)":                     `[0,1,2]`,
	} {
		if got, failure := run(t, text, &fake{}, `{"n":12345678901234567890}`); failure != nil || got != want {
			t.Errorf("%q gives %s, %v; want %s", text, got, failure, want)
		}
	}
}

// TestPaths shows the paths of calls: the same whatever comes first.
func TestPaths(t *testing.T) {
	t.Parallel()
	text := `load("lib.star", "echo")
def deploy(x):
    return t_slow(seconds = x, at = "deploy")
deploy(0)
deploy(0)
echo(1); echo(2)
map_parallel(lambda i: [deploy(i), deploy(i)], data)
parallel([lambda: parallel([lambda: t_echo(at = "inner")])])
for i in range(2):
    parallel([lambda: t_echo(at = "loop")])
`
	var first []string
	for _, data := range []string{`[3,1,2]`, `[1,2,3]`} {
		host := &fake{}
		p, ds := definitions.ScriptLanguage.Compile(starlark.Source{Text: text, Modules: map[string]string{"lib.star": library}}, starlark.Limits{})
		if ds != nil {
			t.Fatal(ds)
		}
		if _, failure := execute(t, p, host, script.Input{Data: json.RawMessage(data)}); failure != nil {
			t.Fatal(failure)
		}
		var paths []string
		for _, s := range host.sites {
			paths = append(paths, s.Path)
		}
		if slices.Sort(paths); first == nil {
			first = paths
		} else if !slices.Equal(paths, first) {
			t.Errorf("the paths depend on the order of arrival:\n%q\n%q", paths, first)
		}
	}
	want := []string{
		"deploy:3", "deploy:3#2", "lib.star:echo:8", "lib.star:echo:8#2",
		"main:10#2[0]/lambda:10", "main:10[0]/lambda:10",
		"main:7[0]/deploy:3", "main:7[0]/deploy:3#2", "main:7[1]/deploy:3", "main:7[1]/deploy:3#2", "main:7[2]/deploy:3", "main:7[2]/deploy:3#2",
		"main:8[0]/lambda:8[0]/lambda:8",
	}
	if !slices.Equal(first, want) {
		t.Errorf("paths\n%q\nwant\n%q", first, want)
	}
	for _, path := range first {
		for _, segment := range strings.Split(path, "/") {
			if !regexp.MustCompile(`^[A-Za-z0-9_.-]*:[A-Za-z0-9_:.#-]*(\[\d+\])?$`).MatchString(segment) {
				t.Errorf("segment %s of %s", segment, path)
			}
		}
	}
}

// TestJournal shows that a script that is executed again with what it has done,
// in whatever order that was done, makes no call twice and gives the same.
func TestJournal(t *testing.T) {
	t.Parallel()
	text := `
def work(i):
    first = t_echo(i = i)["i"]
    second = t_slow(seconds = first, i = i)
    return [first, second["i"], elicit("ok %d?" % i).action]
results = map_parallel(work, range(6), max = 3)
total = sum([r[0] for r in results])
return {"results": results, "total": total, "last": t_echo(total = total)}
`
	p := compile(t, text)
	whole := &recording{fake: &fake{}}
	want, failure := execute(t, p, whole, script.Input{})
	if failure != nil {
		t.Fatal(failure)
	}
	for done := range whole.order {
		journal := map[string]json.RawMessage{}
		for _, path := range whole.order[:done] {
			journal[path] = whole.results[path]
		}
		again := &recording{fake: &fake{journal: journal}}
		got, failure := execute(t, p, again, script.Input{})
		if failure != nil || string(got) != string(want) {
			t.Errorf("after %d calls: %s, %v; want %s", done, got, failure, want)
		}
		if n := len(again.calls); n != len(whole.calls)-done {
			t.Errorf("after %d of %d calls, %d were made again", done, len(whole.calls), n)
		}
	}
}

// A recording keeps the results of calls by path.
type recording struct {
	*fake
	order   []string
	results map[string]json.RawMessage
}

func (r *recording) Call(ctx workflow.Context, site script.Site, call script.ToolCall) (json.RawMessage, error) {
	out, err := r.fake.Call(ctx, site, call)
	if _, known := r.fake.journal[site.Path]; !known && err == nil {
		if r.results == nil {
			r.results = map[string]json.RawMessage{}
		}
		r.order = append(r.order, site.Path)
		r.results[site.Path] = out
	}
	return out, err
}

func TestErrorSaysWhere(t *testing.T) {
	t.Parallel()
	_, failure := run(t, `
def inner(x):
    return t_fail(message = x)

def outer(x):
    return [inner(y) for y in [x]]

map_parallel(outer, ["why"])
`, &fake{}, "")
	if failure == nil {
		t.Fatal("no failure")
	}
	want := "Traceback (most recent call last):\n  test.star:8:13: in main\n  test.star:6:18: in outer\n  test.star:3:18: in inner"
	if failure.Backtrace != want {
		t.Errorf("backtrace\n%s\nwant\n%s", failure.Backtrace, want)
	}
	if failure.Code != "tool_error" || failure.Tool != "t_fail" || failure.Attempt != 2 || failure.Path != "main:8[0]/inner:3" {
		t.Errorf("%+v", failure)
	}
	if s := failure.Site; s.String() != "test.star:3:18" || s.Function != "inner" {
		t.Errorf("site %+v", s)
	}
}

func TestBranchesStop(t *testing.T) {
	t.Parallel()
	host := &fake{}
	_, failure := run(t, `
def slow(i):
    if i == 2:
        sleep(1)
        fail("stop")
    t_slow(seconds = 100 * (i + 1))
    t_echo(after = i)
map_parallel(slow, range(10), max = 5)
`, host, "")
	if failure == nil || failure.Message != "stop" {
		t.Fatal(failure)
	}
	for _, call := range host.calls {
		if strings.Contains(call, "t_echo") {
			t.Errorf("after the failure: %s", call)
		}
	}
	if len(host.calls) != 4 {
		t.Errorf("%d calls: %v", len(host.calls), host.calls)
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	text := `
a = elicit("How many?", schema = {"type": "object", "properties": {"n": {"type": "integer"}}}, timeout = "1h")
if a.action != "accept":
    return a.action
return a.content["n"]
`
	accept := func(content string) script.Answer {
		return script.Answer{Action: "accept", Content: json.RawMessage(content)}
	}
	for name, c := range map[string]struct {
		answers []script.Answer
		want    string
		asked   int
	}{
		"accepted":      {[]script.Answer{accept(`{"n":12345678901234567890}`)}, "12345678901234567890", 1},
		"declined":      {[]script.Answer{{Action: "decline"}}, `"decline"`, 1},
		"asked again":   {[]script.Answer{accept(`{"n":"wrong"}`), accept(`{"n":"wrong"}`), accept(`{"n":3}`)}, "3", 3},
		"never fits":    {[]script.Answer{accept(`{"n":"wrong"}`), accept(`{"n":"wrong"}`), accept(`{"n":"wrong"}`), accept(`{"n":3}`)}, "wrong is not allowed", 3},
		"out of time":   {[]script.Answer{{Action: "timeout"}}, `"timeout"`, 1},
		"was dismissed": {[]script.Answer{{Action: "cancel"}}, `"cancel"`, 1},
	} {
		host := &fake{answers: c.answers}
		got, failure := run(t, text, host, "")
		if failure != nil {
			got = failure.Message
		}
		if got != c.want || len(host.asked) != c.asked {
			t.Errorf("%s: %s after %d questions; want %s after %d", name, got, len(host.asked), c.want, c.asked)
		}
		q := host.asked[len(host.asked)-1]
		if q.Timeout != time.Hour || !strings.Contains(string(q.Schema), "integer") || q.Attempt != c.asked || (c.asked > 1) != (q.Reason != "") {
			t.Errorf("%s: the question was %+v", name, q)
		}
	}
}

func TestApprove(t *testing.T) {
	t.Parallel()
	for action, want := range map[string][2]string{
		"decline": {"declined", "declined"}, "cancel": {"elicitation_cancelled", "declined"}, "timeout": {"elicitation_timeout", "timeout"},
	} {
		host := &fake{answers: []script.Answer{{Action: action, By: "ann"}}}
		_, failure := run(t, `approve("Deploy?", by = ["ops"])
t_echo()`, host, "")
		if failure == nil || string(failure.Code) != want[0] || string(failure.Category) != want[1] || !strings.Contains(failure.Message, "Deploy?") || len(host.calls) > 0 {
			t.Errorf("%s: %+v, calls %v", action, failure, host.calls)
		}
		if q := host.asked[0]; !q.Approval || !slices.Equal(q.Approvers, []string{"ops"}) {
			t.Errorf("the question was %+v", q)
		}
	}
}

func TestLogAndProgress(t *testing.T) {
	t.Parallel()
	host := &fake{}
	if _, failure := run(t, `log("a", 1, [2])
print("b")
progress(1, total = 4, message = "one")`, host, ""); failure != nil {
		t.Fatal(failure)
	}
	if !slices.Equal(host.logged, []string{"a 1 [2]", "b"}) || !slices.Equal(host.progress, []script.Progress{{Done: 1, Total: 4, Message: "one"}}) {
		t.Errorf("logged %q, progress %v", host.logged, host.progress)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		limits script.Limits
		code   string
	}{
		"steps":  {"while True:\n    pass", script.Limits{Limits: starlark.Limits{Steps: 1000}}, "script_steps"},
		"calls":  {"for i in range(5):\n    t_echo()", script.Limits{Calls: 3}, "script_calls"},
		"fan":    {"map_parallel(str, range(9))", script.Limits{Branches: 8}, "script_width"},
		"output": {"t_raw(value = 'x' * 90)", script.Limits{Limits: starlark.Limits{Value: 60}}, "script_value"},
	} {
		_, failure := execute(t, compile(t, c.text), &fake{}, script.Input{Limits: c.limits})
		if failure == nil || string(failure.Code) != c.code || failure.Category != "limit" {
			t.Errorf("%s: %+v", name, failure)
		}
	}
	deep := json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101))
	for name, in := range map[string]script.Input{
		"data":   {Data: deep},
		"output": {Data: json.RawMessage(`"t_echo"`)},
	} {
		host := &fake{answer: func(script.ToolCall) (json.RawMessage, error) { return deep, nil }}
		_, failure := execute(t, compile(t, "try_call_tool(data)"), host, in)
		if failure == nil || failure.Code != "script_nesting" || failure.Category != "limit" {
			t.Errorf("nested %s: %+v", name, failure)
		}
	}
	// None of it can be caught.
	host := &fake{}
	if _, failure := execute(t, compile(t, `
r = parallel([lambda: [0] * (1 << 40)], on_error = "collect")
t_echo()`), host, script.Input{}); failure == nil || failure.Category != "limit" || len(host.calls) > 0 {
		t.Errorf("%+v, calls %v", failure, host.calls)
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	host := &counting{fake: &fake{}}
	if _, failure := execute(t, compile(t, `map_parallel(lambda i: t_slow(seconds = 1), range(20), max = 4)`), host, script.Input{}); failure != nil {
		t.Fatal(failure)
	}
	if host.most != 4 {
		t.Errorf("%d calls at a time, want 4", host.most)
	}
}

// A counting host counts the calls that are under way.
type counting struct {
	*fake
	now, most int
}

func (c *counting) Call(ctx workflow.Context, site script.Site, call script.ToolCall) (json.RawMessage, error) {
	c.now++
	c.most = max(c.most, c.now)
	defer func() { c.now-- }()
	return c.fake.Call(ctx, site, call)
}

func TestUnknownTools(t *testing.T) {
	t.Parallel()
	p := compile(t, `
t.ecko()
t_fial(x = 1)
githb.get()
call_tool("t_slwo")
call_tool("t_" + data["x"])
iterate("t_lst-pages")
x = t
`)
	host := &fake{}
	if _, failure := execute(t, p, host, script.Input{}); failure == nil || failure.Code != "unknown_tool" || len(host.calls) > 0 {
		t.Errorf("%+v", failure)
	}
}

// A module that is loaded only defines.
func TestModuleCalls(t *testing.T) {
	t.Parallel()
	p, ds := definitions.ScriptLanguage.Compile(starlark.Source{Text: "load('a.star', 'x')", Modules: map[string]string{"a.star": "x = t_echo(a = 1)"}}, starlark.Limits{})
	if ds != nil {
		t.Fatal(ds)
	}
	if _, failure := execute(t, p, &fake{}, script.Input{}); failure == nil || !strings.Contains(failure.Message, "must not call any itself") {
		t.Errorf("a module that calls a tool: %v", failure)
	}
}
