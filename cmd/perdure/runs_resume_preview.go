package main

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/workflows"
)

// outlookWords describe the groups of a preview.
var outlookWords = map[runs.Outlook]string{
	runs.Resumes:        "resume",
	runs.Repeats:        "resume, and may repeat an effect",
	runs.OutcomeUnknown: "have a call with unknown outcome; record it with --unknown",
	runs.Impossible:     "cannot be resumed",
	runs.Resumed:        "were resumed already",
}

// Of a preview, how much is printed.
const (
	maxGroupsShown = 20
	maxDiffsShown  = 3
)

// show prints the preview for people.
func (b *bulkResume) show() error {
	if b.Output == "json" {
		return nil
	}
	for i, g := range b.preview.Groups {
		if i == maxGroupsShown {
			b.console.notef("and %d more groups; -o json has them all", len(b.preview.Groups)-i)
			break
		}
		b.console.notef("%d %s, such as %s", len(g.Runs), outlookWords[g.Outlook], g.Runs[0].ID)
		printPlanned(b.console, g.Steps)
		if g.Reason != "" {
			b.console.notef("  %s", view.Line(g.Reason))
		}
		if g.RepeatedCall != "" {
			b.console.notef("  %s", view.Line(g.RepeatedCall))
		}
		if g.WithoutForwarded {
			b.console.notef("  %s", withoutForwarded)
		}
	}
	diffs, err := b.diffs()
	for i, d := range diffs {
		if i == maxDiffsShown {
			b.console.notef("and %d more definitions; -o json has them all", len(diffs)-i)
			break
		}
		if d.Diff == "" {
			b.console.notef("%s of the new definition: no difference", service.Plural(d.Runs, "run"))
			continue
		}
		b.console.notef("the definition of %s and the new one:", service.Plural(d.Runs, "run"))
		fmt.Fprint(b.console.err, d.Diff)
	}
	return err
}

// A bulkDiff is the difference between a definition that runs have and the new one.
type bulkDiff struct {
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
	Runs    int    `json:"runs"`
	Diff    string `json:"diff"` // unified; "" = no difference
}

// diffs are those of --definition, the most frequent definition first.
func (b *bulkResume) diffs() (diffs []bulkDiff, err error) {
	if b.request.Definition == nil {
		return nil, nil
	}
	for _, was := range b.preview.Definitions {
		text, err := definitionDiff(was.Pinned, b.request.Definition)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, bulkDiff{was.Version, was.Digest, was.Runs, text})
	}
	return diffs, nil
}

// definitionDiff is the difference between the definition of a run and a new one.
func definitionDiff(was workflows.Pinned, now *definitions.Definition) (string, error) {
	before, err := asYAML(was.Source)
	if err != nil {
		return "", err
	}
	after, err := asYAML(now.Source())
	if err != nil {
		return "", err
	}
	name := func(version string) string { return strings.TrimSuffix(now.Name+"@"+version, "@") }
	return string(diff.Diff(name(was.Version)+" (of the run)", []byte(before), name(now.Version)+" (new)", []byte(after))), nil
}

// print prints what was done or, of a dry run, would be.
func (b *bulkResume) print(report bulkReport) error {
	if b.Output == "json" {
		diffs, err := b.diffs()
		if err != nil {
			return err
		}
		return b.console.printJSON(struct {
			bulkReport
			DryRun      bool                `json:"dryRun"`
			Groups      []runs.PreviewGroup `json:"groups"`
			Definitions []bulkDiff          `json:"definitions,omitempty"`
		}{bulkReport: report, DryRun: b.DryRun, Groups: b.preview.Groups, Definitions: diffs})
	}
	text := report.String()
	if b.DryRun {
		text = report.dryRun()
	}
	_, err := fmt.Fprintln(b.console.out, text)
	return err
}
