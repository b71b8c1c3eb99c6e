package main

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// Bounds of a logWriter.
const (
	logPatience = 100 * time.Millisecond // for a line, before the reader of the log counts as hung
	logLines    = 10_000                 // that wait for a reader that hangs
	logBytes    = 1 << 20                // that they have
)

// A logWriter writes a log whose reader may hang, so that its pipe is full: what logs
// never waits for that for long. A line is written before Write returns; while the reader
// hangs, lines wait in memory, and those beyond its bounds are dropped and counted.
type logWriter struct {
	to      io.Writer
	dropped func(lines int64) // says in the log that lines were dropped
	queue   chan logLine
	bytes   atomic.Int64 // in queue
	lost    atomic.Int64 // lines that were dropped, and are not in the log yet
	hangs   atomic.Bool
}

type logLine struct {
	text    []byte
	written chan struct{} // is closed then
}

// newLogWriter writes to a writer for as long as the process lives.
func newLogWriter(to io.Writer, dropped func(lines int64)) *logWriter {
	w := &logWriter{to: to, dropped: dropped, queue: make(chan logLine, logLines)}
	go w.run()
	return w
}

// Write never fails.
func (w *logWriter) Write(text []byte) (int, error) {
	line := logLine{bytes.Clone(text), make(chan struct{})}
	if !w.enqueue(line) {
		w.lost.Add(1)
		return len(text), nil
	}
	if w.hangs.Load() {
		return len(text), nil
	}
	timer := time.NewTimer(logPatience)
	defer timer.Stop()
	select {
	case <-line.written:
	case <-timer.C:
		w.hangs.Store(true)
	}
	return len(text), nil
}

func (w *logWriter) enqueue(line logLine) bool {
	if w.bytes.Add(int64(len(line.text))) <= logBytes {
		select {
		case w.queue <- line:
			return true
		default:
		}
	}
	w.bytes.Add(-int64(len(line.text)))
	return false
}

func (w *logWriter) run() {
	for line := range w.queue {
		_, _ = w.to.Write(line.text) // there is nowhere to say that it failed
		w.bytes.Add(-int64(len(line.text)))
		if len(w.queue) == 0 {
			if lost := w.lost.Swap(0); lost > 0 {
				w.dropped(lost)
			}
			w.hangs.Store(false)
		}
		close(line.written)
	}
}
