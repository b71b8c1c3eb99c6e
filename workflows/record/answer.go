package record

import (
	"encoding/json"
	"time"
)

// An Answer is a person's answer to an elicitation, or its timeout.
type Answer struct {
	ElicitationID string          `json:"elicitationId"`
	Digest        string          `json:"question,omitempty"` // of the elicitation that is answered; "" = any
	Action        string          `json:"action"`             // Accept, Decline, Cancel, Expired
	Content       json.RawMessage `json:"content,omitempty"`
	AnsweredBy    string          `json:"answeredBy"`
	Via           Channel         `json:"via,omitempty"`
	At            time.Time       `json:"at,omitzero"`        // when it was given
	Unproven      bool            `json:"unproven,omitempty"` // the identity of the sender is not proved
	AnswerID      string          `json:"answerId"`           // chosen by the sender, to see whose answer won
}

// The actions of an answer, and the one for a timeout.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
	Expired = "timeout"
)

// A Channel is the way by which an answer was given.
type Channel string
