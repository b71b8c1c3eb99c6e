package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// Keys of _meta.
const (
	metaRun     = "perdure/run"     // runState
	metaError   = "perdure/error"   // reported
	metaPartial = "perdure/partial" // outputs of completed steps, by step id
	metaOmitted = "perdure/omitted" // paths of completed steps whose outputs do not fit into perdure/partial
	metaErrors  = "perdure/errors"  // []runs.Error: steps that failed without failing the run
	metaUndone  = "perdure/undone"  // {compensated, uncompensated}: paths of steps
	metaEffects = "perdure/effects" // runs.Effects: calls that calling again would or might repeat
	metaDryRun  = "perdure/dry-run" // true: the result is a plan, and nothing was called
	metaRefused = "perdure/refused" // keys of answers to what was never asked, in the acknowledgement of tasks/update
	metaStep    = "perdure/step"    // StepState: the step that progress is about, with metaRun

	metaUnchecked = "perdure/unchecked" // true, of a question: content need not fit the schema that is asked with
)

// A result is a CallToolResult, exact to the digit.
type result struct {
	ResultType    string                  `json:"resultType,omitempty"`
	Meta          map[string]any          `json:"_meta,omitempty"`
	Content       []textBlock             `json:"content,omitzero"`
	Structured    json.RawMessage         `json:"structuredContent,omitempty"`
	IsError       bool                    `json:"isError,omitempty"`
	InputRequests map[string]inputRequest `json:"inputRequests,omitempty"`
	RequestState  string                  `json:"requestState,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`

	link resourceLink // in the place of a text
}

type inputRequest struct {
	Method string       `json:"method"`
	Params elicitParams `json:"params"`
}

// elicitParams are those of elicitation/create, in form or in URL mode.
type elicitParams struct {
	Mode            definitions.Mode `json:"mode,omitempty"` // empty = form
	Message         string           `json:"message"`
	RequestedSchema json.RawMessage  `json:"requestedSchema,omitempty"`
	ElicitationID   string           `json:"elicitationId,omitempty"`
	URL             string           `json:"url,omitempty"`
	Meta            map[string]any   `json:"_meta,omitempty"`
}

func text(s string) []textBlock { return []textBlock{{Type: "text", Text: s}} }

func (r *result) set(key string, value any) *result {
	if r.Meta == nil {
		r.Meta = map[string]any{}
	}
	r.Meta[key] = value
	return r
}

// A runState is what every result contains about its run.
type runState struct {
	ID       runs.RunID `json:"id"`
	Status   string     `json:"status"`
	Attached bool       `json:"attached,omitempty"` // the call joined a run that was there already
	// ApprovalURL is where a person answers what the run asks. "" = there is no page;
	// in a result also: the run asks nothing, or the client itself.
	ApprovalURL string `json:"approvalUrl,omitempty"`
}

// outcome is the result of a run that has ended.
func outcome(id runs.RunID, o *runs.Outcome) *result {
	if o.Failure != nil {
		e := o.Failure.Error
		if e.RunID == "" {
			e.RunID = string(id)
		}
		r := failedRun(&e, o.Failure.Effects)
		if len(o.Failure.Partial) > 0 {
			r.set(metaPartial, o.Failure.Partial)
		}
		if len(o.Failure.Omitted) > 0 {
			r.set(metaOmitted, o.Failure.Omitted)
		}
		if len(o.Failure.Compensated)+len(o.Failure.Uncompensated) > 0 {
			r.set(metaUndone, undone{o.Failure.Compensated, o.Failure.Uncompensated})
		}
		return r
	}
	r := &result{Content: text("null")}
	switch {
	case isNull(o.Output):
	case isObject(o.Output):
		r = structured(o.Output)
	default: // of a script; structured content is an object
		r = &result{Content: text(plain(o.Output))}
	}
	if len(o.Errors) > 0 {
		r.set(metaErrors, o.Errors)
	}
	return r
}

// plain is a value that is no object as text: a text as it is.
func plain(output json.RawMessage) string {
	var s string
	if json.Unmarshal(output, &s) == nil {
		return s
	}
	return string(output)
}

// undone reports which steps of a failed run were undone, and which a person decided to
// leave.
type undone struct {
	Compensated   []runs.StepPath `json:"compensated,omitempty"`
	Uncompensated []runs.StepPath `json:"uncompensated,omitempty"`
}

// structured is a result whose text is its structured content.
func structured(output json.RawMessage) *result {
	var compact bytes.Buffer
	_ = json.Compact(&compact, output) // an object, or what this program has encoded
	return &result{Content: text(compact.String()), Structured: compact.Bytes()}
}
