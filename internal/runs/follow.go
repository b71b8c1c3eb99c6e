package runs

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/perdure/perdure/internal/runs/history"
)

// callTimeout is after how long a call that does not return is given up.
const callTimeout = time.Minute

// An Interest is which events of a run a follower wants.
type Interest int

// The interests. Where only essentials are wanted, the end of the run, its elicitations
// and the attendance of others come as soon as ever. All other events, and the closing of
// the last elicitation by an answer that a client gives to this process, may come late by
// half a second while the run is executed, and not at all before its end.
const (
	AllEvents Interest = iota
	Essentials
)

// Follow returns the events of a run after the one with the given Seq (0 = from the
// beginning), and then new ones, until the run has ended.
//
// The iteration ends after EventDone, or after an error: ErrNotFound, ErrUnread, or the
// end of ctx. A Temporal that cannot be reached is waited for.
func (r reader) Follow(ctx context.Context, id RunID, after int64, only Interest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := newStream(r.keys, id)
		for m, err := range r.live(ctx, id, only) {
			if err != nil {
				yield(Event{}, failure(ctx, "following", id, err))
				return
			}
			if err := r.awaitEnd(ctx, m); err != nil {
				yield(Event{}, failure(ctx, "following", id, err))
				return
			}
			for _, event := range s.add(m.Moment) {
				if event.Seq > after && (event.Kind != EventDone || m.last) && !yield(event, nil) {
					return
				}
			}
		}
	}
}

// awaitEnd waits until the outcome of the run can be read, if the moment is its end.
func (a *archive) awaitEnd(ctx context.Context, m moment) (err error) {
	for _, fact := range m.Facts {
		if end, ok := fact.(history.Ended); ok && m.last {
			var outcome *Outcome
			if outcome, err = a.readable(ctx, end.Outcome, end.Again); err == nil {
				*end.Outcome = *outcome
			}
		}
	}
	return err
}

// A moment is the content of one event of the history of a run.
type moment struct {
	history.Moment
	last bool // the run has not gone on in another execution
}

// live reads what has happened to a run, and then what happens, until the run has
// ended.
func (a *archive) live(ctx context.Context, id RunID, only Interest) iter.Seq2[moment, error] {
	return func(yield func(moment, error) bool) {
		f := &follower{archive: a, id: id, fold: a.fold(id), only: only, each: func(m moment) bool { return yield(m, nil) }}
		err := f.run(ctx)
		var gone *serviceerror.NotFound
		if f.had && errors.As(err, &gone) {
			err = ErrLost
		}
		if err != nil && !f.stopped {
			yield(moment{}, err)
		}
	}
}

// A follower is one iteration over what happens to a run.
type follower struct {
	archive *archive
	id      RunID
	fold    *history.Fold
	each    func(moment) bool // false: the caller wants no more
	stopped bool
	had     bool // Temporal had the run
	over    bool // the run has ended, and not gone on
	only    Interest
	news    *subscription
}

func (f *follower) run(ctx context.Context) error {
	started, fresh := f.archive.fresh.take(f.id)
	if f.news = started.news; f.news == nil {
		f.news = f.archive.news.subscribe(f.id)
	}
	defer f.news.cancel()
	f.had = fresh
	chain, err := []execution{{runID: started.execution, fresh: f.news != nil}}, error(nil)
	if !fresh {
		chain, err = f.chain(ctx)
	}
	if err != nil {
		return err
	}
	for begins := true; ; begins = false {
		for i, x := range chain {
			f.fold.Begin(x.runID, x.repeats(begins && i == 0))
			if err := f.execution(ctx, x, i == len(chain)-1); err != nil || f.stopped || f.over {
				return err
			}
		}
		if chain, err = f.following(ctx, chain[len(chain)-1]); err != nil {
			return err
		}
	}
}

// chain finds the executions of the run, the first one first.
func (f *follower) chain(ctx context.Context) (chain []execution, err error) {
	err = f.archive.patiently(ctx, func() (err error) {
		chain, err = f.archive.chain(ctx, f.id)
		return err
	})
	return chain, err
}

// following are the executions after last.
func (f *follower) following(ctx context.Context, last execution) ([]execution, error) {
	var all []execution
	err := f.archive.patiently(ctx, func() (err error) {
		all, err = f.archive.chain(ctx, f.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, x := range all {
		if x.runID == last.runID && i+1 < len(all) {
			return all[i+1:], nil
		}
	}
	return nil, serviceerror.NewNotFound("the execution that continues the run")
}

// execution reads one execution; the last one is waited for.
func (f *follower) execution(ctx context.Context, x execution, last bool) error {
	h := &historyReader{archive: f.archive, id: f.id, runID: x.runID, wait: last, fresh: x.fresh, essentials: f.only == Essentials}
	if last {
		h.news = f.news
	}
	if x.fresh {
		h.near = nearby
	}
	for e, err := range h.all(ctx) {
		if err != nil {
			return err
		}
		superseded := last && ended(e) && f.superseded(ctx, x)
		if err := f.archive.hold(ctx, e); err != nil {
			return err
		}
		f.had = true
		m := moment{f.fold.Add(e), last && !superseded}
		if !f.each(m) {
			f.stopped = true
			return nil
		}
		f.over = m.last && ends(m.Moment)
		if superseded {
			return nil
		}
	}
	return nil
}

// ends reports whether the execution has ended with the moment, and not continued
// as new.
func ends(m history.Moment) bool {
	for _, fact := range m.Facts {
		if _, ok := fact.(history.Ended); ok {
			return true
		}
	}
	return false
}

// superseded reports whether the run has gone on in another execution.
func (f *follower) superseded(ctx context.Context, x execution) bool {
	_, err := f.following(ctx, x)
	return err == nil
}

// patiently calls f until Temporal answers or ctx ends.
func (a *archive) patiently(ctx context.Context, f func() error) error {
	for pause := newBackoff(); ; {
		err := f()
		if err == nil || !unavailable(err) || ctx.Err() != nil || !pause.wait(ctx) {
			return err
		}
	}
}
