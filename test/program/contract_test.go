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

// Each section of docs/operations.md, and each line of its table of what to do when,
// names the tests that show what it promises; they must exist.
func TestOperationsAreShown(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`")
	for _, name := range named.FindAllStringSubmatch(string(page), -1) {
		if !tests[name[1]] {
			t.Errorf("docs/operations.md names %s, which does not exist", name[1])
		}
	}
	sections := regexp.MustCompile(`(?m)^#{2,3} `).Split(string(page), -1)[1:]
	for _, section := range sections {
		heading, text, _ := strings.Cut(section, "\n")
		if heading != "What to do when" {
			if !strings.Contains(text, "\nShown by `Test") {
				t.Errorf("the section %q does not say what shows it", heading)
			}
			continue
		}
		for _, line := range strings.Split(text, "\n") {
			if cells := strings.Split(line, "|"); len(cells) > 2 && !strings.HasPrefix(line, "|--") && !strings.HasPrefix(line, "| what is seen") && !named.MatchString(cells[len(cells)-2]) {
				t.Errorf("what to do when: nothing shows %q", cells[1])
			}
		}
	}
	if len(sections) < 20 {
		t.Errorf("found %d sections", len(sections))
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
