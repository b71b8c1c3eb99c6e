package repo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// readDisk reads a tracked file of the work tree. An untracked file may be a secret, also
// if a tracked symbolic link points to it.
func (r *repository) readDisk(ctx context.Context, file string, limit int64) ([]byte, error) {
	if err := r.tracked(ctx, file); err != nil {
		return nil, err
	}
	target, err := r.resolve(file)
	if err != nil {
		return nil, err
	}
	if target != file {
		if err := r.tracked(ctx, target); err != nil {
			return nil, fmt.Errorf("%s is a symbolic link: %w", file, err)
		}
	}
	root, err := os.OpenRoot(r.top)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	defer root.Close()
	return readRegular(root, file, target, limit)
}

// tracked reports an error unless git has a path in its index.
func (r *repository) tracked(ctx context.Context, file string) error {
	if _, err := r.git(ctx, "ls-files", "--error-unmatch", "--", literal(file)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s is not a tracked file: only those are shown", file)
	}
	return nil
}

// readRegular reads the file at target if it is still a regular file: opening a pipe
// would block, and a link could lead anywhere.
func readRegular(root *os.Root, file, target string, limit int64) ([]byte, error) {
	expected, err := root.Lstat(target)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", file, err)
	case !expected.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file: list_files shows the files", file)
	case expected.Size() > limit:
		return nil, tooBig(file, expected.Size(), limit)
	}
	f, err := root.Open(target)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(expected, opened) {
		return nil, fmt.Errorf("%s has changed while it was opened: call again", file)
	}
	content, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return content, nil
}

// resolve follows the symbolic links of a path and returns where it is, from
// the top of the repository.
func (r *repository) resolve(file string) (string, error) {
	top, err := filepath.EvalSymlinks(r.top)
	if err != nil {
		return "", fmt.Errorf("opening the repository: %w", err)
	}
	target, err := filepath.EvalSymlinks(filepath.Join(top, filepath.FromSlash(file)))
	if err != nil {
		return "", fmt.Errorf("there is no %s on disk, or its link leads nowhere", file)
	}
	rel, err := filepath.Rel(top, target)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is a symbolic link out of the repository, which is not followed", file)
	}
	return cleanPath(filepath.ToSlash(rel))
}
