package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/config"
)

// TestToolsOfSomeBackends: beside a server that lacks one of the backends, calls of the
// others are checked, and hints of what calls the missing one are not blamed on it.
func TestToolsOfSomeBackends(t *testing.T) {
	t.Parallel()
	found, diags := config.Load(config.Sources{Config: "perdure.yaml", Text: []byte(`
backends:
  - {name: shop, command: shop}
  - {name: crm, command: crm}
compositeTools:
  - {name: typo, description: d, steps: [{id: a, tool: shop_fnd}]}
  - {name: away, description: d, annotations: {readOnlyHint: true}, steps: [{id: a, tool: crm_get}]}
`)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	listed := []remoteTool{{Name: "shop_find", Backend: "shop", Original: "find"}}
	byName, err := toolsOf(listed)
	if err != nil {
		t.Fatal(err)
	}
	s := &toolSource{listed: listed, byName: byName, of: "URL", auto: true}
	var got []string
	for _, d := range s.check(found) {
		got = append(got, string(d.Severity)+": "+d.Message)
	}
	want := []string{
		`warning: step "a": no backend has a tool "shop_fnd" at present (did you mean "shop_find"?); the definition is not offered without it`,
		`warning: step "a": no backend has a tool "crm_get" at present; the definition is not offered without it`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if said := s.said(); !strings.Contains(said, "URL, which has none of crm") {
		t.Error(said)
	}
	found.Backends = found.Backends[1:]
	if none := s.check(found); none != nil || !strings.Contains(s.said(), "not checked") {
		t.Errorf("without any of its backends: %v, %s", none, s.said())
	}
}
