package definitions

import (
	"fmt"
	"strings"
	"testing"
)

// A file of very many small values, which take a multiple of their bytes, is refused
// before it is read.
func TestAttackDenseFile(t *testing.T) {
	t.Parallel()
	for kind, values := range map[string]string{
		"a list on one line": "[" + strings.Repeat("1,", maxValues) + "1]",
		"nested mappings":    strings.Repeat("{a: ", maxValues/2),
		"empty lines":        strings.Repeat("\n", maxValues+1),
	} {
		defs, diags := Parse("dense.yaml", []byte("name: dense\nmetadata: {a: "+values+"}\n"))
		if defs != nil || !strings.Contains(fmt.Sprint(diags), "more than 500000 keys, values and lines") || len(diags) != 1 {
			t.Errorf("%s: %d definitions, %.300v", kind, len(defs), diags)
		}
	}
}
