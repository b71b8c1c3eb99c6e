package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// A manner is how a run is rendered, beyond what the client is.
type manner struct {
	goesOn   bool              // there was a stream before this one; the cursor says how far it came
	patience *time.Duration    // nil = Options.Patience, for clients that cannot be asked
	reasons  map[string]string // why answers in this request were not taken, by elicitation
	pages    map[string]string // what the client said when it was asked to open the page, by elicitation
	task     string            // ID of the task whose tasks/result this is; "" = a call's
}

// Streams answer calls from the events of their runs.
type streams struct {
	runs       Runs
	rights     *rights
	tools      *toolset
	results    *results
	views      *taskViews
	questions  *questions
	roll       *attendance
	deliveries *deliveries
	deposits   *deposits
	tokens     *sealer
	timing     Timing
	drain      *drain
	log        *slog.Logger
}

// A stream renders one run to one client, until there is a response or the
// client is gone. Its state belongs to the goroutine that runs it; what other
// requests of the client lead to comes with the events of the run.
type stream struct {
	on *streams
	x  *exchange
	at cursor // what the next event's id says
	manner

	gates   []*gate // that are open, oldest first
	running map[string]bool
	done    float64
	total   float64 // 0 = unknown
	counts  bool    // a script says what done and total are
	lookout *lookout
	late    bool            // patience has run out
	held    bool            // the run is quarantined
	behind  bool            // catchUp has to be called again
	told    int64           // Seq of the last event that the stream before this one has rendered
	brought map[string]bool // backends for which the request's token was tried
}

// render answers a call from the events of a run.
func (ss *streams) render(ctx context.Context, x *exchange, at cursor, how manner) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stream{on: ss, x: x, at: at, told: at.Seq, manner: how, running: map[string]bool{}}
	defer s.close()
	// Whoever sees the stream open may answer what was asked on the one before.
	err := s.catchUp(ctx)
	s.x.dialect.prime(s)
	if errors.Is(err, runs.ErrNotFound) {
		s.finish(trouble(at.Run, err), "unknown")
		return
	}
	if !s.ask() && !(s.late && s.giveHandle()) {
		s.run(ctx)
	}
}

// run handles what happens until the call is answered.
func (s *stream) run(ctx context.Context) {
	events := follow(ctx, s.on.runs, s.at.Run, 0) // from the first on: what the client knows says how far the run is
	tick := time.NewTicker(max(s.on.timing.KeepAlive/2, time.Millisecond))
	defer tick.Stop()
	patience := s.patienceTimer()
	cancelled, draining := s.x.cancelled(), s.on.drain.begun()
	s.lookout = newLookout(s)
	defer s.lookout.timer.Stop()
	quiet := false
	for answered := false; !answered; {
		select {
		case e, ok := <-events:
			answered = s.followed(ctx, e, ok)
			quiet = false
		case <-patience:
			s.late = true
		case <-s.lookout.timer.C:
			s.lookout.look(ctx)
		case found := <-s.lookout.seen:
			quiet = !s.lookout.tell(found) && quiet
		case <-tick.C:
			s.reask()
			s.keepAlive(quiet)
			quiet = !quiet
		case <-cancelled:
			cancelled = nil
			answered = s.abandoned()
		case <-draining:
			draining = nil
			answered = s.leave()
		case <-ctx.Done():
			s.x.out.cut()
			return
		}
		if !answered && s.late {
			answered = s.giveHandle()
		}
	}
}

func (s *stream) patienceTimer() <-chan time.Time {
	d := s.on.timing.Patience
	switch {
	case s.patience != nil:
		d = *s.patience
	case s.x.dialect.tasked(s):
		d = s.on.timing.TaskPatience
	}
	if d < 0 {
		return nil
	}
	return time.After(d)
}

type followed struct {
	event runs.Event
	err   error
}

// follow has a run's events after one sent until ctx ends.
func follow(ctx context.Context, all Runs, id runs.RunID, after int64) <-chan followed {
	events := make(chan followed)
	feed := all.Follow(ctx, id, after)
	go func() {
		defer close(events)
		for e, err := range feed {
			select {
			case events <- followed{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// followLater follows a run that could not be followed just now.
func followLater(ctx context.Context, all Runs, id runs.RunID, after int64) <-chan followed {
	events := make(chan followed)
	go func() {
		defer close(events)
		select {
		case <-time.After(rollCall):
		case <-ctx.Done():
			return
		}
		for f := range follow(ctx, all, id, after) {
			select {
			case events <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// followed handles an event and reports whether the call is answered now.
func (s *stream) followed(ctx context.Context, f followed, ok bool) bool {
	if !ok || f.err != nil {
		return s.lost(ctx, f.err)
	}
	if s.behind {
		if err := s.catchUp(ctx); err != nil {
			return s.lost(ctx, err)
		}
		if s.ask() {
			return true
		}
	}
	e := f.event
	s.x.seen = e.Seq
	if e.Kind == runs.EventAttended {
		if s.x.name != "" && s.x.isThere() {
			go s.on.roll.respondsTo(ctx, s.at.Run, s.x, e)
		}
		return false
	}
	if e.Total > 0 || e.ByScript {
		s.done, s.total, s.counts = e.Done, e.Total, e.ByScript
	}
	if e.Seq <= s.told && e.Kind != runs.EventDone {
		s.recall(e)
		return false
	}
	s.at.Seq = e.Seq
	switch e.Kind {
	case runs.EventStep:
		s.step(e)
	case runs.EventSaid:
		s.progress(e.What)
	case runs.EventQuarantined:
		s.held = true
		s.progress("the run is " + quarantinedWords)
	case runs.EventReleased:
		s.held = false
		s.progress("the run was released by an operator")
	case runs.EventOpened:
		return s.opened(ctx, e.Elicitation)
	case runs.EventAsked:
		s.asked(e.Elicitation, e.Asking)
	case runs.EventClosed:
		s.closed(e.Elicitation)
	case runs.EventDone:
		s.x.ended = true
		s.on.deliveries.answering(s.x, s.at.Run, true)
		s.finish(s.on.results.ended(s.x.client, s.at.Run, e.Outcome), string(e.Outcome.Status))
		return true
	}
	return false
}

// recall takes note of what the client was told by the stream before this one.
// What is open catchUp has found out.
func (s *stream) recall(e runs.Event) {
	if e.Kind == runs.EventStep && e.StepEnded {
		delete(s.running, string(e.StepPath))
	} else if e.Kind == runs.EventStep {
		s.running[string(e.StepPath)] = true
	}
}

// lost answers when the run cannot be followed any longer.
func (s *stream) lost(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil:
		s.x.out.cut()
	case errors.Is(err, runs.ErrNotFound):
		s.finish(trouble(s.at.Run, err), "unknown")
	default:
		s.on.log.WarnContext(ctx, "cannot follow a run any longer", "run", s.at.Run, "error", err)
		s.leave()
	}
	return true
}

// step tells of a step that started or ended.
func (s *stream) step(e runs.Event) {
	if e.StepEnded {
		delete(s.running, string(e.StepPath))
		s.progress(fmt.Sprintf("%s: %s", e.StepPath, e.StepStatus))
		return
	}
	s.running[string(e.StepPath)] = true
	s.lookout.began()
	message := string(e.StepPath)
	if e.What != "" {
		message += ": " + e.What
	}
	s.progress(message)
}

// catchUp finds out what is open in a run of which the client has seen a part,
// and may still see: the right may be gone, and so may the run, with another
// one of somebody else's that has its ID by a business key. After an error that
// may pass it is called again before the client is told of the run.
func (s *stream) catchUp(ctx context.Context) error {
	if !s.goesOn {
		return nil
	}
	run, err := s.on.rights.permitted(ctx, s.x.who, auth.See, s.at.Run)
	if s.behind = err != nil; err == nil {
		s.know(run)
	}
	return err
}

// giveHandle answers a client that has waited long enough, unless it has been
// asked something itself and may answer.
func (s *stream) giveHandle() (answered bool) {
	if s.x.dialect.tasked(s) && s.handOutTask() {
		return true
	}
	asking := slices.ContainsFunc(s.gates, func(g *gate) bool { return len(g.asked) > 0 })
	muted := slices.ContainsFunc(s.gates, func(g *gate) bool { return g.mute })
	if asking || ((s.x.canAsk || s.x.canOpen) && s.x.streams && !muted && s.patience == nil) {
		return false
	}
	s.handOut()
	return true
}

// leave answers because this process goes, or cannot follow the run: whoever
// can come back does so, the others get a handle.
func (s *stream) leave() (answered bool) {
	switch {
	case s.x.dialect.resumable(s.x.client):
		s.x.out.cut()
	case s.task != "":
		s.x.fail(mcp.INTERNAL_ERROR, "the server stops, nothing is lost: repeat the request")
	case !s.x.dialect.tasked(s) || !s.handOutTask():
		s.handOut()
	}
	return true
}

func (s *stream) handOut() {
	var open []runs.Elicitation
	var pages []elicitParams
	for _, gt := range s.gates {
		s.withdraw(gt, "the call has ended, its run goes on")
		open = append(open, gt.Elicitation)
		if gt.way == byURL {
			pages = append(pages, s.params(gt))
		}
	}
	if len(pages) > 0 && s.x.dialect.refers(s) {
		s.x.refer(pages)
		return
	}
	h := s.on.results.pending(s.at.Run, open, slices.Sorted(maps.Keys(s.running)))
	for i, gt := range s.gates {
		if gt.reason != "" {
			h.Questions[i].NotTaken = notTaken(gt.reason)
		}
	}
	if s.held {
		h.Status = statusQuarantined
	}
	s.answer(h.result(s.on.tools.now().fits(s.at.Tool)), runState{Status: h.Status, ApprovalURL: h.ApprovalURL})
}

// finish sends the response.
func (s *stream) finish(r *result, status string) { s.answer(r, runState{Status: status}) }

// answer sends the response, with what it says of the run.
func (s *stream) answer(r *result, state runState) {
	state.ID, state.Attached = s.at.Run, s.at.Attached
	r.set(metaRun, state)
	for key, value := range s.taskMeta() {
		r.set(key, value)
	}
	s.x.respond(s.place(), s.on.results.finish(s.x.client, r))
}

// abandoned ends a call that was cancelled, unless its run was, too: then the
// run shows how it ended.
func (s *stream) abandoned() (answered bool) {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	if s.x.ends != "" && !s.x.outlives && s.x.overHTTP {
		return false
	}
	s.x.out.cut()
	return true
}

func (s *stream) close() {
	for _, gt := range s.gates {
		for _, id := range gt.asked {
			s.on.questions.close(id, s)
		}
	}
}

func (s *stream) place() string { return s.x.dialect.place(s) }
