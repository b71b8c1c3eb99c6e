package repo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

const secret = "s3cret-of-the-user"

func (f *fixture) link(target, name string) {
	f.t.Helper()
	if err := os.Symlink(target, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// tells calls a tool, and fails the test where the answer holds the secret.
func (f *fixture) tells(tool string, args map[string]any) string {
	f.t.Helper()
	r := f.call(tool, args)
	if text := textOf(r); strings.Contains(text, secret) {
		f.t.Errorf("%s %v tells the secret: %s", tool, args, text)
	}
	return textOf(r)
}

// TestAttackRepo has a repository with links, and files that somebody has
// committed, show what is none of the repository's.
func TestAttackRepo(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	f.write(".env", secret)
	f.write(".perdure/key", secret)
	f.write("secrets/token", secret)
	f.write(".gitignore", ".env\nsecrets/\n")
	f.write("vendor/.Perdure/key", secret)
	f.link(".env", "notes.md")
	f.link(".perdure/key", "docs.md")
	f.link("secrets", "library")
	f.link("library/token", "token.md")
	f.link("notes.md", "twice.md")
	f.commit("Links, and keys that are committed")

	for _, path := range []string{"notes.md", "docs.md", "library", "library/token", "token.md", "twice.md", ".perdure/key", "vendor/.Perdure/key", ".PERDURE/key", "docs/../.perdure/key", ".env"} {
		f.refuse("file_content", map[string]any{"path": path, "ref": "worktree"}, "")
		f.refuse("file_content", map[string]any{"path": path}, "")
		f.tells("file_content", map[string]any{"path": path, "ref": "worktree"})
		f.tells("file_content", map[string]any{"path": path})
		for _, tool := range []string{"diff", "changed_files", "log"} {
			f.tells(tool, map[string]any{"path": path})
		}
	}
	if got := f.tells("diff", nil); !strings.Contains(got, "notes.md") {
		t.Errorf("the diff lacks what else has changed: %s", got)
	}
	for _, tool := range []string{"changed_files", "list_files"} {
		if got := f.tells(tool, nil); strings.Contains(strings.ToLower(got), ".perdure") {
			t.Errorf("%s lists what is not shown: %s", tool, got)
		}
	}
	f.link("README.md", "kept.md")
	f.commit("A link to a tracked file")
	if got := get[fileResult](f, "file_content", map[string]any{"path": "kept.md", "ref": "worktree"}); got.Content != "# Hello\nmore\n" {
		t.Errorf("a link to a tracked file gives %+v", got)
	}
}

// A file that became a pipe, which nobody writes to, lets no call wait.
func TestAttackRepoPipe(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	name := filepath.Join(f.dir, "README.md")
	perduretest.NoError(t, os.Remove(name))
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip("no pipes here:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := (&repository{top: f.dir}).readDisk(ctx, "README.md", 100)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "not a file") {
			t.Errorf("reading a pipe: %v", err)
		}
	case <-ctx.Done():
		t.Error("reading a pipe does not end")
	}
}

// TestAttackRepoPrograms calls all tools on a repository whose configuration and
// attributes name programs wherever git takes one.
func TestAttackRepoPrograms(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	perduretest.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >> "+ran+"\ncat\n"), 0o755))
	// Before it is configured, so that git need not run it to make the fixture.
	f.write(".gitattributes", "*.md filter=a diff=a merge=a\n*.go filter=a=b diff=b\n*.txt filter=p\n")
	f.commit("Attributes")
	run(t, f.dir, "tag", "-m", "signed", "v1")
	config, err := os.OpenFile(filepath.Join(f.dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.WriteString(strings.ReplaceAll(`
[core]
	fsmonitor = PROGRAM
	hooksPath = hooks
	pager = PROGRAM
	editor = PROGRAM
	sshCommand = PROGRAM
	alternateRefsCommand = PROGRAM
	askPass = PROGRAM
[filter "a"]
	clean = PROGRAM clean
	smudge = PROGRAM smudge
	required = true
[filter "a=b"]
	clean = PROGRAM clean
[filter "p"]
	process = PROGRAM process
	required = true
[diff]
	external = PROGRAM external
	submodule = log
[diff "a"]
	textconv = PROGRAM textconv
	command = PROGRAM command
[diff "b"]
	textconv = PROGRAM textconv
[merge "a"]
	driver = PROGRAM
[gpg]
	program = PROGRAM
[log]
	showSignature = true
[credential]
	helper = PROGRAM
[alias]
	log = !PROGRAM
	status = !PROGRAM
[status]
	submoduleSummary = true
[pager]
	log = PROGRAM
	diff = PROGRAM
[remote "origin"]
	url = ext::PROGRAM
	promisor = true
	partialclonefilter = blob:none
	uploadpack = PROGRAM
`, "PROGRAM", program))
	perduretest.NoError(t, errorsOf(err, config.Close()))
	for name, content := range map[string]string{"README.md": "changed", "cmd/start.go": "changed", "new.txt": "changed"} {
		f.write(name, content)
	}
	hook := filepath.Join(f.dir, "hooks", "post-index-change")
	perduretest.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	perduretest.NoError(t, os.Symlink(program, hook))
	blob := run(t, f.dir, "rev-parse", "HEAD~1:cmd/start.go")
	if err := os.Remove(filepath.Join(f.dir, ".git/objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err) // it would have to be fetched
	}
	if got := get[infoResult](f, "info", nil); got.Uncommitted != 4 { // with hooks/
		t.Errorf("%+v", got)
	}
	for _, tool := range []string{"log", "diff", "changed_files", "list_files", "contributors", "checkup"} {
		for _, args := range []map[string]any{{}, {"head": "v1"}, {"base": "main"}, {"ref": "v1"}, {"path": "README.md"}, {"path": "cmd/start.go"}} {
			f.call(tool, args)
		}
	}
	for _, ref := range []string{"worktree", "", "v1"} {
		f.call("file_content", map[string]any{"path": "cmd/start.go", "ref": ref})
	}
	f.call("write_review", map[string]any{"name": "r", "title": "t", "body": "b"})
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("programs of the repository ran:\n%s", said)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Refs are no options, and no regular expressions.
func TestAttackRepoRefs(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	out := filepath.Join(f.dir, "written")
	for _, ref := range []string{
		"--output=" + out, "-o" + out, "--exec=touch " + out, "--upload-pack=touch " + out, "--help", "-", "--", "@{-1}..work", "^main",
		":/" + strings.Repeat(`\(a*\)*`, 20) + `\1`, "HEAD^{/" + strings.Repeat(`\(a*\)*`, 20) + "}", "HEAD:README.md", "HEAD\nmain", "main\x00",
	} {
		for tool, name := range map[string]string{"log": "ref", "diff": "base", "changed_files": "head", "list_files": "ref", "contributors": "base"} {
			f.refuse(tool, map[string]any{name: ref}, "")
		}
		f.refuse("file_content", map[string]any{"path": "README.md", "ref": ref}, "")
	}
	for _, path := range []string{"--output=" + out, ":(top)README.md", ":/README.md", ":(glob)**", "*", ":!README.md"} {
		for _, tool := range []string{"log", "diff", "changed_files"} {
			if got := f.tells(tool, map[string]any{"path": path}); strings.Contains(got, "README") || strings.Contains(got, "Second") {
				t.Errorf("%s of %s: %s", tool, path, got)
			}
		}
		f.refuse("file_content", map[string]any{"path": path}, "")
		f.refuse("file_content", map[string]any{"path": path, "ref": "worktree"}, "")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a ref was taken for an option")
	}
}

// A repository may claim another directory as its work tree, and so that it
// tracks what is there.
func TestAttackRepoWorkTree(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	home := t.TempDir()
	perduretest.NoError(t, os.WriteFile(filepath.Join(home, "README.md"), []byte(secret), 0o600))
	run(t, f.dir, "config", "core.worktree", home)
	if _, err := newServer(t.Context(), f.dir); err == nil || !strings.Contains(err.Error(), "core.worktree") {
		t.Errorf("a work tree elsewhere: %v", err)
	}
}

// A linked work tree, and a submodule, name theirs by right.
func TestWorkTreesOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	linked := filepath.Join(t.TempDir(), "linked")
	run(t, f.dir, "worktree", "add", "-q", linked, "main")
	above := newRepo(t)
	run(t, above.dir, "submodule", "add", "-q", f.dir, "sub")
	above.commit("A submodule")
	for _, dir := range []string{linked, filepath.Join(above.dir, "sub")} {
		at := &fixture{t: t, dir: dir}
		at.open()
		if got := get[infoResult](at, "info", nil); got.Root != dir {
			t.Errorf("root %s, want %s", got.Root, dir)
		}
	}
	above.refuse("file_content", map[string]any{"path": "sub/README.md", "ref": "worktree"}, "not a tracked file")
	above.refuse("file_content", map[string]any{"path": "sub"}, "submodule")
}

// A review is written into the directory for reviews, wherever links of the
// repository lead.
func TestAttackRepoReview(t *testing.T) {
	t.Parallel()
	for name, links := range map[string]map[string]string{
		"the directory":       {".perdure/reviews": "../docs"},
		"the one above":       {".perdure": "docs"},
		"git's":               {".perdure/reviews": "../.git"},
		"a link to a link":    {"elsewhere": "docs", ".perdure": "elsewhere"},
		"out of it":           {".perdure/reviews": "/tmp"},
		"a file, not a place": {".perdure/reviews": "../README.md"},
	} {
		f := withHistory(t)
		f.write("docs/README.md", "kept")
		for link, target := range links {
			perduretest.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(f.dir, link)), 0o755))
			f.link(target, link)
		}
		f.refuse("write_review", map[string]any{"name": "README", "title": "t", "body": "b", "overwrite": true}, "directory for reviews")
		if kept, err := os.ReadFile(filepath.Join(f.dir, "docs/README.md")); err != nil || string(kept) != "kept" {
			t.Errorf("%s: a file of the repository is now %q, %v", name, kept, err)
		}
	}
	f := withHistory(t)
	f.write(".perdure/reviews/.keep", "")
	f.link("../../README.md", ".perdure/reviews/r.md")
	f.refuse("write_review", map[string]any{"name": "r", "title": "t", "body": "b"}, "overwrite")
	get[reviewResult](f, "write_review", map[string]any{"name": "r", "title": "t", "body": "b", "overwrite": true})
	if kept, err := os.ReadFile(filepath.Join(f.dir, "README.md")); err != nil || string(kept) != "# Hello\nmore\n" {
		t.Errorf("a review was written through a link: %q, %v", kept, err)
	}
}
