package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

type validateCommand struct {
	againstFlags `embed:""`

	Files       []string `arg:"" optional:"" name:"file" help:"Definition files, directories of them, and configuration files."`
	Config      string   `help:"Configuration file." placeholder:"FILE"`
	Definitions []string `help:"Directory of definitions. Repeatable." placeholder:"DIR" sep:"none"`
	Strict      bool     `help:"Treat warnings as errors."`
	Notes       bool     `help:"Also print notes where a definition behaves differently than in ToolHive's vMCP; -o json always includes them."`
	Output      string   `short:"o" aliases:"format" help:"Output format: text, json, or github for annotations in GitHub Actions." enum:"text,json,github" default:"text"`
}

func (validateCommand) Help() string {
	return `Reports every mistake at once, with file, line and column. The status is 1 if dev would
refuse to start. Examples:

    perdure validate definitions/*.yaml
    perdure validate --config perdure.yaml --definitions definitions --strict
    perdure validate --notes from_toolhive.yaml
    perdure validate --against http://127.0.0.1:4483/mcp definitions/*.yaml

Calls are checked against the tools of --against, else of the running dev of this
directory, if it has the backends of the configuration; without one they are not
checked, which the last line says.`
}

func (v validateCommand) Run(ctx context.Context, c *console) error {
	diags, known, err := v.check(ctx)
	if err != nil {
		return err
	}
	if err := v.print(c, diags); err != nil {
		return err
	}
	if v.Output == "text" {
		if check := worst(diags); check != "" {
			c.notef("perdure explain %s explains it, with an example", check)
		}
		c.notef("%s", known.said())
	}
	for _, d := range diags {
		if d.Severity == definitions.SeverityError || v.Strict && d.Severity == definitions.SeverityWarning {
			return errReported
		}
	}
	return nil
}

// check loads each configuration together with all definition files, as dev
// would, or the definition files alone.
func (v validateCommand) check(ctx context.Context) (definitions.Diagnostics, *toolSource, error) {
	if v.Config == "" && len(v.Files)+len(v.Definitions) == 0 {
		return nil, nil, usagef("nothing to validate; name files, or set --config FILE or --definitions DIR")
	}
	known, err := v.knownTools(ctx)
	if err != nil {
		return nil, nil, err
	}
	configs, defs := v.sort()
	var all definitions.Diagnostics
	for _, file := range configs {
		found, diags := config.Load(config.Sources{Config: file, Definitions: defs, Modules: v.modules(ctx)})
		diags = known.check(found, diags)
		if (v.Notes || v.Output == "json") && !diags.HasErrors() {
			diags = append(diags, definitions.Notes(found.Definitions)...)
		}
		for _, d := range diags {
			if !slices.Contains(all, d) {
				all = append(all, d)
			}
		}
	}
	all.Sort()
	return all, known, nil
}

// worst is the check of the first diagnostic of the highest severity; "" = there is none.
func worst(diags definitions.Diagnostics) string {
	for _, severity := range []definitions.Severity{definitions.SeverityError, definitions.SeverityWarning, definitions.SeverityNote} {
		for _, d := range diags {
			if d.Severity == severity {
				return d.Check
			}
		}
	}
	return ""
}

// sort separates configurations from definitions. configs is never empty: "" means
// no configuration.
func (v validateCommand) sort() (configs, defs []string) {
	if v.Config != "" {
		configs = append(configs, v.Config)
	}
	defs = slices.Clone(v.Definitions)
	for _, file := range v.Files {
		if data, err := config.ReadFile(file); err == nil && config.IsConfiguration(file, data) {
			configs = append(configs, file)
		} else {
			defs = append(defs, file)
		}
	}
	if configs == nil {
		configs = []string{""}
	}
	return configs, defs
}

func (v validateCommand) print(c *console, diags definitions.Diagnostics) error {
	switch v.Output {
	case "json":
		return c.printJSON(reports(diags))
	case "github":
		for _, d := range diags {
			fmt.Fprintln(c.out, annotation(d))
		}
	default:
		printDiagnostics(c, diags)
		fmt.Fprintln(c.out, verdict(diags))
	}
	return nil
}

func verdict(diags definitions.Diagnostics) string {
	count := map[definitions.Severity]int{}
	for _, d := range diags {
		count[d.Severity]++
	}
	errors, warnings, notes := count[definitions.SeverityError], count[definitions.SeverityWarning], count[definitions.SeverityNote]
	text := service.Plural(errors, "error") + ", " + service.Plural(warnings, "warning")
	if errors+warnings == 0 {
		text = "valid"
	}
	if notes > 0 {
		text += ", " + service.Plural(notes, "note")
	}
	return text
}

// printDiagnostics writes a line for each diagnostic to standard error, and below it
// the line of the file with a caret.
func printDiagnostics(c *console, diags definitions.Diagnostics) {
	files := excerpts{}
	for _, d := range diags {
		colour := red
		if d.Severity != definitions.SeverityError {
			colour = yellow
		}
		fmt.Fprintln(c.err, strings.Replace(d.String(), d.Message, c.errStyle(colour, d.Message), 1))
		fmt.Fprint(c.err, files.excerpt(d.Pos))
	}
}

// revealing matches lines that may hold a secret, which output may not show: it goes
// to logs. A line below one of them, further in, may hold a secret as well.
var revealing = regexp.MustCompile(`(?i)(header_?value|headers|secret|token|password|api[_-]?key|authorization|env)["']?\s*[:=]|` +
	`-[\w-]*(secret|token|passw|pwd|key)[\w-]*["']?[\s,]|://[^\s/@"']*@|\b(gh[pousr]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|eyJ|AIza|npm_|hf_)\w`)

// maxExcerpt is the length of the longest line that is shown, in characters.
const maxExcerpt = 160

// excerpts are the lines of files that diagnostics show, by file name.
type excerpts map[string][]string

func (x excerpts) lines(file string) []string {
	lines, known := x[file]
	if !known {
		if data, err := config.ReadFile(file); err == nil {
			lines = strings.Split(string(data), "\n")
		}
		x[file] = lines
	}
	return lines
}

// excerpt returns a line of a file with a caret below the column; "" if the file
// cannot be read, and for lines that are long or may hold a secret.
func (x excerpts) excerpt(pos definitions.Position) string {
	lines := x.lines(pos.File)
	if pos.Line < 1 || pos.Line > len(lines) || reveals(lines[:pos.Line]) {
		return ""
	}
	line := []rune(strings.TrimRight(lines[pos.Line-1], "\r"))
	if len(line) > maxExcerpt {
		return ""
	}
	column := min(max(pos.Column, 1), len(line)+1)
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(line[:column-1]))
	return fmt.Sprintf("    %s\n    %s^\n", string(line), indent)
}

// reveals reports whether the last line, or one that it is below, may hold a secret.
func reveals(lines []string) bool {
	margin := len(lines[len(lines)-1]) + 1
	for _, line := range slices.Backward(lines) {
		inner := strings.TrimLeft(line, " \t")
		if inner == "" || len(line)-len(inner) >= margin {
			continue
		}
		if revealing.MatchString(line) {
			return true
		}
		if margin = len(line) - len(inner); margin == 0 {
			return false
		}
	}
	return false
}

// A report is a diagnostic as JSON.
type report struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Check    string `json:"check"`
}

func reports(diags definitions.Diagnostics) []report {
	out := []report{}
	for _, d := range diags {
		out = append(out, report{d.Pos.File, d.Pos.Line, d.Pos.Column, string(d.Severity), d.Message, d.Check})
	}
	return out
}

// annotation is a diagnostic as a GitHub workflow command.
func annotation(d definitions.Diagnostic) string {
	kind := map[definitions.Severity]string{definitions.SeverityWarning: "warning", definitions.SeverityNote: "notice"}[d.Severity]
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d,title=%s::%s",
		cmp.Or(kind, "error"), property.Replace(d.Pos.File), d.Pos.Line, d.Pos.Column, property.Replace(d.Check), data.Replace(d.Message))
}
