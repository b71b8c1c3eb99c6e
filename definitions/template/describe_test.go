package template

import "testing"

// TestDescribeReads says what a template read, in few words.
func TestDescribeReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{eq .params.name "x"}}`:                              `.params.name is "Ada"`,
		`{{and (gt .params.big 1) .params.nope .params.big}}`:  `.params.big is 12345678, .params.nope is no value`,
		`{{if .params.list}}{{len .params.list}}{{end}}`:       `.params.list is an array`,
		`{{.params.a}}{{.params.b}}{{.params.c}}{{.params.d}}`: `.params.a is no value, .params.b is no value, .params.c is no value`,
		`{{eq 1 2}}`: ``,
		`false`:      ``,
	} {
		if got := mustParse(t, text).DescribeReads(sample()); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
