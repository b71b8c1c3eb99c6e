package starlark_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	upstream "go.starlark.net/starlark"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
)

// language is what programs of the tests are written in: fail ends a program,
// echo gives its argument as a host would, through JSON.
var language = &starlark.Language{Functions: []string{"fail", "echo"}, Values: []string{"data"}}

func hostNames() upstream.StringDict {
	return upstream.StringDict{
		"fail": upstream.NewBuiltin("fail", func(thread *upstream.Thread, b *upstream.Builtin, args upstream.Tuple, kwargs []upstream.Tuple) (upstream.Value, error) {
			text, err := starlark.Joined(thread, b.Name(), args, kwargs)
			if err == nil {
				err = errors.New(text)
			}
			return nil, err
		}),
		"echo": upstream.NewBuiltin("echo", func(thread *upstream.Thread, b *upstream.Builtin, args upstream.Tuple, kwargs []upstream.Tuple) (upstream.Value, error) {
			data, err := starlark.Encode(starlark.AccountOf(thread), args[0])
			if err != nil {
				return nil, err
			}
			return starlark.Receive(starlark.AccountOf(thread), data)
		}),
	}
}

// A failure is why a program failed, and where.
type failure struct {
	message string
	limit   string // that was reached
	at      starlark.Position
}

// execute runs a program with data, which is JSON.
func execute(p *starlark.Program, data string, limits starlark.Limits) (string, *failure) {
	account := starlark.NewAccount(limits)
	x := p.NewExecution(account, starlark.Options{Names: hostNames()})
	v, err := starlark.Receive(account, []byte(data))
	if err != nil {
		return "", &failure{message: err.Error()}
	}
	out, err := x.Main(x.Thread("main"), upstream.StringDict{"data": v})
	if err == nil {
		return string(out), nil
	}
	f := &failure{message: err.Error()}
	var eval *upstream.EvalError
	if errors.As(err, &eval) {
		f.message = eval.Msg
	}
	if limit := account.Failed(); limit != nil {
		f.message, f.limit = limit.Message, limit.Limit
	}
	f.at, _, _ = x.Locate(err)
	return "", f
}

// modules are what programs of the tests may load.
var modules = map[string]string{
	"assert.star": `
def eq(got, want):
    if got != want:
        fail("got %r, want %r" % (got, want))

def true(cond):
    if not cond:
        fail("not true")
`,
	"lib.star": `
NAMES = ["a", "b"]

def double(x):
    return 2 * x

def same(x):
    return echo(x)
`,
}

func compile(t testing.TB, text string) *starlark.Program {
	t.Helper()
	p, ds := language.Compile(starlark.Source{File: "test.star", Text: text, Modules: modules}, starlark.Limits{})
	if ds != nil {
		t.Fatal(ds)
	}
	return p
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	perduretest.Programs(t, func(t *testing.T, file, text string) (int, string) {
		p, ds := language.Compile(starlark.Source{File: file, Text: text, Modules: modules}, starlark.Limits{})
		if ds != nil {
			return ds[0].Line, ds[0].Message
		}
		_, failed := execute(p, `{"n":12345678901234567890,"f":1.5,"list":[1,2],"text":"hi"}`, starlark.Limits{})
		if failed == nil {
			return 0, ""
		}
		if failed.at.File == "assert.star" {
			t.Error(failed.message)
			return 0, failed.message
		}
		return failed.at.Line, failed.message
	})
}

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
		"return range(3)":                     `[0,1,2]`,
	} {
		if got, failed := execute(compile(t, text), `{"n":12345678901234567890}`, starlark.Limits{}); failed != nil || got != want {
			t.Errorf("%q gives %s, %v; want %s", text, got, failed, want)
		}
	}
}

func TestLoads(t *testing.T) {
	t.Parallel()
	loads := starlark.Loads("x.star", "load('a.star', 'x')\nload(\"b.star\", y = 'x')\nload('a.star', 'z')")
	if len(loads) != 2 || loads[0] != (starlark.Load{Module: "a.star", Line: 1, Column: 1}) || loads[1] != (starlark.Load{Module: "b.star", Line: 2, Column: 1}) {
		t.Errorf("%v", loads)
	}
	_, ds := language.Compile(starlark.Source{Text: "load('a.star', 'x')", Modules: map[string]string{
		"a.star": "load('b.star', 'y')\nx = y", "b.star": "load('a.star', 'x')\ny = x"}}, starlark.Limits{})
	if ds == nil || !strings.Contains(ds.Error(), `"a.star" loads itself: a.star → b.star → a.star`) {
		t.Errorf("a circle of modules: %v", ds)
	}
	p, ds := language.Compile(starlark.Source{Text: "load('text.star@^1', 'x')"}, starlark.Limits{})
	if ds != nil || len(p.Pending()) != 1 || p.Pending()[0] != "text.star@^1" {
		t.Errorf("a published module: %v", ds)
	}
}

func TestSourceLimits(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"brackets":  strings.Repeat("(", 50_000),
		"negations": "x = " + strings.Repeat("not ", 20_000) + "1",
		"lambdas":   "x = " + strings.Repeat("lambda:", 20_000) + "1",
		"sums":      "x = " + strings.Repeat("1+", 100_000) + "1",
		"size":      "#" + strings.Repeat("x", 300_000),
	} {
		_, ds := language.Compile(starlark.Source{Text: text}, starlark.Limits{})
		if ds == nil || ds[0].Check != starlark.CheckLimit {
			t.Errorf("%s: %.200v", name, ds)
		}
	}
	if _, ds := language.Compile(starlark.Source{Text: "x = '((((' # ((((\n" + `y = """` + strings.Repeat("(", 200) + `"""`}, starlark.Limits{}); ds != nil {
		t.Errorf("brackets in strings count: %v", ds)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for limit, c := range map[string]struct {
		text   string
		limits starlark.Limits
	}{
		"steps":   {"while True:\n    pass", starlark.Limits{Steps: 1000}},
		"memory":  {"x = 'a' * 10000", starlark.Limits{Memory: 1000}},
		"value":   {"return 'x' * 1000", starlark.Limits{Value: 100}},
		"depth":   {"def f(n):\n    return f(n + 1)\nf(0)", starlark.Limits{Depth: 20}},
		"nesting": {"x = []\nfor i in range(200):\n    x = [x]\nreturn x", starlark.Limits{}},
		"integer": {"x = 2\nfor i in range(600):\n    x = x * x", starlark.Limits{}},
	} {
		_, failed := execute(compile(t, c.text), "{}", c.limits)
		if failed == nil || failed.limit != limit {
			t.Errorf("%s: %+v", limit, failed)
		}
	}
}

// BenchmarkInterpreter measures how fast programs compute.
func BenchmarkInterpreter(b *testing.B) {
	for name, text := range map[string]string{
		"loop 100k additions of a literal": "x = 0\nfor i in range(100000):\n    x += 1\nreturn x",
		"loop 100k additions":              "x = 0\nfor i in range(100000):\n    x += i\nreturn x",
		"100k dict entries read":           "d = {'a': 1}\nx = 0\nfor i in range(100000):\n    x = d['a']\nreturn x",
		"100k list appends":                "l = []\nfor i in range(100000):\n    l.append(i)\nreturn len(l)",
		"100k function calls":              "def f(x):\n    return x\nfor i in range(100000):\n    f(i)\nreturn 1",
		"1000 strings formatted":           "return len(['%s-%d' % ('x', i) for i in range(1000)])",
		"1000 records filtered and shaped": "rows = [{'id': i, 'name': 'n%d' % i, 'open': i % 3 == 0} for i in range(1000)]\nreturn [{'id': r['id'], 'title': r['name'].upper()} for r in rows if r['open']]",
		"nothing":                          "return 1",
	} {
		b.Run(name, func(b *testing.B) {
			p := compile(b, text)
			for b.Loop() {
				if _, failed := execute(p, "{}", starlark.Limits{}); failed != nil {
					b.Fatal(failed)
				}
			}
		})
	}
}

// BenchmarkCompile is what a program costs before its first execution.
func BenchmarkCompile(b *testing.B) {
	text := "def f(x):\n    return [y + 1 for y in x]\n"
	for range 6 {
		text += text
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		compile(b, text)
	}
}

// FuzzCompile: whatever the text, compiling it ends, and does not panic.
func FuzzCompile(f *testing.F) {
	perduretest.AddParts(f, "testdata/*.star", "testdata/bombs/*.star", "../../workflows/script/testdata/*.star")
	f.Add(strings.Repeat("(", 10000))
	f.Add(strings.Repeat("not ", 10000) + "x")
	f.Add(strings.Repeat("lambda:", 10000) + "x")
	f.Add("x = '''" + strings.Repeat("(", 500) + "'''")
	f.Add("#" + strings.Repeat("[", 500))
	f.Fuzz(func(t *testing.T, text string) {
		p, ds := language.Compile(starlark.Source{Text: text, Modules: modules}, starlark.Limits{})
		if p == nil && ds == nil {
			t.Fatal("neither a program nor diagnostics")
		}
		if p != nil {
			p.Calls()
			p.Globals()
			p.Reads()
		}
	})
}

// FuzzRun: whatever a program does, it ends, and does not panic.
func FuzzRun(f *testing.F) {
	perduretest.AddParts(f, "testdata/*.star")
	f.Fuzz(func(t *testing.T, text string) {
		p, ds := language.Compile(starlark.Source{Text: text, Modules: modules}, starlark.Limits{})
		if ds == nil {
			execute(p, `{"n": 1}`, starlark.Limits{Steps: 20_000, Memory: 8 << 20})
		}
	})
}

// FuzzValues: what comes in as JSON goes out as the same JSON.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{`null`, `{"a":[1,2.5,-0,1e3,"x\u0000\ud83d\ude00"]}`, `[[[[]]]]`, `123456789012345678901234567890`, `{"a":1,"a":2}`, `"\ud800"`, `1e400`, `0.1`, `-0.0`, `[1,]`, `1.0`} {
		f.Add(seed)
	}
	p := compile(f, `
same = echo(data)
if same != data:
    fail("%r became %r" % (data, same))
if json.decode(json.encode(data)) != data:
    fail("json: %r" % data)
return same
`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		if _, err := starlark.Receive(starlark.NewAccount(starlark.Limits{}), []byte(text)); err != nil {
			return // refused where it came in
		}
		out, failed := execute(p, text, starlark.Limits{})
		switch {
		case failed == nil:
			sameJSON(t, text, out)
		case failed.limit == "":
			t.Fatal(failed.message)
		}
	})
}
