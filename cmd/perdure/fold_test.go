package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

func TestFolded(t *testing.T) {
	t.Parallel()
	var many []int
	for i := range 100 {
		many = append(many, i)
	}
	list, _ := json.Marshal(many)
	for _, test := range []struct{ name, value, want string }{
		{"order and digits", `{"b":1.50,"a":[true,null,{}],"n":9007199254740993}`, `{
  "b": 1.50,
  "a": [
    true,
    null,
    {}
  ],
  "n": 9007199254740993
}
`},
		{"lines", `{"text":"one\ntwo\u001b[2J\n","last":"<a>"}`, `{
  "text":
    │ one
    │ two[U+001B][2J
  "last": "<a>"
}
`},
		{"list", fmt.Sprintf(`{"many":%s,"after":[]}`, list), `{
  "many": [
` + strings.Repeat("    N,\n", mostItems) + `    … 80 more
  ],
  "after": []
}
… stands for more: perdure runs result x
`},
		{"text", `"` + strings.Repeat("é", mostText+1) + `"`, `
  │ ` + strings.Repeat("é", mostText) + `
  │ … 2001 characters in all
… stands for more: perdure runs result x
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			c := &console{out: view.NewWriter(&out, nil)}
			perduretest.NoError(t, c.printFolded(json.RawMessage(test.value), "perdure runs result x"))
			got := out.String()
			for i := range mostItems {
				got = strings.Replace(got, fmt.Sprintf("    %d,\n", i), "    N,\n", 1)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
