package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options of every git command: no locks, no programs from the repository's configuration
// (see also repository.status), unquoted paths. Submodules have a configuration of their
// own.
var gitOptions = []string{
	"--no-optional-locks", "--no-pager",
	"-c", "core.quotepath=off", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull,
	"-c", "color.ui=false", "-c", "log.showSignature=false", "-c", "diff.submodule=short", "-c", "status.submoduleSummary=false",
}

// diffOptions are those of every comparison: no programs, and no work in
// submodules.
var diffOptions = []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--find-renames"}

// gitEnv is the environment of git: without the caller's GIT_*, without prompts and
// fetching.
func gitEnv() []string {
	env := []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL="}
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// maxOutput bounds what is read from one git command.
const maxOutput = 32 << 20

// topOf finds the work tree that contains the directory root. A repository may
// name any directory as its work tree (core.worktree); only one that knows the
// repository as its own counts.
func topOf(ctx context.Context, root string) (string, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", root, err)
	}
	ask := func(dir, what string) (string, error) {
		out, _, err := runGit(ctx, dir, maxOutput, "rev-parse", what)
		return strings.TrimSuffix(string(out), "\n"), err
	}
	top, err := ask(abs, "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("%s is not in a git work tree (%w): give the directory of a repository, or run git init there", abs, err)
	}
	repository, err := ask(abs, "--absolute-git-dir")
	if err != nil {
		return "", fmt.Errorf("finding the repository of %s: %w", abs, err)
	}
	if own, err := ask(top, "--absolute-git-dir"); err != nil || own != repository {
		return "", fmt.Errorf("the repository %s names %s as its work tree (core.worktree), which is not one of its own: unset core.worktree, or give a directory of the work tree", repository, top)
	}
	return top, nil
}

// git runs a git command at the top of the work tree and returns its output.
func (r *repository) git(ctx context.Context, args ...string) (string, error) {
	out, cut, err := runGit(ctx, r.top, maxOutput, args...)
	if err == nil && cut {
		err = fmt.Errorf("git %s has more than %d bytes to say: ask for less, by path or limit", args[0], maxOutput)
	}
	return string(out), err
}

// runGit reads at most limit bytes of a git command's output and reports
// whether there was more.
func runGit(ctx context.Context, dir string, limit int64, args ...string) (out []byte, cut bool, err error) {
	return runGitWith(ctx, gitEnv(), dir, limit, args...)
}

func runGitWith(ctx context.Context, env []string, dir string, limit int64, args ...string) (out []byte, cut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append(gitOptions[:len(gitOptions):len(gitOptions)], args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, false, fmt.Errorf("running git: %w", err)
	}
	out, readErr := io.ReadAll(io.LimitReader(stdout, limit+1))
	if int64(len(out)) > limit {
		cancel()
		_ = cmd.Wait() // killed on purpose
		return out[:limit], true, nil
	}
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return out, false, &gitError{said: said, err: err}
		}
		return out, false, fmt.Errorf("git %s: %w", args[0], err)
	}
	return out, false, nil
}

// A gitError is a command that failed and what git said.
type gitError struct {
	said string
	err  error
}

func (e *gitError) Error() string { return e.said }
func (e *gitError) Unwrap() error { return e.err }

// exitCode is that of a git command that ended by itself, else -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// commit resolves a branch, tag or commit, "" being HEAD, to a commit's hash.
func (r *repository) commit(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		ref = "HEAD"
	}
	if strings.HasPrefix(ref, ":/") || strings.Contains(ref, "^{/") { // a regular expression for the messages of all commits
		return "", fmt.Errorf("%q searches commit messages: give a branch, tag or commit; log lists commits", ref)
	}
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err == nil && !strings.HasPrefix(out, "^") { // ^ would mean everything the commit does not reach
		return strings.TrimSpace(out), nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil && r.empty(ctx) {
		return "", errors.New("the repository has no commits yet: make one with git commit, then call again")
	}
	return "", fmt.Errorf("%q is no branch, tag or commit here: give one that git knows, such as HEAD, main, v1.2 or a hash", ref)
}

// empty reports whether HEAD has no commit yet.
func (r *repository) empty(ctx context.Context) bool {
	_, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	return exitCode(err) == 1
}

// compare resolves what a diff compares: the commit at which head left base,
// and head. Without base it is head's parent; where head has none, as in a
// first commit or a shallow clone, it is the empty tree.
func (r *repository) compare(ctx context.Context, base, head string) (from, to string, err error) {
	if to, err = r.commit(ctx, head); err != nil {
		return "", "", err
	}
	if base == "" {
		if parent, err := r.git(ctx, "rev-parse", "--verify", "--quiet", to+"^1^{commit}"); err == nil {
			return strings.TrimSpace(parent), to, nil
		}
		from, err = r.emptyTree(ctx)
		return from, to, err
	}
	if from, err = r.commit(ctx, base); err != nil {
		return "", "", err
	}
	// Without a common ancestor, such as in a shallow clone, compare them directly.
	if ancestor, err := r.git(ctx, "merge-base", from, to); err == nil {
		from = strings.TrimSpace(ancestor)
	}
	return from, to, nil
}

// emptyTree is the hash of a tree without entries, which depends on the
// repository's hash function.
func (r *repository) emptyTree(ctx context.Context) (string, error) {
	out, err := r.git(ctx, "hash-object", "-t", "tree", os.DevNull)
	return strings.TrimSpace(out), err
}

// cleanPath checks a path from the top of the repository. "" stays "".
func cleanPath(p string) (string, error) {
	if p == "" {
		return "", nil
	}
	clean := path.Clean(filepath.ToSlash(p))
	switch {
	case strings.ContainsRune(p, 0):
		return "", fmt.Errorf("path %q has a NUL byte in it", p)
	case path.IsAbs(clean) || filepath.IsAbs(p):
		return "", fmt.Errorf("path %q is absolute: give it from the top of the repository, such as docs/readme.md", p)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", fmt.Errorf("path %q leads out of the repository: give one inside of it", p)
	case private(clean):
		return "", fmt.Errorf("path %q is in a directory of git or perdure (%s), which is not shown", p, strings.Join(privateDirs, ", "))
	case clean == ".":
		return "", nil
	}
	return clean, nil
}

// privateDirs hold git's own files, and perdure's keys and data, even if these were
// committed.
var privateDirs = []string{".git", ".perdure"}

// private reports whether a path from the top is one of privateDirs, or below one. Some
// file systems ignore case.
func private(clean string) bool {
	for part := range strings.SplitSeq(clean, "/") {
		if slices.ContainsFunc(privateDirs, func(dir string) bool { return strings.EqualFold(part, dir) }) {
			return true
		}
	}
	return false
}

// literal is a pathspec that means a path from the top, whatever it contains.
func literal(clean string) string { return ":(top,literal)" + clean }

// pathArgs are the arguments that restrict a git command to a path.
func pathArgs(p string) ([]string, error) {
	clean, err := cleanPath(p)
	if err != nil || clean == "" {
		return []string{"--"}, err
	}
	return []string{"--", literal(clean)}, nil
}

// compared gives both ends of a comparison, and git's arguments for it, restricted to a
// path.
func (r *repository) compared(ctx context.Context, base, head, path string) (from, to string, args []string, err error) {
	if from, to, err = r.compare(ctx, base, head); err != nil {
		return "", "", nil, err
	}
	paths, err := pathArgs(path)
	for _, dir := range privateDirs {
		paths = append(paths, ":(top,exclude,icase,glob)**/"+dir+"/**")
	}
	return from, to, slices.Concat(diffOptions, []string{from, to}, paths), err
}
