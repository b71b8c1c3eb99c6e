package workflows_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A run is made of parts, each of which owns its state: nothing but the methods of a part,
// and what makes one, uses its fields. What a run begins with, which never changes, is for
// all.
func TestPartsOwnTheirState(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	structs, code := map[string]*ast.StructType{}, []*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, file)
		for _, decl := range file.Decls {
			for _, spec := range specsOf(decl) {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
		}
	}
	parts := map[string]string{} // name of the field of a run, and its type
	for _, field := range structs["run"].Fields.List {
		if p, ok := field.Type.(*ast.StarExpr); ok && len(field.Names) == 1 {
			if typ, ok := p.X.(*ast.Ident); ok {
				parts[field.Names[0].Name] = typ.Name
			}
		}
	}
	if len(parts) < 12 {
		t.Fatalf("the parts of a run are %v", parts)
	}
	for _, file := range code {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name != "tie" { // which makes parts known to each other
				for at, reached := range reaches(f, parts, structs) {
					t.Errorf("%s: %s is the state of another part: give that a method", files.Position(at), reached)
				}
			}
		}
	}
}

func specsOf(decl ast.Decl) (specs []*ast.TypeSpec) {
	if gen, ok := decl.(*ast.GenDecl); ok {
		for _, spec := range gen.Specs {
			if typ, ok := spec.(*ast.TypeSpec); ok {
				specs = append(specs, typ)
			}
		}
	}
	return specs
}

// reaches finds x.part.field, where a part has such a field.
func reaches(f *ast.FuncDecl, parts map[string]string, structs map[string]*ast.StructType) map[token.Pos]string {
	found := map[token.Pos]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		of, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		part, ok := of.X.(*ast.SelectorExpr)
		if !ok || parts[part.Sel.Name] == "" {
			return true
		}
		for _, field := range structs[parts[part.Sel.Name]].Fields.List {
			for _, name := range field.Names {
				if name.Name == of.Sel.Name {
					found[of.Pos()] = part.Sel.Name + "." + name.Name
				}
			}
		}
		return true
	})
	return found
}
