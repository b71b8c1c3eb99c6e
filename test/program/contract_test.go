package program_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/contract.md names the tests that show each promise; they must exist.
func TestContract(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	contract, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	promises := 0
	for _, line := range strings.Split(string(contract), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`Test") {
			continue
		}
		promises++
		for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[2], -1) {
			if !tests[name[1]] {
				t.Errorf("%s is shown by %s, which does not exist", strings.TrimSpace(cells[1]), name[1])
			}
		}
	}
	if promises < 10 {
		t.Errorf("found %d promises in docs/contract.md", promises)
	}
}

// The Makefile names tests that make attack runs; they must exist.
func TestAttacksAreThere(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(makefile), "\nATTACKS  := $(strip ")
	list, _, _ = strings.Cut(list, ")")
	names := strings.Fields(strings.ReplaceAll(list, "\\\n", " "))
	if len(names) < 20 {
		t.Errorf("found %d names in the Makefile", len(names))
	}
	for _, name := range names {
		if !tests["Test"+name] {
			t.Errorf("make attack runs Test%s, which does not exist", name)
		}
	}
}

// testNames are the tests that there are in the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	root := filepath.Join("..", "..")
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
