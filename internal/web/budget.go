package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Budget is an amount of bytes that callers share. No caller gets more than it leaves
// to others: alone, half of all; beside one that has half, a quarter. nil = no bound.
type Budget struct {
	size     int64
	patience time.Duration // of a waiting claim

	mu      sync.Mutex
	used    int64
	by      map[string]int64 // the caller's part
	waiting []*claim         // the oldest first
}

type claim struct {
	caller string
	bytes  int64
	given  chan struct{} // closed when it has its bytes
}

// NewBudget makes a budget of size bytes, for which a claim waits up to patience.
func NewBudget(size int64, patience time.Duration) *Budget {
	return &Budget{size: size, patience: patience, by: map[string]int64{}}
}

// A FullError says that a claim got no bytes in time.
type FullError struct {
	After time.Duration // when to try again
}

func (e *FullError) Error() string {
	return "too many large requests and results at once; nothing was done, repeat the request"
}

// RetryAfter is what the header of this name says.
func (e *FullError) RetryAfter() string {
	return strconv.Itoa(max(1, int(e.After.Seconds())))
}

// Take waits until a caller may have these bytes, or the most that one caller may have.
// free returns them; a second call does nothing. The error is a *FullError, or that of
// ctx.
func (b *Budget) Take(ctx context.Context, caller string, bytes int64) (free func(), err error) {
	if b == nil || bytes <= 0 {
		return func() {}, nil
	}
	c := &claim{caller: caller, bytes: min(bytes, b.size/2), given: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.give()
	b.mu.Unlock()
	patience := time.NewTimer(b.patience)
	defer patience.Stop()
	select {
	case <-c.given:
	case <-patience.C:
		err = &FullError{After: b.patience / 2}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && b.withdraw(c) {
		return nil, err
	}
	return sync.OnceFunc(func() { b.release(c) }), nil
}

// give grants waiting claims. A claim that waits only because of its caller's own share
// does not block those of others.
func (b *Budget) give() {
	full := false
	b.waiting = slices.DeleteFunc(b.waiting, func(c *claim) bool {
		own := b.by[c.caller]
		if own > 0 && own+c.bytes > (b.size-(b.used-own))/2 {
			return false
		}
		if full = full || b.used+c.bytes > b.size; full {
			return false
		}
		b.used += c.bytes
		b.by[c.caller] += c.bytes
		close(c.given)
		return true
	})
}

// withdraw takes back a waiting claim; false = it got its bytes meanwhile.
func (b *Budget) withdraw(c *claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, c)
	if at < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.give()
	return true
}

func (b *Budget) release(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= c.bytes
	if b.by[c.caller] -= c.bytes; b.by[c.caller] == 0 {
		delete(b.by, c.caller)
	}
	b.give()
}

const (
	// mostWork is for two of the largest calls, in bytes.
	mostWork = 68 << 20
	// workShare is the least part of Go's memory limit that is for work on bodies: with
	// what comes in meanwhile, it can take as much as there is.
	workShare = 13
	// mostValues is the weight of the values of a body, at most.
	mostValues = mostWork / 2
	// Patience is how long a large request waits for its turn.
	Patience = 10 * time.Second

	// SmallBody is the size, and the weight, up to which bodies are not counted.
	SmallBody = 64 << 10

	// startOfBody is what a body whose size is not known takes first.
	startOfBody = 1 << 20

	// valueWeight is the least weight of a JSON value, in bytes of a body: two bytes of
	// a body can take 500 bytes of memory.
	valueWeight = 40
)

// Bodies are what comes into a process: requests of clients, or answers of backends. An
// incoming body takes its size, for as long as its sender decides; then the work on it
// takes about twelve times its weight for a moment. So each phase has its own budget, and
// a slow sender does not delay the work on other bodies.
type Bodies struct {
	starting, incoming, work *Budget
}

// Work is how many bytes a process works on at once.
func Work() int64 { return min(mostWork, debug.SetMemoryLimit(-1)/workShare) }

// NewBodies makes budgets: work bytes for the work on bodies, twice as many for incoming
// ones, and half as many for the beginnings of those whose size is not known. A body waits
// up to patience for each.
func NewBodies(work int64, patience time.Duration) *Bodies {
	return &Bodies{starting: NewBudget(work/2, patience), incoming: NewBudget(2*work, patience), work: NewBudget(work, patience)}
}

// Read reads a body of at most most bytes. free returns its bytes to the budget.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, caller string, most int64) (body []byte, free func(), err error) {
	if r.ContentLength > most {
		return nil, nil, &http.MaxBytesError{Limit: most}
	}
	return b.ReadFrom(r.Context(), http.MaxBytesReader(w, r.Body, most), caller, r.ContentLength, most)
}

// ReadFrom reads a body, of length bytes if that is not negative, whose reader gives an
// error where it has more than most. free returns its bytes to the budget.
func (b *Bodies) ReadFrom(ctx context.Context, in io.Reader, caller string, length, most int64) (body []byte, free func(), err error) {
	body, err = io.ReadAll(io.LimitReader(in, SmallBody))
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) < SmallBody:
		free, err = b.Weigh(ctx, caller, body)
		return body, free, err
	}
	arrival := b.Arriving(caller, most)
	defer arrival.End()
	whole, grow := most, func(size int64) error { return arrival.Grow(ctx, size) }
	if length >= SmallBody {
		whole, grow = min(length, most), nil
		if err := arrival.announce(ctx, whole); err != nil {
			return nil, nil, err
		}
	}
	if body, err = readRest(in, body, whole, grow); err != nil {
		return nil, nil, err
	}
	free, err = b.Weigh(ctx, caller, body)
	return body, free, err
}

// readRest reads the rest of a body of whole bytes into little more than it takes. With
// grow it has at most as many, and grow waits until it may have some.
func readRest(in io.Reader, body []byte, whole int64, grow func(size int64) error) (all []byte, err error) {
	for err == nil {
		if len(body) == cap(body) || grow == nil && int64(cap(body)) < whole {
			to := whole
			if grow != nil {
				to = min(to, 2*int64(len(body)))
				if err := grow(to); err != nil {
					return nil, err
				}
			}
			body = append(make([]byte, 0, max(int(to), len(body))+bytes.MinRead), body...)
		}
		var n int
		n, err = in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return body, nil
}

// An Arrival is what a body takes of the budgets while it comes in. One whose size is not
// known takes little at first, so that many that stop coming leave room for others. It
// keeps that while it waits for the rest; nothing that has the rest waits for a beginning.
type Arrival struct {
	bodies *Bodies
	caller string
	most   int64

	allowed int64 // bytes that may come
	free    func()
}

// Arriving begins the arrival of a body of at most most bytes, whose size is not known.
func (b *Bodies) Arriving(caller string, most int64) *Arrival {
	return &Arrival{bodies: b, caller: caller, most: most, allowed: SmallBody, free: func() {}}
}

// Grow waits until so many bytes of the body may be there. The error is a *FullError, or
// that of ctx.
func (a *Arrival) Grow(ctx context.Context, size int64) error {
	switch start := min(startOfBody, a.most); {
	case size <= a.allowed:
		return nil
	case size <= start:
		return a.claim(ctx, a.bodies.starting, start)
	}
	return a.announce(ctx, a.most)
}

// announce waits until a body of so many bytes may come in.
func (a *Arrival) announce(ctx context.Context, size int64) error {
	return a.claim(ctx, a.bodies.incoming, size)
}

func (a *Arrival) claim(ctx context.Context, of *Budget, bytes int64) error {
	free, err := of.Take(ctx, a.caller, bytes)
	if err != nil {
		return err
	}
	a.free()
	a.allowed, a.free = bytes, free
	return nil
}

// End gives back what the body took, and begins with the next one.
func (a *Arrival) End() {
	a.free()
	a.allowed, a.free = SmallBody, func() {}
}

// A DenseError refuses a body with more values than one may have.
type DenseError struct {
	Limit int // values that a body may have
}

func (e *DenseError) Error() string {
	return fmt.Sprintf("request body has more than %d JSON values", e.Limit)
}

// Weigh waits for the budget for the work on a body. free returns it; a second call does
// nothing. The error is a *DenseError, a *FullError, or that of ctx.
func (b *Bodies) Weigh(ctx context.Context, caller string, body []byte) (free func(), err error) {
	values := weightOfValues(body)
	switch {
	case values > mostValues:
		return nil, &DenseError{Limit: mostValues / valueWeight}
	case IsSmall(body):
		return func() {}, nil
	}
	return b.work.Take(ctx, caller, max(int64(len(body)), values))
}

// IsSmall reports whether the work on a body is not counted.
func IsSmall(body []byte) bool {
	return len(body) <= SmallBody && weightOfValues(body) <= SmallBody
}

func weightOfValues(body []byte) int64 { return int64(countValues(body)) * valueWeight }

// countValues counts the values and names in the JSON of a body, about. Invalid JSON is
// refused later.
func countValues(body []byte) (n int) {
	text := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case text:
		case c == ',' || c == ':' || c == '[' || c == '{':
			n++
		}
	}
	return n
}

// Work waits for the budget for work on bytes that are no body.
func (b *Bodies) Work(ctx context.Context, caller string, bytes int64) (free func(), err error) {
	return b.work.Take(ctx, caller, bytes)
}

// Caller is the owner of claims: the known caller, else the peer.
func Caller(known string, r *http.Request) string {
	if known != "" {
		return "caller " + known
	}
	return fmt.Sprintf("peer %s", Peer(r.RemoteAddr))
}
