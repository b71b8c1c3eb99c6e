package gateway_test

import (
	"testing"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
)

// A catalogueOf has tools that are found by their names only, and counts how often all of
// them are asked for.
type catalogueOf struct {
	tools []backends.Tool
	asked int
}

func (c *catalogueOf) Tools() []backends.Tool {
	c.asked++
	return c.tools
}

func (c *catalogueOf) Find(string) (backends.Tool, bool) { return backends.Tool{}, false }

// Tools are found by their names as scripts spell them, unless that means two; looking for
// many names looks through all tools once.
func TestSpelledTools(t *testing.T) {
	t.Parallel()
	c := &catalogueOf{tools: []backends.Tool{
		{Name: "be_pull-request", Backend: "be", Original: "pull-request"},
		{Name: "be_a-b", Backend: "be", Original: "a-b"}, {Name: "be_a.b", Backend: "be", Original: "a.b"},
	}}
	find := gateway.StepTools(c)
	for name, want := range map[string]string{
		"be_pull_request": "be_pull-request", "be.pull_request": "be_pull-request",
		"be_a_b": "", "be.a_b": "", "be_none": "", "pull_request": "",
	} {
		if got, ok := find(name); got.Name != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", name, got.Name, want)
		}
	}
	if c.asked != 1 {
		t.Errorf("all tools were looked through %d times", c.asked)
	}
}
