package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/workflows/deftest"
)

// Sources say where a configuration and definitions come from.
type sources struct {
	Config      string   // configuration file; "" = none
	Definitions []string // files, and directories that are read with all that is below them
	Library     bool     // the definitions that ship with the program, too
	CallersOnly bool     // of the configuration only who callers are and what they may do: no backends, whose secrets need not be there

	// Modules finds published modules that no file stands in for. nil = they are
	// left for the registry of a server to find.
	Modules definitions.Modules
}

// Loaded is all that was read: one configuration and one namespace of
// definitions.
type loaded struct {
	settings
	Definitions []*definitions.Definition
}

// load reads everything and says all that is wrong with it. What is loaded is
// of use only if the diagnostics have no errors.
func load(src sources) (*loaded, definitions.Diagnostics) {
	l := &loader{names: map[string]bool{}, modules: src.Modules, callersOnly: src.CallersOnly}
	if src.Config != "" {
		l.configuration(src.Config)
	}
	for _, name := range src.Definitions {
		l.definitions(name)
	}
	if src.Library {
		l.library()
	}
	for _, missing := range l.refs {
		missing()
	}
	l.report(definitions.Check(l.defs, definitions.CheckOptions{MaxDepth: l.settings.MaxDepth}))
	l.diags.Sort()
	return &loaded{settings: l.settings, Definitions: l.defs}, l.diags
}

type loader struct {
	settings settings
	defs     []*definitions.Definition
	names    map[string]bool // under which compositeToolRefs find definitions
	modules  definitions.Modules

	callersOnly bool

	refs  []func() // checks of references, for when all names are known
	diags definitions.Diagnostics
}

func (l *loader) report(diags definitions.Diagnostics) { l.diags = append(l.diags, diags...) }

func (l *loader) errorf(pos definitions.Position, check, format string, args ...any) {
	l.report(definitions.Diagnostics{{
		Pos: pos, Severity: definitions.SeverityError, Message: fmt.Sprintf(format, args...), Check: check,
	}})
}

func (l *loader) unreadable(file string, err error) {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	l.errorf(definitions.Position{File: file}, "file", "cannot be read: %v", err)
}

func (l *loader) configuration(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		l.unreadable(file, err)
		return
	}
	docs, diags := documents(file, data)
	l.report(diags)
	switch {
	case diags.HasErrors():
		return
	case len(docs) != 1:
		l.errorf(definitions.Position{File: file}, "config", "has %d YAML documents; a configuration is one", len(docs))
		return
	}
	var c configFile
	r := &configReader{file: file, root: docs[0], env: environ.Lookup}
	r.diags = definitions.Decode(file, docs[0], &c)
	switch {
	case r.diags.HasErrors():
	case l.callersOnly:
		l.settings = settings{LogLevel: r.logLevel(c.Operational), Auth: r.auth(&c)}
	default:
		l.settings = r.read(&c)
	}
	l.report(r.diags)
	if l.callersOnly {
		return
	}
	for i := range c.CompositeTools {
		d, diags := definitions.ParseNode(file, data, &c.CompositeTools[i])
		l.report(diags)
		if d != nil {
			l.defs = append(l.defs, l.pin(file, d))
		}
	}
	l.references(file, docs[0], c.CompositeToolRefs)
}

// references notes what compositeToolRefs ask for: definitions by the name of
// their resource or by their own.
func (l *loader) references(file string, root *yaml.Node, refs []*reference) {
	for i, ref := range refs {
		node, _ := lookup(root, keyPath{"compositeToolRefs", i, "name"})
		l.refs = append(l.refs, func() {
			if !l.names[ref.Name] {
				l.errorf(definitions.Position{File: file, Line: node.Line, Column: node.Column}, "reference",
					"there is no composite tool definition %q; --definitions names the directory to look in", ref.Name)
			}
		})
	}
}

// definitions reads a definition file, or all of a directory in the order of
// their paths.
func (l *loader) definitions(name string) {
	files, err := definitionFiles(name)
	if err != nil {
		l.unreadable(name, err)
		return
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			l.unreadable(file, err)
			continue
		}
		l.parse(file, data)
	}
}

// pin gives a definition with what its scripts load.
func (l *loader) pin(file string, d *definitions.Definition) *definitions.Definition {
	l.report(d.Pin(besideFile(file)))
	with, missing := d.WithModules(definitions.FileModules(besideFile(file), l.modules))
	if l.modules != nil {
		l.report(missing)
	}
	return with
}

// definitionFiles are the YAML files below a directory that are not tests, or
// the file itself.
func definitionFiles(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, hasEnd(name)
	}
	return filesBelow(name, func(file string) bool { return isYAML(file) && !deftest.IsTestFile(file) })
}

// filesBelow are the files that are wanted of a directory and those below it, in
// the order of their paths, or the file itself. What has a name that begins with a
// dot is left out: editors leave such files, and Kubernetes keeps in such
// directories what the files of a mounted ConfigMap are links to.
func filesBelow(name string, wanted func(file string) bool) (files []string, err error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name += string(filepath.Separator) // also if it is a link to one
	}
	err = filepath.WalkDir(name, func(file string, entry fs.DirEntry, err error) error {
		hidden := file != name && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return filepath.SkipDir
		case !hidden && !entry.IsDir() && wanted(file):
			files = append(files, file)
			return hasEnd(file)
		}
		return nil
	})
	return files, err
}

// hasEnd refuses what would be read for ever, or until somebody writes to it: what
// is no regular file. The pipes that a shell gives, as <(…) or /dev/stdin, end.
func hasEnd(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	ofShell := info.Mode()&fs.ModeNamedPipe != 0 && (strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/"))
	if !info.Mode().IsRegular() && !ofShell {
		return usagef("%s is no file that can be read to its end, but a pipe, a device or a socket", file)
	}
	return nil
}

// besideFile reads what definitions of a file name: files in its directory, and
// below.
func besideFile(file string) func(name string) (string, error) {
	return func(name string) (string, error) {
		if !filepath.IsLocal(name) {
			return "", errors.New("it must be in the directory of the definition, or below")
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), filepath.FromSlash(name)))
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return string(text), err
	}
}

func isYAML(file string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(file)))
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
		l.parse("library/"+entry.Name(), data)
	}
}

func (l *loader) parse(file string, data []byte) {
	defs, diags := definitions.Parse(file, data)
	l.report(diags)
	for _, d := range defs {
		l.defs = append(l.defs, l.pin(file, d))
	}
	docs, _ := documents(file, data)
	for _, doc := range docs {
		for _, p := range []keyPath{{"metadata", "name"}, {"spec", "name"}, {"name"}} {
			if node, ok := lookup(doc, p); ok {
				l.names[node.Value] = true
			}
		}
	}
}

// documents gives the root of each YAML document of a file that is not empty.
func documents(file string, data []byte) ([]*yaml.Node, definitions.Diagnostics) {
	roots, err := definitions.Documents(data)
	if err != nil {
		return roots, definitions.Diagnostics{syntaxError(file, err)}
	}
	return roots, nil
}

func syntaxError(file string, err error) definitions.Diagnostic {
	d := definitions.Diagnostic{
		Pos: definitions.Position{File: file}, Severity: definitions.SeverityError, Message: err.Error(), Check: "syntax",
	}
	var at *yaml.LoadError
	if errors.As(err, &at) {
		d.Message = at.Message
		d.Pos.Line, d.Pos.Column = at.Mark.Line, at.Mark.Column
	}
	return d
}

// isConfiguration says whether a file looks like a configuration rather than
// definitions: by its keys, since both are YAML.
func isConfiguration(data []byte) bool {
	docs, _ := documents("", data)
	if len(docs) != 1 {
		return false
	}
	for _, key := range []string{"kind", "steps", "script", "scriptFile"} {
		if child(docs[0], key) != nil {
			return false
		}
	}
	for _, key := range []string{"backends", "compositeTools", "compositeToolRefs", "incomingAuth", "authorization", "approvals", "outgoingAuth", "aggregation", "groupRef", "operational", "publishing"} {
		if child(docs[0], key) != nil {
			return true
		}
	}
	return false
}

// stamp changes when a file is changed, added or removed. Files of scripts are
// known once the definitions are.
func (src sources) stamp(scripts ...string) string {
	var b strings.Builder
	known := scripts
	for _, name := range append([]string{src.Config}, src.Definitions...) {
		files, err := definitionFiles(name)
		if err != nil {
			fmt.Fprintln(&b, name, "missing")
		}
		known = append(known, files...)
	}
	for _, file := range known {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintln(&b, file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// scriptFiles are the files beside definitions in which their scripts stand.
func scriptFiles(defs []*definitions.Definition) []string {
	var files []string
	for _, d := range defs {
		for _, name := range d.PinnedFiles() {
			files = append(files, filepath.Join(filepath.Dir(d.Pos.File), filepath.FromSlash(name)))
		}
	}
	return files
}
