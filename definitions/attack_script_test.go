package definitions_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// A script that an agent sends may define thousands of names and call thousands that do
// not exist: which of the names may be meant is not worth seconds.
func TestAttackUnknownNames(t *testing.T) {
	t.Parallel()
	const names = 3000
	var script strings.Builder
	for i := range names {
		fmt.Fprintf(&script, "abcd%04dx=1\n", i)
	}
	for i := range names {
		fmt.Fprintf(&script, "zbce%04d()\n", i)
	}
	d, diags := definitions.NewScript("sent", "A script.", script.String()).WithModules(nil)
	began := time.Now()
	diags = append(diags, definitions.Check([]*definitions.Definition{d}, definitions.CheckOptions{
		Tools: definitions.ToolsByName(nil),
	})...)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("checking %d bytes took %s", script.Len(), took)
	}
	if len(diags) < 10 {
		t.Errorf("diagnostics: %v", diags)
	}
}

// TestAttackManyCalls: a script of as many calls as fit is checked in seconds. Finding the
// places of its calls took 25 of them, since each was looked for from the beginning.
func TestAttackManyCalls(t *testing.T) {
	text, err := json.Marshal(map[string]string{"name": "w", "description": "d", "script": strings.Repeat("a(a)\n", 50_000)})
	if err != nil {
		t.Fatal(err)
	}
	defs, diags := definitions.Parse("test.yaml", text)
	began := time.Now()
	if err := append(diags, definitions.Check(defs, definitions.CheckOptions{})...).Err(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestAttackManyReferences: a definition in one line, with more references than are
// reported, is checked in seconds. Each was looked for from the beginning of the line.
func TestAttackManyReferences(t *testing.T) {
	var steps []any
	for i := range 100 {
		text := ""
		for j := range i {
			text += fmt.Sprintf("{{.steps.s%d.output}}", j)
		}
		steps = append(steps, map[string]any{"id": fmt.Sprintf("s%d", i), "tool": "t", "arguments": map[string]any{"a": text + strings.Repeat("x", 15_000)}})
	}
	text := perduretest.Must(json.Marshal(map[string]any{"name": "w", "description": "d", "steps": steps}))(t)
	defs, diags := definitions.Parse("test.yaml", text)
	began := time.Now()
	if diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...); len(diags) < 1000 {
		t.Errorf("%d diagnostics: %v", len(diags), diags[:min(1, len(diags))])
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
