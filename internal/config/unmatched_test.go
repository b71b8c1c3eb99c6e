package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/backends"
)

// TestUnmatched warns of names of tools that no tool has, with near ones, and of
// none where it is not known which tools there are.
func TestUnmatched(t *testing.T) {
	t.Parallel()
	found, diags := Load(Sources{Config: "perdure.yaml", Text: []byte(`
backends:
  - name: gh
    command: gh
    effects:
      - {tool: "get_*", class: read}
      - {tool: "gett_*", class: read}
      - {tool: list_isues, class: read}
      - {tool: "*", class: unsafe}
  - {name: db, command: db, effects: [{tool: "query*", class: read}]}
aggregation:
  tools:
    - {workload: gh, filter: [get_issue, issue, missing], overrides: {get_issue: {name: issue}, get_isue: {name: other}}}
authorization:
  rules:
    - {tools: [gh_issue, "gh_lst_*", deploy, deplyo, perdure_run_await, "db_*"], groups: ["*"]}
  publishers: [{tools: ["new_*"], groups: ["*"]}]
compositeTools:
  - {name: local, description: d, steps: [{id: a, type: wait, for: 1s}]}
`)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	gh := []backends.Tool{{Name: "gh_issue", Backend: "gh", Original: "get_issue"}, {Name: "gh_list_issues", Backend: "gh", Original: "list_issues"}}
	db := append(gh, backends.Tool{Name: "db_run", Backend: "db", Original: "run"})
	ofBackend := []string{
		`7:16: backends[0].effects[1].tool: "gett_*" matches no tool of backend gh; near ones are get_issue, list_issues, issue, other`,
		`8:16: backends[0].effects[2].tool: "list_isues" matches no tool of backend gh (did you mean "list_issues"?)`,
		`13:49: aggregation.tools[0].filter[2]: "missing" matches no tool of backend gh; near ones are issue, list_issues, get_issue, other`,
		`13:107: aggregation.tools[0].overrides.get_isue: "get_isue" matches no tool of backend gh (did you mean "get_issue"?)`,
	}
	ofAll := slices.Insert(slices.Clone(ofBackend), 2, `10:46: backends[1].effects[0].tool: "query*" matches no tool of backend db; near ones are run`)
	ofAll = append(ofAll,
		`16:26: authorization.rules[0].tools[1]: "gh_lst_*" matches no tool; near ones are gh_issue, gh_list_issues, db_run, deploy, local`,
		`16:46: authorization.rules[0].tools[3]: "deplyo" matches no tool (did you mean "deploy"?)`)
	for _, test := range []struct {
		name    string
		tools   []backends.Tool
		offered []string
		want    []string
	}{
		{"all are known", db, []string{"deploy"}, ofAll},
		{"a backend is away", gh, []string{"deploy"}, ofBackend},
		{"what is published is not known", gh, nil, ofBackend},
		{"nothing is known", nil, nil, nil},
	} {
		got := found.Unmatched(test.tools, test.offered)
		got.Sort()
		var lines []string
		for _, d := range got {
			if d.Check != "no-match" || d.Severity != "warning" {
				t.Errorf("%s: %v", test.name, d)
			}
			lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(d.Pos.String(), "perdure.yaml:")+": "+d.Message, " [no-match]"))
		}
		if diff := cmp.Diff(strings.Join(test.want, "\n"), strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}
