package gateway

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/visible"
)

// Backends tell the worker of their progress, and the worker Temporal, about
// once a second. That is no event which could be waited for, so a stream looks:
// every second while there is something new to tell, and more and more seldom
// while there is not.
const (
	firstLook = time.Second
	lastLook  = 5 * time.Second
	// How many steps are told of after one look; the others have their turn
	// after the next.
	mostTold = 5
)

// A lookout finds out what backends say of the steps under way. It belongs to
// the goroutine of its stream; only the looking itself is done by another.
type lookout struct {
	s     *stream
	timer *time.Timer
	pause time.Duration
	seen  chan []runs.StepProgress // what one look found
	told  map[runs.StepPath]runs.StepProgress
}

// newLookout looks for clients that want progress; for others it does nothing.
func newLookout(s *stream) *lookout {
	l := &lookout{s: s, timer: time.NewTimer(firstLook), pause: firstLook, seen: make(chan []runs.StepProgress, 1),
		told: map[runs.StepPath]runs.StepProgress{}}
	if isNull(s.at.Token) {
		l.timer.Stop()
	}
	return l
}

// began has a step that started looked after soon.
func (l *lookout) began() {
	if l.pause > firstLook && !isNull(l.s.at.Token) && l.timer.Stop() { // otherwise a look is under way
		l.again(firstLook)
	}
}

func (l *lookout) again(pause time.Duration) {
	l.pause = pause
	l.timer.Reset(pause)
}

// look asks what is under way, without keeping the stream waiting.
func (l *lookout) look(ctx context.Context) {
	if len(l.s.running) == 0 {
		l.again(lastLook) // costs nothing
		return
	}
	go func() {
		found, err := l.s.on.runs.Progress(ctx, l.s.at.Run)
		if err != nil && ctx.Err() == nil {
			l.s.on.log.Debug("reading the progress of a run", "run", l.s.at.Run, "error", err)
		}
		l.seen <- found
	}()
}

// tell tells the client what is new, if anything is, and plans the next look.
func (l *lookout) tell(found []runs.StepProgress) (told bool) {
	news := slices.DeleteFunc(found, func(p runs.StepProgress) bool {
		return p.StepPath == "" || p.Progress == 0 && p.Message == "" || l.told[p.StepPath] == p
	})
	for _, p := range news[:min(len(news), mostTold)] {
		l.told[p.StepPath] = p
		l.s.progress(progressMessage(p))
	}
	if len(news) > 0 {
		l.again(firstLook)
	} else {
		l.again(min(l.pause*3/2, lastLook))
	}
	return len(news) > 0
}

// progressMessage names the step and says what its backend does: "upload: part
// two (3 of 7)".
func progressMessage(p runs.StepProgress) string {
	count := strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total > 0 {
		count += " of " + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	switch {
	case p.Message == "":
		return string(p.StepPath) + ": " + count
	case p.Progress == 0 && p.Total == 0:
		return string(p.StepPath) + ": " + p.Message
	}
	return fmt.Sprintf("%s: %s (%s)", p.StepPath, p.Message, count)
}

// keepAlive shows that the call is alive. Clients count progress, proxies count
// bytes: a comment goes out every time, progress every other time.
func (s *stream) keepAlive(quiet bool) {
	if !quiet || isNull(s.at.Token) {
		s.x.out.comment()
		return
	}
	s.progress(s.status())
}

func (s *stream) status() string {
	switch {
	case len(s.gates) > 0:
		return waitsFor(s.gates[0].Elicitation)
	case len(s.running) > 0:
		return "running: " + strings.Join(slices.Sorted(maps.Keys(s.running)), ", ")
	}
	return "running"
}

// progress sends a progress notification to a client that wants them.
func (s *stream) progress(message string) { s.tell(message, nil) }

// tell sends one with more in its _meta.
func (s *stream) tell(message string, meta map[string]any) {
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
	s.x.notify(s.place(), mcp.MethodNotificationProgress, progressParams{
		Token: s.at.Token, Progress: next, Total: total, Message: visible.Text(message), Meta: s.metaWith(meta)})
}

func (s *stream) metaWith(more map[string]any) map[string]any {
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
