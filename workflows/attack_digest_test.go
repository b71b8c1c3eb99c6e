package workflows_test

import (
	"slices"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackForgedDigest shows that a run executes the definition that it carries,
// though a run was started before, on the same worker, that gave another definition
// the digest of this one.
func TestAttackForgedDigest(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("test.yaml", []byte(`
name: forged
description: Has the digest of the other.
steps:
  - {id: mine, tool: evil, arguments: {n: 1}}
  - {id: theirs, type: workflow, workflow: honest, dependsOn: [mine]}
---
name: honest
description: Calls what its author wrote.
steps: [{id: a, tool: safe, arguments: {n: 2}}]
`))
	perduretest.NoError(t, diags.Err())
	b := benchFor(t, defs, `{}`, nil)
	b.input.Definition.Digest = defs[1].Digest()
	if _, failure := b.run(); failure != nil {
		t.Error(failure.Error.Message)
	}
	if want := []string{`evil {"n":1}`, `safe {"n":2}`}; !slices.Equal(b.calls, want) {
		t.Errorf("called %q, want %q", b.calls, want)
	}
}
