package definitions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// A Module is a file of functions that scripts load. A published one is loaded as
// NAME.star@VERSION, with a version or a constraint.
type Module struct {
	Name    string // with the ending .star
	Version string // semantic
	Text    string // Starlark
}

// moduleEnding ends the names of modules, and of no published composite tool.
const moduleEnding = ".star"

// IsModuleName reports whether a name is that of a module rather than of a
// composite tool.
func IsModuleName(name string) bool { return strings.HasSuffix(name, moduleEnding) }

// modulePlain is the stored form of a module.
type modulePlain struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Module  string `json:"module"`
}

// Source gives the module as canonical JSON, which ModuleFromSource reads back.
func (m *Module) Source() json.RawMessage {
	source, err := template.EncodeValue(map[string]any{"name": m.Name, "version": m.Version, "module": m.Text})
	if err != nil {
		panic(fmt.Sprintf("definitions: %v in a module", err)) // three texts
	}
	return source
}

// Digest identifies the content of the module: "sha256:" and the hash of Source in
// hexadecimal.
func (m *Module) Digest() string { return DigestOf(m.Source()) }

// ModuleFromSource reads what Source wrote.
func ModuleFromSource(source []byte) (*Module, error) {
	decoder := json.NewDecoder(bytes.NewReader(source))
	decoder.DisallowUnknownFields()
	var p modulePlain
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("reading the source of a module: %w", err)
	}
	return &Module{p.Name, p.Version, p.Module}, nil
}

var versionLine = regexp.MustCompile(`^#\s*version:\s*(\S+)\s*$`)

// StatedVersion is the version in a comment at the top of a module, # version: 1.2.0;
// "" = none.
func StatedVersion(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := versionLine.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			return ""
		}
	}
	return ""
}

// An Export is a name that a module exports; a Param is a parameter of a function.
type (
	Export = starlark.Export
	Param  = starlark.Param
)

// Exports gives what the module exports.
func (m *Module) Exports() []Export { return starlark.Exports(m.Name, m.Text) }

// A Pin is the published version of a module that a script loads.
type Pin struct {
	Version string `yaml:"version" json:"version"`
	Digest  string `yaml:"digest" json:"digest"` // of the Module
}

// Modules finds the version of a published module that a reference means. The
// error says why it was not found, and what to do.
type Modules func(Reference) (*Module, error)

// FileModules finds modules among files that state a version, then, unless it is nil,
// elsewhere. Read reads a file by its name.
func FileModules(read func(name string) (string, error), elsewhere Modules) Modules {
	return func(ref Reference) (*Module, error) {
		text, err := read(ref.Name)
		if err == nil {
			m := &Module{ref.Name, StatedVersion(text), text}
			if ref.Matches(m.Version) {
				return m, nil
			}
			if elsewhere == nil && m.Version != "" {
				return nil, fmt.Errorf("the file %s is version %s", ref.Name, m.Version)
			}
		}
		if elsewhere == nil {
			return nil, fmt.Errorf("it is published, and no server is asked here: say --against URL, or have the file %s, with a line such as # version: 1.0.0 at its top, beside the definition", ref.Name)
		}
		return elsewhere(ref)
	}
}

// ParseModule reads the name of a published module in a load statement.
func ParseModule(text string) (Reference, error) {
	ref, err := ParseReference(text)
	if err != nil || !IsModuleName(ref.Name) || ref.Version == "" {
		return ref, fmt.Errorf("%s is no published module: write NAME.star@VERSION, such as text.star@^1.0", template.Excerpt(text))
	}
	return ref, nil
}

// pending reads the texts, so that it also works for scripts with mistakes.
func (c *Code) pending() []string {
	var names []string
	for _, text := range append([]string{c.Script}, slices.Collect(maps.Values(c.Modules))...) {
		loads := starlark.Loads(c.ScriptFile, text)
		for _, load := range loads {
			if _, known := c.Modules[load.Module]; !known && starlark.IsPublished(load.Module) {
				names = append(names, load.Module)
			}
		}
	}
	return names
}

// WithModules gives the definition with the texts and versions of the published modules
// that its scripts load, directly or not. Modules that it has already stay as they
// are. The diagnostics name those that were not found.
func (d *Definition) WithModules(find Modules) (*Definition, Diagnostics) {
	if len(d.Scripts().Pending()) == 0 {
		return d, nil
	}
	with := d.Clone()
	c := &checker{newSubject(with), &surroundings{}}
	for _, placed := range with.Scripts().all {
		c.pinPublished(placed, find)
	}
	return with, c.diags
}

// Clone copies the definition, its steps and its scripts, but not their values.
func (d *Definition) Clone() *Definition {
	c := *d
	c.compiler = &compiler{}
	c.Code = d.Code.clone()
	c.Steps = slices.Clone(d.Steps)
	for i := range c.Steps {
		c.Steps[i] = c.Steps[i].clone()
	}
	return &c
}

func (s *Step) clone() *Step {
	if s == nil {
		return nil
	}
	c := *s
	c.Code, c.Step = s.Code.clone(), s.Step.clone()
	return &c
}

func (c Code) clone() Code {
	c.Modules, c.Pinned = maps.Clone(c.Modules), maps.Clone(c.Pinned)
	return c
}

// pinPublished adds the published modules that a script loads.
func (c *checker) pinPublished(placed placedCode, find Modules) {
	code := placed.code
	n := node{step: &Step{Code: *code}, path: placed.path, label: "the script"}
	type text struct{ file, text string }
	texts := []text{{code.file(), code.Script}}
	for _, name := range template.SortedKeys(code.Modules) {
		texts = append(texts, text{name, code.Modules[name]})
	}
	for missing := map[string]bool{}; len(texts) > 0; texts = texts[1:] {
		loads := starlark.Loads(texts[0].file, texts[0].text)
		for _, load := range loads {
			if _, known := code.Modules[load.Module]; known || !starlark.IsPublished(load.Module) || missing[load.Module] {
				continue
			}
			m, err := c.published(load.Module, len(code.Modules), find)
			if err != nil {
				missing[load.Module] = true
				c.report(template.AtMember(placed.path, "script"), c.scriptPosition(n, texts[0].file, load.Line, load.Column), SeverityError, "script-load", "%s loads %s: %v", n.label, load.Module, err)
				continue
			}
			code.pin(load.Module, m)
			texts = append(texts, text{load.Module, m.Text})
		}
	}
}

func (c *checker) published(name string, known int, find Modules) (*Module, error) {
	ref, err := ParseModule(name)
	switch {
	case err != nil:
		return nil, err
	case known >= maxModules:
		return nil, fmt.Errorf("a script loads at most %d modules", maxModules)
	}
	return find(ref)
}

func (c *Code) pin(name string, m *Module) {
	if c.Modules == nil {
		c.Modules = map[string]string{}
	}
	if c.Pinned == nil {
		c.Pinned = map[string]*Pin{}
	}
	c.Modules[name], c.Pinned[name] = m.Text, &Pin{m.Version, m.Digest()}
}

// pinned checks that modules have the digests of their pins.
func (c *checker) pinned(n node) {
	for _, load := range template.SortedKeys(n.step.Pinned) {
		pin, at := n.step.Pinned[load], template.AtMember("pinned", load)
		ref, err := ParseModule(load)
		text, given := n.step.Modules[load]
		switch {
		case err != nil:
			c.stepErrorf(n, at, "script-pin", "pinned: %v", err)
		case pin == nil || !given:
			c.stepErrorf(n, at, "script-pin", "pinned: %s is not among the modules: leave it out of both, and it is looked up when the definition is loaded", load)
		case (&Module{ref.Name, pin.Version, text}).Digest() != pin.Digest:
			c.stepErrorf(n, at, "script-pin", "pinned: what modules has for %s is not version %s with the digest %s: leave it out of both, and it is looked up when the definition is loaded", load, pin.Version, template.Excerpt(pin.Digest))
		}
	}
}

// CheckModule reports mistakes in a module to be published, with what it loads. What it
// calls is checked only in a script that loads it.
func CheckModule(file string, m *Module, find Modules) Diagnostics {
	var diags Diagnostics
	code := Code{Script: m.Text, ScriptFile: file}
	d := &Definition{Name: m.Name, Code: code}
	with, missing := d.WithModules(find)
	for i := range missing {
		missing[i].Pos.File = file
	}
	diags = append(diags, missing...)
	program, mistakes := ScriptLanguage.CompileModule(starlark.Source{File: file, Text: m.Text, Modules: with.Modules}, starlark.Limits{})
	for _, mistake := range mistakes {
		diags = append(diags, Diagnostic{Pos: Position{mistake.File, mistake.Line, mistake.Column}, Severity: SeverityError, Message: mistake.Message, Check: scriptChecks[mistake.Check]})
	}
	if program == nil {
		return diags
	}
	for _, call := range seenCalls(program) {
		if call.atLoading() {
			diags = append(diags, Diagnostic{Pos: Position{call.File, call.Line, call.Column}, Severity: SeverityError, Message: callsAtLoading, Check: "script-load"})
		}
	}
	return diags
}
