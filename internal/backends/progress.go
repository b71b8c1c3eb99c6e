package backends

import (
	"math"
	"strconv"
	"sync"

	"golang.org/x/time/rate"
)

// A progressRouter gives progress to its call: mcp-go's client has the same handlers for all
// calls.
type progressRouter struct {
	mu    sync.Mutex
	last  int64
	sinks map[string]*progressSink
}

type progressSink struct {
	mu   sync.Mutex
	tell func(Progress) // nil when the call has ended
	last float64
	rate *rate.Limiter
}

// Limits of the progress of one call, at once and per second. More is dropped.
const (
	progressAtOnce = 100
	progressRate   = 20

	maxProgressMessage = 4 << 10 // bytes
)

func (r *progressRouter) add(tell func(Progress)) (token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sinks == nil {
		r.sinks = map[string]*progressSink{}
	}
	r.last++
	token = "p" + strconv.FormatInt(r.last, 10)
	r.sinks[token] = &progressSink{tell: tell, last: math.Inf(-1), rate: rate.NewLimiter(progressRate, progressAtOnce)}
	return token
}

// remove ends the progress of a call.
func (r *progressRouter) remove(token string) {
	r.mu.Lock()
	sink := r.sinks[token]
	delete(r.sinks, token)
	r.mu.Unlock()
	sink.mu.Lock()
	defer sink.mu.Unlock()
	sink.tell = nil
}

func (r *progressRouter) route(params map[string]any) {
	token, _ := params["progressToken"].(string)
	r.mu.Lock()
	sink := r.sinks[token]
	r.mu.Unlock()
	if sink == nil {
		return
	}
	var p Progress
	p.Progress, _ = params["progress"].(float64)
	p.Total, _ = params["total"].(float64)
	p.Message, _ = params["message"].(string)
	p.Message = clipped(p.Message, maxProgressMessage)
	sink.take(p)
}

// take drops progress that is not ahead of the last: a session has several streams, whose
// notifications overtake each other.
func (s *progressSink) take(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tell == nil || p.Progress <= s.last || !s.rate.Allow() {
		return
	}
	s.last = p.Progress
	s.tell(p)
}
