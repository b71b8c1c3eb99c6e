package script_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
)

// TestFunctionArguments calls each function of the language with the arguments that
// definitions are checked for, and with another one.
func TestFunctionArguments(t *testing.T) {
	t.Parallel()
	for _, name := range definitions.ScriptLanguage.Functions {
		known := definitions.FunctionArguments(name)
		if known == nil {
			continue
		}
		for _, argument := range append(known, "unheard_of") {
			_, failure := run(t, name+"("+argument+" = None)", &fake{}, "{}")
			refused := failure != nil && (strings.Contains(failure.Message, "unexpected keyword argument") || strings.Contains(failure.Message, "want a function and its arguments"))
			if refused != (argument == "unheard_of") {
				t.Errorf("%s(%s = None): %v", name, argument, failure)
			}
		}
	}
}
