package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

// questionKey names an elicitation in inputRequests and inputResponses, of calls
// and tasks alike: by its step path, with the number of the time where the step
// asks again, with that of the question where an answer was not taken, and with the
// round where the run was reset: what was asked before does not have it.
func questionKey(elicitation, round string, number int) string {
	key := strings.TrimSuffix(elicitation, "#1")
	if number > 1 {
		key = fmt.Sprintf("%s.%d", elicitation, number)
	}
	if round != "" {
		key += "@" + round
	}
	return key
}

// answerTo is the response to an elicitation that was asked so many times. One to
// an earlier question counts as well.
func answerTo(elicitation, round string, asked int, given map[string]json.RawMessage) (raw json.RawMessage, key string, ok bool) {
	for number := asked; number > 0; number-- {
		key = questionKey(elicitation, round, number)
		if raw, ok = given[key]; ok {
			return raw, key, true
		}
	}
	return nil, "", false
}

// notTaken reports that an answer did not fit.
func notTaken(reason string) string {
	return "The answer was not taken: " + strings.TrimRight(view.Text(reason), ". ") + "."
}

// params are those of elicitation/create.
func (s *asker) params(gt *gate) elicitParams {
	message := view.Explained(gt.Message)
	if gt.way == byURL {
		return elicitParams{Mode: definitions.URLMode, Message: message, ElicitationID: s.elicitationID(gt), URL: s.on.results.page(s.at.Run), Meta: s.taskMeta()}
	}
	p := elicitParams{Message: message, RequestedSchema: view.FormSchema(gt.Schema), Meta: s.taskMeta()}
	if gt.Unchecked {
		if p.Meta == nil {
			p.Meta = map[string]any{}
		}
		p.Meta[metaUnchecked] = true
	}
	if gt.reason != "" {
		p.Message = notTaken(gt.reason) + "\n\n" + message
	}
	if isNull(p.RequestedSchema) {
		p.RequestedSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return p
}

// elicitationID names a question that is answered on the page, for
// notifications/elicitation/complete. 2026-07-28 has removed it, but some clients want
// one.
func (s *asker) elicitationID(gt *gate) string {
	return encode64(digest("elicitation", s.x.callerID, string(s.at.Run), gt.ID)[:12])
}

// questionOf names a question about an elicitation in this call. Its token is the same
// wherever it is made, so that a question can be answered and withdrawn at any
// replica.
func (s *asker) questionOf(gt *gate, number int) *question {
	q := question{claims: claims{CallerID: s.x.callerID}, Run: s.at.Run, Owner: s.at.Owner, Gate: gt.ID, Asks: gt.Digest,
		Call: encode64(digest("call", s.x.scope, string(s.x.id))[:9]), Time: number, URL: gt.way == byURL}
	if !gt.Expires.IsZero() {
		q.Expires = gt.Expires.Add(time.Minute).Unix()
	}
	return &q
}

type cancelledParams struct {
	RequestID string         `json:"requestId"`
	Reason    string         `json:"reason"`
	Meta      map[string]any `json:"_meta,omitempty"`
}
