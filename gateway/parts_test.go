package gateway_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPartsOwnTheirState: a gateway is made of parts, and nothing but a part itself, and
// the assembly that makes it, uses its fields.
func TestPartsOwnTheirState(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, structs, code := token.NewFileSet(), map[string]map[string]string{}, []*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = fieldsOf(s)
				}
			}
			return true
		})
	}
	parts := map[string]map[string]string{} // the fields of each, by the name that the others have for it
	for todo := []string{"assembly", "Gateway"}; len(todo) > 0; todo = todo[1:] {
		for name, typ := range structs[todo[0]] {
			if fields := structs[typ]; fields != nil && parts[name] == nil {
				parts[name] = fields
				todo = append(todo, typ)
			}
		}
	}
	if len(parts) < 20 {
		t.Fatalf("the parts of a gateway are %v", parts)
	}
	for _, file := range code {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && !isOf(f, "assembly") {
				ast.Inspect(f, func(n ast.Node) bool {
					if of, ok := n.(*ast.SelectorExpr); ok {
						part, ok := of.X.(*ast.SelectorExpr)
						if ok && parts[part.Sel.Name][of.Sel.Name] != "" {
							t.Errorf("%s: %s.%s is the state of another part: give that a method", files.Position(of.Pos()), part.Sel.Name, of.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// fieldsOf are the types of the fields of a struct, without what they point to or hold;
// "?" where that has no name of its own.
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

// isOf reports whether a function is a method of a type.
func isOf(f *ast.FuncDecl, typ string) bool {
	if f.Recv == nil {
		return false
	}
	p, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := p.X.(*ast.Ident)
	return ok && of.Name == typ
}
