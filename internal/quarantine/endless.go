package quarantine

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/log"
)

// deadlock is the code of the SDK for workflow code that has not yielded for as long as
// it may. The code cannot be stopped: it goes on, and may take memory.
const deadlock = "[TMPRL1101]"

// Logger is for the client of the worker, instead of its own logger, to which it passes
// everything on: only there does the SDK say that code of a workflow is endless. A task
// that merely takes long, such as the replay of a long history on a busy machine, ends by
// itself.
func (g *Guard) Logger(own log.Logger) log.Logger { return watching{own, g} }

type watching struct {
	log.Logger
	guard *Guard
}

func (w watching) Error(message string, keyvals ...any) {
	run, err := "", ""
	for i := 0; i+1 < len(keyvals); i += 2 {
		switch keyvals[i] {
		case "RunID":
			run = fmt.Sprint(keyvals[i+1])
		case "Error":
			err = fmt.Sprint(keyvals[i+1])
		}
	}
	if strings.Contains(err, deadlock) {
		w.guard.isStuck(run)
	}
	w.Logger.Error(message, keyvals...)
}

// isStuck notes that the code of an execution is endless, if its task is executed alone.
func (g *Guard) isStuck(execution string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.only != nil && g.only.run.GetRunId() == execution {
		g.endless[g.only.mark.Number] = true
	}
}

// isEndless reports whether the code of a try of this process is still running. The
// process has survived its other tries, or executes one of them.
func (g *Guard) isEndless(number int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.endless[number]
}
