package program_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestCookbookFiles runs the file of docs/cookbook.md for the filesystem server: all
// files are moved, or none.
func TestCookbookFiles(t *testing.T) {
	t.Parallel()
	servers := npmServers(t)
	folder := perduretest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	block := regexp.MustCompile("(?s)```yaml\n(name: files\n.*?)```").FindStringSubmatch(readText(t, "../../docs/cookbook.md"))
	config := strings.NewReplacer(
		"command: npx", "command: node",
		`-y, "@modelcontextprotocol/server-filesystem", /srv/files`, servers+"/server-filesystem/dist/index.js, "+folder,
	).Replace(block[1])
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), config)
	for _, name := range []string{"a.txt", "b.txt"} {
		putFile(t, filepath.Join(folder, name), name)
	}
	d := startDev(t, dir, "--config", "perdure.yaml")
	call := func(names ...string) (string, error) {
		out, _, err := d.try(t, "call", "archive_files", "folder="+folder, `files=["`+strings.Join(names, `","`)+`"]`)
		return out, err
	}
	if _, err := call("a.txt", "missing.txt", "b.txt"); err == nil {
		t.Error("a file that is not there is moved")
	}
	for _, name := range []string{"a.txt", "b.txt"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); string(text) != name {
			t.Errorf("after a failure, %s has %q, %v", name, text, err)
		}
	}
	if out, err := call("a.txt", "b.txt"); err != nil || !strings.Contains(out, `"moved": 2`) {
		t.Errorf("%s, %v", out, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "archive/b.txt")); string(text) != "b.txt" {
		t.Errorf("the archive has %q, %v", text, err)
	}
}
