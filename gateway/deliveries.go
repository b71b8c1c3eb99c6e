package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Deliveries note, for all replicas, which results were delivered. What comes
// while one note is on its way goes with the next.
type deliveries struct {
	runs    Runs
	answers Answers       // nil = none are kept
	window  time.Duration // in which a call may be one sent again
	now     func() time.Time
	ends    chan struct{} // closed when this process ends
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[string][]runs.RunID // by caller; none = a note is on its way
	noting  sync.WaitGroup
}

const (
	// deliveryPause is the time between notes about one caller, since a history takes
	// 10,000.
	deliveryPause = 20 * time.Millisecond
	// maxDeliveryPause is the longest before a note that has failed is made again.
	maxDeliveryPause = 5 * time.Second
)

// add notes a delivery soon.
func (d *deliveries) add(caller string, run runs.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[string][]runs.RunID{}
	}
	_, noting := d.waiting[caller]
	d.waiting[caller] = append(d.waiting[caller], run)
	if !noting {
		d.start(func() { d.note(caller) })
	}
}

// soon does something that Close waits for.
func (d *deliveries) soon(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.start(do)
}

// start begins a note. A request that was cut off may come after Close, which then does
// not wait for it.
func (d *deliveries) start(do func()) {
	select {
	case <-d.ends:
		go do()
	default:
		d.noting.Go(do)
	}
}

// wait waits until what was delivered is noted, once more at most. It is called once.
func (d *deliveries) wait() {
	d.mu.Lock()
	close(d.ends)
	d.mu.Unlock()
	d.noting.Wait()
}

// note notes what waits until there is no more.
func (d *deliveries) note(caller string) {
	for all := d.take(caller); all != nil; all = d.take(caller) {
		d.noteAll(caller, all)
		time.Sleep(deliveryPause)
	}
}

// noteAll makes one note, again while Temporal is away: until it has the note, other
// replicas give the results to equal calls.
func (d *deliveries) noteAll(caller string, all []runs.RunID) {
	until := time.Now().Add(d.window)
	for pause := deliveryPause; ; pause = min(2*pause, maxDeliveryPause) {
		ctx, cancel := context.WithTimeout(context.Background(), detachedLimit)
		err := d.runs.Deliver(ctx, caller, all)
		cancel()
		if err == nil {
			return
		}
		d.log.Warn("cannot record the delivery of results; equal calls may get them again for a while", "runs", all, "error", err)
		if !errors.Is(err, runs.ErrUnavailable) || time.Now().After(until) {
			return
		}
		select {
		case <-time.After(pause):
		case <-d.ends:
			return
		}
	}
}

func (d *deliveries) take(caller string) []runs.RunID {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.waiting[caller]
	if len(all) == 0 {
		delete(d.waiting, caller)
		return nil
	}
	d.waiting[caller] = nil
	return all
}

// Answers keep, for the process that is started next beside the same runs, which of
// them had their result written to a client: what Deliveries may not have when a
// process is killed.
type Answers interface {
	// Note keeps that the result of a run is about to be written, or, with answered
	// false, that it could not be. It takes no longer than writing to a file.
	Note(run string, answered bool) error
	// Answered reports whether a process before this one has written the result.
	Answered(run string) bool
}

// answering records that the result of a call is about to be written. All replicas
// learn that it was, once it was: a result that a killed gateway may not have written is
// given again, and nothing is executed twice.
func (d *deliveries) answering(x *exchange, id runs.RunID, answered bool) {
	if !x.countsAnswer || d.answers == nil || answered && web.Left(x.connected) {
		return
	}
	if err := d.answers.Note(string(id), answered); err != nil {
		d.log.Warn("cannot record the delivery of a result; after a restart, an equal call may get it again", "run", id, "error", err)
	}
}

// wasAnswered reports whether a client was given an answer for a run that has
// ended: before its end, or its result. What was delivered just now may not be
// noted yet.
func (d *deliveries) wasAnswered(ctx context.Context, callerID string, run *runs.Run) (bool, error) {
	if d.answers != nil && d.answers.Answered(string(run.ID)) {
		return true, nil
	}
	notes := answerNotes{}
	for e, err := range d.runs.Follow(ctx, run.ID, 0, runs.AllEvents) {
		if err != nil {
			return false, err
		}
		if e.Kind == runs.EventAttended {
			notes.add(e.Attended)
		}
	}
	if notes.outstanding() {
		return true, nil
	}
	since, noted := *run.Closed, time.Now().Add(rollCall)
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		delivered, err := d.runs.Delivered(ctx, callerID, run.ID, since)
		since = d.now()
		if err != nil || delivered || time.Now().After(noted) {
			return delivered, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
