package config

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows/script"
)

// Each key of the model says in a sentence what it is for.
func TestModelIsDescribed(t *testing.T) {
	t.Parallel()
	for _, mapping := range mappings() {
		for _, key := range definitions.Keys(mapping) {
			if help := key.Tag.Get("help"); !strings.HasSuffix(help, ".") {
				t.Errorf("%s.%s: the help is %q, not a sentence", mapping.Name(), key.Name, help)
			}
			if standard, words := key.Tag.Get("default"), key.Tag.Get("enum"); words != "" && standard != "" && !strings.Contains(","+words+",", ","+standard+",") {
				t.Errorf("%s.%s: the default %s is not one of %s", mapping.Name(), key.Name, standard, words)
			}
		}
	}
}

// The tags say what the packages do that act on the settings.
func TestModelDefaults(t *testing.T) {
	t.Parallel()
	limits, quota := script.DefaultLimits(), gateway.DefaultQuotas
	for _, check := range []struct {
		of   any
		key  string
		tag  string
		want int
	}{
		{configuration{}, "maxWorkflowDepth", "default", definitions.MaxWorkflowDepth},
		{scriptLimits{}, "steps", "max", limits.Steps}, {scriptLimits{}, "steps", "default", limits.Steps},
		{scriptLimits{}, "memory", "max", limits.Memory}, {scriptLimits{}, "memory", "default", limits.Memory},
		{scriptLimits{}, "calls", "max", limits.Calls}, {scriptLimits{}, "calls", "default", limits.Calls},
		{scriptLimits{}, "width", "max", limits.Width}, {scriptLimits{}, "width", "default", limits.Width},
		{scriptLimits{}, "branches", "max", limits.Branches}, {scriptLimits{}, "branches", "default", limits.Branches},
		{scriptLimits{}, "value", "max", limits.Value}, {scriptLimits{}, "value", "default", limits.Value},
		{scriptLimits{}, "depth", "max", limits.Depth}, {scriptLimits{}, "depth", "default", limits.Depth},
		{quotas{}, "openRuns", "default", quota.OpenRuns}, {quotas{}, "runsPerMinute", "default", quota.RunsPerMinute},
		{quotas{}, "waitingRuns", "default", quota.WaitingRuns}, {quotas{}, "requests", "default", quota.Requests},
	} {
		if got := tagOf(t, check.of, check.key, check.tag); got != strconv.Itoa(check.want) {
			t.Errorf("%T.%s: the tag %s is %s, not %d", check.of, check.key, check.tag, got, check.want)
		}
	}
	if got := tagOf(t, scriptLimits{}, "time", "max"); got != strconv.Itoa(int(runs.MaxScriptTime.Hours()))+"h" {
		t.Errorf("scripts.limits.time is %s at most, not %s", got, runs.MaxScriptTime)
	}
	if got := tagOf(t, breakerRules{}, "open", "default"); got != defaultOpen.String() {
		t.Errorf("the default of open is %s, not %s", got, defaultOpen)
	}
	if got := tagOf(t, operational{}, "logLevel", "enum"); got != strings.Join(LogLevels, ",") {
		t.Errorf("log levels are %s, not %s", got, LogLevels)
	}
}

func tagOf(t *testing.T, of any, name, tag string) string {
	t.Helper()
	for _, key := range definitions.Keys(reflect.TypeOf(of)) {
		if key.Name == name {
			return key.Tag.Get(tag)
		}
	}
	t.Fatalf("%T has no key %s", of, name)
	return ""
}

// What the parser and the tags take, the schema takes, and what they refuse it
// refuses, as far as one key is enough to see it.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Setenv("GITHUB_API_TOKEN", "secret")
	schema := compiled(t)
	files := perduretest.Files(t, "testdata/*.yaml")
	refused := 0
	for _, name := range append(files, "../../deploy/perdure.yaml") {
		if base := filepath.Base(name); strings.HasPrefix(base, "resources") || strings.HasPrefix(base, "client") {
			continue // the schema is that of a file of our own
		}
		_, diags := Load(Sources{Config: name})
		seen := false // by the schema
		for _, d := range diags {
			if d.Check == "syntax" || d.Check == "config" {
				seen = false
				break
			}
			seen = seen || d.Severity == definitions.SeverityError && (d.Check == "unknown-key" || d.Check == "value" || d.Check == "type")
		}
		err := schema.Validate(jsonOf(t, name))
		switch {
		case diags.HasErrors() && err != nil:
			refused++
		case !diags.HasErrors() && err != nil:
			t.Errorf("%s is valid, and the schema refuses it: %v", name, err)
		case seen && err == nil:
			t.Errorf("%s is refused, and the schema takes it: %v", name, diags)
		}
	}
	if refused < 8 {
		t.Errorf("the schema refuses only %d files", refused)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document := perduretest.Must(jsonschema.UnmarshalJSON(strings.NewReader(string(Schema()))))(t)
	compiler := jsonschema.NewCompiler()
	perduretest.NoError(t, compiler.AddResource("config.json", document))
	schema := perduretest.Must(compiler.Compile("config.json"))(t)
	return schema
}

// jsonOf reads a YAML file as the validator wants it; nil = it is no YAML.
func jsonOf(t *testing.T, name string) any {
	t.Helper()
	text := perduretest.Read(t, name)
	var value any
	if yaml.Unmarshal(text, &value) != nil {
		return nil
	}
	encoded := perduretest.Must(json.Marshal(value))(t)
	decoded := perduretest.Must(jsonschema.UnmarshalJSON(strings.NewReader(string(encoded))))(t)
	return decoded
}

// The page is what the model gives; -update writes it.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	perduretest.Golden(t, "../../docs/configuration.md", Reference())
}
