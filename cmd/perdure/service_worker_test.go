package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/backends"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/registry"
	"github.com/perdure/perdure/workflows"
)

// TestResolveForSentScripts holds what a script that somebody has sent may call
// against what a composite tool may that somebody has written for them.
func TestResolveForSentScripts(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("test.yaml", []byte(`
{name: open, description: d, steps: [{id: a, type: wait, for: 1s}]}
---
{name: narrow, description: d, expose: {groups: [ops]}, steps: [{id: a, type: wait, for: 1s}]}
---
{name: hidden, description: d, runAs: composite, expose: {hidden: true}, steps: [{id: a, type: wait, for: 1s}]}
`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	pool, err := backends.New(nil, backends.Aggregation{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &service{registry: registry.New(registry.Options{}), pool: pool, opts: serviceOptions{Loaded: &loaded{}}}
	s.registry.SetFiles(defs)
	_, err = s.resolve(t.Context(), workflows.DefinitionRef{RunID: "other/1", Workflow: "open@1@2"})
	if !errors.Is(err, activities.ErrInvalidReference) || !strings.Contains(err.Error(), "the version is given twice") {
		t.Errorf("two versions: %v", err)
	}
	for run, may := range map[string][]string{"execute_tool_script/1": {"open"}, "other/1": {"open", "narrow", "hidden"}} {
		for _, name := range []string{"open", "narrow", "hidden"} {
			_, err := s.resolve(t.Context(), workflows.DefinitionRef{RunID: run, Workflow: name, Caller: workflows.Caller{Subject: "ann"}})
			if allowed := slices.Contains(may, name); allowed != (err == nil) || !allowed && !errors.Is(err, activities.ErrNotPermitted) {
				t.Errorf("%s calls %s: %v", run, name, err)
			}
		}
	}
}
