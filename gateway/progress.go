package gateway

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/visible"
)

// A report is what a client that wants progress is told: steps that start and end,
// what scripts and backends say, and numbers that only grow.
type report struct {
	*rendering
	running map[string]bool // step paths
	done    float64
	total   float64 // 0 = unknown
	counts  bool    // a script says what done and total are
	poller  *progressPoller
}

func newReport(r *rendering) *report { return &report{rendering: r, running: map[string]bool{}} }

// start has backends asked for the progress of steps from now on.
func (s *report) start() { s.poller = newProgressPoller(s.at.Token) }

func (s *report) stop() {
	if s.poller != nil {
		s.poller.timer.Stop()
	}
}

// count takes over how far the run is.
func (s *report) count(e runs.Event) {
	if e.Total > 0 || e.ByScript {
		s.done, s.total, s.counts = e.Done, e.Total, e.ByScript
	}
}

// recall takes note of what the client was told by the stream before this one.
// What is open catchUp has found out.
func (s *report) recall(e runs.Event) {
	if e.Kind == runs.EventStep && e.StepEnded {
		delete(s.running, string(e.StepPath))
	} else if e.Kind == runs.EventStep {
		s.running[string(e.StepPath)] = true
	}
}

// step tells of a step that started or ended.
func (s *report) step(e runs.Event) {
	if e.StepEnded {
		delete(s.running, string(e.StepPath))
		s.say(fmt.Sprintf("%s: %s", e.StepPath, e.StepStatus))
		return
	}
	s.running[string(e.StepPath)] = true
	s.poller.began()
	message := string(e.StepPath)
	if e.What != "" {
		message += ": " + e.What
	}
	s.say(message)
}

// underWay are the paths of the steps that run.
func (s *report) underWay() []string { return slices.Sorted(maps.Keys(s.running)) }

func (s *report) status() string {
	if len(s.running) > 0 {
		return "running: " + strings.Join(s.underWay(), ", ")
	}
	return "running"
}

// say sends a progress notification to a client that wants them.
func (s *report) say(message string) { s.tell(message, nil) }

// tell sends one with more in its _meta.
func (s *report) tell(message string, meta map[string]any) {
	if isNull(s.at.Token) {
		return
	}
	next, total := advance(s.at.Progress, s.done), s.total
	if s.counts || total == 0 {
		next = inch(s.at.Progress, s.done, total)
	}
	switch {
	case total == 0 || next <= total:
	case s.counts: // it goes on after all that it has counted
		total = 0
	default:
		s.x.out.comment()
		return
	}
	s.at.Progress = next
	s.notify(mcp.MethodNotificationProgress, progressParams{
		Token: s.at.Token, Progress: next, Total: total, Message: visible.Text(message), Meta: s.metaWith(meta)})
}

func (s *report) metaWith(more map[string]any) map[string]any {
	meta := s.taskMeta()
	if meta == nil {
		return more
	}
	maps.Copy(meta, more)
	return meta
}

// advance is the next progress value: more than the last one, and between done
// and done+1 as long as done steps are done: done, +1/2, +2/3, +3/4, …
func advance(last, done float64) float64 {
	base := max(math.Floor(last), done)
	f := last - base
	if f < 0 {
		return base
	}
	k := math.Round(f/(1-f)) + 1
	return base + k/(k+1)
}

// inch is the next progress value where a script counts, or nobody does: what is
// done, or so little more than the last one that no bar shows it.
func inch(last, done, total float64) float64 {
	if done > last {
		return done
	}
	unit := max(total, 1) / 1e6
	if next := math.Round((last+unit)*1e9) / 1e9; next > last {
		return next
	}
	return math.Nextafter(last, math.Inf(1)) // a very large one
}
