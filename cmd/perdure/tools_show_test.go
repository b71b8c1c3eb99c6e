package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestToolsShowHidden does not say that a hidden tool takes no arguments: its server does
// not list its schema.
func TestToolsShowHidden(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tool := remoteTool{Name: "a.search", Backend: "a", Original: "search", Effect: "read", Hidden: true}
	perduretest.NoError(t, (toolsShowCommand{}).print(&console{out: &out}, tool, nil))
	if got := out.String(); !strings.Contains(got, "not known here") || strings.Contains(got, "none") || strings.Contains(got, "perdure call") {
		t.Error(got)
	}
}

// TestToolsShowFits: on a terminal nothing is wider than it, and nothing is cut.
func TestToolsShowFits(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := &console{out: &out, outTerminal: true, size: func() (int, int) { return 60, 24 }}
	const long = "which of the directories that the server may read is to be looked through, and all below it"
	tool := remoteTool{Name: "a_search", Backend: "a", Original: "search", Effect: "read", Description: "Searches: " + long,
		InputSchema: []byte(`{"properties":{"directory":{"type":"string","description":"Says ` + long + `"}},"required":["directory"]}`)}
	if err := (toolsShowCommand{}).print(c, tool, nil); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if view.Cells(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("too wide: %s", line)
		}
	}
	if words := strings.Join(strings.Fields(out.String()), " "); strings.Count(words, long) != 2 {
		t.Error(out.String())
	}
}

// TestToolsShowKinds reads the types of arguments where schemas have them: in what they
// refer to, and in alternatives. One that refers to itself ends.
func TestToolsShowKinds(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tool := remoteTool{Name: "a_set", Backend: "a", Original: "set", Effect: "read", InputSchema: []byte(`{
		"$defs": {"Item": {"type": "object"}, "a/b": {"enum": [7, 19]}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}]}},
		"required": ["item", "id"],
		"properties": {
			"item": {"$ref": "#/$defs/Item"}, "id": {"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}, {"type": "null"}]},
			"tax": {"$ref": "#/$defs/a~1b"}, "mode": {"const": "fast"}, "loop": {"$ref": "#/$defs/Loop"}, "gone": {"$ref": "other.json#/x"}, "open": {"oneOf": [{"type": "string"}, {}]}}}`)}
	perduretest.NoError(t, (toolsShowCommand{}).print(&console{out: &out}, tool, nil))
	_, got, _ := strings.Cut(out.String(), "\narguments\n")
	want := `  item*  object
  id*    integer or string or null
  tax    one of 7, 19
  mode   fast
  loop   any
  gone   any
  open   any

example
  perdure call a_set 'item={}' id=1
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
