package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// A serverLog is the server's logger: it hands warnings and worse to slog, and
// keeps the server from ending the process where it meets a fatal error.
type serverLog struct {
	to     *slog.Logger
	tags   []tag.Tag // of every message
	shared *logState
}

// logState is shared by a serverLog and those made from it by With.
type logState struct {
	silent atomic.Bool
	fatal  chan error // the first fatal error
}

var _ interface {
	log.Logger
	log.WithLogger
} = (*serverLog)(nil)

func newServerLog(to *slog.Logger) *serverLog {
	return &serverLog{to: to.With("component", "temporal"), shared: &logState{fatal: make(chan error, 1)}}
}

// quiet drops all messages from now on: a stopping server logs calls that fail because
// it stops.
func (l *serverLog) quiet() { l.shared.silent.Store(true) }

// guard runs f, which starts the server. A fatal error becomes the error of guard. It
// ends f if it happened there; if it happened in one of the server's goroutines, f goes
// on by itself.
func (l *serverLog) guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("the server gave up")
		defer func() { // runs also when Fatal ends the goroutine, which sync.OnceValue turns into panic(nil)
			p := recover()
			if _, ended := p.(*runtime.PanicNilError); p != nil && !ended {
				panic(p)
			}
			done <- err
		}()
		err = f()
	}()
	var err error
	select {
	case fatal := <-l.shared.fatal:
		return fatal
	case err = <-done:
	}
	select {
	case fatal := <-l.shared.fatal:
		return fatal
	default:
		return err
	}
}

// Fatal ends the calling goroutine; the server expects it to end the process.
func (l *serverLog) Fatal(msg string, tags ...tag.Tag) {
	select {
	case l.shared.fatal <- fatalError(msg, tags):
	default:
	}
	l.log(slog.LevelError, msg, tags)
	runtime.Goexit()
}

func fatalError(msg string, tags []tag.Tag) error {
	for _, t := range tags {
		if t.Key() == "error" {
			return fmt.Errorf("%s: %v", msg, t.Value())
		}
	}
	return errors.New(msg)
}

// Panic panics, as the server expects.
func (l *serverLog) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// DPanic logs an error: it panics only in builds for the server's developers.
func (l *serverLog) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Error logs an error.
func (l *serverLog) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Warn logs a warning, except about the missing HTTP API, which is off on purpose.
func (l *serverLog) Warn(msg string, tags ...tag.Tag) {
	if !strings.HasPrefix(msg, "HTTP API port has not been set") {
		l.log(slog.LevelWarn, msg, tags)
	}
}

// Info drops the message: the server logs too much.
func (l *serverLog) Info(string, ...tag.Tag) {}

// Debug drops the message.
func (l *serverLog) Debug(string, ...tag.Tag) {}

// With is a logger that adds tags to every message. The server makes one for nearly each
// request, and logs next to nothing with them.
func (l *serverLog) With(tags ...tag.Tag) log.Logger {
	return &serverLog{to: l.to, tags: slices.Concat(l.tags, tags), shared: l.shared}
}

func (l *serverLog) log(level slog.Level, msg string, tags []tag.Tag) {
	if l.shared.silent.Load() || !l.to.Enabled(context.Background(), level) {
		return
	}
	l.to.LogAttrs(context.Background(), level, msg, attrs(slices.Concat(l.tags, tags))...)
}

func attrs(tags []tag.Tag) []slog.Attr {
	list := make([]slog.Attr, len(tags))
	for i, t := range tags {
		list[i] = slog.Any(t.Key(), t.Value())
	}
	return list
}
