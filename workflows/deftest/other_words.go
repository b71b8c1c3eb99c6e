package deftest

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// AdviseValue is that of [definitions.ValueAdviser].
func (c *caseFile) AdviseValue(key string, value *yaml.Node) string {
	if key == "answers" && value.Kind == yaml.MappingNode && len(value.Content) > 0 {
		return fmt.Sprintf(": write each as {step: %s, action: accept, content: {…}}", value.Content[0].Value)
	}
	return ""
}

// AdviseKey is that of [definitions.KeyAdviser].
func (e *expectation) AdviseKey(key string, value *yaml.Node) string {
	switch key {
	case "status", "state", "success", "ok":
		return ": leave it out; a run must complete unless error says how it fails"
	case "steps":
		return ": write completed, failed and skipped, each a list of steps"
	case "fails", "failure":
		return ": write error: {step: ID, message: TEXT}"
	}
	return ""
}

// AdviseValue is that of [definitions.ValueAdviser].
func (e *expectation) AdviseValue(key string, value *yaml.Node) string {
	if key == "error" && value.Kind == yaml.ScalarNode {
		return ": write {message: TEXT}, or {step: ID}"
	}
	return ""
}

// AdviseKey is that of [definitions.KeyAdviser]. What is no key of a response is meant to be a
// member of the output.
func (r *response) AdviseKey(key string, _ *yaml.Node) string {
	switch key {
	case "output", "result", "returns", "value", "json", "data":
		return ": write structured"
	case "delay", "latency":
		return ": write after"
	}
	return fmt.Sprintf(": write structured: {%s: …}", key)
}
