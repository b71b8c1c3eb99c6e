package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure/internal/runs"
)

// Questions are those that streams in this process have asked.
type questions struct {
	mu    sync.Mutex
	asked map[string]*asked
}

type asked struct {
	by      *stream
	replied atomic.Bool
}

func (q *questions) open(id string, by *stream) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked == nil {
		q.asked = map[string]*asked{}
	}
	q.asked[id] = &asked{by: by}
}

// close reports whether the client has not answered here.
func (q *questions) close(id string, by *stream) (unanswered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.asked[id]
	if a == nil || a.by != by {
		return false
	}
	delete(q.asked, id)
	return !a.replied.Load()
}

func (q *questions) find(id string) *asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asked[id]
}

// first reports whether this is the first reply to the question that is seen here.
func (a *asked) first() bool { return a == nil || a.replied.CompareAndSwap(false, true) }

// replied takes a client's response to a question of ours and returns the HTTP
// status that acknowledges it. A response that comes twice, or after somebody
// else's, does nothing.
func (g *Gateway) replied(ctx context.Context, c *client, m *message) (status int) {
	var id string
	var q question
	if json.Unmarshal(m.ID, &id) != nil || g.tokens.open(questionPurpose, id, c.principal, &q) != nil {
		g.log.InfoContext(ctx, "refusing an answer to what was not asked of this client", "id", clipKey(string(m.ID)))
		return http.StatusBadRequest
	}
	a := g.questions.find(id)
	if !a.first() {
		return http.StatusAccepted
	}
	if isNull(m.Result) {
		g.log.Info("client could not ask its user", "run", q.Run, "elicitation", q.Gate, "error", string(m.Error))
		return g.unanswered(ctx, a, &q, runs.Unable, "")
	}
	if q.URL {
		if actionOf(m.Result) == accept {
			return http.StatusAccepted
		}
		return g.unanswered(ctx, a, &q, runs.Unwilling, "")
	}
	var invalid *runs.InvalidAnswerError
	switch err := g.answer(ctx, c, q.Run, about{q.Gate, q.Asks, q.name()}, m.Result); {
	case err == nil:
	case errors.As(err, &invalid):
		return g.unanswered(ctx, a, &q, runs.Invalid, invalid.Reason)
	case errors.Is(err, runs.ErrNoSuchGate), errors.Is(err, runs.ErrNotFound), errors.Is(err, runs.ErrNotPermitted):
		g.log.Debug("answer to what is not asked here, or not any more", "run", q.Run, "elicitation", q.Gate)
	default:
		g.log.Warn("answering an elicitation", "run", q.Run, "elicitation", q.Gate, "error", err)
		a.again()
		return http.StatusServiceUnavailable
	}
	return http.StatusAccepted
}

// unanswered has the run note what became of a question. The stream that asked
// it follows the run, wherever it is.
func (g *Gateway) unanswered(ctx context.Context, a *asked, q *question, outcome runs.AskingOutcome, reason string) (status int) {
	ctx, done := detached(ctx)
	defer done()
	err := g.opts.Runs.Asked(ctx, q.Run, q.Gate, runs.Asking{Question: q.name(), Outcome: outcome, Reason: reason})
	if err != nil && !errors.Is(err, runs.ErrNotFound) {
		g.log.Warn("noting that a question was not answered", "run", q.Run, "elicitation", q.Gate, "error", err)
		a.again()
		return http.StatusServiceUnavailable
	}
	return http.StatusAccepted
}

// actionOf is the action of a client's answer. In answer to a question in URL
// mode, accept says that the user opens the page, and nothing of the question.
func actionOf(raw json.RawMessage) string {
	if action, _, ok := givenAnswer(raw); ok && action != "" {
		return action
	}
	return cancel
}

// givenAnswer reads a client's answer by the exact names of its members: into a
// struct, encoding/json would take "Action" for "action", and have an answer accept
// that everybody else reads as a decline.
func givenAnswer(raw json.RawMessage) (action string, content json.RawMessage, ok bool) {
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return "", nil, false
	}
	if named := given["action"]; named != nil && json.Unmarshal(named, &action) != nil {
		return "", nil, false
	}
	return action, given["content"], true
}

// again lets the client repeat a reply that could not be handled.
func (a *asked) again() {
	if a != nil {
		a.replied.Store(false)
	}
}
