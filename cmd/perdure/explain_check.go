package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/config"
)

// A checkKind is where checks are made, and their explanations.
type checkKind struct {
	name, heading, intro string
	all                  []definitions.Explanation
}

func checkKinds() []checkKind {
	return []checkKind{
		{"definitions", "Definitions", "What is found in composite tools: files of `--definitions`, `compositeTools` of a configuration, and what is published.", definitions.Explanations()},
		{"configurations", "Configurations", "What is found in the file of `--config`. Every key is in [configuration](configuration.md).", config.Explanations()},
	}
}

// An explainedCheck is what explain prints of a check, as JSON.
type explainedCheck struct {
	Of string `json:"of"` // definitions or configurations
	definitions.Explanation
}

// explanations give what a check means; it may be one of definitions and of
// configurations.
func explanations(name string) (found []explainedCheck) {
	for _, kind := range checkKinds() {
		for _, e := range kind.all {
			if e.Check == name {
				found = append(found, explainedCheck{kind.name, e})
			}
		}
	}
	return found
}

// checkNames are those of all checks, sorted.
func checkNames() (names []string) {
	for _, kind := range checkKinds() {
		for _, e := range kind.all {
			names = append(names, e.Check)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// listChecks prints the checks with what they mean, a line each.
func (e explainCommand) listChecks(c *console) error {
	var all []explainedCheck
	for _, name := range checkNames() {
		all = append(all, explanations(name)...)
	}
	if e.Output == "json" {
		return c.printJSON(all)
	}
	w := c.table(c.out)
	for _, one := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Check, one.Of, firstLine(strings.ReplaceAll(one.Means, "`", "")))
	}
	return w.Flush()
}

// explainCheck prints what a check means.
func (e explainCommand) explainCheck(c *console, found []explainedCheck) error {
	if e.Output == "json" {
		return c.printJSON(found)
	}
	for i, one := range found {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		fmt.Fprintf(c.out, "%s, of %s: %s\n\n%s\n", c.outStyle(bold, one.Check), one.Of, one.Is, strings.ReplaceAll(one.Means, "`", ""))
		printExample(c, "wrong", red, one.Wrong)
		printExample(c, "right", green, one.Right)
	}
	return nil
}

func printExample(c *console, word string, s style, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(c.out, "\n%s:\n\n", c.outStyle(s, word))
	for line := range strings.Lines(text) {
		fmt.Fprint(c.out, "    "+line)
	}
}

// noSuchCheck is why there is nothing to explain: neither a check nor a step.
func noSuchCheck(name string) error {
	return usagef("no check %q%s; name a step of a definition with --step ID, or a check: %s",
		name, template.DidYouMean(name, checkNames()), strings.Join(checkNames(), ", "))
}

const checksHead = `<!-- Generated from definitions/checks.yaml and internal/config/checks.yaml; do not edit. To update: go test ./cmd/perdure -run TestChecksPage -update -->
# Checks

Each message about a definition or a configuration ends with the name of the check that found it: ` + "`file:line:col: message [check]`" + `. The names are stable; ` + "`perdure explain CHECK`" + ` prints an entry of this page. An error keeps a definition from being served, or a server from starting. What may still work is a warning, and an error with ` + "`perdure validate --strict`" + `.
`

// checksPage is docs/checks.md.
func checksPage() string {
	var b strings.Builder
	b.WriteString(checksHead)
	for _, kind := range checkKinds() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", kind.heading, kind.intro)
		for _, e := range kind.all {
			fmt.Fprintf(&b, "\n### %s\n\n%s", e.Check, e.Markdown())
		}
	}
	return b.String()
}
