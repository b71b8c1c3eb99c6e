package gateway

import (
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// Served is what this replica knows of the runs that it has served. What it
// forgets, or another replica knows, is asked of the runs.
type served struct {
	mu    sync.Mutex
	runs  map[runs.RunID]*servedRun
	count map[string]seriesCount
}

// A seriesCount is how many runs of a call there are in an era at least; final = there will
// be no more.
type seriesCount struct {
	next  int
	final bool
}

type servedRun struct {
	waiting  []*exchange    // the requests whose clients wait here, or did until just now
	answered bool           // a client was given an answer, with which it does not come back
	asked    int            // clients that were asked something, which is not noted yet: they may continue at another replica
	until    time.Time      // when it may be forgotten, if no request waits
	heard    map[int64]bool // Seq of the roll calls to which a request here responds
}

// maxServed bounds the runs and series of calls about which more is kept than that they
// are under way.
const maxServed = 20_000

// begin notes that the client of a request waits for a run. Who watches does not
// count: a call whose answer was lost would be made twice.
func (s *served) begin(id runs.RunID, x *exchange) {
	if x.watches {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[runs.RunID]*servedRun{}
	}
	if s.runs[id] == nil {
		s.runs[id] = &servedRun{}
	}
	if r := s.runs[id]; !slices.Contains(r.waiting, x) {
		r.waiting = append(r.waiting, x)
	}
}

// assign has a run that ended unanswered be that of a request, unless another request
// here has it: two calls that are sent again at once are two, and not both the one.
func (s *served) assign(id runs.RunID, x *exchange) bool {
	if s.settled(id) {
		return false
	}
	s.begin(id, x)
	s.mu.Lock()
	defer s.mu.Unlock()
	there := slices.IndexFunc(s.runs[id].waiting, (*exchange).isThere)
	if there < 0 || s.runs[id].waiting[there] == x { // the first one present
		return true
	}
	s.runs[id].leave(x)
	return false
}

// leave notes that it does not any more, if end has not.
func (s *served) leave(id runs.RunID, x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		r.leave(x)
	}
}

func (r *servedRun) leave(x *exchange) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w *exchange) bool { return w == x })
}

// end notes that it does not any more, and reports whether one was answered
// before.
func (s *served) end(id runs.RunID, x *exchange, answered bool, now time.Time, window time.Duration) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return false
	}
	known = r.answered
	r.leave(x)
	switch {
	case answered && x.asks && x.countsAnswer:
		r.asked++
	case answered:
		r.answered = true
	}
	r.until = now.Add(max(window, minBack))
	if len(s.runs) <= maxServed {
		return known
	}
	for other, r := range s.runs { // those whose time is over; of far too many, any
		if len(r.waiting) == 0 && (r.until.Before(now) || len(s.runs) > 2*maxServed) {
			delete(s.runs, other)
		}
	}
	return known
}

// noted records that the history of the run has that a client was asked.
func (s *served) noted(id runs.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		r.asked--
	}
}

// settle notes that a run that has ended has not lost its client, as was found out.
func (s *served) settle(id runs.RunID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[runs.RunID]*servedRun{}
	}
	if r := s.runs[id]; r == nil && len(s.runs) < maxServed || r != nil && len(r.waiting) == 0 {
		s.runs[id] = &servedRun{answered: true, until: now.Add(minBack)}
	}
}

// settled reports whether a run is known not to have lost its client.
func (s *served) settled(id runs.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	return r != nil && (r.answered || r.asked > 0 || slices.ContainsFunc(r.waiting, (*exchange).isThere))
}

// attended reports whether a client waits here for a run that was not answered.
func (s *served) attended(id runs.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	return r != nil && !r.answered && r.asked == 0 && len(r.waiting) > 0
}

// respondsFirst reports whether a request here is the first to respond to a roll call:
// one is enough, and each that waits would be as many signals as requests that ask,
// squared.
func (s *served) respondsFirst(id runs.RunID, seq int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return true
	}
	if r.heard[seq] {
		return false
	}
	if r.heard == nil {
		r.heard = map[int64]bool{}
	}
	r.heard[seq] = true
	return true
}

// next is the number of the next run in a series, as far as it is known.
func (s *served) next(series string) (next int, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.count[series]
	return c.next, c.final
}

func (s *served) counted(series string, next int, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil || len(s.count) >= maxServed {
		s.count = map[string]seriesCount{}
	}
	before := s.count[series]
	s.count[series] = seriesCount{next: max(before.next, next), final: before.final || final}
}
