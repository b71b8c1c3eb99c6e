package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/workflows/deftest"
)

type testCommand struct {
	againstFlags `embed:""`

	temporalFlags `embed:""`

	Files   []string `arg:"" optional:"" name:"file" help:"Test files, NAME_test.yaml, and directories of them."`
	Only    string   `name:"run" help:"Only cases whose name matches." placeholder:"REGEX"`
	Verbose bool     `short:"v" help:"Also show what happened in cases that passed."`
	JUnit   string   `name:"junit" help:"Also write the results as JUnit XML." placeholder:"FILE"`
	Update  bool     `help:"Update expected results in the files to the actual ones."`
	Record  string   `help:"Write a test from a run that has ended, instead of running tests." placeholder:"RUN"`
	Out     string   `help:"With --record: file to write. Default: standard output." placeholder:"FILE"`
}

func (testCommand) Help() string {
	return `A test file names a definition and has cases: what tools and people answer, and the
expected result. docs/testing.md describes every field. No server is needed. The
status is 1 if a case fails. Examples:

    perdure test definitions/
    perdure test prepare_review_test.yaml --run declined -v
    perdure test definitions/ --against http://127.0.0.1:4483/mcp
    perdure test --record prepare_review/k3v9a2m4qx --out recorded_test.yaml`
}

func (t testCommand) Run(ctx context.Context, c *console) error {
	if t.Record != "" {
		return t.record(ctx, c)
	}
	if len(t.Files) == 0 {
		return usagef("nothing to test; name test files or directories of them")
	}
	only, err := template.CompilePattern(t.Only)
	if err != nil {
		return usagef("--run %q is not a regular expression: %v", t.Only, err)
	}
	src := deftest.Sources{Library: definitions.Library(), Modules: t.modules(ctx)}
	if t.Against != "" {
		if src.Tools, err = t.catalogue(ctx); err != nil {
			return err
		}
	}
	files, err := t.read(c, src)
	if err != nil {
		return err
	}
	results, err := t.runAll(ctx, c, files, only, src)
	if err != nil {
		return err
	}
	return t.conclude(c, results)
}

// read reads all test files. A mistake in one fails all.
func (t testCommand) read(c *console, src deftest.Sources) ([]*deftest.File, error) {
	names, err := testFiles(t.Files)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no test files (NAME_test.yaml) in %s", strings.Join(t.Files, ", "))
	}
	var files []*deftest.File
	var all definitions.Diagnostics
	for _, name := range names {
		file, diags := deftest.Read(name, src)
		files = append(files, file)
		for _, d := range diags {
			if !slices.Contains(all, d) { // several files may test one definition
				all = append(all, d)
			}
		}
	}
	printDiagnostics(c, all)
	if all.HasErrors() {
		return nil, errReported
	}
	return files, nil
}

// testFiles returns the named files, and the test files in and below the named
// directories.
func testFiles(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		found, err := config.FilesBelow(name, func(file string) bool { return file == name || definitions.IsTestFile(file) })
		if err != nil {
			return nil, usagef("tests cannot be read: %v", err)
		}
		files = append(files, found...)
	}
	return files, nil
}

func (t testCommand) runAll(ctx context.Context, c *console, files []*deftest.File, only *regexp.Regexp, src deftest.Sources) ([]*deftest.Result, error) {
	reporter := &deftest.Reporter{W: c.out, Verbose: t.Verbose, Mark: c.testMark}
	var results []*deftest.Result
	for _, file := range files {
		var ofFile []*deftest.Result
		for _, one := range file.Cases {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if !only.MatchString(one.Name) {
				continue
			}
			ofFile = append(ofFile, one.Run())
		}
		if t.Update {
			var err error
			if ofFile, err = updateResults(c, file.Name, ofFile, src); err != nil {
				return nil, err
			}
		}
		if t.Output != "json" {
			for _, res := range ofFile {
				reporter.Report(res)
			}
		}
		results = append(results, ofFile...)
	}
	return results, nil
}

// testMark colours the marks of a report.
func (c *console) testMark(mark, text string) string {
	return c.outStyle(map[string]style{"ok": green, "+": green, "FAIL": red, "-": red, " ": faint}[mark], text)
}

// updateResults writes the actual results into the file, and returns the outcomes of
// the cases with the new expectations.
func updateResults(c *console, name string, results []*deftest.Result, src deftest.Sources) ([]*deftest.Result, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("updating tests: %w", err)
	}
	updated, n, err := deftest.Update(data, results)
	if err != nil || n == 0 {
		return results, err
	}
	if err := os.WriteFile(name, updated, 0o644); err != nil {
		return nil, fmt.Errorf("updating tests: %w", err)
	}
	c.notef("%s: %s updated", name, service.Plural(n, "result"))
	file, diags := deftest.Read(name, src)
	if err := diags.Err(); err != nil {
		return nil, fmt.Errorf("reading the updated tests: %w", err)
	}
	again := make([]*deftest.Result, 0, len(results))
	for _, one := range file.Cases {
		if slices.ContainsFunc(results, func(r *deftest.Result) bool { return r.Case.Name == one.Name }) {
			again = append(again, one.Run())
		}
	}
	return again, nil
}

// conclude writes the reports and the summary of all results.
func (t testCommand) conclude(c *console, results []*deftest.Result) error {
	failed := 0
	for _, res := range results {
		if !res.Passed() {
			failed++
		}
	}
	if t.JUnit != "" {
		if err := writeJUnit(t.JUnit, results); err != nil {
			return err
		}
	}
	switch {
	case t.Output == "json":
		if err := c.printJSON(append([]*deftest.Result{}, results...)); err != nil {
			return err
		}
	case len(results) == 0:
		return fmt.Errorf("no case matches --run %s", t.Only)
	default:
		fmt.Fprintf(c.out, "%s, %d failed\n", service.Plural(len(results), "case"), failed)
	}
	if failed > 0 {
		return errReported
	}
	return nil
}

func writeJUnit(name string, results []*deftest.Result) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	err = deftest.WriteJUnit(f, results)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	return nil
}

// record writes a test from a run.
func (t testCommand) record(ctx context.Context, c *console) error {
	return t.onRun(ctx, t.Record, func(rc *runs.Client, id runs.RunID) error { return t.recordRun(ctx, c, rc, id) })
}

func (t testCommand) recordRun(ctx context.Context, c *console, rc *runs.Client, id runs.RunID) error {
	recording, err := readRecording(ctx, rc, id)
	if err != nil {
		return err
	}
	text, err := recording.TestFile()
	if err != nil {
		return err
	}
	if t.Out == "" {
		_, err := c.exact.Write(text)
		return err
	}
	if err := os.WriteFile(t.Out, text, 0o644); err != nil {
		return fmt.Errorf("writing the test: %w", err)
	}
	return nil
}

// readRecording reads what a test of a run needs.
func readRecording(ctx context.Context, rc *runs.Client, id runs.RunID) (*deftest.Recording, error) {
	detail, err := rc.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	if detail.Outcome == nil {
		return nil, fmt.Errorf("run %s: %w; record a test after it has ended", id, runs.ErrNotFinished)
	}
	given, err := rc.Given(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &deftest.Recording{
		Run: string(id), Started: detail.Started, Input: given.Input, Elicitations: detail.Elicitations,
		Cancelled: given.Cancelled, Output: detail.Outcome.Output, Failure: detail.Outcome.Failure,
	}
	for _, a := range given.Answers {
		r.Answers = append(r.Answers, deftest.RecordedAnswer{Answer: a.Answer, At: a.At})
	}
	for _, s := range detail.Steps {
		switch {
		case s.Run != "":
			if !slices.Contains(r.Composites, s.What) {
				r.Composites = append(r.Composites, s.What)
			}
		case s.Attempts > 0 && s.Status != runs.StepHeld: // elicitations have none
			r.Calls = append(r.Calls, recordedCall(s))
		}
	}
	return r, nil
}

func recordedCall(s runs.StepRecord) deftest.RecordedCall {
	call := deftest.RecordedCall{StepPath: string(s.Path), Tool: s.What, Attempts: s.Attempts, Output: s.Output, Error: s.Error}
	if s.Ended != nil {
		call.Took = max(s.Ended.Sub(s.Started), time.Duration(0))
	}
	return call
}
