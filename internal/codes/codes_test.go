package codes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
)

// The page is what the table gives.
func TestPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/errors.md"
	if *perduretest.Update {
		perduretest.NoError(t, os.WriteFile(file, []byte(codes.Page()), 0o644))
	}
	page := perduretest.Read(t, file)
	if diff := cmp.Diff(string(page), codes.Page()); diff != "" {
		t.Errorf("(-page +table, -update takes it over)\n%s", diff)
	}
}

// Each code is there once, and says when it happens.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := map[codes.Code]bool{}
	for _, e := range codes.Table() {
		if seen[e.Code] || e.When == "" || len(e.Categories) == 0 || e.Hint != "" && !strings.HasSuffix(e.Hint, ".") {
			t.Errorf("%+v is there twice, or lacks something", e)
		}
		seen[e.Code] = true
	}
	for _, of := range []struct {
		code      codes.Code
		category  codes.Category
		retryable bool
		want      string
	}{
		{codes.Duplicate, codes.CategoryValidation, false, "Do not call it again for the same business key."},
		{codes.InvalidArguments, codes.CategoryValidation, false, "Correct the arguments and call again."},
		{codes.ToolError, codes.CategoryTool, true, "Calling again may help."},
		{codes.Refused, codes.CategoryTool, false, ""},
		{"mine", codes.CategoryLimit, false, "Ask for less at a time."},
	} {
		if got := codes.Hint(of.code, of.category, of.retryable); got != of.want {
			t.Errorf("the hint of %s is %q, not %q", of.code, got, of.want)
		}
	}
}

// otherWords are literals that are spelled like a code and mean something else.
var otherWords = map[string][]string{
	"worker_lost":     {"internal/runs/log.go"},          // a kind of log entry
	"outcome_unknown": {"internal/runs/preview.go"},      // an outlook of a resumption
	"under_way":       {"internal/runs/history/plan.go"}, // the fate of a step
}

// A code is written in the table and nowhere else: not as the code of an error, and,
// where it is no word of other things as well, not at all.
func TestCodesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	known := map[string]bool{}
	for _, e := range codes.Table() {
		known[string(e.Code)] = true
	}
	for _, path := range productFiles(t, root) {
		set := token.NewFileSet()
		file := perduretest.Must(parser.ParseFile(set, path, nil, parser.SkipObjectResolution))(t)
		name := perduretest.Must(filepath.Rel(root, path))(t)
		asCode := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, value := range codeValues(n) {
				asCode[value] = true
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			word, err := strconv.Unquote(literal.Value)
			if err != nil || !known[word] || slices.Contains(otherWords[word], filepath.ToSlash(name)) {
				return true
			}
			if asCode[n] || strings.Contains(word, "_") {
				t.Errorf("%s: the code %s is written out; use the constant of internal/codes", set.Position(n.Pos()), word)
			}
			return true
		})
	}
}

// codeValues are the expressions that a node uses as the code of an error.
func codeValues(n ast.Node) (values []ast.Node) {
	isCode := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Code"
	}
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			values = append(values, n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if isCode(left) && len(n.Rhs) == len(n.Lhs) {
				values = append(values, n.Rhs[i])
			}
		}
	case *ast.BinaryExpr:
		if isCode(n.X) {
			values = append(values, n.Y)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil || !isCode(n.Tag) {
			return nil
		}
		for _, clause := range n.Body.List {
			for _, value := range clause.(*ast.CaseClause).List {
				values = append(values, value)
			}
		}
	}
	return values
}

// productFiles are the Go files of the product, without tests and this package.
func productFiles(t *testing.T, root string) (files []string) {
	t.Helper()
	for _, dir := range []string{"activities", "cmd", "definitions", "gateway", "internal", "workflows"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "codes"):
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
