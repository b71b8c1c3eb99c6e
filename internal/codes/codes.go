// Package codes has the errors of runs and calls: one table with the code of each,
// its category, whether calling again may help, and what to do. Runs, the gateway
// and the command line take their sentences from it, and docs/errors.md is made
// of it.
package codes

import (
	"fmt"
	"slices"
	"strings"
)

// A Code says what went wrong. Scripts may fail with codes of their own.
type Code string

// A Category says what kind of error a code is, and so what to do.
type Category string

// The categories.
const (
	CategoryValidation     Category = "validation"
	CategoryTemplate       Category = "template"
	CategoryTool           Category = "tool"
	CategoryTimeout        Category = "timeout"
	CategoryCancelled      Category = "cancelled"
	CategoryDeclined       Category = "declined"
	CategoryOutcomeUnknown Category = "outcome_unknown"
	CategoryCredentials    Category = "credentials"
	CategoryHeld           Category = "held" // between a call and its run only
	CategoryPermission     Category = "permission"
	CategoryLimit          Category = "limit"
	CategoryInternal       Category = "internal"
)

// A kind is what there is to know of a category.
type kind struct {
	category Category
	means    string
	hint     string // what to do; "" = the message says it
}

var kinds = []kind{
	{CategoryValidation, "the call or the definition is wrong", "Correct the arguments and call again."},
	{CategoryTemplate, "a template does not fit the values", "The definition of the tool does not fit these values; calling again with the same arguments will not help."},
	{CategoryTool, "a tool failed, or cannot be reached", ""},
	{CategoryTimeout, "a step, an elicitation or the run took too long", ""},
	{CategoryCancelled, "somebody cancelled the run", "Call again only if the user asks for it."},
	{CategoryDeclined, "a person declined, or dismissed the elicitation", "A person decided this; call again only if the user asks for it."},
	{CategoryOutcomeUnknown, "a call may or may not have been executed", "It may have taken effect: check before calling again."},
	{CategoryCredentials, "a backend wants credentials of the caller, and has none", "Nothing was executed; call again when the credential is there."},
	{CategoryHeld, "a backend takes no more calls for now", "Wait: the run makes the call when its turn has come."},
	{CategoryPermission, "the caller, or the composite tool, may not call a tool", "Calling again will not help; an operator must grant this one."},
	{CategoryLimit, "something is too large or too many", "Ask for less at a time."},
	{CategoryInternal, "a fault of perdure or of Temporal", ""},
}

// again is the hint of what is retryable.
const again = "Calling again may help."

// An Entry is what there is to know of a code.
type Entry struct {
	Code       Code
	Categories []Category // one, or more where it depends on the outcome of the call
	Retryable  bool       // calling again may help, as long as that repeats nothing
	When       string     // it happens
	Hint       string     // what to do; "" = what the category says
}

// Table gives every code.
func Table() []Entry { return slices.Clone(table) }

// Hint says what to do about an error, in a sentence; "" = its message says it. A
// code that is not of the table, such as one of a script, has the hint of its
// category.
func Hint(code Code, category Category, retryable bool) string {
	for _, e := range table {
		if e.Code == code && e.Hint != "" {
			return e.Hint
		}
	}
	for _, k := range kinds {
		if k.category == category && k.hint != "" {
			return k.hint
		}
	}
	if retryable {
		return again
	}
	return ""
}

const pageHead = `<!-- Generated from internal/codes; do not edit. Write it anew with: go test ./internal/codes -run TestPage -update -->
# Error codes

[Errors](language.md#errors) says how a failed call reports its error. ` + "`code` and `category`" + ` are stable; the hints below are those that results and commands give. Scripts may fail with codes of their own.

An error that is retryable is so only while calling again repeats no effect; ` + "`retryable`" + ` of the error itself says whether that is the case, and the hint is then: ` + again + `

## Categories

| category | what it means | hint |
|---|---|---|
`

// Page gives the page of all codes, in Markdown.
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
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", e.Code, strings.Join(categories, " or "), retryable, e.When, e.Hint)
	}
	return b.String()
}

// List names categories: a, b, c.
func List(categories []Category) string {
	names := make([]string, len(categories))
	for i, c := range categories {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}
