package repo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

const (
	reviewDir = ".perdure/reviews"
	maxReview = 1 << 20
)

var reviewName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

type reviewArgs struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Body      string `json:"body"`
	Overwrite bool   `json:"overwrite"`
}

type reviewResult struct {
	Path        string `json:"path" jsonschema:"the file, from the top of the repository"`
	Bytes       int    `json:"bytes" jsonschema:"size of the file"`
	Overwritten bool   `json:"overwritten" jsonschema:"whether a review of the name was replaced"`
}

// writeReview writes a review whole or not at all.
func (r *repository) writeReview(_ context.Context, args reviewArgs) (*reviewResult, error) {
	if !reviewName.MatchString(args.Name) {
		return nil, fmt.Errorf("name %q: use letters, digits, dots, dashes and underscores, at most 100, a letter or digit first", args.Name)
	}
	dir, err := r.openReviews()
	if err != nil {
		return nil, fmt.Errorf("making the directory for reviews: %w", err)
	}
	defer dir.Close()
	file := path.Join(reviewDir, args.Name+".md")
	content := "# " + strings.Join(strings.Fields(args.Title), " ") + "\n\n" + strings.TrimRight(args.Body, "\n") + "\n"
	replaced, err := writeFile(dir, path.Base(file), []byte(content), args.Overwrite)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: choose another name, or set overwrite to true to replace it", file)
	}
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", file, err)
	}
	return &reviewResult{Path: file, Bytes: len(content), Overwritten: replaced}, nil
}

// openReviews opens the directory for reviews, and makes it if it does not exist.
// It does not follow a link: one in the repository may lead to other files, such as its
// sources.
func (r *repository) openReviews() (*os.Root, error) {
	dir, err := os.OpenRoot(r.top)
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(reviewDir, "/") {
		below, err := openBelow(dir, name)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = below
	}
	return dir, nil
}

func openBelow(dir *os.Root, name string) (*os.Root, error) {
	if err := dir.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	expected, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !expected.IsDir() {
		return nil, fmt.Errorf("%s is not a directory but something else, such as a symbolic link, which is not followed", name)
	}
	below, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := below.Stat("."); err != nil || !os.SameFile(expected, opened) {
		below.Close()
		return nil, fmt.Errorf("%s has changed while it was opened: call again", name)
	}
	return below, nil
}

// writeFile writes a file beside its place and moves it there. Without
// overwrite an existing file is left alone: error fs.ErrExist.
func writeFile(root *os.Root, name string, content []byte, overwrite bool) (replaced bool, err error) {
	temp := path.Join(path.Dir(name), ".tmp-"+rand.Text())
	if err := writeSynced(root, temp, content); err != nil {
		return false, err
	}
	defer func() { _ = root.Remove(temp) }() // gone already where it was renamed
	err = root.Link(temp, name)
	if !errors.Is(err, fs.ErrExist) || !overwrite {
		return false, err
	}
	return true, root.Rename(temp, name)
}

func writeSynced(root *os.Root, name string, content []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
