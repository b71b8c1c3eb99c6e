package deftest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Reporter writes results for people: a line for each case, and its problems below.
type Reporter struct {
	W       io.Writer
	Verbose bool                           // show what was called in cases that passed, too
	Mark    func(mark, text string) string // colours text; mark is ok, FAIL, - or +. nil = no colours
}

// Report writes the result of one case.
func (r *Reporter) Report(res *Result) {
	word := "ok"
	if !res.Passed() {
		word = "FAIL"
	}
	fmt.Fprintf(r.W, "%s  %s  %s  (%s)\n", r.mark(word, fmt.Sprintf("%-4s", word)), res.Case.Pos.File, res.Case.Name, res.took())
	for _, p := range res.Problems {
		fmt.Fprintf(r.W, "      %s: %s\n", p.Pos, indentMore(p.Message, "          "))
		for _, l := range p.diffLines() {
			sign := l[:1]
			fmt.Fprintln(r.W, "          "+r.mark(sign, l))
		}
	}
	if !res.Passed() || r.Verbose {
		r.events(res.Trace)
	}
}

func (r *Reporter) mark(mark, text string) string {
	if r.Mark == nil {
		return text
	}
	return r.Mark(mark, text)
}

// diffLines are the lines of a diff with their heading.
func (p *Problem) diffLines() []string {
	if p.Diff == "" {
		return nil
	}
	return append([]string{"- expected", "+ got"}, strings.Split(p.Diff, "\n")...)
}

// took is the real time of a case, and the time of its run if that is over a second.
func (res *Result) took() string {
	real := res.Took.Round(time.Millisecond).String()
	if res.Trace.Duration < time.Second {
		return real
	}
	return real + " for " + res.Trace.Duration.Round(time.Millisecond).String()
}

// events lists calls and elicitations in the order of their beginning.
func (r *Reporter) events(t *Trace) {
	for _, note := range t.notes {
		fmt.Fprintf(r.W, "      note: %s\n", note)
	}
	if len(t.Calls)+len(t.Asked) == 0 {
		fmt.Fprintln(r.W, "      nothing was called")
		return
	}
	fmt.Fprintln(r.W, "      what happened:")
	calls, asked := t.Calls, t.Asked
	for len(calls)+len(asked) > 0 {
		if len(asked) == 0 || len(calls) > 0 && calls[0].moment < asked[0].moment {
			fmt.Fprintf(r.W, "        %s\n", calls[0])
			calls = calls[1:]
		} else {
			fmt.Fprintf(r.W, "        %s\n", asked[0])
			asked = asked[1:]
		}
	}
}

// String gives a line for a call.
func (c *Call) String() string {
	attempt := ""
	if c.Attempt > 1 {
		attempt = fmt.Sprintf(" (attempt %d)", c.Attempt)
	}
	return fmt.Sprintf("+%s  %s: %s %s%s → %s", c.At, c.Step, c.Tool, brief(c.Arguments), attempt, c.outcome())
}

// outcome is a call's output or error in a line.
func (c *Call) outcome() string {
	switch {
	case c.closed == 0:
		return "(the run ended)"
	case c.GivenUp:
		return fmt.Sprintf("slow after %s, waited for outside of the workflow task", c.Ended-c.At)
	case c.Error != "":
		return oneLine(c.Error)
	}
	return brief(c.Output)
}

// String gives a line for an elicitation.
func (a *Asked) String() string {
	line := fmt.Sprintf("+%s  %s asks: %s → %s", a.At, a.StepPath, oneLine(a.Message), a.State)
	if a.Action != "" {
		line += ", " + a.Action
	}
	return line
}

func oneLine(s string) string { return brief(json.RawMessage(strings.Join(strings.Fields(s), " "))) }

// indentMore indents all lines but the first.
func indentMore(s, indent string) string { return strings.ReplaceAll(s, "\n", "\n"+indent) }

// reportJSON is a result for -o json.
type reportJSON struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Case     string        `json:"case"`
	Tool     string        `json:"tool"` // the composite
	Passed   bool          `json:"passed"`
	Problems []problemJSON `json:"problems,omitempty"`
	Calls    []*Call       `json:"calls"`
	TookMS   float64       `json:"tookMs"`
	RunMS    int64         `json:"runMs"` // in the time of the workflow
}

type problemJSON struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Diff    string `json:"diff,omitempty"`
}

// MarshalJSON gives a result as -o json prints it.
func (res *Result) MarshalJSON() ([]byte, error) {
	out := reportJSON{
		File: res.Case.Pos.File, Line: res.Case.Pos.Line, Case: res.Case.Name, Tool: res.Case.Definition.Name, Passed: res.Passed(),
		Calls: res.Trace.Calls, TookMS: float64(res.Took.Microseconds()) / 1000, RunMS: res.Trace.Duration.Milliseconds(),
	}
	if out.Calls == nil {
		out.Calls = []*Call{}
	}
	for _, p := range res.Problems {
		out.Problems = append(out.Problems, problemJSON{p.Pos.File, p.Pos.Line, p.Pos.Column, p.Message, p.Diff})
	}
	return json.Marshal(out)
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Time     string      `xml:"time,attr"` // seconds
	Cases    []junitCase `xml:"testcase"`

	took time.Duration
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes results as JUnit XML: a suite for each file.
func WriteJUnit(w io.Writer, results []*Result) error {
	all := junitSuites{}
	for _, res := range results {
		file := res.Case.Pos.File
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != file {
			all.Suites = append(all.Suites, junitSuite{Name: file})
		}
		suite := &all.Suites[len(all.Suites)-1]
		suite.add(res)
		all.Tests++
		if !res.Passed() {
			all.Failures++
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *junitSuite) add(res *Result) {
	c := junitCase{
		Class: res.Case.Definition.Name, Name: res.Case.Name, File: res.Case.Pos.File, Line: res.Case.Pos.Line, Time: seconds(res.Took),
	}
	s.Tests++
	s.took += res.Took
	s.Time = seconds(s.took)
	if !res.Passed() {
		s.Failures++
		var text strings.Builder
		(&Reporter{W: &text}).Report(res)
		c.Failure = &junitFailure{Message: res.Problems[0].Message, Text: text.String()}
	}
	s.Cases = append(s.Cases, c)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
