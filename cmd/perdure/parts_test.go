package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestPartsOwnTheirState: a gateway and a run are made of parts, and only the methods of a
// part, and what ties parts together, use its fields.
func TestPartsOwnTheirState(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		folder string
		roots  []string // the structs with the parts as their fields
		deep   bool     // parts have parts, too
		least  int      // parts that must be found
		ties   func(f *ast.FuncDecl) bool
	}{
		{"gateway", []string{"assembly", "Gateway"}, true, 20, func(f *ast.FuncDecl) bool { return receiver(f) == "assembly" }},
		{"workflows", []string{"run"}, false, 12, func(f *ast.FuncDecl) bool { return f.Name.Name == "tie" }},
	} {
		files := token.NewFileSet()
		code := sources(t, files, filepath.Join("..", "..", tt.folder))
		parts := partsOf(code, tt.roots, tt.deep)
		if len(parts) < tt.least {
			t.Fatalf("%s: found only %d parts", tt.folder, len(parts))
		}
		for _, file := range code {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && !tt.ties(f) {
					reportReaches(t, files, f, parts)
				}
			}
		}
	}
}

// sources are the files of a folder without tests.
func sources(t *testing.T, files *token.FileSet, folder string) (code []*ast.File) {
	t.Helper()
	names := perduretest.Must(filepath.Glob(filepath.Join(folder, "*.go")))(t)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := perduretest.Must(parser.ParseFile(files, name, nil, 0))(t)
		code = append(code, file)
	}
	return code
}

// partsOf gives the fields of each part, by the name that the structs around it have for
// it: fields that point to a struct of the folder.
func partsOf(code []*ast.File, roots []string, deep bool) map[string]map[string]string {
	structs := map[string]map[string]string{}
	for _, file := range code {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = fieldsOf(s)
				}
			}
			return true
		})
	}
	parts := map[string]map[string]string{}
	for todo := roots; len(todo) > 0; todo = todo[1:] {
		for name, typ := range structs[todo[0]] {
			if fields := structs[typ]; fields != nil && parts[name] == nil {
				parts[name] = fields
				if deep {
					todo = append(todo, typ)
				}
			}
		}
	}
	return parts
}

// fieldsOf gives the types to which the fields of a struct point; "?" for any other type.
func fieldsOf(s *ast.StructType) map[string]string {
	fields := map[string]string{}
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			fields[name.Name] = "?"
			if p, ok := field.Type.(*ast.StarExpr); ok {
				if typ, ok := p.X.(*ast.Ident); ok {
					fields[name.Name] = typ.Name
				}
			}
		}
	}
	return fields
}

// reportReaches reports x.part.field.
func reportReaches(t *testing.T, files *token.FileSet, f *ast.FuncDecl, parts map[string]map[string]string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if of, ok := n.(*ast.SelectorExpr); ok {
			if part, ok := of.X.(*ast.SelectorExpr); ok && parts[part.Sel.Name][of.Sel.Name] != "" {
				t.Errorf("%s: %s.%s is the state of another part: give that a method", files.Position(of.Pos()), part.Sel.Name, of.Sel.Name)
			}
		}
		return true
	})
}

// receiver is the type of a method's receiver; "" = a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	if p, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
		if of, ok := p.X.(*ast.Ident); ok {
			return of.Name
		}
	}
	return ""
}
