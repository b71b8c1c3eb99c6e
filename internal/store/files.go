package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Files keep grants in a directory, a file for each, for one process at a time.
// Change returns when the change is on the disk: kill -9 loses nothing.
type Files struct {
	dir  string
	keys *Keys
	log  *slog.Logger

	mu    sync.Mutex
	locks map[Key]*sync.Mutex

	stop func()
}

var _ Grants = (*Files)(nil)

// A record is a grant in a file.
type record struct {
	Caller  string    `json:"caller"`
	Backend string    `json:"backend"`
	KeyID   string    `json:"keyId,omitempty"`
	Sealed  []byte    `json:"sealed,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Wanted  bool      `json:"wanted,omitempty"`
	Changed time.Time `json:"changed"`
}

// OpenFiles keeps grants in a directory, which it makes. A nil logger discards.
func OpenFiles(dir string, keys *Keys, logger *slog.Logger) (*Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the store: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Files{dir: dir, keys: keys, log: orDiscard(logger), locks: map[Key]*sync.Mutex{}, stop: stop}
	go every(ctx, pruneEvery, f.prune)
	return f, nil
}

func orDiscard(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return logger
}

// Close implements Grants.
func (f *Files) Close() { f.stop() }

// Get implements Grants.
func (f *Files) Get(_ context.Context, key Key) (Grant, error) {
	r, err := f.read(f.path(key))
	if err != nil {
		return Grant{}, err
	}
	return f.opened(key, r), nil
}

// Change implements Grants.
func (f *Files) Change(ctx context.Context, key Key, change func(context.Context, Grant) (Grant, error)) error {
	lock := f.lock(key)
	lock.Lock()
	defer lock.Unlock()
	was, err := f.Get(ctx, key)
	if err != nil {
		return err
	}
	now, err := change(ctx, was)
	if err != nil {
		return err
	}
	return f.write(key, now)
}

// lock is the lock of a key. Those of backends are never dropped, since they are few; what
// is kept for a run is one request's alone.
func (f *Files) lock(key Key) *sync.Mutex {
	if _, ok := runOf(key); ok {
		return &sync.Mutex{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locks[key] == nil {
		f.locks[key] = &sync.Mutex{}
	}
	return f.locks[key]
}

// Latest implements Grants.
func (f *Files) Latest(_ context.Context, backend string) (Key, bool, error) {
	var latest record
	err := f.each(func(_ string, r record) {
		if r.Backend == backend && r.Changed.After(latest.Changed) && f.opened(r.key(), r).Secret != nil {
			latest = r
		}
	})
	return latest.key(), !latest.Changed.IsZero(), err
}

// Wanted implements Grants.
func (f *Files) Wanted(_ context.Context, caller string) ([]string, error) {
	var backends []string
	err := f.each(func(_ string, r record) {
		if r.Caller == caller && r.Wanted {
			backends = append(backends, r.Backend)
		}
	})
	slices.Sort(backends)
	return backends, err
}

// SweepRuns implements Grants.
func (f *Files) SweepRuns(ctx context.Context, ended func(context.Context, string) (bool, error)) error {
	due := map[Key]string{}
	err := f.each(func(_ string, r record) {
		if run, ok := runOf(r.key()); ok && time.Since(r.Changed) >= RunSweepEvery {
			due[r.key()] = run
		}
	})
	for key, run := range due {
		over, failed := ended(ctx, run)
		if failed == nil && over {
			failed = f.write(key, Grant{})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("sweeping what is kept for run %s: %w", run, failed))
		}
	}
	return err
}

func (f *Files) prune(context.Context) {
	err := f.each(func(file string, r record) {
		if _, ok := runOf(r.key()); ok {
			return // see SweepRuns
		}
		g := Grant{Expires: r.Expires}
		if g.expired(time.Now()) && !r.Wanted || time.Since(r.Changed) > forgetAfter {
			_ = os.Remove(file) // tried again later
		}
	})
	if err != nil {
		f.log.Warn("removing expired credentials from the store", "error", err)
	}
}

func (r record) key() Key { return Key{Caller: r.Caller, Backend: r.Backend} }

// opened is a record as a grant.
func (f *Files) opened(key Key, r record) Grant {
	return f.keys.grant(f.log, key, r.KeyID, r.Sealed, Grant{Expires: r.Expires, Wanted: r.Wanted})
}

const recordSuffix = ".json"

// path is the file of a key. Its name does not reveal the key.
func (f *Files) path(key Key) string {
	sum := sha256.Sum256(key.bound())
	return filepath.Join(f.dir, hex.EncodeToString(sum[:16])+recordSuffix)
}

// each calls do with every record.
func (f *Files) each(do func(file string, r record)) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), recordSuffix) {
			continue
		}
		file := filepath.Join(f.dir, entry.Name())
		r, err := f.read(file)
		if err != nil {
			return err
		}
		do(file, r)
	}
	return nil
}

// read reads a record; the zero record if there is none. A damaged one, which only a
// failing disk can cause, counts as none.
func (f *Files) read(file string) (record, error) {
	var r record
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("reading the store: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		f.log.Warn("ignoring a damaged file of the store", "file", file)
		return record{}, nil
	}
	return r, nil
}

func (f *Files) write(key Key, g Grant) error {
	if g.empty() {
		if err := os.Remove(f.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("writing to the store: %w", err)
		}
		return nil
	}
	r := record{Caller: key.Caller, Backend: key.Backend, Expires: g.Expires, Wanted: g.Wanted, Changed: time.Now().UTC()}
	if len(g.Secret) > 0 {
		r.KeyID, r.Sealed = f.keys.seal(key, g.Secret)
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = WriteFile(f.path(key), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing to the store: %w", err)
	}
	return nil
}

// WriteFile writes all of a file or nothing: there is always a complete one.
func WriteFile(name string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no effect after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}
