package repo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

func TestTools(t *testing.T) {
	t.Parallel()
	f := newRepo(t)
	list := perduretest.Must(f.client.ListTools(t.Context(), mcp.ListToolsRequest{}))(t)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		a := tool.Annotations
		if read := tool.Name != "write_review"; *a.ReadOnlyHint != read || *a.DestructiveHint || *a.IdempotentHint != read || *a.OpenWorldHint {
			t.Errorf("%s: annotations %+v", tool.Name, a)
		}
		if tool.Description == "" || tool.InputSchema.Type != "object" || tool.OutputSchema.Type != "object" || len(tool.OutputSchema.Properties) == 0 {
			t.Errorf("%s lacks a description or a schema: %+v", tool.Name, tool)
		}
	}
	slices.Sort(names)
	want := []string{"changed_files", "checkup", "contributors", "diff", "file_content", "info", "list_files", "log", "write_review"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	run(t, f.dir, "remote", "add", "origin", "https://ada:s3cret@example.com/x.git?token=t")
	run(t, f.dir, "tag", "v1")
	got := get[infoResult](f, "info", nil)
	if got.Head == nil || got.Head.Subject != "Third" || len(got.Head.Parents) != 1 {
		t.Errorf("head %+v", got.Head)
	}
	got.Head = nil
	want := infoResult{Root: f.dir, Branch: "work", Remote: "https://example.com/x.git", Commits: 3, Branches: 2, Tags: 1, Files: 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	f.write("untracked", "x")
	f.write(".perdure/reviews/x.md", "x")
	run(t, f.dir, "checkout", "-q", "--detach")
	got = get[infoResult](f, "info", nil)
	if !got.Dirty || got.Uncommitted != 1 || got.Branch != "" {
		t.Errorf("with an untracked file and a detached head: %+v", got)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	subjects := func(args map[string]any) ([]string, bool) {
		r := get[logResult](f, "log", args)
		var all []string
		for _, c := range r.Commits {
			all = append(all, c.Subject)
		}
		return all, r.More
	}
	tests := []struct {
		args map[string]any
		want []string
		more bool
	}{
		{nil, []string{"Third", "Second", "First"}, false},
		{map[string]any{"limit": 2}, []string{"Third", "Second"}, true},
		{map[string]any{"ref": "main"}, []string{"On main", "First"}, false},
		{map[string]any{"path": "README.md"}, []string{"Second", "First"}, false},
		{map[string]any{"path": "./docs/"}, []string{"First"}, false},
		{map[string]any{"path": "*.md"}, nil, false}, // a path, not a pattern
	}
	for _, tt := range tests {
		got, more := subjects(tt.args)
		if diff := cmp.Diff(tt.want, got); diff != "" || more != tt.more {
			t.Errorf("log %v: more %v, %s", tt.args, more, diff)
		}
	}
	first := get[logResult](f, "log", map[string]any{"ref": "work~2"}).Commits[0]
	first.Hash = ""
	want := commit{Author: "Ada", Email: "ada@example.com", Date: "2026-01-02T03:04:05+00:00", Subject: "First", Body: "with a body", Parents: []string{}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	f.refuse("log", map[string]any{"limit": 201}, "limit")
	f.refuse("log", map[string]any{"limit": "many"}, "limit")
}

func TestChangedFiles(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	third := []changedFile{
		{Path: "cmd/start.go", OldPath: "cmd/main.go", Status: "renamed"},
		{Path: "data.bin", Status: "deleted", Binary: true},
		{Path: "new.txt", Status: "added", Additions: 2},
	}
	readme := changedFile{Path: "README.md", Status: "modified", Additions: 1}
	tests := []struct {
		name string
		args map[string]any
		want []changedFile
	}{
		{"the last commit", nil, third},
		{"since it left main", map[string]any{"base": "main"}, append([]changedFile{readme}, third...)},
		{"one path", map[string]any{"base": "main", "path": "README.md"}, []changedFile{readme}},
		{"what main did since", map[string]any{"base": "work", "head": "main"}, []changedFile{{Path: "only-main.txt", Status: "added", Additions: 1}}},
		{"a first commit", map[string]any{"head": "work~2", "path": "docs"}, []changedFile{{Path: "docs/ünï cöde.md", Status: "added", Additions: 1}}},
		{"nothing", map[string]any{"base": "work", "head": "work"}, []changedFile{}},
	}
	for _, tt := range tests {
		got := get[changedResult](f, "changed_files", tt.args)
		if diff := cmp.Diff(tt.want, got.Files); diff != "" || got.Count != len(tt.want) || got.Truncated {
			t.Errorf("%s: count %d, %s", tt.name, got.Count, diff)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	all := get[diffResult](f, "diff", map[string]any{"base": "main"})
	for _, want := range []string{"+more", "rename to cmd/start.go", "+two"} {
		if !strings.Contains(all.Diff, want) {
			t.Errorf("the diff lacks %q:\n%s", want, all.Diff)
		}
	}
	if all.Truncated || all.Bytes != len(all.Diff) || strings.Contains(all.Diff, "only-main") {
		t.Errorf("%+v", all)
	}
	cut := get[diffResult](f, "diff", map[string]any{"base": "main", "max_bytes": 50})
	if !cut.Truncated || cut.Bytes > 50 || !strings.HasPrefix(all.Diff, cut.Diff) || !strings.HasSuffix(cut.Diff, "\n") {
		t.Errorf("cut at 50 bytes: %+v", cut)
	}
	if one := get[diffResult](f, "diff", map[string]any{"base": "main", "path": "new.txt"}); strings.Contains(one.Diff, "more") {
		t.Errorf("the diff of one file:\n%s", one.Diff)
	}
}

func TestFileContent(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	tests := []struct {
		args     map[string]any
		encoding string
		content  string
	}{
		{map[string]any{"path": "README.md"}, "utf-8", "# Hello\nmore\n"},
		{map[string]any{"path": "./docs/../README.md", "ref": "main"}, "utf-8", "# Hello\n"},
		{map[string]any{"path": "docs/ünï cöde.md"}, "utf-8", "text\n"},
		{map[string]any{"path": "data.bin", "ref": "main"}, "base64", "AAH/"},
		{map[string]any{"path": "README.md", "ref": "worktree"}, "utf-8", "# Changed\n"},
	}
	f.write("README.md", "# Changed\n")
	for _, tt := range tests {
		got := get[fileResult](f, "file_content", tt.args)
		if got.Encoding != tt.encoding || got.Content != tt.content {
			t.Errorf("%v: %+v", tt.args, got)
		}
	}
}

func TestFileContentRefuses(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	outside := filepath.Join(t.TempDir(), "secret")
	perduretest.NoError(t, os.WriteFile(outside, []byte("s3cret"), 0o600))
	for link, target := range map[string]string{"out": outside, "in": "README.md", "git": ".git/config", "up": "../../../../etc/passwd"} {
		perduretest.NoError(t, os.Symlink(target, filepath.Join(f.dir, link)))
	}
	f.commit("Links")
	f.write(".env", "TOKEN=s3cret")
	tests := []struct{ path, ref, want string }{
		{"nope.txt", "", "list_files"},
		{"docs", "", "is a directory"},
		{"docs", "worktree", "not a file"},
		{"", "", "path"},
		{"/etc/passwd", "", "is absolute"},
		{"../x", "", "out of the repository"},
		{"docs/../../x", "worktree", "out of the repository"},
		{".git/config", "worktree", "which is not shown"},
		{".GIT/config", "worktree", "which is not shown"},
		{"out", "worktree", "out of the repository"},
		{"up", "worktree", "out of the repository"},
		{"git", "worktree", "which is not shown"},
		{"in", "", "symbolic link"},
		{".env", "worktree", "not a tracked file"},
		{"README.md", "no-such-branch", "no branch, tag or commit"},
		{"README.md", "--output=x", "no branch, tag or commit"},
		{"README.md", "HEAD:cmd", "no branch, tag or commit"},
	}
	for _, tt := range tests {
		f.refuse("file_content", map[string]any{"path": tt.path, "ref": tt.ref}, tt.want)
	}
	f.refuse("file_content", map[string]any{"path": "README.md", "max_bytes": 3}, "raise max_bytes")
	f.refuse("file_content", map[string]any{"path": "README.md", "ref": "worktree", "max_bytes": 3}, "raise max_bytes")
	f.refuse("file_content", nil, "path")
	if got := get[fileResult](f, "file_content", map[string]any{"path": "in", "ref": "worktree"}); got.Content != "# Hello\nmore\n" {
		t.Errorf("a link inside of the repository gives %+v", got)
	}
}

func TestListFiles(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	tests := []struct {
		pattern, ref string
		want         []string
	}{
		{"", "", []string{"README.md", "cmd/start.go", "docs/ünï cöde.md", "new.txt"}},
		{"*.md", "", []string{"README.md", "docs/ünï cöde.md"}},
		{"docs/*", "", []string{"docs/ünï cöde.md"}},
		{"cmd/**", "main", []string{"cmd/main.go"}},
		{"**/*.go", "", []string{"cmd/start.go"}},
		{"**", "main", []string{"README.md", "cmd/main.go", "data.bin", "docs/ünï cöde.md", "only-main.txt"}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		r := get[listResult](f, "list_files", map[string]any{"pattern": tt.pattern, "ref": tt.ref})
		var got []string
		for _, file := range r.Files {
			got = append(got, file.Path)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || r.Count != len(got) || r.Truncated {
			t.Errorf("%s in %s: %s", tt.pattern, tt.ref, diff)
		}
	}
	f.refuse("list_files", map[string]any{"pattern": "["}, "no glob")
	f.refuse("list_files", map[string]any{"pattern": strings.Repeat("**/", 9)}, "use fewer")
}

func TestContributors(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	run(t, f.dir, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "--author", "Bob <bob@example.com>", "-m", "Fourth")
	ada, bob := contributor{"Ada", "ada@example.com", 3}, contributor{"Bob", "bob@example.com", 1}
	got := get[contributorsResult](f, "contributors", nil)
	if diff := cmp.Diff(contributorsResult{[]contributor{ada, bob}, 4}, got); diff != "" {
		t.Error(diff)
	}
	ada.Commits = 2
	got = get[contributorsResult](f, "contributors", map[string]any{"base": "main", "head": "work"})
	if diff := cmp.Diff(contributorsResult{[]contributor{ada, bob}, 3}, got); diff != "" {
		t.Error(diff)
	}
	f.refuse("contributors", map[string]any{"base": "nope"}, "no branch, tag or commit")
}

func TestSingleCommit(t *testing.T) {
	t.Parallel()
	f := newRepo(t)
	f.write("a", "1\n")
	f.commit("Only")
	if got := get[changedResult](f, "changed_files", nil); got.Count != 1 || got.Additions != 1 {
		t.Errorf("%+v", got)
	}
	if got := get[diffResult](f, "diff", nil); !strings.Contains(got.Diff, "+1") {
		t.Errorf("%+v", got)
	}
}

func TestShallowClone(t *testing.T) {
	t.Parallel()
	origin := withHistory(t)
	dir := filepath.Join(t.TempDir(), "clone")
	run(t, origin.dir, "clone", "-q", "--depth", "1", "file://"+origin.dir, dir)
	f := &fixture{t: t, dir: dir}
	f.open()
	if got := get[infoResult](f, "info", nil); !got.Shallow || got.Commits != 1 {
		t.Errorf("%+v", got)
	}
	if got := get[changedResult](f, "changed_files", nil); got.Count != 4 {
		t.Errorf("%+v", got)
	}
}

func TestNoCommits(t *testing.T) {
	t.Parallel()
	f := newRepo(t)
	if got := get[infoResult](f, "info", nil); got.Head != nil || got.Branch != "main" || got.Commits != 0 {
		t.Errorf("%+v", got)
	}
	for _, tool := range []string{"log", "diff", "changed_files", "list_files", "contributors"} {
		f.refuse(tool, nil, "no commits yet")
	}
	f.refuse("file_content", map[string]any{"path": "a"}, "no commits yet")
}

func TestSubdirectoryAndNoRepository(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	sub := &fixture{t: t, dir: filepath.Join(f.dir, "docs")}
	sub.open()
	if got := get[infoResult](sub, "info", nil); got.Root != f.dir {
		t.Errorf("root %s", got.Root)
	}
	if got := get[listResult](sub, "list_files", nil); got.Count != 4 {
		t.Errorf("%+v", got)
	}
	if _, err := newServer(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "git init") {
		t.Errorf("outside of a repository: %v", err)
	}
}
