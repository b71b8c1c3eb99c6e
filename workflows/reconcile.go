package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

// The decisions of a person about a call of unknown outcome.
const (
	Happened    = "happened"     // it was executed; with its result, if that is known
	NotHappened = "not_happened" // it was not: it is called now
	Fail        = "fail"         // the step fails, as it would have without asking
)

// reconciliationSchema is the schema of a Reconciliation.
var reconciliationSchema = json.RawMessage(`{"properties":{` +
	`"outcome":{"oneOf":[` +
	`{"const":"happened","title":"It was executed"},` +
	`{"const":"not_happened","title":"It was not executed: call it now"},` +
	`{"const":"fail","title":"Let the step fail"}],"title":"What happened","type":"string"},` +
	`"result":{"description":"JSON object to use as the output of the tool; empty = {}","title":"Its result, if it was executed","type":"string"}` +
	`},"required":["outcome"],"type":"object"}`)

// A Reconciled is the content of an answer to a Reconciliation.
type Reconciled struct {
	Outcome string `json:"outcome"`          // Happened, NotHappened, Fail
	Result  string `json:"result,omitempty"` // JSON object, with Happened; "" = {}
}

// output is the output of the step by the person's decision.
func (d Reconciled) output() (json.RawMessage, error) {
	result, err := decodeObject(json.RawMessage(cmp.Or(d.Result, "{}")))
	if err != nil {
		return nil, fmt.Errorf("result must be a JSON object: %w", err)
	}
	output, err := template.EncodeValue(result)
	if err != nil {
		return nil, fmt.Errorf("result must be a JSON object: %w", err)
	}
	if size := record.PayloadSize(output); size > MaxResultSize {
		return nil, fmt.Errorf("result has %d bytes; the limit is %d", size, MaxResultSize)
	}
	return output, nil
}

// checkReconciled checks what the schema of a Reconciliation cannot express.
func checkReconciled(content json.RawMessage) error {
	var d Reconciled
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	if d.Outcome != Happened && d.Result != "" {
		return errors.New("a result belongs to the outcome happened")
	}
	_, err := d.output()
	return err
}

// reconcile finds out what became of a call, from its probe or else from a person. Again
// reports that it was not executed and is to be made.
func (cs *calls) reconcile(ctx workflow.Context, q request, u *UnknownCall) (result ToolResult, again bool, failure *Error) {
	p, err := q.findProbe()
	asks := q.onUnknown == definitions.Ask || u.Ask
	if p == nil && err == nil && !asks {
		return ToolResult{}, false, &u.Error
	}
	cs.noteUnknown(q, u)
	var (
		found definitions.Finding
		said  string
	)
	if !cs.elicitations.askedBefore(parkedPath(Reconciliation, q.path, u.Times)) { // otherwise it is a person's turn, who sees the question
		found, said = cs.find(ctx, q, u, p, err)
	}
	switch {
	case ctx.Err() != nil:
		return ToolResult{}, false, q.failure(ctx.Err())
	case found.Happened:
		return ToolResult{Output: found.Result}, false, nil
	case found.NotHappened:
		return ToolResult{}, true, nil
	case !asks:
		return ToolResult{}, false, &u.Error
	}
	return cs.askOutcome(ctx, q, u, said)
}

// askOutcome has a person decide what became of a call. said is what the probe has found.
func (cs *calls) askOutcome(ctx workflow.Context, q request, u *UnknownCall, said string) (result ToolResult, again bool, failure *Error) {
	given := u.Error // of the step, if the outcome stays unknown
	answer, refused := cs.gates.park(ctx, Elicitation{
		Kind: Reconciliation, Schema: reconciliationSchema, Call: &u.Call,
		Message: fmt.Sprintf("%s.%s Was it? Its key is %s.", given.Message, said, u.Call.Key),
	}, q.path, u.Times)
	if refused != nil {
		if refused.Category != codes.CategoryLimit {
			return ToolResult{}, false, refused
		}
		given.Message += "; nobody can be asked: " + refused.Message // which does not make the outcome known
		return ToolResult{}, false, &given
	}
	var d Reconciled
	if answer.Action == Accept && json.Unmarshal(answer.Content, &d) != nil {
		d.Outcome = Fail // cannot happen: the answer was checked
	}
	switch d.Outcome {
	case Happened:
		result.Output, _ = d.output() // checked as well
		return result, false, nil
	case NotHappened:
		return ToolResult{}, true, nil
	}
	if answer.AnsweredBy != "" {
		given.Message += "; given up by " + answer.AnsweredBy
	}
	return ToolResult{}, false, &given
}

// noteUnknown keeps for the execution after this one that a call was sent, so
// that it asks as well and does not call.
func (cs *calls) noteUnknown(q request, u *UnknownCall) {
	cs.journal.Note(q.path, record.Call{Digest: record.DigestOf(q.args), OutcomeUnknown: u})
}

// unknownBefore is a call whose outcome an earlier execution left unknown. If it is
// made again, it has its first arguments: templates may give others by now, which would
// be another call. A resumption with changes uses the new ones.
func (cs *calls) unknownBefore(q *request) *UnknownCall {
	e, _ := cs.journal.Earlier(q.path)
	call, ok := e.Kind.(record.Call)
	if !ok || call.OutcomeUnknown == nil {
		return nil
	}
	u := *call.OutcomeUnknown
	if sent := u.Sent(); sent != nil && !u.Anew && !e.Exact {
		q.args = sent
	}
	return &u
}

// unknown is a call that was sent, whose outcome is unknown.
func (q request) unknown(sent ParkedCall, failure Error, times int) UnknownCall {
	u := UnknownCall{Call: sent, Error: failure, Times: times}
	if sent.Arguments == nil {
		u.Arguments = q.args
	}
	return u
}

// A probe is what can find out about a call, and what its templates see.
type probe struct {
	program *definitions.ProbeProgram
	tool    definitions.Tool
	scope   *definitions.Scope
	script  *script.Probe // instead of program and scope, of a call of a script
}

// maxFound bounds how often a probe may have a call made again.
const maxFound = 3

// probeOf is the probe of a step, or else of its tool; nil if neither has one.
func (r *run) probeOf(ctx workflow.Context, n *definitions.Node, at place, tool definitions.Tool) (*probe, error) {
	p := &probe{program: n.Probe, scope: r.steps.scopeAt(ctx, at)}
	if p.program == nil && tool.Probe != nil {
		var err error
		if p.program, err = definitions.CompileProbe(tool.Probe); err != nil {
			return nil, err
		}
		p.scope = &definitions.Scope{}
	}
	if p.program == nil {
		return nil, nil
	}
	var ok bool
	if p.tool, ok = r.in.Tools[p.program.Probe.Tool]; !ok {
		return nil, fmt.Errorf("no backend offered the tool %s when the run started", p.program.Probe.Tool)
	}
	if p.tool.Effect != definitions.Read {
		return nil, fmt.Errorf("the tool %s must have effect class read", p.tool.Name)
	}
	return p, nil
}

// findProbe is the probe of a call; nil if it has none.
func (q request) findProbe() (*probe, error) {
	if q.probe == nil {
		return nil, nil
	}
	return q.probe()
}

// find runs the probe, if there is one. On failure, said is a sentence with the reason.
func (cs *calls) find(ctx workflow.Context, q request, u *UnknownCall, p *probe, err error) (found definitions.Finding, said string) {
	if p != nil {
		found, err = cs.askProbe(ctx, q, p, u)
	}
	switch {
	case err != nil:
		return definitions.Finding{}, fmt.Sprintf(" The probe could not find out: %s.", err)
	case p == nil:
		return found, ""
	case found.NotHappened && u.Times > maxFound:
		return definitions.Finding{}, fmt.Sprintf(" The probe found %d times that it was not executed.", u.Times)
	case !found.Happened && !found.NotHappened:
		return found, " The probe does not know."
	}
	return found, ""
}

func (cs *calls) askProbe(ctx workflow.Context, q request, p *probe, u *UnknownCall) (definitions.Finding, error) {
	path := q.path.Probe(u.Times)
	timer := workflow.NewTimerWithOptions(ctx, p.delay(), workflow.TimerOptions{Summary: Summary(path, "waits before it asks")})
	if err := timer.Get(ctx, nil); err != nil {
		return definitions.Finding{}, err
	}
	call, err := callScope(u.Call)
	if err != nil {
		return definitions.Finding{}, err
	}
	args, err := p.arguments(call)
	if err != nil {
		return definitions.Finding{}, err
	}
	result, failure := cs.call(ctx, request{tool: p.tool, path: path, args: args, limit: p.timeout()})
	if failure != nil {
		return definitions.Finding{}, failure
	}
	return p.read(call, result.Output)
}

// callScope is what the templates of a probe see as .call.
func callScope(c ParkedCall) (map[string]any, error) {
	call := map[string]any{"key": c.Key, "sent": c.Sent.UTC().Format(time.RFC3339)}
	if c.Arguments != nil {
		arguments, err := template.DecodeValue(c.Arguments)
		if err != nil {
			return nil, err
		}
		call["arguments"] = arguments
	}
	return call, nil
}
