package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/scaffold"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/service"
)

// A takeOver starts servers, lists their tools, and has a person confirm what is
// written of them.
type takeOver struct {
	takeOverFlags

	console *console
	form    *terminalForm
	set     *scaffold.Set
	needs   bool // all servers must answer
	tools   []backends.Tool
	report  takeOverReport
}

// A takeOverReport is what was found and written, as JSON.
type takeOverReport struct {
	Servers   []takenServer       `json:"servers,omitempty"`
	Effects   []scaffold.Proposal `json:"effects,omitempty"`
	Variables []scaffold.Variable `json:"variables,omitempty"` // to set before perdure is started
	Notes     []string            `json:"notes,omitempty"`
	Written   []string            `json:"written"`
	Next      []string            `json:"next,omitempty"`
}

// A takenServer is a server that is taken over.
type takenServer struct {
	Name      string   `json:"name"`
	File      string   `json:"file,omitempty"`
	Reached   string   `json:"reached"`        // command line or URL
	Gets      []string `json:"gets,omitempty"` // directory, variables and headers
	Connected bool     `json:"connected"`
	Tools     int      `json:"tools"`
	Error     string   `json:"error,omitempty"`
}

func newTakeOver(flags takeOverFlags, c *console, set *scaffold.Set) *takeOver {
	t := &takeOver{takeOverFlags: flags, console: c, form: newConsoleForm(c), set: set}
	t.report.Notes, t.report.Written = set.Notes, []string{}
	t.report.Variables = set.Missing(secrets.Lookup)
	for _, s := range set.Servers {
		t.report.Servers = append(t.report.Servers, takenServer{Name: s.Name, File: s.File, Reached: s.Reached(), Gets: s.Gets()})
	}
	return t
}

// text is where tables go: JSON has standard output for itself.
func (t *takeOver) text() io.Writer {
	switch {
	case t.Output != "json":
		return t.console.out
	case t.console.inTerminal && !t.Yes:
		return t.console.err
	}
	return io.Discard
}

// propose shows the servers, starts them as the configuration has them, and proposes
// effect classes, which a person confirms.
func (t *takeOver) propose(ctx context.Context, configuration string) error {
	t.showServers()
	if err := t.confirm(ctx, "Start these servers and list their tools? [Y/n] "); err != nil {
		return err
	}
	found, err := load(t.console, config.Sources{Config: scaffold.ConfigFile, Text: []byte(configuration), Env: t.set.Env(secrets.Lookup)})
	if err != nil {
		return err
	}
	found.Backends = slices.DeleteFunc(found.Backends, func(b backends.Config) bool {
		return !slices.ContainsFunc(t.set.Servers, func(s *scaffold.Server) bool { return s.Name == b.Name })
	})
	t.console.notef("starting %s; waiting at most %s for their tools …", service.Plural(len(found.Backends), "server"), t.Wait)
	tools, statuses, err := service.ListTools(ctx, found, t.Wait, t.console.noteStarting)
	if err != nil {
		return err
	}
	t.note(statuses)
	if err := t.allAnswer(); err != nil {
		return err
	}
	t.take(tools)
	if err := t.override(); err != nil {
		return err
	}
	return t.confirmEffects(ctx)
}

func (t *takeOver) showServers() {
	for _, note := range t.report.Notes {
		t.console.notef("%s", note)
	}
	w := t.console.wrappingTable(t.text())
	fmt.Fprintln(w, "SERVER\tFROM\tSTARTED OR CALLED AS")
	for _, s := range t.report.Servers {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, cmp.Or(view.Line(s.File), "-"), view.Line(s.Reached))
	}
	_ = w.Flush() // a table that nobody reads is no reason to stop
	for _, s := range t.report.Servers {
		for _, one := range s.Gets {
			fmt.Fprintf(t.text(), "%s gets %s\n", s.Name, view.Line(one))
		}
	}
}

// note keeps how each server answered, and says which did not.
func (t *takeOver) note(statuses []backends.Status) {
	for _, status := range statuses {
		i := slices.IndexFunc(t.report.Servers, func(s takenServer) bool { return s.Name == status.Name })
		if i < 0 {
			continue
		}
		s := &t.report.Servers[i]
		s.Connected, s.Tools, s.Error = status.Up, status.Tools, status.Error
		if !s.Connected {
			s.Error = cmp.Or(s.Error, "it does not answer within "+t.Wait.String())
			t.console.notef("%s does not answer: %s", s.Name, s.Error)
		}
		for _, name := range slices.Sorted(maps.Keys(status.LeftOut)) {
			t.leaveOut(name, s.Name, status.LeftOut[name])
		}
	}
}

// allAnswer fails if a server that must answer does not.
func (t *takeOver) allAnswer() error {
	for i, s := range t.report.Servers {
		if s.Connected || !t.needs {
			continue
		}
		correct := "correct the command"
		if t.set.Servers[i].URL != "" {
			correct = "correct the URL, give it the credential that it wants with --header 'Authorization=Bearer ${env:TOKEN}'"
		}
		return fmt.Errorf("%s did not answer, so nothing was written; %s, or add it as it is with --away", s.Name, correct)
	}
	return nil
}

// leaveOut says that a tool of a server, whose name is quoted, is left out.
func (t *takeOver) leaveOut(tool, server, why string) {
	note := fmt.Sprintf("left out the tool %s of %s: %s", tool, server, why)
	t.report.Notes = append(t.report.Notes, note)
	t.console.notef("%s", note)
}

// take proposes classes for the tools that a step can call. The name of another may be
// a pattern in a rule, such as *, and give all tools its class.
func (t *takeOver) take(tools []backends.Tool) {
	for _, tool := range tools {
		if !definitions.IsToolName(tool.Name) {
			t.leaveOut(strconv.Quote(tool.Original), tool.Backend, "no step can call a tool of that name")
			continue
		}
		t.tools = append(t.tools, tool)
		t.report.Effects = append(t.report.Effects, scaffold.Propose(tool))
	}
}

// override takes the classes of --effect.
func (t *takeOver) override() error {
	for _, one := range t.Effect {
		name, class, ok := strings.Cut(one, "=")
		if !ok {
			return usagef("--effect %s: write TOOL=CLASS", one)
		}
		if err := t.setClass(name, class); err != nil {
			return usagef("--effect %s: %v", one, err)
		}
	}
	return nil
}

// setClass sets the class of a tool: by its number in the table or its name.
func (t *takeOver) setClass(name, class string) error {
	if !slices.Contains(scaffold.Classes, class) {
		return fmt.Errorf("unknown effect class %q%s; classes: %s", class, template.DidYouMean(class, scaffold.Classes), strings.Join(scaffold.Classes, ", "))
	}
	i, err := strconv.Atoi(name)
	if i--; err != nil {
		i = slices.IndexFunc(t.tools, func(tool backends.Tool) bool { return tool.Name == name })
	}
	if i < 0 || i >= len(t.tools) {
		return fmt.Errorf("tool %q not found%s", name, template.DidYouMean(name, t.toolNames()))
	}
	p := &t.report.Effects[i]
	if p.Class != definitions.Effect(class) {
		p.Class, p.Reason = definitions.Effect(class), "set by hand"
	}
	return nil
}

func (t *takeOver) toolNames() (names []string) {
	for _, tool := range t.tools {
		names = append(names, tool.Name)
	}
	return names
}

func (t *takeOver) showEffects() {
	styles := map[definitions.Effect]style{definitions.Read: green, definitions.Unsafe: yellow}
	w := t.console.wrappingTable(t.text())
	fmt.Fprintln(w, "\n#\tTOOL\tCLASS\tBECAUSE")
	for i, p := range t.report.Effects {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", i+1, t.tools[i].Name, t.console.outStyle(styles[p.Class], string(p.Class)), p.Reason)
	}
	_ = w.Flush()
	fmt.Fprint(t.text(), effectLegend)
}

const effectLegend = `
read        changes nothing
idempotent  repeating it is harmless
keyed       the server knows a repeated call by its key
unsafe      anything else: not repeated when the outcome of a call is unknown
`

// confirmEffects shows the proposed classes until they are accepted.
func (t *takeOver) confirmEffects(ctx context.Context) error {
	if len(t.tools) == 0 {
		return nil
	}
	var mistakes []error
	for {
		t.showEffects()
		if t.Yes {
			return nil
		}
		for _, err := range mistakes { // below the table, where they are seen
			t.form.complain(err)
		}
		t.form.forget()
		line, err := t.form.ask(ctx, "Write these? [Y]es, [n]o, or changes such as 3=unsafe 5=read: ")
		if err != nil {
			return declined(err)
		}
		switch answer := strings.ToLower(strings.TrimSpace(line)); answer {
		case "", "y", "yes":
			return nil
		case "n", "no":
			return errNothingWritten
		default:
			mistakes = nil
			for _, change := range strings.FieldsFunc(answer, func(r rune) bool { return r == ' ' || r == ',' }) {
				name, class, _ := strings.Cut(change, "=")
				if err := t.setClass(name, class); err != nil {
					mistakes = append(mistakes, err)
				}
			}
		}
	}
}

var errNothingWritten = errors.New("nothing was written")

// confirm asks a person; without a terminal only --yes confirms.
func (t *takeOver) confirm(ctx context.Context, question string) error {
	switch {
	case t.Yes:
		return nil
	case !t.console.inTerminal:
		if t.Output == "json" {
			_ = t.console.printJSON(t.report)
		}
		return errors.New("nothing was started or written, since there is no terminal to ask at; look at the list above and confirm with --yes")
	}
	t.form.forget() // what was typed before is no answer
	line, err := t.form.ask(ctx, question)
	if err != nil {
		return declined(err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "" && answer != "y" && answer != "yes" {
		return errNothingWritten
	}
	return nil
}

// declined is what the end of the input means: no.
func declined(err error) error {
	if errors.Is(err, io.EOF) {
		return errNothingWritten
	}
	return err
}

func (t *takeOver) write(files []textFile) error {
	written, err := create(files)
	t.report.Written = append(t.report.Written, written...)
	return err
}

// conclude prints what was written and what to run next.
func (t *takeOver) conclude(configFile string, composite *scaffold.Composite) error {
	suggested := "tools"
	if composite != nil {
		suggested = "call " + scaffold.CompositeName
		for _, name := range composite.Required {
			suggested += " " + name + "=…"
		}
	}
	t.report.Next = nextCommands(configFile, suggested)
	if t.Output == "json" {
		return t.console.printJSON(t.report)
	}
	c := t.console
	for _, s := range t.report.Servers {
		if !s.Connected {
			c.notef("\n%s is written without effect classes, since it did not answer: %s; to have them proposed, remove it from %s and add it with perdure backend add when it does", s.Name, s.Error, configFile)
		}
	}
	fmt.Fprintln(c.out, c.prose("\nwrote "+strings.Join(t.report.Written, ", "), c.outTerminal))
	if composite != nil {
		fmt.Fprintln(c.out, c.prose(fmt.Sprintf("%s calls %s; its definition is valid and its test passes", scaffold.CompositeName, strings.Join(composite.Tools, " and ")), c.outTerminal))
		if len(composite.Changing) > 0 {
			c.notef("%s may change something: read %s before you call it", strings.Join(composite.Changing, " and "), definitionFile)
		}
	}
	if len(t.report.Variables) > 0 {
		fmt.Fprintln(c.out, "\nset these variables before perdure is started; the files keep no secrets:")
		for _, v := range t.report.Variables {
			fmt.Fprintf(c.out, "  export %s=…    # %s\n", v.Name, v.Where)
		}
	}
	fmt.Fprintln(c.out, "\nnext:")
	printNext(c, t.report.Next)
	return nil
}
