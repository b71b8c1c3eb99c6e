package service

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
)

// TestRestartKeys names the key of each setting that a changed file cannot change.
func TestRestartKeys(t *testing.T) {
	t.Parallel()
	settings := reflect.TypeFor[config.Settings]()
	for i := range settings.NumField() {
		if name := settings.Field(i).Name; restartKeys[name] == "" && name != "Aggregation" {
			t.Errorf("which key makes %s is not said", name)
		}
	}
	running := withoutReloaded(config.Settings{Name: "a", Backends: []backends.Config{{Name: "be", Effects: []backends.EffectRule{{Tool: "*", Class: "read"}}}}})
	found := config.Settings{Name: "a", Backends: []backends.Config{{Name: "be", TrustAnnotations: true}}, Aggregation: backends.Aggregation{Strategy: "manual"},
		Auth: config.Auth{Policy: auth.Policy{Rules: []auth.Rule{}}, Ruled: true}}
	if keys := needRestart(running, withoutReloaded(found)); keys != nil {
		t.Errorf("a restart for %q", keys)
	}
	found.Name, found.MaxDepth, found.Backends = "b", 5, append(found.Backends, backends.Config{Name: "more"})
	if diff := cmp.Diff([]string{"backends", "maxWorkflowDepth", "name"}, needRestart(running, withoutReloaded(found))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
