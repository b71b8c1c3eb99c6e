package main

import "testing"

// TestSpelledTools finds tools as the server does: also as scripts spell them, unless two
// are spelled so.
func TestSpelledTools(t *testing.T) {
	t.Parallel()
	tools, err := toolsOf([]remoteTool{
		{Name: "x_get-sum", Backend: "x", Original: "get-sum"},
		{Name: "x_a-b", Backend: "x", Original: "a-b"},
		{Name: "x_a.b", Backend: "x", Original: "a.b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"x_get-sum": "x_get-sum", "x.get-sum": "x_get-sum", "x_get_sum": "x_get-sum", "x.get_sum": "x_get-sum",
		"x_a_b": "", "x_gets": "",
	} {
		if tool, ok := tools.find(name); tool.Name != want || ok != (want != "") {
			t.Errorf("%s finds %q, %v; want %q", name, tool.Name, ok, want)
		}
	}
}
