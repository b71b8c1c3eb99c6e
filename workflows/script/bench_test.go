package script_test

import (
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/workflows/script"
)

// Long computing gives others a turn at the same places each time it is
// executed, whatever the clock says, and ends workflow tasks before they take
// too long.
func TestLongComputing(t *testing.T) {
	t.Parallel()
	p := compile(t, `
def compute(i):
    x = 0
    for j in range(40000):
        x = (x * 31 + i) % 1000003
    t_echo(i = i)
    for j in range(40000):
        x = (x * 31 + i) % 1000003
    t_echo(i = i, again = True)
    return x
return map_parallel(compute, range(6))
`)
	limits := script.Limits{Steps: 20_000_000, Memory: 1 << 30}
	var first []string
	var result string
	for i := range 3 {
		host := &fake{delay: func(script.ToolCall) time.Duration { return 0 }}
		out, failure := execute(t, p, host, script.Input{Limits: limits})
		if failure != nil {
			t.Fatal(failure)
		}
		if i > 0 && (!slices.Equal(host.calls, first) || string(out) != result) {
			t.Errorf("time %d: %s\n%q\nwant %s\n%q", i, out, host.calls, result, first)
		}
		first, result = host.calls, string(out)
	}
}

// BenchmarkInterpreter is how fast a script computes. What counts on a
// machine that does other things is the processor's time: cpu-ns/op, of one
// script.
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
			began := cpuTime(b)
			for b.Loop() {
				if _, failure := execute(b, p, &fake{}, script.Input{}); failure != nil {
					b.Fatal(failure)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkCompile is what a script costs before its first run.
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
