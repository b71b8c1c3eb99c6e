package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileValues keep values in files, for one writing process at a time: a directory for
// each run, with a file that names the run.
type FileValues struct {
	dir string
	mu  sync.Mutex // held by changes
}

var _ Values = (*FileValues)(nil)

// OpenFileValues keeps values in a directory, which it makes.
func OpenFileValues(dir string) (*FileValues, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the values of runs: %w", err)
	}
	return &FileValues{dir: dir}, nil
}

// Files that name the run of a directory, and the run that called it.
const (
	nameOfRun    = "run"
	nameOfParent = "parent"
)

// Put implements Values.
func (v *FileValues) Put(_ context.Context, id, run string, data []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	digest := sha256.Sum256([]byte(run))
	dir := filepath.Join(v.dir, hex.EncodeToString(digest[:16]))
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = WriteFile(filepath.Join(dir, nameOfRun), []byte(run), 0o600)
	}
	if err == nil {
		err = WriteFile(filepath.Join(dir, id), data, 0o600)
	}
	if err == nil { // found by its ID alone
		err = os.WriteFile(filepath.Join(v.dir, id), []byte(filepath.Base(dir)), 0o600)
	}
	if err != nil {
		return fmt.Errorf("storing a value of run %s: %w", run, err)
	}
	return nil
}

// Get implements Values.
func (v *FileValues) Get(_ context.Context, id string) ([]byte, error) {
	dir, err := os.ReadFile(filepath.Join(v.dir, filepath.Base(id)))
	var data []byte
	if err == nil {
		data, err = os.ReadFile(filepath.Join(v.dir, filepath.Base(string(dir)), filepath.Base(id)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoValue
	}
	if err != nil {
		return nil, fmt.Errorf("reading a value: %w", err)
	}
	return data, nil
}

// Sweep implements Values.
func (v *FileValues) Sweep(ctx context.Context, look Look) (int, error) {
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		return 0, fmt.Errorf("finding values of deleted runs: %w", err)
	}
	swept := 0
	for _, e := range entries {
		mark := filepath.Join(v.dir, e.Name(), nameOfRun)
		info, err := os.Stat(mark)
		if !e.IsDir() || err != nil || time.Since(info.ModTime()) < recheck {
			continue
		}
		run, err := os.ReadFile(mark)
		known, unknown := os.ReadFile(filepath.Join(v.dir, e.Name(), nameOfParent))
		if errors.Is(unknown, fs.ErrNotExist) {
			unknown = nil
		}
		if err = errors.Join(err, unknown); err != nil {
			return swept, fmt.Errorf("finding values of deleted runs: %w", err)
		}
		unneeded, parent, err := look.unneeded(ctx, string(run), string(known))
		if err != nil {
			return swept, err
		}
		if removed, err := v.checked(mark, info.ModTime(), unneeded, parent); err != nil {
			return swept, fmt.Errorf("deleting the values of run %s: %w", run, err)
		} else if removed {
			swept++
		}
	}
	return swept, nil
}

// checked removes the values of an unneeded run, unless some were put meanwhile; else it
// records the look, and the parent of the run.
func (v *FileValues) checked(mark string, seen time.Time, unneeded bool, parent string) (removed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	info, err := os.Stat(mark)
	if err != nil || !info.ModTime().Equal(seen) {
		return false, err
	}
	if !unneeded {
		if parent != "" {
			err = WriteFile(filepath.Join(filepath.Dir(mark), nameOfParent), []byte(parent), 0o600)
		}
		return false, errors.Join(err, os.Chtimes(mark, time.Now(), time.Now()))
	}
	entries, err := os.ReadDir(filepath.Dir(mark))
	for _, e := range entries {
		if e.Name() != nameOfRun && e.Name() != nameOfParent {
			err = errors.Join(err, os.RemoveAll(filepath.Join(v.dir, e.Name())))
		}
	}
	return true, errors.Join(err, os.RemoveAll(filepath.Dir(mark)))
}
