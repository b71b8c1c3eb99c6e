package main

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestPlainJSON shows no type of Go where JSON is not what is wanted.
func TestPlainJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name": 1}`:              "reading it: name must be text, not number",
		`{"inputSchema": "x", "a"`: "reading it: unexpected end of JSON input",
		`[1]`:                      "reading it: it must be an object, not array",
		`{"hidden": []}`:           "reading it: hidden must be true or false, not array",
	} {
		var tool remoteTool
		if got := plainJSON(fmt.Errorf("reading it: %w", json.Unmarshal([]byte(text), &tool))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
