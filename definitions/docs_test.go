package definitions

import (
	"fmt"
	"go/ast"
	"go/constant"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

// docs/language.md has tables of everything that there is. These tests hold
// them against the code, so that neither can go without the other.

// A table is one of the page: its rows by the names in the first cell, which
// stand in backquotes.
type table map[string][]string

// reference reads the tables of docs/language.md by the first cell of their
// heads.
func reference(t *testing.T) map[string]table {
	t.Helper()
	tables := map[string]table{}
	var current table
	for _, line := range strings.Split(string(perduretest.Read(t, "../docs/language.md")), "\n") {
		switch {
		case strings.HasPrefix(line, "|---"):
			continue
		case !strings.HasPrefix(line, "| "):
			current = nil
			continue
		}
		row := cells(line)
		head := plainText(row[0])
		if current == nil {
			if tables[head] == nil {
				tables[head] = table{}
			}
			current = tables[head]
			continue
		}
		if !strings.HasPrefix(row[0], "`") {
			continue
		}
		for _, name := range names(row[0]) {
			if current[name] != nil {
				t.Errorf("%s: two rows for %s", head, name)
			}
			current[name] = row
		}
	}
	return tables
}

// cells gives the cells of a row; \| is no border.
func cells(line string) []string {
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00")
	row := strings.Split(strings.Trim(line, "|"), "|")
	for i, cell := range row {
		row[i] = strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|")
	}
	return row
}

func plainText(cell string) string { return strings.ReplaceAll(cell, "`", "") }

var inBackquotes = regexp.MustCompile("`([^`]+)`")

// names gives the first word of each text in backquotes.
func names(cell string) []string {
	var all []string
	for _, m := range inBackquotes.FindAllStringSubmatch(cell, -1) {
		all = append(all, strings.Fields(m[1])[0])
	}
	return all
}

func TestReferenceHasEveryFunction(t *testing.T) {
	t.Parallel()
	functions := reference(t)["function"]
	have := template.Functions()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(functions))); diff != "" {
		t.Errorf("functions (-code +page):\n%s", diff)
	}
	for name, row := range functions {
		if len(row) != 4 {
			t.Errorf("%s: %d cells: %q", name, len(row), row)
			continue
		}
		if least, most := argumentsOf(plainText(row[0])); have[name] != (template.Arity{Min: least, Max: most}) {
			t.Errorf("%s takes %+v arguments, the page says %d to %d", row[0], have[name], least, most)
		}
		checkExample(t, name, strings.Trim(row[2], "`"), row[3])
	}
}

// argumentsOf counts what a signature such as "f a [b] c…" takes; -1 is any
// number.
func argumentsOf(signature string) (least, most int) {
	for _, word := range strings.Fields(signature)[1:] {
		optional := strings.HasPrefix(word, "[")
		if !optional {
			least++
		}
		if strings.Contains(word, "…") {
			most = -1
		} else if most >= 0 {
			most++
		}
	}
	return least, most
}

// checkExample expands the example of a function.
func checkExample(t *testing.T, name, example, want string) {
	t.Helper()
	if !strings.Contains(example, name) {
		t.Errorf("%s: the example %s is not one of it", name, example)
	}
	template, syntax := template.Parse(example)
	if syntax != nil {
		t.Errorf("%s: %s: %v", name, example, syntax)
		return
	}
	got, err := template.Text(map[string]any{})
	if reason, fails := strings.CutPrefix(want, "fails: "); fails {
		if err == nil || err.Error() != strings.Trim(reason, "`") {
			t.Errorf("%s: %s fails with %v, the page says %s", name, example, err, reason)
		}
		return
	}
	want = strings.TrimSuffix(strings.TrimPrefix(want, "`"), "`")
	if err != nil || got != want {
		t.Errorf("%s: %s gives %q, %v; the page says %q", name, example, got, err, want)
	}
}

// Every key of the language has a row in the table of its mapping, with its
// default and its limit.
func TestReferenceHasEveryField(t *testing.T) {
	t.Parallel()
	tables := reference(t)
	stepTables := map[string]string{"tool": "tool step", "elicitation": "elicitation", "forEach": "forEach", "wait": "wait", "workflow": "workflow", "script": "script step"}
	for _, key := range stepKeys {
		for _, typ := range key.owners() {
			if tables[stepTables[typ]][key.name] == nil {
				t.Errorf("the table of %s has no row for %s", stepTables[typ], key.name)
			}
		}
	}
	union := table{}
	for _, name := range []string{"step", "tool step", "elicitation", "forEach", "wait", "workflow", "script step"} {
		maps.Copy(union, tables[name])
	}
	for _, of := range []struct {
		goType reflect.Type
		rows   table
	}{
		{reflect.TypeFor[Definition](), tables["definition"]},
		{reflect.TypeFor[Step](), union},
		{reflect.TypeFor[Expose](), tables["expose"]},
		{reflect.TypeFor[OnError](), tables["onError"]},
		{reflect.TypeFor[Handler](), tables["onDecline, onCancel"]},
		{reflect.TypeFor[Probe](), tables["probe"]},
		{reflect.TypeFor[Compensation](), tables["compensate"]},
		{reflect.TypeFor[Output](), tables["output"]},
		{reflect.TypeFor[Property](), tables["output property"]},
		{reflect.TypeFor[Annotations](), tables["annotations"]},
	} {
		var fields []string
		for _, f := range Keys(of.goType) {
			fields = append(fields, f.Name)
			if row := of.rows[f.Name]; row != nil {
				checkField(t, of.goType.Name()+"."+f.Name, row)
			}
		}
		slices.Sort(fields)
		if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(of.rows))); diff != "" {
			t.Errorf("fields of %s (-code +page):\n%s", of.goType.Name(), diff)
		}
	}
}

// checkField holds a row (field, type, default, limit, what it is) against
// what the JSON Schema of the language says.
func checkField(t *testing.T, name string, row []string) {
	t.Helper()
	if len(row) != 5 {
		t.Errorf("%s: %d cells: %q", name, len(row), row)
		return
	}
	facts := keywords[name].facts
	if standard, ok := facts["default"]; ok && !strings.Contains(plainText(row[2]), fmt.Sprint(standard)) {
		t.Errorf("%s: the default is %v, the page says %q", name, standard, row[2])
	}
	if most, ok := facts["maximum"]; ok && !strings.Contains(row[3], fmt.Sprint(most)) {
		t.Errorf("%s: the limit is %v, the page says %q", name, most, row[3])
	}
	enum, _ := facts["enum"].([]any)
	for _, value := range enum {
		if !strings.Contains(row[1], fmt.Sprintf("`%v`", value)) {
			t.Errorf("%s: the page does not say that it can be %v", name, value)
		}
	}
}

// Every data root and every field that templates can read has a row.
func TestReferenceHasAllData(t *testing.T) {
	t.Parallel()
	rows := reference(t)["data"]
	for _, field := range stepFields {
		if rows[".steps.ID."+field] == nil {
			t.Errorf("no row for .steps.ID.%s", field)
		}
	}
	for _, field := range workflowFields {
		if rows[".workflow."+field] == nil {
			t.Errorf("no row for .workflow.%s", field)
		}
	}
	for _, root := range roots {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(name string) bool { return strings.HasPrefix(name, "."+root) }) {
			t.Errorf("no row for .%s", root)
		}
	}
}

// Every exported limit of the language and of the interpreter has a row with
// its value.
func TestReferenceHasEveryLimit(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	for _, dir := range []string{".", "template", "../workflows"} {
		for _, file := range goFiles(t, dir) {
			for name, value := range limits(file) {
				want[name] = value
			}
		}
	}
	got := map[string]string{}
	for name, row := range reference(t)["name"] {
		got[name] = row[1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-code +page):\n%s", diff)
	}
}

// goFiles parses the files of a package that are no tests.
func goFiles(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths := perduretest.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source := perduretest.Read(t, path)
		file := perduretest.Must(goparser.ParseFile(token.NewFileSet(), path, source, 0))(t)
		files = append(files, file)
	}
	return files
}

var limitName = regexp.MustCompile(`^(Max|Default)[A-Z]`)

// limits gives the constants of a file that are named Max… or Default…, as the
// page writes them.
func limits(file *ast.File) map[string]string {
	found := map[string]string{}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if limitName.MatchString(name.Name) && i < len(value.Values) {
					found[name.Name] = constantText(value.Values[i])
				}
			}
		}
	}
	return found
}

var units = map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// constantText evaluates products, shifts and durations.
func constantText(expr ast.Expr) string {
	duration := false
	var value func(expr ast.Expr) constant.Value
	value = func(expr ast.Expr) constant.Value {
		switch expr := expr.(type) {
		case *ast.BasicLit:
			return constant.MakeFromLiteral(expr.Value, expr.Kind, 0)
		case *ast.SelectorExpr:
			duration = true
			return constant.MakeInt64(int64(units[expr.Sel.Name]))
		case *ast.BinaryExpr:
			x, y := value(expr.X), value(expr.Y)
			if expr.Op == token.SHL {
				bits, _ := constant.Uint64Val(y)
				return constant.Shift(x, expr.Op, uint(bits))
			}
			return constant.BinaryOp(x, expr.Op, y)
		}
		return constant.MakeUnknown()
	}
	v := value(expr)
	if n, _ := constant.Int64Val(v); duration {
		return Duration(n).Brief()
	}
	return v.ExactString()
}

// Every category and every code that an error can have has a row.
func TestReferenceHasEveryError(t *testing.T) {
	t.Parallel()
	codes, categories := map[string]bool{}, map[string]bool{}
	for _, dir := range []string{"../workflows", "../workflows/script", "../activities", "../internal/runs", "../gateway"} {
		for _, file := range goFiles(t, dir) {
			for _, code := range errorCodes(file) {
				codes[code] = true
			}
			for _, category := range errorCategories(file) {
				categories[category] = true
			}
		}
	}
	tables := reference(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(codes)), slices.Sorted(maps.Keys(tables["code"]))); diff != "" {
		t.Errorf("codes (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(categories)), slices.Sorted(maps.Keys(tables["category"]))); diff != "" {
		t.Errorf("categories (-code +page):\n%s", diff)
	}
	for code, row := range tables["code"] {
		for _, category := range names(row[1]) {
			if !categories[category] {
				t.Errorf("%s: there is no category %s", code, category)
			}
		}
	}
}

// errorCodes gives the codes that a file gives to errors: Code in a literal,
// an assignment to Code, and calls of functions that take a code first or
// second.
func errorCodes(file *ast.File) []string {
	var codes []string
	add := func(expr ast.Expr) {
		if literal, ok := expr.(*ast.BasicLit); ok && literal.Kind == token.STRING && !strings.Contains(literal.Value, " ") {
			codes = append(codes, strings.Trim(literal.Value, `"`))
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.KeyValueExpr:
			if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Code" {
				add(node.Value)
			}
		case *ast.ValueSpec:
			if strings.HasPrefix(node.Names[0].Name, "Code") && len(node.Values) > 0 {
				add(node.Values[0])
			}
		case *ast.AssignStmt:
			for i, left := range node.Lhs {
				if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Code" && i < len(node.Rhs) {
					add(node.Rhs[i])
				}
			}
		case *ast.CallExpr:
			switch name := calledName(node); {
			case name == "error" || name == "unusable" || name == "fail" && len(node.Args) > 1:
				add(node.Args[0])
			case name == "failedWith":
				add(node.Args[1])
			}
		}
		return true
	})
	return codes
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// errorCategories gives the values of constants that are named Category….
func errorCategories(file *ast.File) []string {
	var categories []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if strings.HasPrefix(name.Name, "Category") && i < len(spec.Values) {
				if literal, ok := spec.Values[i].(*ast.BasicLit); ok {
					categories = append(categories, strings.Trim(literal.Value, `"`))
				}
			}
		}
		return true
	})
	return categories
}

var (
	testName = regexp.MustCompile("`(Test\\w+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	noteName = regexp.MustCompile(`\[([a-z-]+)\]\n`)
)

// Every difference that docs/differences.md tells of is shown by an example or
// by tests that exist, and every note of a difference is told of.
func TestDifferencesAreShown(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case entry != nil && entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case err == nil && strings.HasSuffix(path, "_test.go"):
			for _, m := range testFunc.FindAllSubmatch(perduretest.Read(t, path), -1) {
				tests[string(m[1])] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page := string(perduretest.Read(t, "../docs/differences.md"))
	shown := false
	differences := 0
	for _, line := range strings.Split(page, "\n") {
		switch row := cells(line); {
		case strings.HasPrefix(line, "|---"):
		case !strings.HasPrefix(line, "| "):
			shown = false
		case row[len(row)-1] == "shown by":
			shown = true
		case shown:
			differences++
			by := testName.FindAllStringSubmatch(row[len(row)-1], -1)
			if len(by) == 0 && !strings.HasPrefix(row[len(row)-1], "example") {
				t.Errorf("%s: shown by nothing", row[0])
			}
			for _, m := range by {
				if !tests[m[1]] {
					t.Errorf("%s: shown by %s, which does not exist", row[0], m[1])
				}
			}
		}
	}
	if differences < 30 {
		t.Errorf("found %d differences", differences)
	}
	for _, m := range noteName.FindAllSubmatch(perduretest.Read(t, "testdata/notes/all.out"), -1) {
		if !strings.Contains(page, "| `"+string(m[1])+"` |") {
			t.Errorf("the page has no row for the note %s", m[1])
		}
	}
}
