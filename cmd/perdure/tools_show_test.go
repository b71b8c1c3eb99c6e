package main

import (
	"strings"
	"testing"

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
