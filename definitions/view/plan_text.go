package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// An Emphasis is the meaning of a part of a text, for terminals that can show it.
type Emphasis string

// The emphases.
const (
	Heading  Emphasis = "heading"
	Aside    Emphasis = "aside"    // less important
	Caution  Emphasis = "caution"  // needs a second look
	Mistaken Emphasis = "mistaken" // certain to fail
)

// Text writes the plan for people, in lines of 80 columns. Mark emphasises a part of a
// line and adds nothing visible; nil = no emphasis. Text from outside cannot control
// the terminal. It ends with a newline.
func (p *Plan) Text(mark func(Emphasis, string) string) string {
	if mark == nil {
		mark = func(_ Emphasis, text string) string { return text }
	}
	t := &planText{mark: mark}
	t.line(0, Heading, strings.TrimSpace(p.Tool+" "+p.Version)+": what this call would do; nothing was called")
	if p.Problem != "" {
		t.line(0, Mistaken, "it is certain to fail: "+p.Problem)
	}
	if p.RunAs == definitions.AsComposite {
		t.line(0, "", "its steps call tools in its own right, for every caller")
	}
	t.arguments(p)
	t.steps(p)
	t.approvals(p)
	t.writes(p)
	t.limits(p)
	t.output(p)
	return t.String()
}

type planText struct {
	strings.Builder
	mark func(Emphasis, string) string
}

// line writes a line, cut to the width.
func (t *planText) line(indent int, e Emphasis, text string) {
	text = shorten(Text(strings.ReplaceAll(text, "\n", " ")), textWidth-indent)
	if e != "" {
		text = t.mark(e, text)
	}
	fmt.Fprintf(t, "%s%s\n", strings.Repeat(" ", indent), text)
}

func (t *planText) linef(indent int, format string, args ...any) {
	t.line(indent, "", fmt.Sprintf(format, args...))
}

// wrapped writes a list over as many lines as it needs.
func (t *planText) wrapped(indent int, text string) {
	for words := strings.Fields(Line(text)); len(words) > 0; {
		n, width := 1, len([]rune(words[0]))
		for n < len(words) && width+1+len([]rune(words[n])) <= textWidth-indent {
			width += 1 + len([]rune(words[n]))
			n++
		}
		t.line(indent, "", strings.Join(words[:n], " "))
		words = words[n:]
	}
}

func (t *planText) heading(text string) {
	t.WriteString("\n")
	t.line(0, Heading, text)
}

func (t *planText) arguments(p *Plan) {
	args, err := object(p.Arguments)
	if err != nil || len(args) == 0 {
		return
	}
	t.heading("arguments")
	for _, name := range template.SortedKeys(args) {
		if value, err := template.EncodeValue(args[name]); err == nil {
			t.linef(2, "%s = %s", name, value)
		}
	}
}

func (t *planText) steps(p *Plan) {
	stage := 0
	for i, s := range p.Steps {
		if s.Stage != stage {
			stage = s.Stage
			beside := i+1 < len(p.Steps) && p.Steps[i+1].Stage == stage
			t.heading(stageTitle(stage, beside))
		}
		t.step(2, s)
	}
}

func stageTitle(stage int, beside bool) string {
	title := fmt.Sprintf("%d. then", stage)
	if stage == 1 {
		title = "1. at once"
	}
	if beside {
		title += ", beside each other"
	}
	return title
}

func (t *planText) step(indent int, s PlannedStep) {
	t.linef(indent, "%s  %s", s.Path, strings.Join(headline(s), ", "))
	indent += 4
	if len(s.After) > 0 {
		t.wrapped(indent, "after "+strings.Join(s.After, ", "))
	}
	t.condition(indent, s)
	if s.Problem != "" {
		t.line(indent, Mistaken, "fails: "+s.Problem)
	}
	if s.Runs == No {
		return
	}
	if s.PlannedCall != nil {
		t.values(indent, s.Arguments)
	}
	t.values(indent, s.WorkflowArguments)
	if s.Called != nil {
		for _, below := range s.Called.Steps {
			t.step(indent, below)
		}
	}
	for _, c := range s.Script {
		t.linef(indent, "%s", c)
	}
	for _, v := range []*PlannedValue{s.Question, s.Wait} {
		if v != nil {
			t.text(indent, *v)
		}
	}
	if s.Loop != nil {
		t.loop(indent, s.Loop)
	}
	if s.Compensate != nil {
		t.linef(indent, "undone by %s", calls(s.Compensate))
		t.values(indent+2, s.Compensate.Arguments)
	}
}

// headline describes a step in a few words.
func headline(s PlannedStep) []string {
	words := []string{string(s.Type)} // a type of a newer server
	if kind, known := KindOf(s.Type); known {
		words[0] = kind.Headline(s)
	}
	if s.Timeout != 0 && s.Timeout != definitions.Duration(definitions.DefaultStepTimeout) {
		words = append(words, "within "+s.Timeout.Brief())
	}
	switch e := s.OnError; {
	case e == nil:
	case e.Action == definitions.Continue:
		words = append(words, "continue if it fails")
	case e.Action == definitions.Retry:
		words = append(words, "retried "+counted(int64(e.RetryCount), "time"))
	}
	return words
}

func calls(c *PlannedCall) string {
	if c.Backend == "" {
		return c.Tool
	}
	return fmt.Sprintf("%s (%s, %s)", c.Tool, c.Backend, c.Effect)
}

func (t *planText) condition(indent int, s PlannedStep) {
	switch {
	case s.Condition == nil:
	case s.Runs == No:
		t.line(indent, Caution, "skipped: "+Line(s.Condition.Template)+" is false")
	case s.Runs == Depends:
		t.line(indent, "", "if "+Line(s.Condition.Template))
		t.line(indent, Aside, "   depends on "+strings.Join(s.Condition.WaitsFor, ", "))
	default:
		t.line(indent, Aside, "runs: "+Line(s.Condition.Template)+" is true")
	}
}

func (t *planText) values(indent int, values []PlannedValue) {
	for _, v := range values {
		switch v.State {
		case Known:
			t.linef(indent, "%s = %s", v.Name, v.Value)
		case LeftOut:
			t.line(indent, Aside, v.Name+" is left out: "+Line(v.Template)+" has no value")
		case Fails: // it is the problem of the step
		default:
			t.waiting(indent, v.Name+" = ", v)
		}
	}
}

// text writes a question or a time, which have no names.
func (t *planText) text(indent int, v PlannedValue) {
	label := ""
	if v.Name != "" {
		label = v.Name + " "
	}
	switch v.State {
	case Known:
		var text string
		if json.Unmarshal(v.Value, &text) == nil {
			t.wrapped(indent, label+shorten(Line(text), maxQuestion))
		}
	case Waits:
		t.wrapped(indent, label+shorten(Line(v.written()), maxQuestion))
		t.waitsFor(indent, v)
	}
}

// maxQuestion is how many characters of a question are shown.
const maxQuestion = 600

func (t *planText) waiting(indent int, label string, v PlannedValue) {
	t.line(indent, "", label+Line(v.written()))
	t.waitsFor(indent, v)
}

func (t *planText) waitsFor(indent int, v PlannedValue) {
	t.line(indent, Aside, "   waits for "+strings.Join(v.WaitsFor, ", "))
}

// written is the template with its known parts expanded.
func (v PlannedValue) written() string { return cmp.Or(v.Partly, v.Template) }

func (t *planText) loop(indent int, l *PlannedLoop) {
	if l.Collection.State == Waits {
		t.waiting(indent, "items of ", l.Collection)
	}
	for _, item := range l.Items {
		if item.Value != nil {
			label := ""
			if item.Key != "" {
				label = item.Key + ": "
			}
			t.line(indent, Aside, fmt.Sprintf("for %s%s", label, item.Value))
		}
		t.step(indent, item.Step)
	}
	if l.Count != nil && *l.Count > len(l.Items) {
		t.line(indent, Aside, fmt.Sprintf("and %d more", *l.Count-len(l.Items)))
	}
}

func (t *planText) approvals(p *Plan) {
	if len(p.Approvals) == 0 {
		return
	}
	t.heading("approvals")
	for _, g := range p.Approvals {
		asked := "asked once"
		if g.Each {
			asked = "asked for each item"
		}
		if g.Asked == Depends {
			asked = strings.Replace(asked, "asked", "perhaps asked", 1)
		}
		t.linef(2, "%s  %s, open for %s", g.Step, asked, g.Timeout.Brief())
		t.linef(6, "declined: %s; cancelled or expired: %s", handlerText(g.OnDecline), handlerText(g.OnCancel))
		if len(g.Before) > 0 {
			t.wrapped(6, "behind it: "+strings.Join(g.Before, ", "))
		}
	}
}

func handlerText(a definitions.Action) string {
	switch a {
	case definitions.Continue:
		return "the run continues"
	case definitions.SkipRemaining:
		return "the rest is skipped"
	}
	return "the run fails"
}

func (t *planText) writes(p *Plan) {
	t.heading("writes")
	if len(p.Writes) == 0 {
		t.linef(2, "none")
	}
	for _, w := range p.Writes {
		times := ""
		if w.AtMost > 1 {
			times = fmt.Sprintf(", at most %s times", number64(w.AtMost))
		}
		if w.Runs == Depends {
			times += ", perhaps"
		}
		t.linef(2, "%s  %s (%s)%s", w.Step, w.Tool, w.Effect, times)
		if len(w.Approvals) == 0 {
			t.line(6, Caution, "no approval before it")
		}
		for _, g := range w.Approvals {
			switch g.Holds {
			case Yes:
				t.linef(6, "only if %s is accepted", g.Step)
			case No:
				t.line(6, Caution, "behind "+g.Step+", and runs even if that is not accepted")
			default:
				t.line(6, Caution, "behind "+g.Step+"; only a run shows whether that holds it back")
			}
		}
	}
}

func (t *planText) limits(p *Plan) {
	t.heading("at most")
	l := p.AtMost
	parts := []string{counted(l.Calls, "call"), counted(l.Writes, "write") + " among them"}
	if l.Attempts > l.Calls {
		parts = append(parts, counted(l.Attempts, "attempt")+" with retries")
	}
	parts = append(parts, counted(l.Questions, "elicitation"))
	if l.Compensations > 0 {
		parts = append(parts, counted(l.Compensations, "compensation")+" if it fails")
	}
	parts = append(parts, p.Timeout.Brief())
	t.wrapped(2, strings.Join(parts, ", "))
}

// counted writes a number and what it counts.
func counted(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return number64(n) + " " + word + "s"
}

func number64(n int64) string {
	if n == math.MaxInt64 {
		return "countless"
	}
	return fmt.Sprint(n)
}

func (t *planText) output(p *Plan) {
	t.heading("result")
	switch {
	case len(p.Output) > 0:
	case len(p.Steps) == 1 && p.Steps[0].Path == definitions.ScriptID && p.Steps[0].Type == definitions.ScriptStep:
		t.linef(2, "what the script returns")
	default:
		t.linef(2, "the output of the last step that completes")
	}
	for _, v := range p.Output {
		label := fmt.Sprintf("%s (%s)", v.Name, v.Type)
		switch v.State {
		case Known:
			t.linef(2, "%s = %s", label, v.Value)
		case Waits:
			t.linef(2, "%s waits for %s", label, strings.Join(v.WaitsFor, ", "))
		case LeftOut:
			t.line(2, Aside, label+" is left out")
		default:
			t.line(2, Mistaken, label+" fails: "+v.Error)
		}
	}
}
