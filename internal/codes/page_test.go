package codes

import (
	"fmt"
	"strings"
)

const pageHead = `<!-- Generated from internal/codes; do not edit. To update: go test ./internal/codes -run TestPage -update -->
# Error codes

[Errors](language.md#errors) describes how a failed call reports its error. ` + "`code` and `category`" + ` are stable. The hint is what results and commands print; without one, the message says what to do. Scripts may fail with codes of their own.

An error with a retryable code has ` + "`retryable: true`" + ` only if calling again cannot repeat an effect. Otherwise its hint is not to call again, or empty.

## Categories

| category | what it means | hint |
|---|---|---|
`

// Page returns the page of all codes, in Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, k := range kinds {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.category, k.means, k.hint)
	}
	b.WriteString("\n## Codes\n\n| code | category | retryable | when | hint |\n|---|---|---|---|---|\n")
	for _, e := range table {
		var categories []string
		for _, c := range e.Categories {
			categories = append(categories, "`"+string(c)+"`")
		}
		retryable := ""
		if e.Retryable {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", e.Code, strings.Join(categories, " or "), retryable, e.When, Hint(e.Code, e.Categories[0], e.Retryable))
	}
	return b.String()
}
