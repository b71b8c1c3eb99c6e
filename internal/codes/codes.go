// Package codes is the table of errors: for each code its category, whether calling
// again may help, and a hint. Runs, the gateway and the command line print its hints,
// and docs/errors.md is generated from it.
package codes

import (
	"slices"
	"strings"
)

// A Code says what went wrong. Scripts may fail with codes of their own.
type Code string

// A Category groups codes by cause, and so by what to do.
type Category string

// The categories.
const (
	CategoryValidation     Category = "validation"
	CategoryTemplate       Category = "template"
	CategoryTool           Category = "tool"
	CategoryTimeout        Category = "timeout"
	CategoryCancelled      Category = "cancelled"
	CategoryTerminated     Category = "terminated"
	CategoryDeclined       Category = "declined"
	CategoryOutcomeUnknown Category = "outcome_unknown"
	CategoryCredentials    Category = "credentials"
	CategoryHeld           Category = "held" // between a call and its run only
	CategoryPermission     Category = "permission"
	CategoryLimit          Category = "limit"
	CategoryInternal       Category = "internal"
)

// A kind describes a category.
type kind struct {
	category Category
	means    string
	hint     string // what to do; "" = the message says it
}

var kinds = []kind{
	{CategoryValidation, "the call or the definition has a mistake", "Correct the arguments and call again."},
	{CategoryTemplate, "a template failed with these values", "The definition of the tool does not fit these values; calling again with the same arguments will not help."},
	{CategoryTool, "a tool failed or cannot be reached", ""},
	{CategoryTimeout, "a step, an elicitation or the run took too long", ""},
	{CategoryCancelled, "the run was cancelled", "Call again only if the user asks for it."},
	{CategoryTerminated, "the run was terminated", "Nothing was undone: look at what the run has done before calling again."},
	{CategoryDeclined, "a person declined or cancelled the elicitation", "A person decided this; call again only if the user asks for it."},
	{CategoryOutcomeUnknown, "a call may or may not have been executed", "It may have taken effect: check before calling again."},
	{CategoryCredentials, "a backend requires credentials of the caller", "Nothing was executed; call again when the credential is available."},
	{CategoryHeld, "a limit of a backend delays the call", "Wait; the run makes the call when the limit allows it."},
	{CategoryPermission, "the caller or the composite tool may not call a tool", "Calling again will not help; an operator must grant the permission."},
	{CategoryLimit, "a size or a number exceeds a limit", "Ask for less at a time."},
	{CategoryInternal, "a fault of perdure or of Temporal", ""},
}

// again is the hint for retryable errors without another.
const again = "Calling again may help."

// An Entry describes a code.
type Entry struct {
	Code       Code
	Categories []Category // one, or more where it depends on the outcome of the call
	Retryable  bool       // calling again may help, unless it would repeat an effect
	When       string     // when it happens
	Hint       string     // what to do; "" = the hint of the category
}

// Table returns every code.
func Table() []Entry { return slices.Clone(table) }

// Hint returns what to do about an error, as a sentence; "" if its message says so. A
// code that is not in the table, such as one of a script, has the hint of its
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

// List names categories: a, b, c.
func List(categories []Category) string {
	names := make([]string, len(categories))
	for i, c := range categories {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}
