package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
)

// unknownKeys gives all questions a reason to be asked again, if one of the
// responses is to none of them: it could be meant for any.
func (st *state) unknownKeys(given map[string]json.RawMessage) (reasons map[string]string) {
	reasons = map[string]string{}
	known, asked := map[string]bool{}, []string{}
	for gate, times := range st.Asked {
		for n := range times {
			known[questionKey(gate, st.Rounds[gate], n+1)] = true
		}
		asked = append(asked, questionKey(gate, st.Rounds[gate], times))
	}
	slices.Sort(asked)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if known[key] {
			continue
		}
		for gate := range st.Asked {
			reasons[gate] = fmt.Sprintf("inputResponses answers %q, which was not asked; open elicitations: %s", clipKey(key), strings.Join(asked, ", "))
		}
		break
	}
	return reasons
}

// clipKey shortens what a client calls a question.
func clipKey(key string) string {
	if len(key) > maxKey {
		return strings.ToValidUTF8(key[:maxKey], "") + "…"
	}
	return key
}

// nextRound continues with a call whose client was asked something by input_required:
// it takes the answers and renders what follows.
func (cs *composites) nextRound(ctx context.Context, x *exchange) {
	var st state
	err := cs.tokens.open(statePurpose, x.params.RequestState, x.callerID, &st)
	if err != nil || st.Tool != x.params.Name || st.Arguments != x.arguments {
		cs.log.DebugContext(ctx, "refusing a request state", "error", err)
		x.fail(mcp.INVALID_PARAMS, badState)
		return
	}
	own := st.Owner == "" && st.Tool != awaitTool
	x.countsAnswer = x.countsAnswer || st.From != ""
	run, err := cs.runs.Get(ctx, st.Run)
	switch {
	case errors.Is(err, runs.ErrNotFound):
		x.respond("", cs.results.finish(x.client, errorResult(st.Run, err)))
		return
	case err != nil:
		cs.results.failed(x, st.Run, err)
		return
	}
	if x.dialect.sendsAgain() && own { // before its answers count: the call is lost if this request is
		if x.joined, err = cs.continues(ctx, x, &st, run); err != nil {
			cs.results.failed(x, st.Run, err)
			return
		}
	}
	o, ok := cs.takeAnswers(ctx, x, &st, run)
	if !ok {
		return
	}
	if own && x.bind(st.Run) {
		cs.calls.cancelRun(ctx, st.Run)
	}
	if st.Tool == awaitTool {
		x.watch(st.Owner)
	}
	cs.served.begin(st.Run, x)
	at := x.cursorFor(runs.Started{ID: st.Run, Attached: st.Attached})
	at.Seq, at.Asked, at.Owner = st.Seq, st.Asked, st.Owner
	cs.follows(ctx, x, at, o)
}

// takeAnswers gives the answers of a request to its run, and how the call is rendered
// then; false = the request has its response.
func (cs *composites) takeAnswers(ctx context.Context, x *exchange, st *state, run *runs.Run) (o renderOptions, ok bool) {
	o = renderOptions{resumed: true, run: run, reasons: st.unknownKeys(x.params.InputResponses), pages: map[string]string{}, answered: map[string]bool{}}
	for _, gate := range slices.Sorted(maps.Keys(st.Asked)) {
		raw, _, given := answerTo(gate, st.Rounds[gate], st.Asked[gate], x.params.InputResponses)
		if !given || o.reasons[gate] != "" {
			continue
		}
		if slices.Contains(st.URLs, gate) {
			o.pages[gate] = actionOf(raw)
			continue
		}
		var (
			invalid *runs.InvalidAnswerError
			err     error
		)
		o.run, err = cs.questions.answer(ctx, x.client, run, about{elicitation: gate, question: st.Asks[gate]}, raw)
		run = cmp.Or(o.run, run)
		switch {
		case errors.As(err, &invalid):
			o.reasons[gate] = invalid.Reason
		case sent(err):
			o.answered[gate] = true
		case errors.Is(err, runs.ErrUnavailable):
			cs.results.failed(x, st.Run, err)
			return o, false
		case err != nil && !errors.Is(err, runs.ErrNoSuchGate) && !errors.Is(err, runs.ErrNotPermitted):
			x.respond("", cs.results.finish(x.client, errorResult(st.Run, err)))
			return o, false
		}
	}
	return o, true
}

// continues notes that a client continues from the request that has asked it, also if
// it disconnects meanwhile: who calls again from the beginning is then not a new call.
func (cs *composites) continues(ctx context.Context, x *exchange, st *state, run *runs.Run) (noted bool, err error) {
	if run.Closed != nil {
		return false, nil
	}
	ctx, done := detached(ctx)
	defer done()
	return cs.attendance.mustAttend(ctx, st.Run, runs.Attended{Request: x.name, Says: runs.Joined, Of: st.From, Events: run.Events})
}
