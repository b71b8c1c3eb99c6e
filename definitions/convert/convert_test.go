package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// The definitions of the library, and those of testdata with the common cases,
// become the scripts in testdata as somebody reads them: the functions that do
// what templates do are left out.
func TestConvertedLibraryReads(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../library/prepare_review.yaml", "../library/summarise_changes.yaml", "../library/check_repository.yaml", "testdata/common.yaml", "testdata/hello.yaml"} {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text := perduretest.Read(t, file)
		defs, ds := definitions.Parse(file, text)
		perduretest.NoError(t, ds.Err())
		got := perduretest.Must(Script(defs[0], nil))(t)
		header, _, _ := strings.Cut(got, "# What templates and steps do")
		_, steps, _ := strings.Cut(got, "# The steps.\n")
		got = header + steps
		golden := filepath.Join("testdata", name+".star")
		if *perduretest.Update {
			perduretest.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want := perduretest.Read(t, golden)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-update writes it anew): %s", golden, diff)
		}
	}
}

// What cannot be converted exactly is refused, with the place and what to do.
// TestAttackHiddenInScripts converts texts with characters that nobody would see:
// the script has escapes for them, which mean the same.
func TestAttackHiddenInScripts(t *testing.T) {
	t.Parallel()
	const text = `"to \u202e54321-\u202c\u3164 \U000e0041 é 😀\nnext\u200b"`
	defs, ds := definitions.Parse("tool.yaml", []byte("name: x\ndescription: "+text+"\nsteps:\n  - {id: ask, type: elicitation, message: "+text+"}\n  - {id: a, tool: t, arguments: {"+text+": "+text+"}, dependsOn: [ask]}\n"))
	perduretest.NoError(t, ds.Err())
	got := perduretest.Must(Script(defs[0], nil))(t)
	if strings.ContainsFunc(got, view.Hidden) {
		t.Errorf("hidden characters in\n%+q", got)
	}
	if want := `"to \u202e54321-\u202c\u3164 \U000e0041 é 😀\nnext\u200b"`; strings.Count(got, want) != 3 {
		t.Errorf("the script does not have %s three times:\n%s", want, got)
	}
}

func TestNotConverted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ steps, want string }{
		{`{id: a, tool: t, arguments: {all: "{{json .}}"}}`, `tool.yaml:4:38: step a: arguments.all: the template reads its data as a whole`},
		{`{id: b, tool: t}, {id: a, tool: t, arguments: {all: "{{json .steps}}"}}`, `step a: arguments.all: the template reads .steps as a whole`},
		{`{id: b, tool: t}, {id: a, tool: t, condition: "{{gt .workflow.step_count 1}}"}`, `step a: condition: .workflow.step_count is not known to a script there`},
		{`{id: a, tool: t, compensate: {tool: u, arguments: {ms: "{{.workflow.duration_ms}}"}}}`, `step a: compensate.arguments.ms: .workflow.duration_ms is not known to a script there`},
		{`{id: a, tool: t, arguments: {n: " {{.params.n}} "}}`, `step a: arguments.n: there is white space around the expression`},
		{`{id: a, type: script, script: "load(\"lib.star\", \"f\")\nf()", modules: {lib.star: "def f():\n    return 1"}}`, `step a: script: it loads lib.star, which a function cannot`},
		{`{id: a, tool: t, arguments: {n: ` + strings.Repeat("9", 200) + `}}`, `is more than scripts have`},
	} {
		defs, ds := definitions.Parse("tool.yaml", []byte("name: x\ndescription: d\nsteps:\n  ["+tc.steps+"]\n"))
		if err := ds.Err(); err != nil {
			t.Errorf("%s: %v", tc.steps, err)
			continue
		}
		_, err := Script(defs[0], nil)
		var refused *ConversionError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "tool.yaml:") {
			t.Errorf("%s: got %v, want %s", tc.steps, err, tc.want)
		}
	}
}
