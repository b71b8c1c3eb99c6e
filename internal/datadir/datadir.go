// Package datadir reports whether a process uses the data directory of a perdure dev. It
// is apart from internal/devserver, so that commands of builds without the embedded
// Temporal can look for a dev.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A Lock keeps other processes out of a data directory. The kernel lets go
// of it when the process dies, however it dies.
type Lock struct{ file *os.File }

// Acquire locks a directory that exists. It returns an error if another process holds
// the lock.
func Acquire(dir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	for range lookers {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &InUseError{Dir: dir, PID: holder(f)}
	} else if err != nil {
		err = fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	_ = f.Truncate(0) // who holds it is a courtesy to the reader of an error
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	return &Lock{f}, nil
}

// lookers are how often a lock is tried for: a command that only looks has it for a
// moment.
const lookers = 10

// InUse reports whether a process uses a data directory: not one that was killed,
// whose ID another may have by now, and not because it is the copy of one in use.
func InUse(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking who uses a data directory: %w", err)
	}
	defer f.Close() // which lets go of the lock
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking who uses %s: %w", dir, err)
	}
	return false, nil
}

// holder is the ID of the process that wrote the lock file; 0 = it does not say so.
func holder(f *os.File) (pid int) {
	_, _ = fmt.Fscan(f, &pid)
	return pid
}

// An InUseError says that another process holds a data directory.
type InUseError struct {
	Dir string
	PID int // 0 = not known
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return e.Dir + " is in use by another process"
	}
	return fmt.Sprintf("%s is in use by another process (%d)", e.Dir, e.PID)
}

// Release lets other processes use the directory.
func (l *Lock) Release() { l.file.Close() }
