package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A module is what was counted. Functions, types and long files are those of
// code that is no test and was not generated.
type module struct {
	packages  []*pkg
	functions []sized // shortest first
	types     []*typ  // by name
	longFiles []sized // longest first
}

type pkg struct {
	path        string
	code, tests int // lines
	files       int
}

type sized struct {
	name  string
	lines int
}

type typ struct {
	name            string // package.Type
	fields, methods int
}

// count reads the Go files of a module, without modules within it.
func count(root string) (*module, error) {
	c := &counter{root: root, packages: map[string]*pkg{}, types: map[string]*typ{}, module: &module{}}
	if err := filepath.WalkDir(root, c.visit); err != nil {
		return nil, err
	}
	m := c.module
	for _, p := range c.packages {
		m.packages = append(m.packages, p)
	}
	for _, t := range c.types {
		m.types = append(m.types, t)
	}
	if len(m.functions) == 0 {
		return nil, fmt.Errorf("%s has no Go functions", root)
	}
	slices.SortFunc(m.types, func(a, b *typ) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(m.functions, func(a, b sized) int { return cmp.Or(a.lines-b.lines, cmp.Compare(a.name, b.name)) })
	slices.SortFunc(m.longFiles, func(a, b sized) int { return cmp.Or(b.lines-a.lines, cmp.Compare(a.name, b.name)) })
	return m, nil
}

// quantile is the length of the function below which a share of all lies.
func (m *module) quantile(share float64) int {
	return m.functions[int(share*float64(len(m.functions)-1))].lines
}

type counter struct {
	root     string
	packages map[string]*pkg // by path
	types    map[string]*typ // by name
	module   *module
}

func (c *counter) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name := entry.Name()
	switch {
	case entry.IsDir() && path != c.root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || isModule(path)):
		return filepath.SkipDir
	case entry.IsDir() || !strings.HasSuffix(name, ".go"):
		return nil
	}
	return c.file(path)
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func (c *counter) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(c.root, path)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	dir := filepath.ToSlash(filepath.Dir(name))
	p := c.packages[dir]
	if p == nil {
		p = &pkg{path: dir}
		c.packages[dir] = p
	}
	p.files++
	lines := bytes.Count(text, []byte("\n"))
	if strings.HasSuffix(name, "_test.go") {
		p.tests += lines
		return nil
	}
	p.code += lines
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(tree) {
		return nil
	}
	if lines > longFile {
		c.module.longFiles = append(c.module.longFiles, sized{name, lines})
	}
	c.declarations(dir, files, tree)
	return nil
}

func (c *counter) declarations(dir string, files *token.FileSet, tree *ast.File) {
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			lines := files.Position(decl.End()).Line - files.Position(decl.Pos()).Line + 1
			name := dir + "." + decl.Name.Name
			if receiver := receiverOf(decl); receiver != "" {
				name = dir + "." + receiver + "." + decl.Name.Name
				c.typ(dir, receiver).methods++
			}
			c.module.functions = append(c.module.functions, sized{name, lines})
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					c.typ(dir, spec.Name.Name).fields += fieldsOf(spec)
				}
			}
		}
	}
}

func (c *counter) typ(dir, name string) *typ {
	name = dir + "." + name
	if c.types[name] == nil {
		c.types[name] = &typ{name: name}
	}
	return c.types[name]
}

// receiverOf is the type of which a function is a method; "" = it is none.
func receiverOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return ""
	}
	expr := decl.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// fieldsOf counts the fields of a struct, an embedded type as one.
func fieldsOf(spec *ast.TypeSpec) int {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	n := 0
	for _, field := range s.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}

type depended struct{ all, temporal int }

// dependencies counts the packages that a package pulls in.
func dependencies(root, path string) (depended, error) {
	list := exec.Command("go", "list", "-deps", path)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return depended{}, fmt.Errorf("go list -deps %s: %w", path, err)
	}
	var d depended
	for name := range strings.Lines(string(out)) {
		d.all++
		if strings.HasPrefix(name, "go.temporal.io/") {
			d.temporal++
		}
	}
	return d, nil
}
