package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
)

// A report is the progress that a client receives: starts and ends of steps, messages
// of scripts and backends, and numbers that only grow.
type report struct {
	*rendering
	asker   *asker
	running map[runs.StepPath]string // step paths, with the ID of the activity that makes the call; "" = none
	done    float64
	total   float64 // 0 = unknown
	counts  bool    // a script reports what done and total are
	poller  *progressPoller
}

func newReport(r *rendering, asks *asker) *report {
	return &report{rendering: r, asker: asks, running: map[runs.StepPath]string{}}
}

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

// recall takes over what the client received on the previous stream. catchUp has found
// the open elicitations.
func (s *report) recall(e runs.Event) {
	if e.Kind == runs.EventStep && e.StepEnded {
		delete(s.running, e.StepPath)
	} else if e.Kind == runs.EventStep {
		s.running[e.StepPath] = e.Activity
	}
}

// Statuses of a StepState whose step has not ended.
const (
	StepRunning = "running"
	StepWaiting = "waiting"
	StepSays    = "says" // its message comes from the step, whose status stays as it was
)

// A StepState is the progress of one step, for programs: _meta "perdure/step". Times
// are those of Temporal.
type StepState struct {
	Path     runs.StepPath `json:"path"`
	Status   string        `json:"status"`             // as above, or how the step ended, as runs show has it
	What     string        `json:"what,omitempty"`     // the tool, the question, or the step's own message
	Error    string        `json:"error,omitempty"`    // why it failed or was skipped or, while it runs, why its last attempt failed
	Attempt  int           `json:"attempt,omitempty"`  // from 2: the number of the attempt under way
	Progress float64       `json:"progress,omitempty"` // as its backend or script counts
	Total    float64       `json:"total,omitempty"`    // 0 = unknown
	Started  time.Time     `json:"started,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`

	Mode definitions.Mode `json:"mode,omitempty"` // url: what it asks is answered on the approvals page alone
}

// step reports the start or end of a step.
func (s *report) step(e runs.Event) {
	state := &StepState{Path: e.StepPath, Status: StepRunning, What: e.What, Started: e.StepStarted}
	if e.StepEnded {
		delete(s.running, e.StepPath)
		state.Status, state.Error, state.Ended = e.StepStatus, e.StepError, e.At
		message := fmt.Sprintf("%s: %s", e.StepPath, e.StepStatus)
		if e.StepStatus == runs.StepSkipped {
			message, state.Ended = message+": "+e.StepError, time.Time{}
		}
		s.notifyStep(message, state)
		return
	}
	s.running[e.StepPath] = e.Activity
	s.poller.began()
	message := string(e.StepPath)
	if e.What != "" {
		message += ": " + e.What
	}
	s.notifyStep(message, state)
}

// said reports a script's message.
func (s *report) said(e runs.Event) {
	state := &StepState{Path: e.StepPath, Status: StepSays, What: e.What}
	if e.ByScript {
		state.Progress, state.Total = e.Done, e.Total
	}
	s.notifyStep(e.What, state)
}

// opened reports an elicitation of a step.
func (s *report) opened(e runs.Elicitation) {
	s.notifyStep(waitsFor(e), &StepState{Path: e.StepPath, Status: StepWaiting, What: e.Message, Started: e.Opened, Mode: e.Mode})
}

// closed reports the outcome of an elicitation.
func (s *report) closed(e runs.Event) {
	is := e.Elicitation
	s.notifyStep(fmt.Sprintf("%s: %s", is.StepPath, cmp.Or(answerWords[is.Action], string(is.State))),
		&StepState{Path: is.StepPath, Status: runs.GateStatus(is.State), What: answerWords[is.Action], Started: is.Opened, Ended: e.At})
}

// answerWords report what an answer was.
var answerWords = map[string]string{"accept": "accepted", "decline": "declined", "cancel": "cancelled"}

// underWay are the paths of the steps that run.
func (s *report) underWay() (paths []string) {
	for _, path := range slices.Sorted(maps.Keys(s.running)) {
		paths = append(paths, string(path))
	}
	return paths
}

func (s *report) status() string {
	if len(s.running) > 0 {
		return "running: " + strings.Join(s.underWay(), ", ")
	}
	return "running"
}

// notifyText sends a progress notification, if the client wants them.
func (s *report) notifyText(message string) { s.notifyStep(message, nil) }

// notifyStep sends a notification about a step; nil = about none.
func (s *report) notifyStep(message string, step *StepState) {
	if isNull(s.at.Token) {
		return
	}
	next, total := advance(s.at.Progress, s.done), s.total
	if s.counts || total == 0 {
		next = smallStep(s.at.Progress, s.done, total)
	}
	switch {
	case total == 0 || next <= total:
	case s.counts || step != nil: // it continues after all that it has counted
		total = 0
	default:
		s.x.out.comment()
		return
	}
	s.at.Progress = next
	s.notify(mcp.MethodNotificationProgress, progressParams{
		Token: s.at.Token, Progress: next, Total: total, Message: view.Text(message), Meta: s.metaOf(step)})
}

// metaOf reports whose progress it is.
func (s *report) metaOf(step *StepState) map[string]any {
	run := runState{ID: s.at.Run, Status: statusRunning, ApprovalURL: s.on.results.page(s.at.Run)}
	if len(s.asker.gates()) > 0 || step != nil && step.Status == StepWaiting {
		run.Status = statusWaiting
	}
	meta := map[string]any{metaRun: run}
	if step != nil {
		meta[metaStep] = step
	}
	maps.Copy(meta, s.taskMeta())
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

// smallStep is the next progress value where a script counts, or none does: what is done, or
// the last one and a step too small for a bar to show.
func smallStep(last, done, total float64) float64 {
	if done > last {
		return done
	}
	unit := max(total, 1) / 1e6
	if next := math.Round((last+unit)*1e9) / 1e9; next > last {
		return next
	}
	return math.Nextafter(last, math.Inf(1)) // a very large one
}
