package deftest_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/deftest"
)

// apart are sources that read no files.
var apart = deftest.Sources{
	Library:  definitions.Library(),
	ReadFile: func(string) ([]byte, error) { return nil, errors.New("not in a fuzz test") },
}

// addTestFiles gives a fuzz test the files of testdata and of the library as
// seeds.
func addTestFiles(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"../../definitions/library/*_test.yaml", "testdata/*/*.yaml"} {
		for _, name := range perduretest.Files(f, pattern) {
			data := perduretest.Read(f, name)
			f.Add(data)
		}
	}
}

// FuzzParse holds that no test file makes reading it panic or go on for ever,
// that what is wrong with one has a place, and that the cases of one without
// errors can be run.
func FuzzParse(f *testing.F) {
	addTestFiles(f)
	f.Add([]byte("definition: {name: a, description: d, steps: [{id: s, tool: t}]}\n" +
		"tools: {t: [{when: {n: 1}, error: no}, {text: yes, after: 1s}]}\ncases:\n- {name: c, expect: {calls: {t: 1}, order: [s before s]}}\n"))
	f.Add([]byte("library: check_repository\ncases: [{name: c, answers: [{action: accept, content: {a: 1}, message: '('}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, diags := deftest.Parse("fuzz_test.yaml", data, apart)
		for _, d := range diags {
			if d.Pos.Line < 1 || d.Message == "" {
				t.Fatalf("%q is told to be wrong without a place or a reason: %+v", data, d)
			}
		}
		if diags.HasErrors() {
			return
		}
		if len(file.Cases) == 0 {
			t.Fatalf("%q has no cases and no errors", data)
		}
		for _, c := range file.Cases {
			if c.Name == "" || c.Definition == nil || c.Pos.Line < 1 {
				t.Fatalf("%q gives the case %+v", data, c)
			}
		}
	})
}

// Tests come from anywhere; nothing in them may break the code that runs, reports and
// updates them.
func FuzzRun(f *testing.F) {
	addTestFiles(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, diags := deftest.Parse("fuzz_test.yaml", data, apart)
		if diags.HasErrors() || len(file.Cases) == 0 || len(file.Cases) > 5 {
			return
		}
		results := runAll(file)
		(&deftest.Reporter{W: io.Discard, Verbose: true}).Report(results[0])
		if updated, n, err := deftest.Update(data, results); err == nil && n > 0 {
			if _, diags := deftest.Parse("fuzz_test.yaml", updated, apart); diags.HasErrors() {
				t.Errorf("an updated file cannot be read: %v\n%s", diags.Err(), updated)
			}
		}
	})
}

// Files that were made to do harm are refused or run, and soon.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	const file = "definition: {name: n, description: d, parameters: {type: object}, steps: [{id: a, tool: t, arguments: {x: '{{json .params}}'}}]}\ndefault: echo\n"
	inputs := map[string]string{
		"aliases":         "a0: &a0 [x]\n" + "a1: &a1 [*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0]\na2: &a2 [*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1]\na3: &a3 [*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2]\n" + file,
		"aliased cases":   file + "cases: &c [{name: a, arguments: *c}]\n",
		"depth":           file + "cases: [{name: a, arguments: " + strings.Repeat("{a: ", 10000) + strings.Repeat("}", 10000) + "}]\n",
		"many cases":      file + "cases:\n" + strings.Repeat("- {name: a}\n", 5000),
		"numbers":         file + "cases: [{name: a, arguments: {x: 1e999999999}}]\n",
		"digits":          file + "cases: [{name: a, arguments: {x: " + strings.Repeat("9", 100000) + "}}]\n",
		"a long time":     file + "cases: [{name: a, tools: {t: {text: x, after: 2562047h}}}]\n",
		"a pattern":       file + "cases: [{name: a, expect: {error: {message: '" + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + "'}}}]\n",
		"many orders":     file + "cases: [{name: a, expect: {order: [a before " + strings.Repeat("a before ", 10000) + "a]}}]\n",
		"many mocks":      file + "cases: [{name: a, tools: {t: [" + strings.Repeat("{error: no}, ", 20000) + "{text: x}]}}]\n",
		"many difference": file + "cases: [{name: a, arguments: {x: [" + strings.Repeat("1,", 20000) + "1]}, expect: {result: {x: [" + strings.Repeat("2,", 20000) + "1]}}}]\n",
	}
	for name, text := range inputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			read, diags := deftest.Parse("hostile_test.yaml", []byte(text), apart)
			if !diags.HasErrors() && len(read.Cases) < 5 {
				(&deftest.Reporter{W: io.Discard, Verbose: true}).Report(runAll(read)[0])
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%d bytes took %s", len(text), took)
			} else {
				t.Logf("%d bytes: %s, %d mistakes", len(text), took, len(diags))
			}
		})
	}
}
