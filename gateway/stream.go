package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// A stream renders one run to one client, until there is a response or the
// client is gone. Its state belongs to the goroutine that runs it; what other
// requests of the client lead to comes with the events of the run.
type stream struct {
	*rendering
	asker  *asker
	report *report

	late        bool  // patience has run out
	quarantined bool  // the run is quarantined
	mustCatchUp bool  // catchUp has to be called again
	rendered    int64 // Seq of the last event that the stream before this one has rendered
}

func newStream(r *rendering) *stream {
	asks := &asker{rendering: r}
	return &stream{rendering: r, asker: asks, report: newReport(r, asks), rendered: r.at.Seq}
}

// run handles what happens until the call is answered.
func (s *stream) run(ctx context.Context) {
	events := follow(ctx, s.on.runs, s.at.Run, 0, s.interest()) // from the first on: what the client knows reports how far the run is
	tick := time.NewTicker(max(s.on.timing.KeepAlive/2, time.Millisecond))
	defer tick.Stop()
	patience := s.patienceTimer()
	cancelled, draining := s.x.cancelled(), s.on.drain.begun()
	s.report.start()
	quiet := false
	for answered := false; !answered; {
		select {
		case e, ok := <-events:
			answered = s.receive(ctx, e, ok)
			quiet = false
		case <-patience:
			s.late = true
		case <-s.report.due():
			s.report.poll(ctx)
		case found := <-s.report.found():
			quiet = !s.report.news(found) && quiet
		case <-tick.C:
			s.asker.reask()
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
		if !answered && s.isLate() {
			answered = s.giveHandle()
		}
	}
}

// interest is which events of the run matter: a client that wants no progress gets
// nothing of the others, but for what is under way in a handle that it is soon given.
func (s *stream) interest() runs.Interest {
	if isNull(s.at.Token) && s.patience == nil && !(s.resumed && s.x.dialect.keepsQuestions()) {
		return runs.Essentials
	}
	return runs.AllEvents
}

func (s *stream) patienceTimer() <-chan time.Time {
	d := s.on.timing.Patience
	switch {
	case s.patience != nil:
		d = *s.patience
	case s.x.dialect.tasked(s.rendering):
		d = s.on.timing.TaskPatience
	}
	if d < 0 {
		return nil
	}
	return time.After(d)
}

// isLate reports whether the client has waited for long enough.
func (s *stream) isLate() bool { return s.late || s.asker.urgent }

// receive handles an event and reports whether the call is answered now.
func (s *stream) receive(ctx context.Context, f followed, ok bool) bool {
	if !ok || f.err != nil {
		return s.lost(ctx, f.err)
	}
	if s.mustCatchUp {
		if err := s.catchUp(ctx); err != nil {
			return s.lost(ctx, err)
		}
		if s.ask() {
			return true
		}
	}
	e := f.event
	s.x.lastSeq = e.Seq
	if e.Kind == runs.EventAttended {
		if s.x.name != "" && s.x.isThere() {
			go s.on.attendance.respondsTo(ctx, s.at.Run, s.x, e)
		}
		return false
	}
	s.report.count(e)
	if e.Seq <= s.rendered && e.Kind != runs.EventDone {
		s.report.recall(e)
		return false
	}
	s.at.Seq = e.Seq
	return s.show(ctx, e)
}

// show tells the client of an event, and reports whether that answers the call.
func (s *stream) show(ctx context.Context, e runs.Event) bool {
	switch e.Kind {
	case runs.EventStep:
		s.report.step(e)
	case runs.EventSaid:
		s.report.said(e)
	case runs.EventQuarantined:
		s.quarantined = true
		s.report.notifyText("the run is " + quarantinedWords)
	case runs.EventReleased:
		s.quarantined = false
		s.report.notifyText("the run was released by an operator")
	case runs.EventOpened:
		return s.opened(ctx, e)
	case runs.EventQuestion:
		s.asker.learn(e.Elicitation, e.Question)
	case runs.EventClosed:
		s.asker.closed(e.Elicitation)
		s.report.closed(e)
	case runs.EventDone:
		s.x.runEnded = true
		s.on.deliveries.answering(s.x, s.at.Run, true)
		s.finish(s.on.results.ended(s.x.client, s.at.Run, e.Outcome), string(e.Outcome.Status))
		return true
	}
	return false
}

// opened asks about an elicitation, if it is still open, and those beside it: a client
// that is asked by ending its request is to be asked about all. Where the run is older
// than the call the event may be old, so that the run is read.
func (s *stream) opened(ctx context.Context, e runs.Event) (answered bool) {
	run, err := &runs.Run{Elicitations: e.Beside}, error(nil)
	if s.resumed || s.at.Attached {
		run, err = s.on.runs.Get(ctx, s.at.Run)
	}
	if err == nil {
		s.know(run)
	} else {
		s.asker.add(*e.Elicitation)
	}
	if s.asker.find(e.Elicitation.ID) >= 0 {
		s.report.opened(*e.Elicitation)
	}
	return s.ask()
}

// know takes over the state of a run.
func (s *stream) know(run *runs.Run) {
	s.quarantined = run.Status == runs.Quarantined
	s.asker.know(run)
}

// ask puts to the client what is open, in the way of its era.
func (s *stream) ask() (answered bool) {
	now := s.asker.unasked()
	return len(now) > 0 && s.x.dialect.ask(s, now)
}

// lost answers when the run cannot be followed any longer.
func (s *stream) lost(ctx context.Context, err error) bool {
	var full *web.FullError
	switch {
	case ctx.Err() != nil:
		s.x.out.cut()
	case errors.Is(err, runs.ErrNotFound):
		s.finish(errorResult(s.at.Run, err), "unknown")
	case s.task != "" && (errors.As(err, &full) || errors.Is(err, runs.ErrUnread)): // others get a handle, with which they read the result later
		s.on.results.failed(s.x, s.at.Run, err)
	default:
		s.on.log.WarnContext(ctx, "cannot follow a run any longer", "run", s.at.Run, "error", err)
		s.leave()
	}
	return true
}

// catchUp finds out what is open in a run that the client has partly seen, and may
// still see: the right may be gone, or the run may have been replaced by another
// caller's with the same business key. After a transient error it is called again
// before the client hears of the run.
func (s *stream) catchUp(ctx context.Context) error {
	if !s.resumed {
		return nil
	}
	run, err := s.on.rights.permittedOn(ctx, s.x.who, auth.See, s.at.Run, s.renderOptions.run)
	if s.mustCatchUp = err != nil; err == nil {
		s.know(run)
	}
	return err
}

// giveHandle answers a client that has waited long enough, unless it has been
// asked something itself and may answer.
func (s *stream) giveHandle() (answered bool) {
	if s.x.dialect.tasked(s.rendering) && s.handOutTask() {
		return true
	}
	if s.asker.isOpen() || ((s.x.canAsk || s.x.canOpen) && s.x.streams && !s.asker.isMuted() && s.patience == nil) {
		return false
	}
	s.handOut()
	return true
}

// leave answers because this process goes, or cannot follow the run: a client that can
// come back does so, another one gets a handle.
func (s *stream) leave() (answered bool) {
	switch {
	case s.x.dialect.resumable(s.x.client):
		s.x.out.cut()
	case s.task != "":
		s.x.fail(mcp.INTERNAL_ERROR, "the server is stopping and nothing is lost; repeat the request")
	case !s.x.dialect.tasked(s.rendering) || !s.handOutTask():
		s.handOut()
	}
	return true
}

// handOut answers with a handle on the run, or with the pages on which it is
// answered.
func (s *stream) handOut() {
	open, pages := s.asker.handOver()
	if len(pages) > 0 && s.x.dialect.refers(s.rendering) {
		s.x.refer(pages)
		return
	}
	h := s.on.results.pending(s.at.Run, open, s.report.underWay())
	for i, gt := range s.asker.gates() {
		if gt.reason != "" {
			h.Questions[i].NotTaken = notTaken(gt.reason)
		}
	}
	if s.quarantined {
		h.Status = statusQuarantined
	}
	s.answer(h.result(s.on.tools.now().fits(s.at.Tool)), runState{Status: h.Status, ApprovalURL: h.ApprovalURL})
}

// abandoned ends a call that was cancelled, unless its run was, too: then the
// run shows how it ended.
func (s *stream) abandoned() (answered bool) {
	if s.x.overHTTP && s.x.endsRun() {
		return false
	}
	s.x.out.cut()
	return true
}

// keepAlive shows that the call is alive. Clients count progress, proxies count
// bytes: a comment goes out every time, progress every other time.
func (s *stream) keepAlive(quiet bool) {
	if !quiet || isNull(s.at.Token) {
		s.x.out.comment()
		return
	}
	s.report.notifyText(s.status())
}

// status reports what the run does.
func (s *stream) status() string {
	if gates := s.asker.gates(); len(gates) > 0 {
		return waitsFor(gates[0].Elicitation)
	}
	return s.report.status()
}
