package script_test

import (
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	perduretest.Programs(t, func(t *testing.T, file, text string) (int, string) {
		p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: file, Text: text, Modules: map[string]string{"assert.star": assertions, "lib.star": library}}, starlark.Limits{})
		if ds != nil {
			return ds[0].Line, ds[0].Message
		}
		_, failure := execute(t, p, &fake{}, script.Input{Data: []byte(`{"n":12345678901234567890,"f":1.5,"list":[1,2],"text":"hi"}`)})
		if failure == nil {
			return 0, ""
		}
		if failure.Site.File == "assert.star" {
			t.Errorf("%s\n%s", failure.Message, failure.Backtrace)
			return 0, failure.Message
		}
		return failure.Site.Line, failure.Message
	})
}

// library is what parts may load as lib.star.
const library = `
NAMES = ["a", "b"]

def double(x):
    return 2 * x

def echo(x):
    return call_tool("t_echo", x = x)["x"]
`
