package service

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/workflows"
)

// TestResolve holds who may call a composite tool: other composite tools, and
// scripts that somebody has sent, which are told of what they may not call that it is not
// there.
func TestResolvePermission(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("test.yaml", []byte(`
{name: open, description: d, steps: [{id: a, type: wait, for: 1s}]}
---
{name: narrow, description: d, expose: {groups: [ops]}, steps: [{id: a, type: wait, for: 1s}]}
---
{name: narrow_but, description: d, expose: {groups: [ops], callers: ["friend_*"]}, steps: [{id: a, type: wait, for: 1s}]}
---
{name: hidden, description: d, runAs: composite, expose: {hidden: true, callers: ["friend_*"]}, steps: [{id: a, type: wait, for: 1s}]}
---
{name: for_all, description: d, expose: {hidden: true, callers: ["*"]}, steps: [{id: a, type: wait, for: 1s}]}
`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	pool, err := backends.New(nil, backends.Aggregation{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &executor{shared: &shared{registry: registry.New(registry.Options{}), pool: pool, opts: Options{Loaded: &config.Loaded{}}}}
	s.registry.SetFiles(defs)
	_, err = s.resolve(t.Context(), workflows.DefinitionRef{RunID: "other/1", Workflow: "open@1@2"})
	if !errors.Is(err, activities.ErrInvalidReference) || !strings.Contains(err.Error(), "the version is given twice") {
		t.Errorf("two versions: %v", err)
	}
	ann := workflows.Caller{Subject: "ann"}
	for from, want := range map[string]map[string]error{
		"execute_tool_script": {"open": nil, "narrow": activities.ErrNoDefinition, "narrow_but": activities.ErrNoDefinition, "hidden": activities.ErrNoDefinition, "nowhere": activities.ErrNoDefinition},
		"other":               {"open": nil, "narrow": activities.ErrNotPermitted, "narrow_but": activities.ErrNotPermitted, "hidden": activities.ErrNotAdmitted},
		"friend_1":            {"open": nil, "narrow": activities.ErrNotPermitted, "narrow_but": nil, "hidden": nil},
	} {
		for _, as := range []string{"", "other"} { // in the right of ann, or in its own
			for name, want := range want {
				_, err := s.resolve(t.Context(), workflows.DefinitionRef{RunID: from + "/1", From: from, Workflow: name, Caller: ann, As: as})
				if !errors.Is(err, want) {
					t.Errorf("%s calls %s as %q: %v, want %v", from, name, as, err, want)
				}
			}
		}
	}
	// What is hidden is for no script that somebody has sent, whatever it names.
	_, err = s.resolve(t.Context(), workflows.DefinitionRef{RunID: "execute_tool_script/1", From: "execute_tool_script", Workflow: "for_all", Caller: ann})
	if !errors.Is(err, activities.ErrNoDefinition) {
		t.Errorf("a script that was sent calls what all composite tools may call: %v", err)
	}
}
