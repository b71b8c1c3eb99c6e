package backends

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/perdure/perdure/internal/web"
)

// newAnswers makes the budget that the answers of all backends of a process share. Those
// to a request of a client are its caller's, who decides how fast they are written. A call
// that was sent must not lose its outcome for lack of memory, so an answer waits for as
// long as its call does.
func newAnswers() *web.Bodies { return web.NewBodies(web.Work(), math.MaxInt64) }

// An answerBudget is the memory in which answers of one backend are read and decoded.
type answerBudget struct {
	answers *web.Bodies
	backend string
	limit   int64 // bytes of an answer
}

func newAnswerBudget(cfg Config, answers *web.Bodies) answerBudget {
	return answerBudget{answers: answers, backend: cfg.Name, limit: cfg.maxResultBytes()}
}

// owner is whose share of the budget the answer to a request of ctx takes.
func (b answerBudget) owner(ctx context.Context) string {
	if caller := web.Reader(ctx); caller != "" {
		return caller
	}
	return "backend " + b.backend
}

// A holding is what answers take of the budget until it is freed.
type holding struct {
	mu    sync.Mutex
	ended bool // nothing more is held
	held  []func()
	why   error // of refused

	waits context.Context // of the request, where its answer comes among others; nil = of the claims
}

// refuse notes why an answer on a stream with those of others is not handed on.
func (h *holding) refuse(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

// refused is why; nil = it was handed on.
func (h *holding) refused() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

func (h *holding) add(free func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		free()
		return
	}
	h.held = append(h.held, free)
}

// free gives back what is held, and end also what comes later.
func (h *holding) free() { h.release(false) }

func (h *holding) end() { h.release(true) }

func (h *holding) release(ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, free := range h.held {
		free()
	}
	h.held, h.ended = nil, h.ended || ended
}

type holdingKey struct{}

// Hold is a context for a call and what is done with its result. The memory that the
// result takes counts until release is called; without Hold, until Call returns.
func Hold(ctx context.Context) (held context.Context, release func()) {
	h := &holding{}
	return context.WithValue(ctx, holdingKey{}, h), h.end
}

// keep leaves what an answer takes to the caller, if that holds it.
func keep(ctx context.Context, answer *holding) {
	if h, ok := ctx.Value(holdingKey{}).(*holding); ok {
		h.add(answer.end)
		return
	}
	answer.end()
}

// Holders report whose the answers on a stream are that has those of many requests.
type holders struct {
	mu   sync.Mutex
	byID map[string]*holding
}

// expect has the answer to a request of ctx held, which comes before forget is called;
// h nil = not kept for longer.
func (s *holders) expect(ctx context.Context, id string, h *holding) (forget func()) {
	end := func() {}
	if h == nil {
		h = &holding{}
		end = h.end
	}
	h.waits = ctx
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*holding{}
	}
	s.byID[id] = h
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byID, id)
		end()
	}
}

// take returns what holds the answer to a request; nil = not expected, or it has come.
func (s *holders) take(id string) *holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.byID[id]
	delete(s.byID, id)
	return h
}

// Claims are what one reader of answers takes of the budget.
type claims struct {
	budget  answerBudget
	ctx     context.Context // of the waiting for memory
	held    *holding        // of the one request that is answered; nil = of more than one, or not kept
	holders *holders
	passing holding // of messages that are not kept

	incoming *web.Arrival // of the message that is coming; nil = none has come
}

// arriving claims memory for a message that has so many bytes already and an end that is
// not known.
func (c *claims) arriving(size int64) error {
	if size > c.budget.limit {
		return tooLarge(c.budget.limit)
	}
	if c.incoming == nil {
		c.incoming = c.budget.answers.Arriving(c.budget.owner(c.ctx), c.budget.limit)
	}
	return c.incoming.Grow(c.ctx, size)
}

// arrived gives back what the coming of a message took.
func (c *claims) arrived() {
	if c.incoming != nil {
		c.incoming.End()
	}
}

// take claims memory for a message that is decoded next, as long as its request waits.
func (c *claims) take(message []byte, holder *holding) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	owner := c.budget.owner(c.ctx)
	if holder.waits != nil {
		defer context.AfterFunc(holder.waits, cancel)()
		owner = c.budget.owner(holder.waits)
	}
	free, err := c.budget.answers.Weigh(ctx, owner, message)
	if err != nil {
		return unfitting(err)
	}
	holder.add(free)
	return nil
}

// holderOf is who holds a message. Expected reports that a request is answered by it.
func (c *claims) holderOf(head messageHead) (holder *holding, expected bool) {
	switch {
	case !head.isAnswer():
		return &c.passing, false
	case c.held != nil:
		return c.held, true
	}
	if holder = c.holders.take(head.id()); holder == nil {
		return &c.passing, false
	}
	return holder, true
}

// readFrom reads a message, of length bytes if that is not negative, that is decoded next.
func (c *claims) readFrom(in *boundedReader, length int64) ([]byte, error) {
	if length > c.budget.limit {
		return nil, tooLarge(c.budget.limit)
	}
	text, free, err := c.budget.answers.ReadFrom(c.ctx, in, c.budget.owner(c.ctx), length, c.budget.limit)
	if err != nil {
		return nil, unfitting(err)
	}
	if c.held != nil {
		c.held.add(free)
	} else {
		c.passing.add(free)
	}
	return text, nil
}

func unfitting(err error) error {
	var dense *web.DenseError
	if errors.As(err, &dense) {
		return fmt.Errorf("%w: more than %d JSON values", ErrTooLarge, dense.Limit)
	}
	return err
}
