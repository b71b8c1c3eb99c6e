package gateway

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

const (
	// How often a client is asked one question whose answers do not fit. After that the
	// other channels must answer the elicitation.
	maxInvalid = 3
	// How often a client is asked one question in all, if its answers are
	// lost.
	maxTries = 6
)

// A way is how a client is asked.
type way int

const (
	notAsked way = iota // it is not asked; another channel has to answer
	byForm              // its user answers in the client
	byURL               // its user is sent to the approvals page, and answers there
)

// A gate is an open elicitation.
type gate struct {
	runs.Elicitation
	way    way
	asked  []string  // ids of our questions that are open at the client, oldest first
	due    time.Time // when it is asked again without an answer
	reason string    // why the answer before was not taken
	mute   bool      // the client is not asked (any more)
}

// An asker asks the client of a stream about each elicitation of the run that is open.
type asker struct {
	*rendering
	open   []*gate         // oldest first
	urgent bool            // the client must not be kept waiting: another channel has to answer
	tried  map[string]bool // backends for which the request's token was tried
}

func (s *asker) gates() []*gate { return s.open }

func (s *asker) find(id string) int {
	return slices.IndexFunc(s.open, func(gt *gate) bool { return gt.ID == id })
}

// isOpen reports whether the client has a question to answer.
func (s *asker) isOpen() bool {
	return slices.ContainsFunc(s.open, func(gt *gate) bool { return len(gt.asked) > 0 })
}

// isMuted reports whether others than the client have something to answer.
func (s *asker) isMuted() bool {
	return slices.ContainsFunc(s.open, func(gt *gate) bool { return gt.mute })
}

// know takes over which elicitations of a run are open. Where the client holds
// a question about one that is closed, it stays until its own event withdraws
// the question.
func (s *asker) know(run *runs.Run) {
	open := run.Open()
	for _, e := range run.Elicitations {
		holds := s.at.Asked[e.ID] > 0 && s.x.dialect.keepsQuestions()
		if holds || slices.ContainsFunc(open, func(o runs.Elicitation) bool { return o.ID == e.ID }) {
			s.add(e)
		}
	}
}

func (s *asker) add(e runs.Elicitation) {
	if s.find(e.ID) >= 0 {
		return
	}
	gt := &gate{Elicitation: e, way: s.way(&e), reason: s.reasons[e.ID]}
	if gt.way == notAsked || !s.on.rights.mayAnswer(s.x.client, s.at.Run, s.at.Owner, e) {
		s.mute(gt)
	}
	if action := s.pages[e.ID]; action != "" {
		gt.mute, s.urgent = true, s.urgent || action != accept
	}
	if s.answered[e.ID] { // another question would get another answer, which does not count
		gt.mute, s.urgent = true, true
	}
	if s.x.dialect.keepsQuestions() {
		s.takeOver(gt)
	}
	s.open = append(s.open, gt)
	s.bringCredentials(e)
}

// mute hands an elicitation to other channels. A blocking client that cannot answer is
// not kept waiting: it gets a handle at once, unless the wait ends before its patience.
// A credential may come with the request itself.
func (s *asker) mute(gt *gate) {
	gt.mute = true
	soon := !gt.Expires.IsZero() && gt.Expires.Before(s.on.tokens.time().Add(s.on.timing.Patience))
	if s.patience == nil && s.on.timing.Patience >= 0 && gt.Kind != runs.Credentials && !soon {
		s.urgent = true
	}
}

// takeOver notes what became of the questions about an elicitation that streams
// before this one have asked: they are open at the client, unless the run has
// learned that they led to no answer.
func (s *asker) takeOver(gt *gate) {
	for i := range s.at.Asked[gt.ID] {
		q := s.questionOf(gt, i+1)
		switch a := gt.reported(q); {
		case a == nil:
			s.holds(gt, q)
		case a.Outcome == runs.Invalid:
			gt.reason = a.Reason
		default:
			s.mute(gt)
			s.urgent = s.urgent || a.Outcome == runs.Unwilling
		}
	}
}

// reported is what the run has learned of a question; nil = nothing.
func (gt *gate) reported(q *question) *runs.Question {
	if i := slices.IndexFunc(gt.Questions, func(a runs.Question) bool { return a.Name == q.name() }); i >= 0 {
		return &gt.Questions[i]
	}
	return nil
}

// holds notes that a question about an elicitation is open at the client.
func (s *asker) holds(gt *gate, q *question) (id string) {
	id = s.on.tokens.seal(questionPurpose, q)
	gt.asked = append(gt.asked, id)
	gt.due = s.on.tokens.time().Add(s.on.timing.ReaskAfter)
	s.on.questions.open(id, s, s.known(gt))
	return id
}

// known is what an answer to an elicitation needs of the run.
func (s *asker) known(gt *gate) *runs.Run {
	return &runs.Run{ID: s.at.Run, Tool: toolOf(s.at.Run), Caller: cmp.Or(s.at.Owner, s.x.caller.Subject),
		Elicitations: []runs.Elicitation{gt.Elicitation}}
}

// way reports how the client is asked about an elicitation. A client that waits for a
// run by a tool is not sent to the page again: what it gets in the end has the link.
func (s *asker) way(e *runs.Elicitation) way {
	switch {
	case e.Kind != runs.ForCaller:
		return notAsked
	case s.x.canAsk && e.Mode != definitions.URLMode:
		return byForm
	case s.x.canOpen && s.on.results.page(s.at.Run) != "" && (s.patience == nil || s.task != ""):
		return byURL
	}
	return notAsked
}

// unasked are the elicitations that the client is to be asked about now.
func (s *asker) unasked() (now []*gate) {
	for _, gt := range s.open {
		if !gt.mute && len(gt.asked) == 0 {
			now = append(now, gt)
		}
	}
	return now
}

// requireInput ends the request with what the client must find out.
func (s *asker) requireInput(gates []*gate) (answered bool) {
	requests := map[string]inputRequest{}
	asked := map[string]int{}
	asks, rounds := map[string]string{}, map[string]string{}
	var urls []string
	for _, gt := range gates {
		if asked[gt.ID] = s.countAsked(gt); asked[gt.ID] > maxInvalid {
			s.mute(gt)
			delete(asked, gt.ID)
			continue
		}
		if gt.way == byURL {
			urls = append(urls, gt.ID)
		}
		asks[gt.ID] = gt.Digest
		if gt.Round != "" {
			rounds[gt.ID] = gt.Round
		}
		requests[questionKey(gt.ID, gt.Round, asked[gt.ID])] = inputRequest{Method: string(mcp.MethodElicitationCreate), Params: s.params(gt)}
	}
	if len(requests) == 0 {
		return false
	}
	st := state{claims: claims{CallerID: s.x.callerID, Expires: s.on.tokens.time().Add(stateLife).Unix()},
		Run: s.at.Run, Owner: s.at.Owner, Tool: s.at.Tool, Arguments: s.x.arguments, Seq: s.at.Seq, Asked: asked, Asks: asks, Rounds: rounds, URLs: urls, Attached: s.at.Attached}
	if s.x.countsAnswer {
		st.From = s.x.name
	}
	s.x.asks = true
	s.finish(&result{
		ResultType:    string(mcp.ResultTypeInputRequired),
		InputRequests: requests,
		RequestState:  s.on.tokens.seal(statePurpose, &st),
	}, "waiting")
	return true
}

// countAsked counts what is asked again because of the answer; a question that
// was only not answered yet counts once.
func (s *asker) countAsked(gt *gate) int {
	n := s.at.Asked[gt.ID]
	if n == 0 || gt.reason != "" {
		n++
	}
	return n
}

// elicit asks the client on the stream of its call.
func (s *asker) elicit(gt *gate) {
	if s.at.Asked[gt.ID] >= maxTries || s.invalid(gt) >= maxInvalid {
		if len(gt.asked) == 0 {
			s.mute(gt)
		}
		return
	}
	s.at.Asked = maps.Clone(s.at.Asked)
	if s.at.Asked == nil {
		s.at.Asked = map[string]int{}
	}
	s.at.Asked[gt.ID]++
	id := s.holds(gt, s.questionOf(gt, s.at.Asked[gt.ID]))
	s.x.elicit(s.place(), id, s.params(gt))
}

// invalid counts the answers of this client that did not fit.
func (s *asker) invalid(gt *gate) (n int) {
	for i := range s.at.Asked[gt.ID] {
		if a := gt.reported(s.questionOf(gt, i+1)); a != nil && a.Outcome == runs.Invalid {
			n++
		}
	}
	return n
}

// closed forgets an elicitation, and withdraws our questions about it that the
// client has not answered.
func (s *asker) closed(e *runs.Elicitation) {
	i := s.find(e.ID)
	if i < 0 {
		return
	}
	gt := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	if gt.way == byURL && len(gt.asked) > 0 {
		s.notify(mcp.MethodNotificationElicitationComplete, map[string]any{"elicitationId": s.elicitationID(gt)})
	}
	reason := "no answer is wanted any more"
	if e.By != "" {
		reason = "answered elsewhere"
	}
	for i := range s.at.Asked[e.ID] {
		q := s.questionOf(gt, i+1)
		if strings.HasPrefix(e.AnswerID, q.name()) { // wherever its answer came in
			reason = "answered"
			id := s.on.tokens.seal(questionPurpose, q)
			gt.asked = slices.DeleteFunc(gt.asked, func(open string) bool { return open == id })
			s.on.questions.close(id, s)
		}
	}
	s.withdraw(gt, reason)
	s.at.Asked = maps.Clone(s.at.Asked)
	delete(s.at.Asked, e.ID)
}

// withdraw takes back the questions about an elicitation that are open.
func (s *asker) withdraw(gt *gate, reason string) {
	for _, id := range gt.asked {
		if unanswered := s.on.questions.close(id, s); unanswered {
			s.notify(mcp.MethodNotificationCancelled, cancelledParams{RequestID: id, Reason: reason, Meta: s.taskMeta()})
		}
	}
	gt.asked = nil
}

// learn takes from the run that an elicitation got no fitting answer. If this stream
// asked it, the client is asked again, up to the limit.
func (s *asker) learn(e *runs.Elicitation, a *runs.Question) {
	i := s.find(e.ID)
	if i < 0 {
		return
	}
	gt := s.open[i]
	gt.Questions = e.Questions
	for i := range s.at.Asked[gt.ID] {
		q := s.questionOf(gt, i+1)
		id := s.on.tokens.seal(questionPurpose, q)
		if q.name() != a.Name || !slices.Contains(gt.asked, id) {
			continue
		}
		gt.asked = slices.DeleteFunc(gt.asked, func(open string) bool { return open == id })
		s.on.questions.close(id, s)
		switch a.Outcome {
		case runs.Unwilling:
			s.mute(gt)
			s.urgent = true
		case runs.Unable:
			s.mute(gt)
		default:
			gt.reason = a.Reason
			s.elicit(gt)
		}
	}
}

// reask asks again what has been open for long: the answer may have been lost with
// the replica that took it. Who still has the question before them may answer
// that: an answer to any of the questions counts.
func (s *asker) reask() {
	now := s.on.tokens.time()
	for _, gt := range s.open {
		if len(gt.asked) > 0 && !gt.mute && !now.Before(gt.due) {
			gt.due = now.Add(s.on.timing.ReaskAfter)
			s.elicit(gt)
		}
	}
}

// handOver withdraws all questions, since the call ends and its run continues. Pages
// are those on which the client's user can answer.
func (s *asker) handOver() (open []runs.Elicitation, pages []elicitParams) {
	for _, gt := range s.open {
		s.withdraw(gt, "the call has ended, its run continues")
		open = append(open, gt.Elicitation)
		if gt.way == byURL {
			pages = append(pages, s.params(gt))
		}
	}
	return open, pages
}

// close forgets the questions that are open; the client may still answer them, to
// whichever replica.
func (s *asker) close() {
	for _, gt := range s.open {
		for _, id := range gt.asked {
			s.on.questions.close(id, s)
		}
	}
}
