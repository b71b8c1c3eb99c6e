package definitions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/starlark"
)

func TestSeenCalls(t *testing.T) {
	t.Parallel()
	p, ds := ScriptLanguage.Compile(starlark.Source{Text: `
def deploy(env):
    approve("Deploy to %s?" % env)
    return github.deploy(env = env, replace = True)
for e in data["envs"]:
    try_call_tool("t_echo", {"x": 1}, y = 2)
parallel([lambda: t.replace(a = 1), lambda: deploy("x")])
call_workflow("rollback", version = "^1", to = 3)
elicit("Sure?")
call_tool(data["tool"], **data)
[x for x in iterate(t.list_pages)]
retry(t.echo, attempts = 2)
f = [t_replace, call_workflow]
if f:
    t_echo()
g = lambda: elicit("Late?")
x = g() and approve("Then?")
call_tool("t_echo", f = t.format)
`}, starlark.Limits{})
	if ds != nil {
		t.Fatal(ds)
	}
	var got []string
	for _, c := range seenCalls(p) {
		var args []string
		for _, a := range c.args {
			args = append(args, a.Name)
		}
		line := fmt.Sprintf("%d:%d %s %s%s", c.Line, c.Column, c.kind, c.name, args)
		for _, is := range []struct {
			word string
			so   bool
		}{{"more", c.more}, {"loop", c.InLoop}, {"again", c.again()}, {"value", c.Value}, {"maybe", c.Maybe}} {
			if is.so {
				line += " " + is.word
			}
		}
		got = append(got, strings.TrimRight(line+" "+c.InFunction+c.message, " "))
	}
	want := []string{
		"3:5 approve [] again deploy",
		"4:12 tool github.deploy[env replace] again deploy",
		"6:5 tool t_echo[x y] loop again",
		"7:1 parallel []",
		"7:19 tool t.replace[a] again lambda",
		"8:1 workflow rollback@^1[to]",
		"9:1 elicit [] Sure?",
		"10:1 tool [] more",
		"11:13 iterate t.list_pages[] more loop again",
		"12:7 tool t.echo[] more loop again value",
		"13:6 tool t_replace[] more loop again value",
		"13:17 workflow [] more loop again value",
		"15:5 tool t_echo[] maybe",
		"16:13 elicit [] again lambdaLate?",
		"17:13 approve [] maybe Then?",
		"18:1 tool t_echo[f]",
		"18:25 tool t.format[] more loop again value",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
