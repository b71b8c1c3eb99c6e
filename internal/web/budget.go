package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Budget is an amount of bytes that callers share. Who has some already gets no
// more than it leaves to the others: alone, half of all; beside one that has half,
// a quarter. nil = no bound.
type Budget struct {
	size     int64
	patience time.Duration // for which a claim waits

	mu      sync.Mutex
	used    int64
	by      map[string]int64 // the caller's part
	waiting []*claim         // the oldest first
}

type claim struct {
	caller string
	bytes  int64
	given  chan struct{} // closed when it has them
}

// NewBudget makes a budget of so many bytes, for which a claim waits so long.
func NewBudget(size int64, patience time.Duration) *Budget {
	return &Budget{size: size, patience: patience, by: map[string]int64{}}
}

// A FullError says that a claim found no room. Nothing was done.
type FullError struct {
	After time.Duration // it is worth trying again after this
}

func (e *FullError) Error() string {
	return "too many large requests at once; nothing was done, repeat it"
}

func (e *FullError) retryAfter() string {
	return strconv.Itoa(max(1, int(e.After.Seconds())))
}

// Take waits until a caller may have so many bytes more, or as much as one may
// have at all. free gives them back; a second time it does nothing. The error is a
// *FullError, or that of ctx.
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

// give hands out what there is. A claim that only its caller's own share holds
// back does not hold back those of others.
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

// withdraw takes back a claim that waits; false = it has got its bytes meanwhile.
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
	// DefaultWork is for two of the largest calls, in bytes.
	DefaultWork = 68 << 20
	// Patience is how long a large request waits for its turn.
	Patience = 10 * time.Second

	// smallBody is the size, and the weight, up to which bodies are not counted.
	smallBody = 64 << 10

	// valueWeight is what a JSON value counts for at least, in bytes of a body: some
	// of 500 bytes of memory are taken by what is two bytes long in the body.
	valueWeight = 40
)

// Bodies are the request bodies that a process has in hand. While one comes in it
// takes its size, and its sender decides for how long; once it is there, the work
// on it takes some twelve times its weight for a moment. So each has a budget of
// its own, and a slow sender keeps nobody's work waiting.
type Bodies struct {
	incoming, work *Budget
}

// NewBodies makes room for work on so many bytes, and for twice as many that come
// in. A request waits so long for each.
func NewBodies(work int64, patience time.Duration) *Bodies {
	return &Bodies{incoming: NewBudget(2*work, patience), work: NewBudget(work, patience)}
}

// Read reads a body of at most so many bytes. free gives back what it takes up.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, caller string, most int64) (body []byte, free func(), err error) {
	in := http.MaxBytesReader(w, r.Body, most)
	var read bytes.Buffer
	n, err := io.CopyN(&read, in, smallBody)
	switch {
	case errors.Is(err, io.EOF):
		free, err = b.Weigh(r.Context(), caller, read.Bytes())
		return read.Bytes(), free, err
	case err != nil:
		return nil, nil, err
	}
	whole := most
	if r.ContentLength > most {
		return nil, nil, &http.MaxBytesError{Limit: most}
	} else if r.ContentLength >= n {
		whole = r.ContentLength
	}
	arrived, err := b.incoming.Take(r.Context(), caller, whole)
	if err != nil {
		return nil, nil, err
	}
	defer arrived()
	read.Grow(int(whole-n) + bytes.MinRead)
	if _, err = read.ReadFrom(in); err != nil {
		return nil, nil, err
	}
	free, err = b.Weigh(r.Context(), caller, read.Bytes())
	return read.Bytes(), free, err
}

// A DenseError refuses a body of so many values that the work on it alone would take
// more than a caller may have.
type DenseError struct {
	Limit int // values that a body may have
}

func (e *DenseError) Error() string {
	return fmt.Sprintf("request body has more than %d JSON values", e.Limit)
}

// Weigh waits for room for the work on a body that is there. free gives it back; a
// second time it does nothing. The error is a *DenseError, a *FullError, or that of
// ctx.
func (b *Bodies) Weigh(ctx context.Context, caller string, body []byte) (free func(), err error) {
	values := int64(countValues(body)) * valueWeight
	weight := max(int64(len(body)), values)
	switch most := b.work.size / 2; {
	case values > most:
		return nil, &DenseError{Limit: int(most / valueWeight)}
	case weight <= smallBody:
		return func() {}, nil
	}
	return b.work.Take(ctx, caller, weight)
}

// countValues says how many values and names the JSON of a body has, about. What is
// no JSON is refused by its reader, whatever is counted.
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

// Work waits for room for work on so many bytes that are no body.
func (b *Bodies) Work(ctx context.Context, caller string, bytes int64) (free func(), err error) {
	return b.work.Take(ctx, caller, bytes)
}

// Caller is whom bytes are counted for: who is known, else the peer.
func Caller(known string, r *http.Request) string {
	if known != "" {
		return "caller " + known
	}
	return fmt.Sprintf("peer %s", Peer(r.RemoteAddr))
}
