package deftest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/deftest"
)

func runAll(file *deftest.File) []*deftest.Result {
	var results []*deftest.Result
	for _, c := range file.Cases {
		results = append(results, c.Run())
	}
	return results
}

// Each testdata/update/NAME.in.yaml becomes NAME.out.yaml, whose cases pass and
// which is not updated again.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, name := range perduretest.Files(t, "testdata/update/*.in.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data := perduretest.Read(t, name)
			updated, n, err := deftest.Update(data, runAll(parse(t, name, string(data))))
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				t.Error("nothing was updated")
			}
			perduretest.Golden(t, strings.Replace(name, ".in.", ".out.", 1), string(updated))
			results := runAll(parse(t, name, string(updated)))
			for _, res := range results {
				for _, p := range res.Problems {
					t.Errorf("%s: %s\n%s", res.Case.Name, p.Message, p.Diff)
				}
			}
			if _, n, err := deftest.Update(updated, results); n != 0 || err != nil {
				t.Errorf("updated again: %d results, %v", n, err)
			}
		})
	}
}

// Update leaves alone, and lists, what it cannot replace.
func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	const data = `
definition: {name: a, description: d, parameters: {type: object, properties: {n: {}}}, steps: [{id: s, tool: t, arguments: {n: "{{.params.n}}"}}]}
default: echo
cases:
  - name: one
    arguments: {n: 1}
    expect: &same {result: {n: 2}}
  - name: two
    arguments: {n: 3}
    expect: *same
`
	_, n, err := deftest.Update([]byte(data), runAll(parse(t, "a_test.yaml", data)))
	if err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("got %d results and %v, want an error that says what to do", n, err)
	}
}
