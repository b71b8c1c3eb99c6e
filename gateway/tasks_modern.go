package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
)

// A modernTask is a DetailedTask of the extension.
type modernTask struct {
	ResultType string         `json:"resultType"`
	Meta       map[string]any `json:"_meta,omitempty"`
	taskState
	TTL           *int64                  `json:"ttlMs"`
	Poll          int64                   `json:"pollIntervalMs,omitempty"`
	InputRequests map[string]inputRequest `json:"inputRequests,omitempty"`
	Result        *result                 `json:"result,omitempty"`
}

// modernTask is tasks/get of the extension, with what the client has to answer
// or what has come out.
func (ts *tasks) modernTask(ctx context.Context, x *exchange, run *runs.Run) {
	t := ts.views.modern(x, run)
	ask, wait := ts.inputs(x, run)
	switch {
	case run.Closed != nil:
		o, err := ts.runs.Result(ctx, run.ID)
		if err != nil {
			ts.results.failed(x, run.ID, err)
			return
		}
		ts.endTask(x, run, o, t)
	case run.Cancelling:
		t.Message = "being cancelled"
	case len(ask) > 0:
		t.Status, t.Message = string(mcp.TaskStatusInputRequired), wait
		t.InputRequests = map[string]inputRequest{}
		for _, in := range ask {
			t.InputRequests[in.key] = inputRequest{Method: string(mcp.MethodElicitationCreate), Params: in.params}
		}
	default:
		t.Message = wait
	}
	x.respond("", t)
}

// endTask sets the outcome of a task. A cancelled one has no result: the failure is set
// beside it.
func (ts *tasks) endTask(x *exchange, run *runs.Run, o *runs.Outcome, t *modernTask) {
	ended := ts.results.ended(x.client, run.ID, o)
	if run.Status != runs.Cancelled {
		t.Status = string(mcp.TaskStatusCompleted)
		t.Result = ts.results.finish(x.client, ended.set(metaRun, runState{ID: run.ID, Status: string(run.Status)}))
		return
	}
	t.Status = string(mcp.TaskStatusCancelled)
	maps.Copy(t.Meta, ended.Meta)
	if o.Failure != nil {
		t.Message = o.Failure.Text()
	}
}

func (v *taskViews) modern(x *exchange, run *runs.Run) *modernTask {
	return &modernTask{
		ResultType: string(mcp.ResultTypeComplete),
		taskState:  v.describe(x, run),
		TTL:        v.ttl(run),
		Poll:       pollInterval(run),
		Meta: map[string]any{
			metaRun:               runState{ID: run.ID, Status: string(run.Status)},
			mcp.MetaKeyServerInfo: map[string]string{"name": v.server.Name, "version": v.server.Version},
		},
	}
}

// updateTask is tasks/update: it gives answers on. Those to what is answered already
// are ignored. One to what the task has never asked is refused, and with it those
// beside it, since it could be meant for any question. Alone, it is acknowledged all
// the same, as SEP-2663 demands; the acknowledgement reports that it was refused. An
// answer that does not fit is asked for again, under another key.
func (ts *tasks) updateTask(ctx context.Context, x *exchange, run *runs.Run) {
	ack := ts.results.acknowledgement(x)
	if unknown := unknownKeys(run, x.params.InputResponses); len(unknown) > 0 {
		if len(unknown) < len(x.params.InputResponses) {
			x.fail(mcp.INVALID_PARAMS, fmt.Sprintf("inputResponses answers %q, which the task has not asked; no answer was accepted", unknown[0]))
			return
		}
		x.respond("", ack.set(metaRefused, unknown[:min(len(unknown), maxRefusedKeys)]))
		return
	}
	ask, _ := ts.inputs(x, run)
	for _, in := range ask {
		raw, key, ok := answerTo(in.ID, in.Round, in.number, x.params.InputResponses)
		if !ok {
			continue
		}
		in.key = key
		switch err := ts.takeInput(ctx, x, run, in, raw); {
		case errors.Is(err, runs.ErrNoSuchGate), errors.Is(err, runs.ErrNotPermitted), errors.Is(err, runs.ErrNotFound):
			ts.log.DebugContext(ctx, "ignoring an answer to an elicitation that is not open", "run", run.ID, "elicitation", in.ID)
		case err != nil:
			ts.results.failed(x, run.ID, err)
			return
		}
	}
	x.respond("", ack)
}

// maxRefusedKeys is how many refused answers an acknowledgement names.
const maxRefusedKeys = 10

// unknownKeys are the keys of answers to what the run has never asked, sorted.
func unknownKeys(run *runs.Run, answers map[string]json.RawMessage) (unknown []string) {
	asked := askedKeys(run)
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !asked[key] {
			unknown = append(unknown, clipKey(key))
		}
	}
	return unknown
}

// askedKeys are those of the elicitations of the run, as they were asked at some time.
func askedKeys(run *runs.Run) map[string]bool {
	times := map[string]int{} // by ID, of those that are open
	for _, e := range run.Open() {
		times[e.ID], _ = (&gate{Elicitation: e}).nextQuestion()
	}
	keys := map[string]bool{}
	for _, e := range run.Elicitations {
		// How often a closed one was asked is not known any more.
		for number := range cmp.Or(times[e.ID], maxInvalid) {
			keys[questionKey(e.ID, e.Round, number+1)] = true
		}
	}
	return keys
}

// takeInput gives an answer on. If it is none, the run notes that, so that the
// question is shown under another key from now on.
func (ts *tasks) takeInput(ctx context.Context, x *exchange, run *runs.Run, in input, raw json.RawMessage) error {
	became := runs.Question{Name: in.key, Outcome: runs.Invalid}
	var invalid *runs.InvalidAnswerError
	switch {
	case in.way == byURL && actionOf(raw) == accept:
		became.Outcome = runs.Sent
	case in.way == byURL:
		became.Outcome = runs.Unwilling
	default:
		_, err := ts.questions.answer(ctx, x.client, run, about{elicitation: in.ID, question: in.Digest}, raw)
		if sent(err) {
			return nil
		}
		if !errors.As(err, &invalid) {
			return err
		}
		became.Reason = invalid.Reason
	}
	ctx, done := detached(ctx)
	defer done()
	return ts.runs.ReportQuestion(ctx, run.ID, in.ID, became)
}

// cancelModernTask is tasks/cancel of the extension. For a task that has
// ended it changes nothing, and is acknowledged all the same.
func (ts *tasks) cancelModernTask(ctx context.Context, x *exchange, run *runs.Run) {
	if run.Closed == nil {
		if _, ok := ts.cancelTask(ctx, x, run); !ok {
			return
		}
	}
	x.respond("", ts.results.acknowledgement(x))
}

// handOutTask answers a call with a task, which is durable since its run is.
func (s *stream) handOutTask() (answered bool) {
	ctx, done := detached(context.Background())
	defer done()
	run, err := s.on.runs.Get(ctx, s.at.Run)
	if err != nil {
		s.on.log.Warn("reading a run", "run", s.at.Run, "error", err)
		return false
	}
	t := s.on.views.modern(s.x, run)
	t.ResultType, t.Message, t.Poll = resultTypeTask, s.status(), pollRunning.Milliseconds()
	t.Meta[metaRun] = runState{ID: run.ID, Status: string(run.Status), Attached: s.at.Attached}
	s.x.respond("", t)
	return true
}

const resultTypeTask = "task"
