package repo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxDiff     = 4 << 20
	maxFile     = 8 << 20
	maxListed   = 5000
	defaultDiff = 200_000
	defaultFile = 1_000_000

	worktree = "worktree" // the ref that means the files on disk
)

type diffArgs struct {
	Base, Head, Path string
	MaxBytes         int64 `json:"max_bytes"`
}

type diffResult struct {
	Base      string `json:"base" jsonschema:"hash of the commit or tree that is compared with"`
	Head      string `json:"head" jsonschema:"hash of the commit"`
	Diff      string `json:"diff"`
	Bytes     int    `json:"bytes" jsonschema:"length of diff"`
	Truncated bool   `json:"truncated" jsonschema:"whether diff was cut at max_bytes; ask by path then"`
}

func (r *repository) diff(ctx context.Context, args diffArgs) (*diffResult, error) {
	from, to, compared, err := r.compared(ctx, args.Base, args.Head, args.Path)
	if err != nil {
		return nil, err
	}
	command := slices.Concat([]string{"diff"}, compared)
	out, cut, err := runGit(ctx, r.top, cmp.Or(args.MaxBytes, defaultDiff), command...)
	if err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	if i := bytes.LastIndexByte(out, '\n'); cut && i >= 0 {
		out = out[:i+1] // whole lines
	}
	text := strings.ToValidUTF8(string(out), "\uFFFD")
	return &diffResult{Base: from, Head: to, Diff: text, Bytes: len(text), Truncated: cut}, nil
}

type changedArgs struct{ Base, Head, Path string }

type changedFile struct {
	Path      string `json:"path"`
	OldPath   string `json:"oldPath,omitempty" jsonschema:"of a file that was renamed or copied"`
	Status    string `json:"status" jsonschema:"added, modified, deleted, renamed, copied or typechanged"`
	Additions int    `json:"additions" jsonschema:"lines; 0 for a binary file"`
	Deletions int    `json:"deletions" jsonschema:"lines; 0 for a binary file"`
	Binary    bool   `json:"binary"`
}

type changedResult struct {
	Base      string        `json:"base" jsonschema:"hash of the commit or tree that is compared with"`
	Head      string        `json:"head" jsonschema:"hash of the commit"`
	Files     []changedFile `json:"files"`
	Additions int           `json:"additions" jsonschema:"lines of all files, also of those that were left out"`
	Deletions int           `json:"deletions" jsonschema:"lines of all files, also of those that were left out"`
	Count     int           `json:"count" jsonschema:"number of changed files"`
	Truncated bool          `json:"truncated" jsonschema:"whether files has the first 5000 only"`
}

func (r *repository) changedFiles(ctx context.Context, args changedArgs) (*changedResult, error) {
	from, to, compared, err := r.compared(ctx, args.Base, args.Head, args.Path)
	if err != nil {
		return nil, err
	}
	out, err := r.git(ctx, slices.Concat([]string{"diff", "-z", "--raw", "--numstat"}, compared)...)
	if err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	files, err := parseChanges(out)
	if err != nil {
		return nil, err
	}
	res := &changedResult{Base: from, Head: to, Count: len(files)}
	for _, f := range files {
		res.Additions += f.Additions
		res.Deletions += f.Deletions
	}
	res.Truncated = len(files) > maxListed
	res.Files = files[:min(len(files), maxListed)]
	return res, nil
}

var statusWords = map[byte]string{
	'A': "added", 'M': "modified", 'D': "deleted", 'R': "renamed", 'C': "copied", 'T': "typechanged",
}

// parseChanges reads git diff -z --raw --numstat: first an entry
// ":modes hashes STATUS" and its path, or two, for each file, then an entry
// "additions\tdeletions\tpath" for each in the same order, with the path
// empty and two paths following for a rename.
func parseChanges(out string) ([]changedFile, error) {
	fields := strings.Split(out, "\x00")
	next := func() string {
		if len(fields) == 0 {
			return ""
		}
		f := fields[0]
		fields = fields[1:]
		return f
	}
	files := []changedFile{}
	for len(fields) > 0 && strings.HasPrefix(fields[0], ":") {
		raw := next()
		letter := raw[strings.LastIndexByte(raw, ' ')+1:]
		if letter == "" {
			return nil, fmt.Errorf("git diff gave %q, which is no change", raw)
		}
		f := changedFile{Status: cmp.Or(statusWords[letter[0]], "modified"), Path: next()}
		if letter[0] == 'R' || letter[0] == 'C' {
			f.OldPath, f.Path = f.Path, next()
		}
		files = append(files, f)
	}
	for i := range files {
		stat := strings.SplitN(next(), "\t", 3)
		if len(stat) != 3 {
			return nil, fmt.Errorf("git diff gave no counts for %s", files[i].Path)
		}
		files[i].Binary = stat[0] == "-"
		files[i].Additions, _ = strconv.Atoi(stat[0]) // "-" for a binary file
		files[i].Deletions, _ = strconv.Atoi(stat[1])
		if stat[2] == "" {
			next()
			next()
		}
	}
	return files, nil
}

type fileArgs struct {
	Path, Ref string
	MaxBytes  int64 `json:"max_bytes"`
}

type fileResult struct {
	Path     string `json:"path"`
	Commit   string `json:"commit" jsonschema:"hash of the commit; empty for the work tree"`
	Size     int64  `json:"size" jsonschema:"bytes"`
	Encoding string `json:"encoding" jsonschema:"utf-8, or base64 for a binary file"`
	Content  string `json:"content"`
}

func (r *repository) fileContent(ctx context.Context, args fileArgs) (*fileResult, error) {
	file, err := cleanPath(args.Path)
	if err != nil {
		return nil, err
	}
	if file == "" {
		return nil, errors.New("path is missing: give a file, from the top of the repository")
	}
	limit := cmp.Or(args.MaxBytes, defaultFile)
	res := &fileResult{Path: file}
	var content []byte
	if args.Ref == worktree {
		content, err = r.readDisk(ctx, file, limit)
	} else {
		res.Commit, content, err = r.readBlob(ctx, args.Ref, file, limit)
	}
	if err != nil {
		return nil, err
	}
	res.Size, res.Encoding, res.Content = int64(len(content)), "utf-8", string(content)
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		res.Encoding, res.Content = "base64", base64.StdEncoding.EncodeToString(content)
	}
	return res, nil
}

func tooBig(file string, size, limit int64) error {
	return fmt.Errorf("%s has %d bytes, more than the limit of %d: raise max_bytes, up to %d, or read a part of it with diff or log", file, size, limit, maxFile)
}

// readBlob reads a file out of a commit.
func (r *repository) readBlob(ctx context.Context, ref, file string, limit int64) (hash string, content []byte, err error) {
	if hash, err = r.commit(ctx, ref); err != nil {
		return "", nil, err
	}
	out, err := r.git(ctx, "ls-tree", "-z", "--long", "--full-tree", hash, "--", literal(file))
	if err != nil {
		return "", nil, fmt.Errorf("looking for %s: %w", file, err)
	}
	entries, err := parseTree(out)
	if err != nil {
		return "", nil, err
	}
	if len(entries) == 0 {
		return "", nil, fmt.Errorf("there is no %s in %s: list_files shows what there is", file, cmp.Or(ref, "HEAD"))
	}
	e := entries[0]
	switch {
	case e.kind == "tree":
		return "", nil, fmt.Errorf("%s is a directory: list_files with the pattern %s/** shows what is in it", file, file)
	case e.kind != "blob":
		return "", nil, fmt.Errorf("%s is a submodule, whose files are not here", file)
	case e.mode == "120000":
		return "", nil, fmt.Errorf("%s is a symbolic link, which is not followed: ask for the file that it points to", file)
	case e.size > limit:
		return "", nil, tooBig(file, e.size, limit)
	}
	content, _, err = runGit(ctx, r.top, maxFile, "cat-file", "blob", e.hash)
	return hash, content, err
}

type listArgs struct{ Ref, Pattern string }

type listedFile struct {
	Path string `json:"path"`
	Size int64  `json:"size" jsonschema:"bytes"`
}

type listResult struct {
	Commit    string       `json:"commit" jsonschema:"hash of the commit"`
	Files     []listedFile `json:"files"`
	Count     int          `json:"count" jsonschema:"number of files that match"`
	Truncated bool         `json:"truncated" jsonschema:"whether files has the first 5000 only; ask by pattern then"`
}

func (r *repository) listFiles(ctx context.Context, args listArgs) (*listResult, error) {
	if err := checkGlob(args.Pattern); err != nil {
		return nil, err
	}
	hash, err := r.commit(ctx, args.Ref)
	if err != nil {
		return nil, err
	}
	out, err := r.git(ctx, "ls-tree", "-r", "-z", "--long", "--full-tree", hash)
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	entries, err := parseTree(out)
	if err != nil {
		return nil, err
	}
	res := &listResult{Commit: hash, Files: []listedFile{}}
	for _, e := range entries {
		if e.kind != "blob" || private(e.path) || !matchGlob(args.Pattern, e.path) {
			continue
		}
		if res.Count++; res.Count <= maxListed {
			res.Files = append(res.Files, listedFile{Path: e.path, Size: e.size})
		}
	}
	res.Truncated = res.Count > maxListed
	return res, nil
}

type treeEntry struct {
	mode, kind, hash, path string
	size                   int64
}

// parseTree reads git ls-tree -z --long: "mode type hash size\tpath" each.
func parseTree(out string) ([]treeEntry, error) {
	var entries []treeEntry
	for record := range strings.SplitSeq(out, "\x00") {
		if record == "" {
			continue
		}
		meta, name, ok := strings.Cut(record, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			return nil, fmt.Errorf("git ls-tree gave %q, which is no entry", record)
		}
		size, _ := strconv.ParseInt(f[3], 10, 64) // "-" if it is no file
		entries = append(entries, treeEntry{mode: f[0], kind: f[1], hash: f[2], size: size, path: name})
	}
	return entries, nil
}

// maxStars bounds how many ** a pattern has: each multiplies the work.
const maxStars = 3

func checkGlob(pattern string) error {
	if strings.Count(pattern, "**") > maxStars {
		return fmt.Errorf("pattern %q has more than %d times **: use fewer", pattern, maxStars)
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("pattern %q is no glob: use *, ?, [a-z], and ** for any number of directories", pattern)
		}
	}
	return nil
}

// matchGlob matches a pattern without a slash against the name of a file, any other
// against its whole path. ** matches any number of directories.
func matchGlob(pattern, file string) bool {
	if pattern == "" {
		return true
	}
	if !strings.Contains(pattern, "/") && pattern != "**" {
		ok, _ := path.Match(pattern, path.Base(file))
		return ok
	}
	return matchParts(strings.Split(pattern, "/"), strings.Split(file, "/"))
}

func matchParts(pattern, file []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for i := range len(file) + 1 {
				if matchParts(pattern[1:], file[i:]) {
					return true
				}
			}
			return false
		}
		if len(file) == 0 {
			return false
		}
		if ok, _ := path.Match(pattern[0], file[0]); !ok {
			return false
		}
		pattern, file = pattern[1:], file[1:]
	}
	return len(file) == 0
}
