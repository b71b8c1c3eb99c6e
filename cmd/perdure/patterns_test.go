package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tools are programs for the development of perdure, which read nothing foreign.
var tools = []string{"test", "internal/perduretest"}

// TestAttackPatternsElsewhere shows that one file compiles patterns that are not
// written in the program, and JSON Schemas: what bounds them is there.
func TestAttackPatternsElsewhere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	bounded := map[string]string{
		"regexp":     "definitions/template/pattern.go",
		"jsonschema": "definitions/validate.go",
	}
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "node_modules" || slices.Contains(tools, rel)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			pkg, does := compiles(call)
			switch {
			case !does:
			case rel == bounded[pkg]:
				found[pkg] = true
			default:
				t.Errorf("%s compiles what is not written in the program: leave it to template.CompilePattern or definitions.CompileSchema", fset.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, file := range bounded {
		if !found[pkg] {
			t.Errorf("%s no longer compiles anything with %s: this test looks for the wrong thing", file, pkg)
		}
	}
}

// compiles reports whether a call compiles a pattern or a schema that is not
// constant, and with which package.
func compiles(call *ast.CallExpr) (pkg string, does bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	of, ok := f.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	switch of.Name + "." + f.Sel.Name {
	case "regexp.Compile", "regexp.MustCompile", "regexp.CompilePOSIX", "regexp.MustCompilePOSIX", "regexp.Match", "regexp.MatchString", "regexp.MatchReader", "syntax.Compile":
		return "regexp", len(call.Args) == 0 || !constant(call.Args[0])
	case "jsonschema.NewCompiler":
		return "jsonschema", true
	}
	return "", false
}

// constant reports whether an expression is made of literals and of constants of its file.
func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Obj != nil && e.Obj.Kind == ast.Con
	case *ast.BinaryExpr:
		return constant(e.X) && constant(e.Y)
	}
	return false
}
