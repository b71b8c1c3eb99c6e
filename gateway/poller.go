package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// Backends report progress to the worker, and the worker to Temporal, about once a
// second. That is no event to wait for, so a stream polls: every second while there is
// news, and less and less often while there is none.
const (
	firstPoll = time.Second
	lastPoll  = 5 * time.Second
	// How many steps are reported after one poll; the others follow after the next.
	maxReported = 5
)

// due reports when the steps under way are to be looked after.
func (s *report) due() <-chan time.Time { return s.poller.timer.C }

// found is what poll has found.
func (s *report) found() <-chan []runs.StepProgress { return s.poller.seen }

// poll asks what is under way, without keeping the stream waiting.
func (s *report) poll(ctx context.Context) {
	if len(s.running) == 0 {
		s.poller.again(lastPoll) // costs nothing
		return
	}
	go func() {
		found, err := s.on.runs.Progress(ctx, s.at.Run)
		if err != nil && ctx.Err() == nil {
			s.on.log.Debug("cannot read the progress of a run", "run", s.at.Run, "error", err)
		}
		s.poller.seen <- found
	}()
}

// news sends the client what is new, and plans the next poll.
func (s *report) news(found []runs.StepProgress) (sent bool) {
	news := s.poller.news(s.named(found))
	for _, p := range news {
		state := &StepState{Path: p.StepPath, Status: StepRunning, What: p.Message, Error: p.Failure, Progress: p.Progress, Total: p.Total}
		if p.Attempt > 1 {
			state.Attempt = p.Attempt
		}
		s.notifyStep(progressMessage(p), state)
	}
	return len(news) > 0
}

// named gives calls that their workers have not reported yet the paths of their steps.
func (s *report) named(found []runs.StepProgress) []runs.StepProgress {
	paths := map[string]runs.StepPath{}
	for path, activity := range s.running {
		paths[activity] = path
	}
	for i, p := range found {
		if p.StepPath == "" && p.Activity != "" {
			found[i].StepPath = paths[p.Activity]
		}
	}
	return found
}

// A progressPoller plans when to poll, and knows what was sent.
type progressPoller struct {
	timer  *time.Timer
	wanted bool // the client wants progress
	pause  time.Duration
	seen   chan []runs.StepProgress // what one poll found
	sent   map[runs.StepPath]runs.StepProgress
}

// newProgressPoller looks for clients that want progress; for others it does nothing.
func newProgressPoller(token json.RawMessage) *progressPoller {
	l := &progressPoller{timer: time.NewTimer(firstPoll), wanted: !isNull(token), pause: firstPoll, seen: make(chan []runs.StepProgress, 1),
		sent: map[runs.StepPath]runs.StepProgress{}}
	if !l.wanted {
		l.timer.Stop()
	}
	return l
}

// began has a step that started looked after soon.
func (l *progressPoller) began() {
	if l.pause > firstPoll && l.wanted && l.timer.Stop() { // otherwise a poll is under way
		l.again(firstPoll)
	}
}

func (l *progressPoller) again(pause time.Duration) {
	l.pause = pause
	l.timer.Reset(pause)
}

// news is what was not sent yet; it plans the next poll.
func (l *progressPoller) news(found []runs.StepProgress) []runs.StepProgress {
	news := slices.DeleteFunc(found, func(p runs.StepProgress) bool {
		return p.StepPath == "" || p.Progress == 0 && p.Message == "" && p.Failure == "" || l.sent[p.StepPath] == p
	})
	if len(news) > 0 {
		l.again(firstPoll)
	} else {
		l.again(min(l.pause*3/2, lastPoll))
	}
	news = news[:min(len(news), maxReported)]
	for _, p := range news {
		l.sent[p.StepPath] = p
	}
	return news
}

// progressMessage names the step and reports what its backend does: "upload: part two
// (3 of 7)", or that it is called again.
func progressMessage(p runs.StepProgress) string {
	count := strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total > 0 {
		count += " of " + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	switch {
	case p.Progress == 0 && p.Message == "":
		return fmt.Sprintf("%s: attempt %d, since the one before failed: %s", p.StepPath, p.Attempt, p.Failure)
	case p.Message == "":
		return string(p.StepPath) + ": " + count
	case p.Progress == 0 && p.Total == 0:
		return string(p.StepPath) + ": " + p.Message
	}
	return fmt.Sprintf("%s: %s (%s)", p.StepPath, p.Message, count)
}
