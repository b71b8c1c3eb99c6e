package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

const module = "github.com/perdure/perdure/"

// imports is the drawing of the house: which of our packages each package may
// import. Everything points inwards; only cmd knows who implements what.
var imports = map[string][]string{
	"definitions":            {"definitions/template", "internal/starlark"},
	"definitions/template":   {},
	"definitions/view":       {"definitions", "definitions/template"},
	"definitions/convert":    {"definitions", "definitions/template", "definitions/view", "internal/starlark"},
	"workflows":              {"definitions", "definitions/template", "definitions/view", "internal/secrets", "workflows/record", "workflows/script", "internal/codes"},
	"workflows/record":       {"definitions", "internal/codes"},
	"workflows/script":       {"definitions", "definitions/template", "internal/starlark", "internal/codes", "workflows/record"},
	"internal/starlark":      {},
	"internal/quarantine":    {"internal/secrets"},
	"internal/secrets":       {},
	"workflows/deftest":      {"definitions", "definitions/template", "internal/secrets", "workflows", "internal/codes"},
	"activities":             {"definitions", "workflows", "workflows/record", "internal/backends", "internal/codes"},
	"internal/backends":      {"internal/web"},
	"internal/credentials":   {"internal/backends", "internal/secrets", "internal/store"},
	"internal/store":         {},
	"internal/registry":      {"definitions", "definitions/template", "internal/store"},
	"internal/telemetry":     {},
	"internal/payloads":      {},
	"internal/backends/repo": {},
	"internal/runs/history":  {"definitions", "definitions/template", "internal/codes", "internal/quarantine", "workflows", "workflows/record"},
	"internal/runs":          {"definitions", "definitions/template", "definitions/view", "internal/runs/history", "internal/quarantine", "internal/secrets", "workflows", "workflows/record", "internal/codes"},
	"gateway":                {"definitions", "definitions/template", "definitions/view", "internal/runs", "internal/backends", "internal/registry", "gateway/auth", "internal/web", "internal/codes"},
	"gateway/auth":           {"internal/secrets", "internal/web"},
	"internal/perduretest":   {},
	"gateway/approvals":      {"definitions/view", "internal/runs", "gateway/auth", "internal/web"},
	"internal/codes":         {},
	"internal/config":        {"definitions", "definitions/template", "gateway/auth", "internal/backends", "internal/credentials", "internal/secrets", "internal/registry", "internal/runs", "internal/telemetry", "internal/web"},
	"internal/service":       {"activities", "definitions", "gateway", "gateway/approvals", "gateway/auth", "internal/backends", "internal/codes", "internal/config", "internal/credentials", "internal/secrets", "internal/payloads", "internal/quarantine", "internal/registry", "internal/runs", "internal/store", "internal/telemetry", "internal/web", "workflows"},
	"internal/scaffold":      {"definitions", "internal/backends", "internal/config"},
	"internal/web":           {},
	"internal/devserver":     {"internal/store", "internal/web"},
}

// pure are the packages whose code runs inside workflows: no I/O, no clock.
var pure = []string{"definitions", "definitions/template", "definitions/view", "definitions/convert", "workflows", "workflows/record", "workflows/script", "internal/starlark", "internal/codes", "internal/runs/history"}

// servers hold a Temporal server: that of perdure dev. No part of perdure that
// runs in production holds one.
var servers = []string{"internal/devserver"}

// worldly are standard packages that pure code has no business with.
var worldly = []string{"os", "os/exec", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "log", "syscall"}

// The files are read with go/parser: a cached answer of go list went stale.
func TestImports(t *testing.T) {
	t.Parallel()
	eachFile(t, func(pkg, path string) { checkImports(t, pkg, path) })
}

// One constructor makes every HTTP server, so each has its guard and its limits.
func TestOneMakesServers(t *testing.T) {
	t.Parallel()
	makers := map[string]bool{"Server": true, "Serve": true, "ServeTLS": true, "ListenAndServe": true, "ListenAndServeTLS": true}
	made := 0
	eachFile(t, func(pkg, path string) {
		file := perduretest.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !makers[s.Sel.Name] {
				return true
			}
			switch from, _ := s.X.(*ast.Ident); {
			case from == nil || from.Name != "http":
			case pkg == "internal/web":
				made++
			default:
				t.Errorf("%s uses http.%s: make the server with web.New", path, s.Sel.Name)
			}
			return true
		})
	})
	if made == 0 {
		t.Error("web.New makes no server, as it seems")
	}
}

// eachFile goes through the files of the program, with the packages they are in.
func eachFile(t *testing.T, look func(pkg, path string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || isModule(path)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		look(filepath.ToSlash(rel), path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The language, the engine of its scripts and what runs record can be used without Temporal.
func TestWithoutTemporal(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "./definitions/...", "./internal/starlark", "./workflows/record")
	list.Dir = filepath.Join("..", "..")
	out := perduretest.Must(list.Output())(t)
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, "go.temporal.io/") {
			t.Errorf("definitions, internal/starlark or workflows/record imports %s", name)
		}
	}
}

// A build without dev has no Temporal server in it, nor its Web UI.
func TestProductionHasNoServer(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "-tags", "nodev", ".")
	out := perduretest.Must(list.Output())(t)
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, "go.temporal.io/server") || strings.HasPrefix(name, "github.com/temporalio/ui-server") {
			t.Errorf("without dev the program imports %s", name)
		}
	}
}

// isModule says whether a folder is a module of its own, which has its own rules.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func checkImports(t *testing.T, pkg, path string) {
	t.Helper()
	file := perduretest.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly))(t)
	allowed, known := imports[pkg]
	if !known && !strings.HasPrefix(pkg, "cmd/") {
		t.Errorf("%s: package %s has no place in the drawing: add it to imports, or to another package", path, pkg)
	}
	for _, spec := range file.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		ours, isOurs := strings.CutPrefix(name, module)
		if isOurs && known && !slices.Contains(allowed, ours) {
			t.Errorf("%s: %s must not import %s", path, pkg, ours)
		}
		if slices.Contains(pure, pkg) && slices.Contains(worldly, name) {
			t.Errorf("%s: %s is pure and must not import %s", path, pkg, name)
		}
		if strings.HasPrefix(name, "go.temporal.io/server") && !slices.Contains(servers, pkg) {
			t.Errorf("%s: only %s may import the Temporal server", path, strings.Join(servers, " and "))
		}
	}
}
