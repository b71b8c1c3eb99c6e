package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
)

// A handle is what a client is given instead of a result that takes longer
// than it can wait.
type handle struct {
	Status      string         `json:"status"` // waiting_for_approval, needs_credentials or running
	RunID       runs.RunID     `json:"runId"`
	Tool        string         `json:"tool"`
	ApprovalURL string         `json:"approvalUrl,omitempty"`
	Questions   []openQuestion `json:"questions,omitempty"`
	Running     []string       `json:"running,omitempty"` // step paths
	Next        *nextCall      `json:"next,omitempty"`
}

type openQuestion struct {
	StepID  string     `json:"stepId"`
	Path    string     `json:"stepPath,omitempty"` // where it is not the ID
	Message string     `json:"message"`
	Expires *time.Time `json:"expires,omitempty"`
	// NotTaken reports why the client's last answer was not taken, "" = it gave none.
	NotTaken string `json:"notTaken,omitempty"`
	onPage   bool   // it is answered on the approvals page alone
	unknown  bool   // it asks what became of a call
}

type nextCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

func questionOf(e runs.Elicitation) openQuestion {
	q := openQuestion{StepID: e.StepID, Message: view.Text(e.Message), onPage: e.Mode == definitions.URLMode, unknown: e.Kind == runs.Reconciliation}
	if path := string(e.StepPath); path != e.StepID {
		q.Path = path
	}
	return q
}

const (
	statusWaiting = "waiting_for_approval"
	statusNeeds   = "needs_credentials"
	statusRunning = "running"

	statusQuarantined = "quarantined"
	quarantinedWords  = "quarantined: it took down the processes that executed it; an operator of this server releases it or ends it"
)

// result explains to a model how to use the handle. A client that checks results
// against the output schema would reject a handle that does not fit, as for a tool
// whose runs do not wait: there it is marked as an error, which is not checked.
func (h *handle) result(fits func(json.RawMessage) bool) *result {
	body := json.RawMessage(mustEncode(h))
	r := &result{Content: text(h.advice()), Structured: body}
	if !fits(body) {
		r.Structured, r.IsError = nil, true
	}
	return r
}

// handleSchema is that of a handle.
var handleSchema = map[string]any{
	"description": "The run goes on: call perdure_run_await with its runId to get the result.",
	"type":        "object",
	"properties": map[string]any{
		"status":      map[string]any{"enum": []string{statusRunning, statusWaiting, statusNeeds, statusQuarantined}},
		"runId":       map[string]any{"type": "string"},
		"tool":        map[string]any{"type": "string"},
		"approvalUrl": map[string]any{"type": "string"},
		"questions":   map[string]any{"type": "array"},
		"running":     map[string]any{"type": "array"},
		"next":        map[string]any{"type": "object"},
	},
	"required": []string{"status", "runId", "tool"},
}

// resultOrHandle is the output schema of a tool whose calls may be answered with a
// handle, built from the schema of its results. Members of both are described once
// each.
func resultOrHandle(result json.RawMessage) (json.RawMessage, error) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(result, &schema); err != nil {
		return nil, err
	}
	own := map[string]json.RawMessage{}
	for name := range handleSchema["properties"].(map[string]any) {
		if property, both := schema.Properties[name]; both {
			own[name] = property
			delete(schema.Properties, name)
		}
	}
	return encode(map[string]any{
		"type":       "object",
		"properties": schema.Properties,
		"anyOf": []any{
			map[string]any{"description": "The result.", "type": "object", "properties": own, "required": append([]string{}, schema.Required...)},
			handleSchema,
		},
	})
}

func (h *handle) advice() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Not finished yet, and not an error: run %s of %s goes on", h.RunID, h.Tool)
	switch h.Status {
	case statusNeeds:
		b.WriteString(" and waits for a credential, without which a step cannot be taken.")
		for _, q := range h.Questions {
			fmt.Fprintf(&b, " Needed is: %q.", q.Message)
		}
		b.WriteString(" You cannot give it yourself. Tell the user, who may have to sign in again.")
	case statusWaiting:
		b.WriteString(" and waits for a person's answer.")
		for _, q := range h.Questions {
			fmt.Fprintf(&b, " Asked is: %q.", q.Message)
			if q.NotTaken != "" {
				b.WriteString(" " + q.NotTaken)
			}
		}
		b.WriteString(" You cannot answer it yourself. Tell the user")
		switch {
		case h.ApprovalURL != "":
			fmt.Fprintf(&b, " to answer it at %s.", h.ApprovalURL)
		case slices.ContainsFunc(h.Questions, func(q openQuestion) bool { return q.onPage }):
			b.WriteString(" that it can be answered on the approvals page alone, which is closed: the operator of this server has to say in its configuration how people sign in there.")
		default:
			b.WriteString(h.answerCommand())
		}
	case statusQuarantined:
		b.Reset()
		fmt.Fprintf(&b, "Not finished: run %s of %s is %s. Tell the user.", h.RunID, h.Tool, quarantinedWords)
	default:
		b.WriteString(".")
	}
	if h.Next != nil {
		fmt.Fprintf(&b, " Then call %s with %s to get the result.", h.Next.Tool, mustEncode(h.Next.Arguments))
	} else {
		fmt.Fprintf(&b, " The result can be had with: perdure runs result %s.", h.RunID)
	}
	fmt.Fprintf(&b, " Do not call %s again for this.", h.Tool)
	return b.String()
}

// answerCommand is how a person answers at a terminal.
func (h *handle) answerCommand() string {
	var paths []string
	for _, q := range h.Questions {
		if q.unknown {
			return fmt.Sprintf(" to find out at the backend, and to record it as this says: perdure runs show %s.", h.RunID)
		}
		paths = append(paths, cmp.Or(q.Path, q.StepID))
	}
	if len(paths) < 2 {
		return fmt.Sprintf(" to answer it, for example with: perdure runs answer %s --accept.", h.RunID)
	}
	return fmt.Sprintf(" to answer it, for example with: perdure runs answer %s --step %s --accept (steps with an open elicitation: %s).", h.RunID, view.ShellWord(paths[0]), strings.Join(paths, ", "))
}
