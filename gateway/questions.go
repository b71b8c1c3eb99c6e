package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// Questions are those that streams in this process have asked, and how their answers
// are taken.
type questions struct {
	runs   Runs
	rights *rights
	tokens *sealer
	log    *slog.Logger

	mu    sync.Mutex
	asked map[string]*asked
}

type asked struct {
	by      any       // who asked
	run     *runs.Run // as the asker, who follows it, knows it: what answer needs of it
	replied atomic.Bool
}

func (qs *questions) open(id string, by any, run *runs.Run) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.asked == nil {
		qs.asked = map[string]*asked{}
	}
	qs.asked[id] = &asked{by: by, run: run}
}

// close reports whether the client has not answered here.
func (qs *questions) close(id string, by any) (unanswered bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	a := qs.asked[id]
	if a == nil || a.by != by {
		return false
	}
	delete(qs.asked, id)
	return !a.replied.Load()
}

func (qs *questions) find(id string) *asked {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.asked[id]
}

// first reports whether this is the first reply to the question that is seen here.
func (a *asked) first() bool { return a == nil || a.replied.CompareAndSwap(false, true) }

// A reply is a client's first response to a question of ours.
type reply struct {
	to     question
	asked  *asked          // nil = not in this process
	result json.RawMessage // of the response; nil = it is an error
	failed json.RawMessage
}

// replied takes a client's response to a question of ours and returns the HTTP status
// that acknowledges it. A response that comes twice, or after another answer, does
// nothing.
func (qs *questions) replied(ctx context.Context, c *client, m *message) (status int) {
	r, status := qs.claim(ctx, c, m)
	if r == nil {
		return status
	}
	return qs.settle(ctx, c, r)
}

// claim finds out what a response is to, and whether it is the first. It does not
// wait, so that of two responses the one counts that was read first.
func (qs *questions) claim(ctx context.Context, c *client, m *message) (r *reply, status int) {
	var id string
	var q question
	if json.Unmarshal(m.ID, &id) != nil || qs.tokens.open(questionPurpose, id, c.callerID, &q) != nil {
		qs.log.InfoContext(ctx, "ignoring an answer to an elicitation that this client was not asked", "id", clipKey(string(m.ID)))
		return nil, http.StatusBadRequest
	}
	a := qs.find(id)
	if !a.first() {
		return nil, http.StatusAccepted
	}
	r = &reply{to: q, asked: a, failed: m.Error}
	if !isNull(m.Result) && isNull(m.Error) {
		r.result = m.Result
	}
	return r, http.StatusAccepted
}

// settle gives a reply on to the run.
func (qs *questions) settle(ctx context.Context, c *client, r *reply) (status int) {
	q, a := r.to, r.asked
	if r.result == nil {
		qs.log.Info("client could not ask its user", "run", q.Run, "elicitation", q.Gate, "error", clipKey(string(r.failed)))
		return qs.unanswered(ctx, a, &q, runs.Unable, "")
	}
	if q.URL {
		if actionOf(r.result) == accept {
			return http.StatusAccepted
		}
		return qs.unanswered(ctx, a, &q, runs.Unwilling, "")
	}
	var invalid *runs.InvalidAnswerError
	run, err := qs.runOf(ctx, r)
	if err == nil {
		_, err = qs.answer(ctx, c, run, about{q.Gate, q.Asks, q.name()}, r.result)
	}
	switch {
	case err == nil, sent(err):
	case errors.As(err, &invalid):
		return qs.unanswered(ctx, a, &q, runs.Invalid, invalid.Reason)
	case errors.Is(err, runs.ErrNoSuchGate), errors.Is(err, runs.ErrNotFound), errors.Is(err, runs.ErrNotPermitted):
		qs.log.Debug("ignoring an answer to an elicitation that is not open", "run", q.Run, "elicitation", q.Gate)
	default:
		qs.log.Warn("cannot answer an elicitation", "run", q.Run, "elicitation", q.Gate, "error", err)
		a.again()
		return http.StatusServiceUnavailable
	}
	return http.StatusAccepted
}

// runOf is the run that a reply is to. Who has asked in this process follows the run, so it
// need not be read.
func (qs *questions) runOf(ctx context.Context, r *reply) (*runs.Run, error) {
	if r.asked != nil {
		return r.asked.run, nil
	}
	return qs.runs.Get(ctx, r.to.Run)
}

// unanswered has the run note what became of a question. The stream that asked
// it follows the run, wherever it is.
func (qs *questions) unanswered(ctx context.Context, a *asked, q *question, outcome runs.QuestionOutcome, reason string) (status int) {
	ctx, done := detached(ctx)
	defer done()
	err := qs.runs.ReportQuestion(ctx, q.Run, q.Gate, runs.Question{Name: q.name(), Outcome: outcome, Reason: reason})
	if err != nil && !errors.Is(err, runs.ErrNotFound) {
		qs.log.Warn("cannot record that an elicitation was not answered", "run", q.Run, "elicitation", q.Gate, "error", err)
		a.again()
		return http.StatusServiceUnavailable
	}
	return http.StatusAccepted
}

// actionOf is the action of a client's answer. In answer to a question in URL mode,
// accept reports that the user opens the page, and nothing of the question.
func actionOf(raw json.RawMessage) string {
	if action, _, ok := givenAnswer(raw); ok && action != "" {
		return action
	}
	return cancel
}

// givenAnswer reads a client's answer by the exact names of its members: into a struct,
// encoding/json would take "Action" for "action", and accept what every other reader
// takes for a decline.
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

// The actions of an answer.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// About is what a client answers.
type about struct {
	elicitation string // its ID
	question    string // Elicitation.Question, as the client was asked; "" = what is asked now
	name        string // of the question, as the run notes it; "" = it has none
}

// sent explains, for an error of answer, that the run has the answer and takes it when
// a worker can.
func sent(err error) bool {
	return errors.Is(err, runs.ErrUnchecked) || errors.Is(err, runs.ErrUntaken) || errors.Is(err, runs.ErrQuarantined)
}

// answer passes a client's answer to an elicitation of a run on, which was read just now or
// is followed, and gives the run as it was with the decision; nil = it is to be read. If another answer
// was first, that is no error. The caller in the run decides: a token may be older than the run,
// where a business key gave two the same ID.
func (qs *questions) answer(ctx context.Context, c *client, run *runs.Run, to about, raw json.RawMessage) (*runs.Run, error) {
	if !qs.rights.may(c.who, auth.Answer, run) {
		return nil, runs.ErrNotFound
	}
	action, content, ok := givenAnswer(raw)
	if !ok {
		return nil, &runs.InvalidAnswerError{Reason: "the answer is not an object with an action"}
	}
	answer := runs.Answer{Run: run, ElicitationID: to.elicitation, Question: to.question, Action: action, By: c.caller.Subject, Via: runs.ViaForm, QuestionName: to.name, Allowed: func(e runs.Elicitation) bool {
		return qs.rights.allow(c.who, auth.Answer, auth.Object{Tool: run.Tool, Owner: run.Caller, Approvers: e.Approvers})
	}}
	switch action {
	case accept:
		answer.Content = orEmpty(content)
	case decline, cancel:
	default:
		return nil, &runs.InvalidAnswerError{Reason: "the action must be accept, decline or cancel"}
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	decision, err := qs.runs.Answer(ctx, run.ID, answer)
	switch {
	case sent(err):
		qs.log.WarnContext(ctx, "an answer is not valid yet", "run", run.ID, "elicitation", to.elicitation, "by", answer.By, "error", err)
	case err == nil && !decision.Won:
		qs.log.InfoContext(ctx, "an answer was too late", "run", run.ID, "elicitation", to.elicitation, "by", answer.By, "won", decision.By)
	}
	return decision.Run, err
}
