package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A DataLock keeps other processes out of the data directory of a perdure dev. The
// kernel releases it at any end of the process.
type DataLock struct{ file *os.File }

// LockData locks an existing data directory. It is a *DataInUseError if another process
// has the lock.
func LockData(dir string) (*DataLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	for range lockAttempts {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &DataInUseError{Dir: dir, PID: holder(f)}
	} else if err != nil {
		err = fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	_ = f.Truncate(0) // the process ID is only for messages
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	return &DataLock{f}, nil
}

// lockAttempts is how often LockData tries: DataInUse has the lock for a moment.
const lockAttempts = 10

// DataInUse reports whether a process uses a data directory. Unlike the process ID in
// the file, the lock is not there after a kill, nor in a copy of the directory.
func DataInUse(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("checking the lock of the data directory: %w", err)
	}
	defer f.Close() // releases the lock
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("checking the lock of %s: %w", dir, err)
	}
	return false, nil
}

// holder is the ID of the process that wrote the lock file; 0 = unknown.
func holder(f *os.File) (pid int) {
	_, _ = fmt.Fscan(f, &pid)
	return pid
}

// A DataInUseError says that another process uses a data directory.
type DataInUseError struct {
	Dir string
	PID int // 0 = unknown
}

func (e *DataInUseError) Error() string {
	if e.PID == 0 {
		return e.Dir + " is in use by another process"
	}
	return fmt.Sprintf("%s is in use by another process (%d)", e.Dir, e.PID)
}

// Held reports whether the directory is still the one that was locked: not after it, or
// the file in it, was removed, moved or made anew.
func (l *DataLock) Held() bool {
	own, err := l.file.Stat()
	if err != nil {
		return true // unknown
	}
	now, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(own, now) || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// AwaitLoss returns an error within a second after the directory is no longer held; nil
// when ctx ends.
func (l *DataLock) AwaitLoss(ctx context.Context) error {
	tick := time.NewTicker(lossInterval)
	defer tick.Stop()
	for l.Held() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return fmt.Errorf("the data directory %s was removed or replaced while it was in use; the runs in it are lost", filepath.Dir(l.file.Name()))
}

// lossInterval is how often AwaitLoss looks.
const lossInterval = time.Second

// Release lets other processes use the directory.
func (l *DataLock) Release() { l.file.Close() }
