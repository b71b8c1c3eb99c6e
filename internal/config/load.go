package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/secrets"
)

// Sources say where a configuration and definitions come from.
type Sources struct {
	Config      string   // configuration file; "" = none
	Text        []byte   // of Config, in place of what the file has; nil = it is read
	Definitions []string // files, and directories that are read with all that is below them
	Library     bool     // the definitions that ship with the program, too
	CallersOnly bool     // of the configuration only who callers are and what they may do: no backends, whose secrets need not be there

	// Env reads the environment. nil = secrets.Lookup.
	Env func(name string) (string, bool)

	// Modules finds published modules that no file stands in for. nil = they are
	// left for the registry of a server to find.
	Modules definitions.Modules
}

// Loaded is all that was read: one configuration and one namespace of
// definitions.
type Loaded struct {
	Settings
	Definitions []*definitions.Definition
	Stamp       string // Sources.Stamp, without scripts, of before it was read

	rules []toolRule // by which tools are named, for when it is known which there are
}

// Load reads everything and reports all that is wrong with it. What is loaded is
// of use only if the diagnostics have no errors.
func Load(src Sources) (*Loaded, definitions.Diagnostics) {
	stamp := src.Stamp()
	l := &loader{names: map[string][]*definitions.Definition{}, modules: src.Modules, callersOnly: src.CallersOnly, env: src.Env}
	if l.env == nil {
		l.env = secrets.Lookup
	}
	if src.Config != "" {
		l.configuration(src.Config, src.Text)
	}
	for _, name := range src.Definitions {
		l.definitions(name, src.Config)
	}
	if src.Library {
		l.library()
	}
	for _, missing := range l.refs {
		missing()
	}
	l.selectNamed()
	l.report(definitions.Check(l.defs, definitions.CheckOptions{MaxDepth: l.settings.MaxDepth}))
	l.diags.Sort()
	return &Loaded{Settings: l.settings, Definitions: l.defs, Stamp: stamp, rules: l.rules}, l.diags
}

type loader struct {
	settings Settings
	rules    []toolRule
	defs     []*definitions.Definition
	names    map[string][]*definitions.Definition // under which compositeToolRefs find definitions
	inline   []*definitions.Definition            // those of the configuration
	selected []string                             // names in compositeToolRefs; nil = no reference, all are offered
	configs  map[string]*toolConfig               // MCPToolConfigs of the file, by name
	modules  definitions.Modules

	callersOnly bool
	env         func(string) (string, bool) // the environment

	refs  []func() // checks of references, for when all names are known
	diags definitions.Diagnostics
}

func (l *loader) report(diags definitions.Diagnostics) { l.diags = append(l.diags, diags...) }

func (l *loader) errorf(pos definitions.Position, check, format string, args ...any) {
	l.reportf(definitions.SeverityError, pos, check, format, args...)
}

func (l *loader) reportf(severity definitions.Severity, pos definitions.Position, check, format string, args ...any) {
	l.report(definitions.Diagnostics{{Pos: pos, Severity: severity, Message: fmt.Sprintf(format, args...), Check: check}})
}

func (l *loader) unreadable(file string, err error) {
	var at *fs.PathError
	if errors.As(err, &at) { // of the directory, it is the file that matters
		file, err = at.Path, at.Err
	}
	l.errorf(definitions.Position{File: file}, "file", "cannot be read: %v", err)
}

func (l *loader) configuration(file string, data []byte) {
	if data == nil {
		var err error
		if data, err = ReadFile(file); err != nil {
			l.unreadable(file, err)
			return
		}
	}
	docs, diags := documents(file, data)
	l.report(diags)
	if diags.HasErrors() {
		return
	}
	root := l.pick(file, data, docs)
	if root == nil {
		return
	}
	var c configuration
	r := &reader{file: file, root: root, env: l.env, configs: l.configs}
	written := definitions.Decode(file, root, &c)
	if l.callersOnly {
		l.settings = r.callers(&c)
	} else {
		l.settings = r.read(&c)
	}
	l.report(written)
	l.report(beyond(root, written, r.diags))
	l.rules = r.rules
	if l.callersOnly {
		return
	}
	l.noteUnused()
	text := definitions.NewText(data)
	for i := range c.CompositeTools {
		d, diags := definitions.ParseNode(file, text, &c.CompositeTools[i])
		l.report(diags)
		if d != nil {
			l.inline = append(l.inline, l.pin(file, d))
		}
	}
	l.defs = append(l.defs, l.inline...)
	l.references(file, root, c.CompositeToolRefs)
}

// references notes what compositeToolRefs ask for: definitions by the name of
// their resource or by their own.
func (l *loader) references(file string, root *yaml.Node, refs []*reference) {
	for i, ref := range refs {
		node, _ := lookup(root, keyPath{"compositeToolRefs", i, "name"})
		l.selected = append(l.selected, ref.Name)
		l.refs = append(l.refs, func() {
			if l.names[ref.Name] == nil {
				l.errorf(definitions.Position{File: file, Line: node.Line, Column: node.Column}, "reference",
					"definition %q not found; name the directory to look in with --definitions", ref.Name)
			}
		})
	}
}

// definitions reads a definition file, or all of a directory in the order of
// their paths, but for the configuration, whose definitions are known.
func (l *loader) definitions(name, configuration string) {
	files, err := DefinitionFiles(name)
	if err != nil {
		l.unreadable(name, err)
		return
	}
	for _, file := range files {
		if isSame(file, configuration) {
			continue
		}
		data, err := ReadFile(file)
		if err != nil {
			l.unreadable(file, err)
			continue
		}
		defs, diags := definitions.Parse(file, data)
		if file != name || len(defs) > 0 {
			skipForeign(diags)
		}
		l.take(file, defs, diags)
	}
}

// isSame reports whether two names are those of the same file; "" is that of none.
func isSame(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	of, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(of, other)
}

// skipForeign makes warnings of what a directory, or a file, has besides definitions.
func skipForeign(diags definitions.Diagnostics) {
	for i := range diags {
		if d := &diags[i]; d.Check == "foreign" && d.Severity == definitions.SeverityError {
			d.Severity, d.Message = definitions.SeverityWarning, d.Message+"; skipped"
		}
	}
}

// pin gives a definition with what its scripts load.
func (l *loader) pin(file string, d *definitions.Definition) *definitions.Definition {
	l.report(d.Pin(BesideFile(file)))
	with, missing := d.WithModules(definitions.FileModules(BesideFile(file), l.modules))
	if l.modules != nil {
		l.report(missing)
	}
	return with
}

func (l *loader) library() {
	entries, err := fs.ReadDir(definitions.Library(), ".")
	if err != nil {
		l.unreadable("library", err)
		return
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(definitions.Library(), entry.Name())
		if err != nil {
			l.unreadable("library/"+entry.Name(), err)
			continue
		}
		file := "library/" + entry.Name()
		defs, diags := definitions.Parse(file, data)
		l.take(file, defs, diags)
	}
}

// take takes the definitions of a file up, and what was said of them.
func (l *loader) take(file string, defs []*definitions.Definition, diags definitions.Diagnostics) {
	l.report(diags)
	for _, d := range defs {
		l.add(file, d)
	}
}

// add takes a definition up, under its name and that of its resource.
func (l *loader) add(file string, d *definitions.Definition) {
	pinned := l.pin(file, d)
	l.defs = append(l.defs, pinned)
	for _, name := range []string{d.Name, d.ResourceName()} {
		if name != "" && !slices.Contains(l.names[name], pinned) {
			l.names[name] = append(l.names[name], pinned)
		}
	}
}
