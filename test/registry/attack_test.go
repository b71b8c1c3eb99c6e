package registry_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/registry"
)

// TestAttackLargePublications: anybody who may call may send files, since names are
// checked once they are read. What is large is refused before that.
func TestAttackLargePublications(t *testing.T) {
	r := memoryRegistry(t)
	keys := "name: a\ndescription: d\nsteps: [{id: s, tool: t, arguments: {" + strings.Repeat("k: v,", 100_000) + "}}]\n"
	var many []registry.File
	for i := range 50 {
		many = append(many, registry.File{Name: fmt.Sprintf("%d.yaml", i), Text: strings.Repeat("---\nname: a\n", 2_000)})
	}
	for name, files := range map[string][]registry.File{
		"bytes":        {{Name: "a.yaml", Text: "# " + strings.Repeat("x", 2<<20)}},
		"keys":         {{Name: "a.yaml", Text: keys}},
		"many files":   many,
		"as a module":  {{Name: "a.star", Text: strings.Repeat("[", 1<<20)}},
		"of documents": {{Name: "a.yaml", Text: strings.Repeat("---\nname: a\n", 70_000)}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		report, err := r.Publish(t.Context(), registry.Publisher{By: "eve"}, registry.Request{Files: files})
		runtime.ReadMemStats(&after)
		if err != nil || len(report.Diagnostics) != 1 || report.Diagnostics[0].Check != "limit" {
			t.Errorf("%s: %v, %.300v", name, err, report)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 20 {
			t.Errorf("%s: %d MB were allocated", name, n)
		}
	}
}
