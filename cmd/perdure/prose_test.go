package main

import "testing"

func TestProse(t *testing.T) {
	t.Parallel()
	c := &console{size: func() (int, int) { return 24, 10 }}
	for text, want := range map[string]string{
		"short":                               "short",
		"wrote perdure.yaml, tools/look.yaml": "wrote perdure.yaml,\ntools/look.yaml",
		"  a word that goes on here and there\nb":                           "  a word that goes on\n  here and there\nb",
		"answer with perdure runs answer k3v9 --accept (or --decline), now": "answer with\nperdure runs answer k3v9 --accept\n(or --decline), now",
		"see perdure runs list, or call again later":                        "see perdure runs list,\nor call again later",
		"/a/path/that/is/longer/than/a/line is there":                       "/a/path/that/is/longer/than/a/line\nis there",
		"日本語日本語 日本語日本語 a":                                                   "日本語日本語\n日本語日本語 a",
	} {
		if got := c.prose(text, true); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if got := c.prose(text, false); got != text {
			t.Errorf("in a pipe, %q became %q", text, got)
		}
	}
}
