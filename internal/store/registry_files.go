package store

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// RegistryFile keeps publications in a file, for one process at a time. The file only
// grows: each line is all edits of one Edit.
type RegistryFile struct {
	mu       sync.Mutex
	file     *os.File
	size     int64 // of the lines that are whole
	versions []kept
	events   []Event
	changed  chan struct{} // closed at the next edit
}

var _ Registry = (*RegistryFile)(nil)

// A kept version, and the entry of its last change.
type kept struct {
	Version
	changed int64
}

// A line of the file.
type line struct {
	At    time.Time  `json:"at"`
	By    string     `json:"by"`
	Edits []lineEdit `json:"edits"`
}

type lineEdit struct {
	Action  Action  `json:"action"`
	Version Version `json:"version"`
	Note    string  `json:"note,omitempty"`
}

// OpenRegistryFile keeps publications in a file, which it makes. Its directory must
// exist. An incomplete last line, after a power cut, is dropped; other damage is an
// error.
func OpenRegistryFile(path string) (*RegistryFile, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the registry: %w", err)
	}
	r := &RegistryFile{changed: make(chan struct{})}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(whole))
	lines.Buffer(nil, len(whole)+1)
	for no := 1; lines.Scan(); no++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("opening the registry: line %d of %s is damaged: %w", no, path, err)
		}
		r.take(l)
	}
	if r.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("opening the registry: %w", err)
	}
	r.size = int64(len(whole))
	return r, syncDir(filepath.Dir(path))
}

// syncDir makes a new file of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening the registry: %w", err)
	}
	defer d.Close()
	_ = d.Sync() // some file systems cannot
	return nil
}

// Close ends the use of the file.
func (r *RegistryFile) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.file.Close() // each line was synced
}

// take adds a line.
func (r *RegistryFile) take(l line) {
	for _, e := range l.Edits {
		v := e.Version
		seq := int64(len(r.events)) + 1
		if e.Action == Published {
			v.By, v.At = l.By, l.At
			r.versions = append(r.versions, kept{v, seq})
		} else if i := r.find(v.Name, v.Version); i >= 0 {
			r.versions[i].Deprecated, r.versions[i].changed = v.Deprecated, seq
		}
		r.events = append(r.events, Event{
			Seq: seq, At: l.At, By: l.By, Action: e.Action, Name: v.Name, Version: v.Version, Digest: v.Digest, Note: e.Note,
		})
	}
}

func (r *RegistryFile) find(name, version string) int {
	return slices.IndexFunc(r.versions, func(k kept) bool { return k.Name == name && k.Version.Version == version })
}

// Versions implements Registry.
func (r *RegistryFile) Versions(_ context.Context, after Mark) (News, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.after(after), nil
}

// after gives what has changed after a mark, which is one of the file: this process alone
// has it open.
func (r *RegistryFile) after(mark Mark) (news News) {
	for _, k := range r.versions {
		if k.changed > mark.Seq {
			news.Versions = append(news.Versions, k.Version)
		}
	}
	slices.SortStableFunc(news.Versions, func(a, b Version) int { return cmp.Compare(a.Name, b.Name) })
	if n := len(r.events); n > 0 {
		news.Last = Mark{r.events[n-1].Seq, r.events[n-1].At}
	}
	return news
}

// Edit implements Registry.
func (r *RegistryFile) Edit(_ context.Context, by string, after Mark, f func(News) ([]Edit, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	edits, err := f(r.after(after))
	if err != nil || len(edits) == 0 {
		return err
	}
	l := line{At: time.Now().UTC().Round(0), By: by} // as it is read again
	for _, e := range edits {
		at := r.find(e.Version.Name, e.Version.Version)
		if e.Action == Published && at >= 0 {
			return fmt.Errorf("writing to the registry: version %s of %s exists", e.Version.Version, e.Version.Name)
		}
		if e.Action != Published && at < 0 {
			return fmt.Errorf("writing to the registry: version %s of %s not found", e.Version.Version, e.Version.Name)
		}
		l.Edits = append(l.Edits, lineEdit(e))
	}
	if err := r.write(l); err != nil {
		return fmt.Errorf("writing to the registry: %w", err)
	}
	r.take(l)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// write writes a line to the disk, over the rest of one that failed.
func (r *RegistryFile) write(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := r.file.Truncate(r.size); err != nil {
		return err
	}
	if _, err := r.file.WriteAt(text, r.size); err != nil {
		return err
	}
	if err := r.file.Sync(); err != nil {
		return err
	}
	r.size += int64(len(text))
	return nil
}

// History implements Registry.
func (r *RegistryFile) History(_ context.Context, name string, limit int) ([]Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []Event
	for _, e := range slices.Backward(r.events) {
		if len(events) < limit && (name == "" || e.Name == name) {
			events = append(events, e)
		}
	}
	return events, nil
}

// Follow implements Registry.
func (r *RegistryFile) Follow(ctx context.Context, f func()) {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		f()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
