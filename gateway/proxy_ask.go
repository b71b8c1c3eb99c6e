package gateway

import (
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/backends"
)

// In 2026-07-28 a tool may answer a call with questions, and the client calls
// again with the answers. Between a client and a backend that both speak it,
// questions and answers of a direct call pass through; the backend decides what
// it asks of what the client can be asked. Its requestState is wrapped, so that
// it is worth something only to the caller to whom it was given.

// A passedState is the requestState of a backend.
type passedState struct {
	claims
	Tool  string `json:"t"`
	State string `json:"s"` // "" = it gave none
	Round int    `json:"r"` // how often it has asked

	Arguments string `json:"a"` // digest of those of the call
}

// passQuestions is a backend's input_required for the client. It has a state also
// where the backend gives none: by that it is known how often it has asked.
func (pr *proxy) passQuestions(x *exchange, t backends.Tool, asked int, raw json.RawMessage) json.RawMessage {
	var result map[string]json.RawMessage
	if json.Unmarshal(raw, &result) != nil {
		return raw
	}
	if requests := result["inputRequests"]; requests != nil {
		result["inputRequests"] = visibleRequests(requests)
	}
	var state string
	_ = json.Unmarshal(result["requestState"], &state) // "" = it gives none
	st := &passedState{claims: claims{CallerID: x.callerID, Expires: pr.tokens.time().Add(stateLife).Unix()},
		Tool: t.Name, State: state, Round: asked + 1, Arguments: x.arguments}
	result["requestState"] = mustEncode(pr.tokens.seal(passedPurpose, st))
	return mustEncode(result)
}

// visibleRequests are questions of a backend as people may read them.
func visibleRequests(raw json.RawMessage) json.RawMessage {
	requests, err := definitions.ParseJSONObject(raw)
	if err != nil {
		return raw
	}
	for i, r := range requests {
		request, err := definitions.ParseJSONObject(r.Value)
		if err != nil {
			continue
		}
		params, err := definitions.ParseJSONObject(request.Get("params"))
		if err != nil {
			continue
		}
		var message string
		if json.Unmarshal(params.Get("message"), &message) == nil && view.Text(message) != message {
			params.Set("message", mustEncode(view.Explained(message)))
		}
		if schema := params.Get("requestedSchema"); schema != nil {
			params.Set("requestedSchema", view.FormSchema(schema))
		}
		request.Set("params", params.JSON())
		requests[i].Value = request.JSON()
	}
	return requests.JSON()
}
