package script_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/script"
)

// Every function of the language of scripts has an implementation.
func TestFunctionsExist(t *testing.T) {
	t.Parallel()
	l := definitions.ScriptLanguage
	p := compile(t, "x = ["+strings.Join(slices.Concat(l.Values, l.Functions), ", ")+"]\nreturn len(x)")
	if _, failure := execute(t, p, &fake{}, script.Input{}); failure != nil {
		t.Error(failure)
	}
}

// Every builtin has a row in docs/scripts.md, and every row is of a builtin.
func TestBuiltinsAreDocumented(t *testing.T) {
	t.Parallel()
	text := perduretest.Read(t, "../../docs/scripts.md")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)").FindAllStringSubmatch(row[1], -1) {
			documented = append(documented, name[1])
		}
	}
	constants := []string{"None", "True", "False"}
	for _, name := range definitions.ScriptLanguage.Names() {
		if !slices.Contains(documented, name) && !slices.Contains(constants, name) {
			t.Errorf("docs/scripts.md has no row for %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(definitions.ScriptLanguage.Names(), name) {
			t.Errorf("docs/scripts.md has a row for %s, which is no builtin", name)
		}
	}
	if strings.Count(string(text), "```python") == 0 {
		t.Error("docs/scripts.md has no script")
	}
}
