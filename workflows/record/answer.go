package record

import (
	"encoding/json"
	"time"
)

// An Answer is a person's answer to an elicitation, or that nobody has given one in time.
type Answer struct {
	ElicitationID string          `json:"elicitationId"`
	Question      string          `json:"question,omitempty"` // that is answered: the digest of an elicitation; "" = whatever is asked
	Action        string          `json:"action"`             // Accept, Decline, Cancel, Expired
	Content       json.RawMessage `json:"content,omitempty"`
	AnsweredBy    string          `json:"answeredBy"`
	Via           Channel         `json:"via,omitempty"`
	At            time.Time       `json:"at,omitzero"`        // when it was given
	Unproven      bool            `json:"unproven,omitempty"` // nobody has proved who gave it
	AnswerID      string          `json:"answerId"`           // chosen by the sender, to see whose answer won
}

// The actions of an answer, and what is in their place when nobody answered in time.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
	Expired = "timeout"
)

// A Channel is the way by which an answer was given.
type Channel string
