package deftest

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// AdviseValue is that of [definitions.ValueAdviser].
func (c *caseFile) AdviseValue(key string, value *yaml.Node) definitions.Advice {
	if key == "answers" && value.Kind == yaml.MappingNode && len(value.Content) > 0 {
		return definitions.Say(fmt.Sprintf("write each as {step: %s, action: accept, content: {…}}", value.Content[0].Value))
	}
	return definitions.Advice{}
}

// AdviseKey is that of [definitions.KeyAdviser].
func (e *expectation) AdviseKey(key string, value *yaml.Node) definitions.Advice {
	switch key {
	case "status", "state", "success", "ok":
		return definitions.Say("leave it out; a run must complete unless error says how it fails")
	case "steps":
		return definitions.WriteKey("completed", ", failed and skipped, each a list of steps")
	case "fails", "failure":
		return definitions.WriteKey("error", ": {step: ID, message: TEXT}")
	}
	return definitions.Advice{}
}

// AdviseValue is that of [definitions.ValueAdviser].
func (e *expectation) AdviseValue(key string, value *yaml.Node) definitions.Advice {
	if key == "error" && value.Kind == yaml.ScalarNode {
		return definitions.Say("write {message: TEXT}, or {step: ID}")
	}
	return definitions.Advice{}
}

// AdviseKey is that of [definitions.KeyAdviser]. What is no key of a response is meant to be a
// member of the output.
func (r *response) AdviseKey(key string, _ *yaml.Node) definitions.Advice {
	switch key {
	case "output", "result", "returns", "value", "json", "data":
		return definitions.WriteKey("structured", "")
	case "delay", "latency":
		return definitions.WriteKey("after", "")
	}
	return definitions.WriteKey("structured", fmt.Sprintf(": {%s: …}", key))
}
