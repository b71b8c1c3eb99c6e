package program_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// docs/contract.md names the tests that show each promise; they must exist.
func TestContract(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	contract := perduretest.Read(t, filepath.Join("..", "..", "docs", "contract.md"))
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

// Each paragraph, item and row of docs/operations.md that promises something ends with
// the tests that show it, which must exist, or says that it is advice. None of them is
// so long that nobody can tell what is shown by what.
func TestOperationsAreShown(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	page := perduretest.Read(t, filepath.Join("..", "..", "docs", "operations.md"))
	named := regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`")
	for _, name := range named.FindAllStringSubmatch(string(page), -1) {
		if script := filepath.Join("testdata", "script", name[2]+".txtar"); !tests[name[1]] || name[2] != "" && !exists(script) {
			t.Errorf("docs/operations.md names %s, which does not exist", name[0])
		}
	}
	const shown = "`Test\\w+(?:/\\w+)?`(?:, `Test\\w+(?:/\\w+)?`)*"
	ends := regexp.MustCompile(`(?:\[(?:` + shown + `|advice)\]|\| (?:` + shown + `|\[advice\]) \|)$`)
	sentence, code := regexp.MustCompile(`[.:;] `), regexp.MustCompile("`[^`]*`")
	promises := 0
	for _, promise := range promised(string(page)) {
		promises++
		if !ends.MatchString(promise) {
			t.Errorf("nothing shows %q", promise)
		}
		if n := len(sentence.FindAllString(code.ReplaceAllString(promise, ""), -1)); n > 6 {
			t.Errorf("%d clauses are shown together: %q", n, promise)
		}
	}
	if promises < 200 {
		t.Errorf("found %d promises", promises)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// promised are the paragraphs and items of a page, each in a line, and the rows of tables
// that say what shows them; other tables belong to what is before them.
func promised(page string) (promises []string) {
	inCode, table, rows := false, false, false
	text := ""
	end := func() {
		if text != "" {
			promises = append(promises, text)
		}
		text = ""
	}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		isRow := strings.HasPrefix(line, "|")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			inCode = !inCode
		case inCode:
		case line == "" || strings.HasPrefix(line, "#"):
			end()
		case isRow && !table:
			end()
			rows = strings.HasSuffix(line, "| shown by |")
		case isRow && rows && !strings.HasPrefix(line, "|--"):
			promises = append(promises, line)
		case isRow:
		case regexp.MustCompile(`^(-|\d+\.) `).MatchString(line):
			end()
			text = line
		default:
			text = strings.TrimSpace(text + " " + line)
		}
		table = isRow
	}
	end()
	return promises
}

// The Makefile names tests that make attack runs; they must exist.
func TestAttacksAreThere(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	makefile := perduretest.Read(t, filepath.Join("..", "..", "Makefile"))
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
