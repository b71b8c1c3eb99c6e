package repo

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type infoResult struct {
	Root        string  `json:"root" jsonschema:"absolute path of the work tree"`
	Branch      string  `json:"branch" jsonschema:"empty when no branch is checked out"`
	Head        *commit `json:"head,omitempty" jsonschema:"last commit; absent in a repository without commits"`
	Remote      string  `json:"remote" jsonschema:"address of the remote, without credentials; empty without one"`
	Dirty       bool    `json:"dirty" jsonschema:"whether there is uncommitted work"`
	Uncommitted int     `json:"uncommitted" jsonschema:"number of files with uncommitted work"`
	Shallow     bool    `json:"shallow" jsonschema:"whether the history is cut off"`
	Commits     int     `json:"commits"`
	Branches    int     `json:"branches"`
	Tags        int     `json:"tags"`
	Files       int     `json:"files" jsonschema:"number of tracked files"`
}

type commit struct {
	Hash    string   `json:"hash"`
	Author  string   `json:"author"`
	Email   string   `json:"email"`
	Date    string   `json:"date" jsonschema:"of the author, ISO 8601"`
	Subject string   `json:"subject"`
	Body    string   `json:"body"`
	Parents []string `json:"parents"`
}

// commitFormat has fields that end with unit separators and commits that end
// with NUL bytes, by -z.
const commitFormat = "--format=%H%x1f%P%x1f%an%x1f%ae%x1f%aI%x1f%s%x1f%b"

func parseCommits(out string) ([]commit, error) {
	commits := []commit{}
	for record := range strings.SplitSeq(strings.TrimRight(out, "\x00"), "\x00") {
		if record == "" {
			continue
		}
		f := strings.SplitN(record, "\x1f", 7)
		if len(f) != 7 {
			return nil, fmt.Errorf("git log gave %q, which is no commit", record)
		}
		commits = append(commits, commit{
			Hash: f[0], Parents: append([]string{}, strings.Fields(f[1])...), Author: f[2], Email: f[3],
			Date: f[4], Subject: f[5], Body: strings.TrimSpace(f[6]),
		})
	}
	return commits, nil
}

func (r *repository) info(ctx context.Context, _ struct{}) (*infoResult, error) {
	status, err := r.status(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the state: %w", err)
	}
	res := &infoResult{Root: r.top, Remote: r.remote(ctx)}
	for entry := range strings.SplitSeq(status, "\x00") {
		// Files of this server are not the user's work.
		if len(entry) > 3 && !strings.HasPrefix(entry[3:], ".perdure/") {
			res.Uncommitted++
		}
	}
	res.Dirty = res.Uncommitted > 0
	res.Branch = r.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	res.Shallow = r.line(ctx, "rev-parse", "--is-shallow-repository") == "true"
	for _, c := range []struct {
		n    *int
		args []string
	}{
		{&res.Branches, []string{"for-each-ref", "--format=x", "refs/heads"}},
		{&res.Tags, []string{"for-each-ref", "--format=x", "refs/tags"}},
		{&res.Files, []string{"ls-files"}},
	} {
		out, err := r.git(ctx, c.args...)
		if err != nil {
			return nil, fmt.Errorf("counting: %w", err)
		}
		*c.n = strings.Count(out, "\n")
	}
	if r.empty(ctx) {
		return res, nil
	}
	out, err := r.git(ctx, "log", "-z", "-n1", commitFormat)
	if err != nil {
		return nil, fmt.Errorf("reading the last commit: %w", err)
	}
	commits, err := parseCommits(out)
	if err != nil || len(commits) == 0 {
		return nil, fmt.Errorf("reading the last commit: %w", err)
	}
	res.Head = &commits[0]
	res.Commits, err = strconv.Atoi(r.line(ctx, "rev-list", "--count", "HEAD"))
	return res, err
}

// line is the output of a git command of which one line is wanted, "" if it
// fails.
func (r *repository) line(ctx context.Context, args ...string) string {
	out, err := r.git(ctx, args...)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// remote is the address of origin, or of the first remote.
func (r *repository) remote(ctx context.Context) string {
	names := strings.Fields(r.line(ctx, "remote"))
	if len(names) == 0 {
		return ""
	}
	name := names[0]
	if slices.Contains(names, "origin") {
		name = "origin"
	}
	return withoutCredentials(r.line(ctx, "config", "--get", "remote."+name+".url"))
}

// withoutCredentials takes the user, password, query and fragment out of a
// remote's address.
func withoutCredentials(remote string) string {
	if !strings.Contains(remote, "://") {
		user, rest, ok := strings.Cut(remote, "@") // host:path of scp
		if ok && user != "git" && !strings.Contains(user, "/") {
			return rest
		}
		return remote
	}
	u, err := url.Parse(remote)
	if err != nil {
		return "" // nothing that might hold a secret
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// status lists uncommitted work. It disables the programs of the configuration that
// convert files (filter.NAME.clean), which git would run; files that these convert then
// count as uncommitted.
func (r *repository) status(ctx context.Context) (string, error) {
	names, err := r.git(ctx, "config", "--name-only", "-z", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	if err != nil && exitCode(err) != 1 { // 1 = none
		return "", fmt.Errorf("reading the configuration: %w", err)
	}
	env, n := gitEnv(), 0
	for name := range strings.SplitSeq(names, "\x00") {
		if name != "" { // no option -c, which takes the name to end at its first =
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=", n))
			n++
		}
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
	out, cut, err := runGitWith(ctx, env, r.top, maxOutput, "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty")
	if err == nil && cut {
		err = fmt.Errorf("there is more than %d bytes of uncommitted work to list", maxOutput)
	}
	return string(out), err
}

type logArgs struct {
	Ref, Path string
	Limit     int
}

type logResult struct {
	Ref     string   `json:"ref" jsonschema:"hash of the commit at which the log begins"`
	Commits []commit `json:"commits"`
	More    bool     `json:"more" jsonschema:"whether there are older ones"`
}

func (r *repository) log(ctx context.Context, args logArgs) (*logResult, error) {
	limit := cmp.Or(args.Limit, 20)
	head, err := r.commit(ctx, args.Ref)
	if err != nil {
		return nil, err
	}
	paths, err := pathArgs(args.Path)
	if err != nil {
		return nil, err
	}
	out, err := r.git(ctx, append([]string{"log", "-z", "-n", strconv.Itoa(limit + 1), commitFormat, head}, paths...)...)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	commits, err := parseCommits(out)
	if err != nil {
		return nil, err
	}
	more := len(commits) > limit
	return &logResult{Ref: head, Commits: commits[:min(limit, len(commits))], More: more}, nil
}

type contributorsArgs struct{ Base, Head string }

type contributor struct {
	Name    string `json:"name"`
	Email   string `json:"email"`
	Commits int    `json:"commits"`
}

type contributorsResult struct {
	Contributors []contributor `json:"contributors" jsonschema:"most commits first"`
	Commits      int           `json:"commits" jsonschema:"of all of them"`
}

func (r *repository) contributors(ctx context.Context, args contributorsArgs) (*contributorsResult, error) {
	head, err := r.commit(ctx, args.Head)
	if err != nil {
		return nil, err
	}
	revisions := []string{head}
	if args.Base != "" {
		base, err := r.commit(ctx, args.Base)
		if err != nil {
			return nil, err
		}
		revisions = append(revisions, "^"+base)
	}
	out, err := r.git(ctx, append(append([]string{"log", "--format=%aN%x1f%aE"}, revisions...), "--")...)
	if err != nil {
		return nil, fmt.Errorf("reading the authors: %w", err)
	}
	return countAuthors(out), nil
}

func countAuthors(out string) *contributorsResult {
	counts := map[contributor]int{}
	res := &contributorsResult{Contributors: []contributor{}}
	for line := range strings.Lines(out) {
		name, email, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x1f")
		counts[contributor{Name: name, Email: email}]++
		res.Commits++
	}
	for c, n := range counts {
		c.Commits = n
		res.Contributors = append(res.Contributors, c)
	}
	slices.SortFunc(res.Contributors, func(a, b contributor) int {
		return cmp.Or(cmp.Compare(b.Commits, a.Commits), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Email, b.Email))
	})
	return res
}
