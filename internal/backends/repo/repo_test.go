package repo

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
)

// A fixture is a temporary repository and a client of its server.
type fixture struct {
	t      *testing.T
	dir    string
	client *client.Client
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(gitEnv()[:1:1], "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(),
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func newRepo(t *testing.T) *fixture {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := perduretest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	run(t, dir, "init", "-q", "-b", "main")
	f := &fixture{t: t, dir: dir}
	f.open()
	return f
}

// withHistory has two commits on main and two on the branch work, which left
// main at the first.
func withHistory(t *testing.T) *fixture {
	f := newRepo(t)
	f.write("README.md", "# Hello\n")
	f.write("cmd/main.go", "package main\n")
	f.write("docs/ünï cöde.md", "text\n")
	f.write("data.bin", "\x00\x01\xff")
	f.commit("First\n\nwith a body")
	run(t, f.dir, "checkout", "-q", "-b", "work")
	f.write("README.md", "# Hello\nmore\n")
	f.commit("Second")
	run(t, f.dir, "mv", "cmd/main.go", "cmd/start.go")
	run(t, f.dir, "rm", "-q", "data.bin")
	f.write("new.txt", "one\ntwo\n")
	f.commit("Third")
	run(t, f.dir, "checkout", "-q", "main")
	f.write("only-main.txt", "x\n")
	f.commit("On main")
	run(t, f.dir, "checkout", "-q", "work")
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	s, err := newServer(f.t.Context(), f.dir, server.WithOutputSchemaValidation())
	if err != nil {
		f.t.Fatal(err)
	}
	f.client, err = client.NewInProcessClient(s)
	if err != nil {
		f.t.Fatal(err)
	}
	initialize(f.t, f.client)
}

func initialize(t *testing.T, c *client.Client) {
	t.Helper()
	perduretest.NoError(t, c.Start(t.Context()))
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	name = filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) commit(message string) {
	f.t.Helper()
	run(f.t, f.dir, "add", "-A")
	run(f.t, f.dir, "commit", "-q", "-m", message)
}

func (f *fixture) call(tool string, args map[string]any) *mcp.CallToolResult {
	f.t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, args
	r, err := f.client.CallTool(f.t.Context(), req)
	if err != nil {
		f.t.Fatalf("%s: %v", tool, err)
	}
	return r
}

func textOf(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	return mcp.GetTextFromContent(r.Content[0])
}

// get calls a tool that must succeed and checks that its text is its structure.
func get[R any](f *fixture, tool string, args map[string]any) R {
	f.t.Helper()
	r := f.call(tool, args)
	if r.IsError {
		f.t.Fatalf("%s %v: %s", tool, args, textOf(r))
	}
	var fromText, fromStructure R
	structured, err := json.Marshal(r.StructuredContent)
	if err != nil {
		f.t.Fatal(err)
	}
	for text, into := range map[string]*R{textOf(r): &fromText, string(structured): &fromStructure} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			f.t.Fatalf("%s: %v in %s", tool, err, text)
		}
	}
	if diff := cmp.Diff(fromStructure, fromText); diff != "" {
		f.t.Errorf("%s: the text is not the structure:\n%s", tool, diff)
	}
	return fromText
}

// refuse calls a tool that must fail with a text that holds want.
func (f *fixture) refuse(tool string, args map[string]any, want string) {
	f.t.Helper()
	if r := f.call(tool, args); !r.IsError || !strings.Contains(textOf(r), want) {
		f.t.Errorf("%s %v: isError %v, %s; want an error with %q", tool, args, r.IsError, textOf(r), want)
	}
}

func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"":                                   "",
		"https://example.com/a.git":          "https://example.com/a.git",
		"https://user:pw@example.com/a.git":  "https://example.com/a.git",
		"https://token@example.com/a?k=v#f":  "https://example.com/a",
		"ssh://git@example.com:22/a.git":     "ssh://example.com:22/a.git",
		"git@example.com:a/b.git":            "git@example.com:a/b.git",
		"user:pw@example.com:a/b.git":        "example.com:a/b.git",
		"/srv/git/a@b.git":                   "/srv/git/a@b.git",
		"https://user:p%w@example.com/a.git": "",
	} {
		if got := withoutCredentials(remote); got != want {
			t.Errorf("%s becomes %s, want %s", remote, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(":100644 100644 aaa bbb M\x00a\x001\t2\ta\x00")
	f.Add(":100644 100644 aaa bbb R100\x00a\x00b\x001\t2\t\x00a\x00b\x00")
	f.Add("100644 blob aaa      12\tdocs/a\x00")
	f.Add("h\x1fp\x1fa\x1fe\x1fd\x1fs\x1fb\x00")
	f.Fuzz(func(t *testing.T, out string) {
		if files, err := parseChanges(out); err == nil && files == nil {
			t.Error("no files must be an empty list")
		}
		_, _ = parseTree(out)
		if commits, err := parseCommits(out); err == nil && commits == nil {
			t.Error("no commits must be an empty list")
		}
		if p, err := cleanPath(out); err == nil && (strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../")) {
			t.Errorf("cleanPath(%q) = %q", out, p)
		}
		if checkGlob(out) == nil {
			matchGlob(out, "a/b/c")
		}
	})
}
