// Package deftest tests whether a definition does what its author means: it
// reads test files, runs their cases and reports what is not as expected.
//
// A case is a run of the real interpreter in Temporal's time-skipping test
// environment. The case says what tools answer and how long they take, how people
// answer and when. Time is that of the workflow, so a gate that waits for a week
// costs milliseconds, and nothing depends on the speed of the machine.
package deftest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// Sources say where the definitions under test are read from.
type Sources struct {
	// ReadFile reads a definition file that a test file names relative to
	// itself. nil = os.ReadFile.
	ReadFile func(name string) ([]byte, error)

	// Library has the definitions that a test file names with library:, a file
	// NAME.yaml each. nil = none.
	Library fs.FS

	// Tools are known besides those of test files, which come first. Definitions are
	// checked against them. nil = none.
	Tools definitions.Tools

	// Modules are published modules; a file beside a definition comes first.
	// nil = none.
	Modules definitions.Modules
}

// A File is a test file that was read.
type File struct {
	Name  string
	Cases []*Case
}

// A Case is one call of a composite tool, with the answers of tools and people and
// what is expected of it.
type Case struct {
	Name       string
	Pos        definitions.Position
	Definition *definitions.Definition

	index   int // in the file
	written caseFile
	tools   map[string]definitions.Tool // by the name that steps use; Name is that in the tests
	mocks   map[string][]*response      // by the name in the tests
	echo    bool                        // tools without a response answer with their arguments
	find    definitions.Definitions     // the definitions under test, which steps call
	node    *yaml.Node
}

// document is a test file as written.
type document struct {
	Definition yaml.Node           `yaml:"definition"` // a file's name, or a definition
	Library    string              `yaml:"library"`
	Call       string              `yaml:"call"` // which of the definitions; "" = the only one
	Default    string              `yaml:"default"`
	Tools      map[string]toolFile `yaml:"tools"`
	Cases      []yaml.Node         `yaml:"cases" meant:"tests,scenarios,examples"`

	Pos definitions.Position `yaml:"-"`
}

// toolFile is the entry of a tool in a test file.
type toolFile struct {
	InputSchema  json.RawMessage    `yaml:"inputSchema"`
	OutputSchema json.RawMessage    `yaml:"outputSchema"`
	Effect       definitions.Effect `yaml:"effect"`
	Backend      string             `yaml:"backend"`
	Original     string             `yaml:"original"` // its name at the backend
	KeyArgument  string             `yaml:"keyArgument"`
	Returns      yaml.Node          `yaml:"returns"` // its responses, unless the case has some

	Pos definitions.Position `yaml:"-"`
}

// caseFile is a case as written.
type caseFile struct {
	Name      string                `yaml:"name"`
	Call      string                `yaml:"call"`
	Arguments json.RawMessage       `yaml:"arguments" meant:"args,input,inputs,params,parameters,with,given"`
	Run       string                `yaml:"run"`     // .workflow.id; "" = NAME/test
	Started   time.Time             `yaml:"started"` // .workflow.startTime; zero = the first of January 2026
	Default   string                `yaml:"default"`
	Tools     map[string]yaml.Node  `yaml:"tools" meant:"mocks,stubs,mock,responses,backends"`
	Answers   []*answer             `yaml:"answers" meant:"replies,approvals,elicitations,answer"`
	Cancel    *definitions.Duration `yaml:"cancel"` // after which the run is cancelled
	Expect    expectation           `yaml:"expect" meant:"expected,expects,then,assert,want"`

	Pos definitions.Position `yaml:"-"`
}

// An answer is a person's answer to the elicitations that it fits.
type answer struct {
	Step    string               `yaml:"step"`    // id or path; "" = any
	Message pattern              `yaml:"message"` // "" = any
	Action  string               `yaml:"action"`
	Content json.RawMessage      `yaml:"content"`
	By      string               `yaml:"by"`
	After   definitions.Duration `yaml:"after"` // since it was asked

	Pos definitions.Position `yaml:"-"`
}

// Read reads a test file from the disk.
func Read(name string, src Sources) (*File, definitions.Diagnostics) {
	data, err := os.ReadFile(name)
	if err != nil {
		return &File{Name: name}, definitions.Diagnostics{unreadable(definitions.Position{File: name}, name, err)}
	}
	return Parse(name, data, src)
}

// Parse reads a test file. name is for positions; names of files in it are relative to
// it. It reports every mistake at once; cases of a file with errors must not be run.
func Parse(name string, data []byte, src Sources) (*File, definitions.Diagnostics) {
	if src.ReadFile == nil {
		src.ReadFile = os.ReadFile
	}
	p := &parser{file: &File{Name: name}, src: src, data: data}
	if root := p.root(data); root != nil {
		p.document(root)
	}
	p.diags.Sort()
	return p.file, p.diags
}

type parser struct {
	file  *File
	src   Sources
	data  []byte
	diags definitions.Diagnostics
}

// errorf reports a mistake once: the part of the file for all cases is read for each.
func (p *parser) errorf(pos definitions.Position, check, format string, args ...any) {
	d := definitions.Diagnostic{
		Pos: pos, Severity: definitions.SeverityError, Message: fmt.Sprintf(format, args...), Check: check,
	}
	if !slices.Contains(p.diags, d) {
		p.diags = append(p.diags, d)
	}
}

func (p *parser) position(n *yaml.Node) definitions.Position {
	return definitions.Position{File: p.file.Name, Line: n.Line, Column: n.Column}
}

func unreadable(pos definitions.Position, name string, err error) definitions.Diagnostic {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return definitions.Diagnostic{Pos: pos, Severity: definitions.SeverityError,
		Message: fmt.Sprintf("%s cannot be read: %v", name, err), Check: "file"}
}

// root gives the one document of a file.
func (p *parser) root(data []byte) *yaml.Node {
	start := definitions.Position{File: p.file.Name, Line: 1, Column: 1}
	if !utf8.Valid(data) {
		p.errorf(start, "syntax", "the file is not UTF-8 text")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null"):
		p.errorf(start, "syntax", "there are no tests in this file")
		return nil
	case err != nil:
		p.syntaxError(start, err)
		return nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		p.errorf(start, "syntax", "a test file is one YAML document; there are more in this one")
		return nil
	}
	return doc.Content[0]
}

func (p *parser) syntaxError(pos definitions.Position, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	var load *yaml.LoadError
	if errors.As(err, &load) {
		message = load.Message
		pos.Line, pos.Column = max(1, load.Mark.Line), max(1, load.Mark.Column)
	}
	p.errorf(pos, "syntax", "this is not YAML: %s", message)
}

// isDefinition reports whether a document is what is to be tested.
func isDefinition(root *yaml.Node) bool {
	for key := range definitions.Members(root) {
		switch key.Value {
		case "definition", "library", "cases":
			return false
		case "steps", "script", "spec":
			return true
		}
	}
	return false
}

func (p *parser) document(root *yaml.Node) {
	if isDefinition(root) {
		p.errorf(definitions.Position{File: p.file.Name, Line: root.Line, Column: root.Column}, "file",
			"this is a definition, not a test: its tests are in a file whose name ends in _test.yaml, with definition: %s in it", "./"+filepath.Base(p.file.Name))
		return
	}
	var doc document
	p.decode(root, &doc)
	if doc.Pos.Line == 0 {
		return // not a mapping, which is reported
	}
	defs := p.definitions(&doc)
	if len(doc.Cases) == 0 {
		p.errorf(doc.Pos, "required", "cases is required: what to call, and what to expect")
	}
	names := map[string]bool{}
	for i := range doc.Cases {
		if c := p.readCase(&doc, defs, i); c != nil {
			if names[c.Name] {
				p.errorf(c.Pos, "duplicate", "there are two cases %q", c.Name)
			}
			names[c.Name] = true
			p.file.Cases = append(p.file.Cases, c)
		}
	}
}

// decode reads a node and reports whether all of it was right.
func (p *parser) decode(node *yaml.Node, into any) bool {
	diags := definitions.Decode(p.file.Name, node, into)
	p.diags = append(p.diags, diags...)
	return !diags.HasErrors()
}

// definitions reads the definitions under test; nil if one has errors.
func (p *parser) definitions(doc *document) []*definitions.Definition {
	if (doc.Library == "") == doc.Definition.IsZero() {
		p.errorf(doc.Pos, "required", "either definition (a file's name, or a definition) or library (a name) is required")
		return nil
	}
	var defs []*definitions.Definition
	var diags definitions.Diagnostics
	switch {
	case doc.Library != "":
		defs, diags = p.libraryFile(doc)
	case doc.Definition.Kind == yaml.ScalarNode:
		defs, diags = p.definitionFile(&doc.Definition)
	default:
		var d *definitions.Definition
		if d, diags = definitions.ParseNode(p.file.Name, definitions.NewText(p.data), &doc.Definition); d != nil {
			defs = append(defs, p.pin(p.file.Name, d, &diags))
		}
	}
	diags = append(diags, definitions.Check(defs, definitions.CheckOptions{Tools: p.src.Tools})...)
	if diags.HasErrors() {
		defs = nil
	}
	for _, d := range diags {
		if d.Severity == definitions.SeverityError || p.src.Tools != nil { // other warnings are for perdure validate
			p.diags = append(p.diags, d)
		}
	}
	return defs
}

func (p *parser) libraryFile(doc *document) ([]*definitions.Definition, definitions.Diagnostics) {
	name := doc.Library + ".yaml"
	if p.src.Library != nil && fs.ValidPath(name) {
		if data, err := fs.ReadFile(p.src.Library, name); err == nil {
			return definitions.Parse("library/"+name, data)
		}
	}
	p.errorf(doc.Pos, "file", "library: definition %q not found in the library", doc.Library)
	return nil, nil
}

func (p *parser) definitionFile(node *yaml.Node) ([]*definitions.Definition, definitions.Diagnostics) {
	name := node.Value
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(p.file.Name), name)
	}
	data, err := p.src.ReadFile(name)
	if err != nil {
		return nil, definitions.Diagnostics{unreadable(p.position(node), name, err)}
	}
	defs, diags := definitions.Parse(name, data)
	for i, d := range defs {
		defs[i] = p.pin(name, d, &diags)
	}
	return defs, diags
}

// pin gives a definition of a file with the modules that its scripts load.
func (p *parser) pin(file string, d *definitions.Definition, diags *definitions.Diagnostics) *definitions.Definition {
	*diags = append(*diags, d.Pin(p.beside(file))...)
	with, missing := d.WithModules(definitions.FileModules(p.beside(file), p.src.Modules))
	*diags = append(*diags, missing...)
	return with
}

// beside reads the files that a definition names: in its directory or below.
func (p *parser) beside(file string) func(name string) (string, error) {
	return func(name string) (string, error) {
		if p.src.ReadFile == nil || !filepath.IsLocal(name) {
			return "", errors.New("it must be in the directory of the definition, or below")
		}
		text, err := p.src.ReadFile(filepath.Join(filepath.Dir(file), filepath.FromSlash(name)))
		return string(text), err
	}
}
