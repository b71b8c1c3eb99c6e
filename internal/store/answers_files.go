package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// answersSize is the size of one file of an AnswersFile, in bytes: some 15,000 results.
const answersSize = 1 << 20

// An AnswersFile records in a file which runs had their result written to a client, for
// the next process on the same directory. It keeps at least the last 15,000. Entries
// survive any end of the process; after a power cut the last ones may be missing.
type AnswersFile struct {
	path   string
	before map[string]bool // runs answered by the processes before

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenAnswersFile opens the file at a path, or makes it. Its directory must exist.
func OpenAnswersFile(path string) (*AnswersFile, error) {
	a := &AnswersFile{path: path, before: map[string]bool{}}
	for _, part := range []string{a.older(), path} {
		text, err := os.ReadFile(part)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening the list of answered runs: %w", err)
		}
		whole := text[:bytes.LastIndexByte(text, '\n')+1]
		for line := range strings.Lines(string(whole)) {
			answered := line[0] == '+'
			a.before[strings.TrimSpace(line[1:])] = answered
		}
		if a.size = int64(len(whole)); len(whole) < len(text) {
			if err := os.Truncate(part, a.size); err != nil {
				return nil, fmt.Errorf("opening the list of answered runs: %w", err)
			}
		}
	}
	var err error
	if a.file, err = openToAppend(path); err != nil {
		return nil, fmt.Errorf("opening the list of answered runs: %w", err)
	}
	return a, nil
}

func openToAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// older is the previous file.
func (a *AnswersFile) older() string { return a.path + ".older" }

// Note records that the result of a run is being written to its client, or, with
// answered false, that it could not be.
func (a *AnswersFile) Note(run string, answered bool) error {
	sign := "+"
	if !answered {
		sign = "-"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.size >= answersSize {
		if err := a.rotate(); err != nil {
			return fmt.Errorf("recording an answered run: %w", err)
		}
	}
	n, err := a.file.WriteString(sign + run + "\n")
	a.size += int64(n)
	if err != nil {
		return fmt.Errorf("recording an answered run: %w", err)
	}
	return nil
}

// rotate begins a new file, and drops the one before the last.
func (a *AnswersFile) rotate() error {
	if err := os.Rename(a.path, a.older()); err != nil {
		return err
	}
	file, err := openToAppend(a.path)
	if err != nil {
		return err
	}
	_ = a.file.Close()
	a.file, a.size = file, 0
	return nil
}

// Answered reports whether an earlier process has answered a run.
func (a *AnswersFile) Answered(run string) bool { return a.before[run] }

// Close closes the file.
func (a *AnswersFile) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.Close()
}
