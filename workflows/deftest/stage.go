package deftest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// A stage is between the workflow and Temporal's test environment: it answers calls of
// tools and elicitations, and records events.
//
// Calls are played with timers of the workflow instead of activities, by the
// rules of Temporal's server: attempts, backoff and timeouts. Time passes only
// in the workflow, so a case comes out the same however slow the machine is.
type stage struct {
	interceptor.WorkerInterceptorBase

	c      *Case
	env    *testsuite.TestWorkflowEnvironment
	trace  *Trace
	moment int             // counts events, for their order
	known  map[string]bool // elicitations seen open, by ID

	below map[string]string // by ID of a called run: the prefix of its step paths
}

// InterceptWorkflow is called by the test environment.
func (s *stage) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &inbound{stage: s}
	in.Next = next
	return in
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	stage *stage
}

// Init is called by the test environment.
func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &outbound{stage: i.stage}
	out.Next = next
	return i.Next.Init(out)
}

// outbound is Temporal for the workflow.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	stage *stage
}

// ExecuteActivity plays a call with all of its attempts.
func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if ref, ok := reference(name, args); ok {
		return o.stage.resolve(ctx, ref)
	}
	call, err := o.stage.toolCall(name, args)
	options := workflow.GetActivityOptions(ctx)
	return o.play(ctx, err, func(ctx workflow.Context) (workflows.ToolResult, error) {
		return o.stage.attempts(ctx, call, options)
	})
}

// ExecuteLocalActivity plays a call that is made inside of the workflow task.
func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	call, err := o.stage.toolCall(name, args)
	options := workflow.GetLocalActivityOptions(ctx)
	return o.play(ctx, err, func(ctx workflow.Context) (workflows.ToolResult, error) {
		return o.stage.localAttempt(ctx, call, options.StartToCloseTimeout)
	})
}

// UpsertMemo reads from the run's state which elicitations are open.
func (o *outbound) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	_, isBelow := o.stage.below[workflow.GetInfo(ctx).WorkflowExecution.ID] // the run above has its elicitations too
	if state, ok := memo[workflows.MemoState].(workflows.State); ok && !isBelow {
		for _, e := range state.Elicitations {
			o.stage.elicitation(ctx, e)
		}
	}
	return o.Next.UpsertMemo(ctx, memo)
}

// ExecuteChildWorkflow records the prefix of the step paths of a called run.
func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	if len(args) == 1 {
		if in, ok := args[0].(workflows.RunInput); ok && in.Parent != nil {
			id := workflow.GetChildWorkflowOptions(ctx).WorkflowID
			o.stage.below[id] = o.stage.below[in.Parent.RunID] + string(in.Parent.StepPath) + "/"
		}
	}
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// reference gives the argument of an activity that resolves a name.
func reference(name string, args []any) (workflows.DefinitionRef, bool) {
	if name != workflows.ResolveName || len(args) != 1 {
		return workflows.DefinitionRef{}, false
	}
	ref, ok := args[0].(workflows.DefinitionRef)
	return ref, ok
}

// resolve finds a composite tool among the definitions under test.
func (s *stage) resolve(ctx workflow.Context, ref workflows.DefinitionRef) workflow.Future {
	future, settle := workflow.NewFuture(ctx)
	means, err := definitions.ParseReference(ref.Workflow)
	d, ok := s.c.find(means)
	if err != nil || !ok {
		e := workflows.Error{Code: codes.UnknownWorkflow, Category: codes.CategoryTool, Retryable: true,
			Message: fmt.Sprintf("composite tool %s not found in the file of definitions", ref.Workflow)}
		settle.SetError(workflows.Report(&e, false))
		return future
	}
	settle.SetValue(workflows.ResolvedDefinition{Definition: workflows.Pin(d), Tools: s.c.tools})
	return future
}

// toolCall is a call with its step path as seen from the run under test.
func (s *stage) toolCall(name string, args []any) (workflows.ToolCall, error) {
	if name == workflows.CallToolName && len(args) == 1 {
		if call, ok := args[0].(workflows.ToolCall); ok {
			call.StepPath = workflows.StepPath(s.below[call.RunID]) + call.StepPath
			return call, nil
		}
	}
	return workflows.ToolCall{}, fmt.Errorf("the activity %s cannot be played", name)
}

// play runs the call beside the workflow. An error is converted as a server would.
func (o *outbound) play(ctx workflow.Context, err error, call func(workflow.Context) (workflows.ToolResult, error)) workflow.Future {
	future, settle := workflow.NewFuture(ctx)
	if err != nil {
		settle.SetError(err)
		return future
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		result, err := call(ctx)
		if err != nil {
			wire := temporal.GetDefaultFailureConverter()
			settle.SetError(wire.FailureToError(wire.ErrorToFailure(err)))
			return
		}
		settle.SetValue(result)
	})
	return future
}

// attempts makes a call as often as the retry policy allows, within the time of all
// attempts together.
func (s *stage) attempts(ctx workflow.Context, call workflows.ToolCall, options workflow.ActivityOptions) (workflows.ToolResult, error) {
	expires := workflow.Now(ctx).Add(options.ScheduleToCloseTimeout)
	for attempt := 1; ; attempt++ {
		limit := min(options.StartToCloseTimeout, expires.Sub(workflow.Now(ctx)))
		result, err := s.attempt(ctx, call, attempt, limit, enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE)
		if err == nil || !repeatable(err, options.RetryPolicy, attempt) {
			return result, err
		}
		wait := backoff(options.RetryPolicy, attempt)
		if !workflow.Now(ctx).Add(wait).Before(expires) {
			return result, err
		}
		if cancelled := workflow.Sleep(ctx, wait); cancelled != nil {
			return result, cancelled
		}
	}
}

// localAttempt makes a call once, within the workflow task. One that takes longer than
// the task may is given up and made again, which counts as one call.
func (s *stage) localAttempt(ctx workflow.Context, call workflows.ToolCall, limit time.Duration) (workflows.ToolResult, error) {
	return s.attempt(ctx, call, 1, limit, enums.TIMEOUT_TYPE_START_TO_CLOSE)
}

// attempt makes a call once.
func (s *stage) attempt(ctx workflow.Context, call workflows.ToolCall, attempt int, limit time.Duration, overdue enums.TimeoutType) (workflows.ToolResult, error) {
	r := s.response(call)
	record := s.begin(ctx, call, attempt)
	takes := r.takes()
	if err := workflow.Sleep(ctx, min(takes, limit)); err != nil {
		s.end(ctx, record, "cancelled")
		return workflows.ToolResult{}, err
	}
	if takes >= limit {
		s.end(ctx, record, "timed out")
		record.GivenUp = overdue == enums.TIMEOUT_TYPE_START_TO_CLOSE
		return workflows.ToolResult{}, temporal.NewTimeoutError(overdue, nil)
	}
	r.used = true
	result, err := r.outcome(call, attempt)
	if err != nil {
		s.end(ctx, record, message(err))
		record.Failed = true
		return result, err
	}
	s.end(ctx, record, "")
	record.Output = result.Output
	return result, nil
}

// message is that of an error, without what Temporal adds.
func message(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return err.Error()
}

// response finds the response to a call. A case without one fails, unless tools echo.
func (s *stage) response(call workflows.ToolCall) *response {
	if r := choose(s.c.mocks[call.Tool], call); r != nil {
		return r
	}
	if s.c.echo && s.c.mocks[call.Tool] == nil {
		return &response{Structured: call.Arguments}
	}
	what := "the case does not say what it returns"
	if s.c.mocks[call.Tool] != nil {
		what = "no response is for this call"
	}
	s.trace.problem(s.c.at("tools", call.Tool), "step %s called %s with %s, and %s", call.StepPath, call.Tool, call.Arguments, what)
	missing := "no response in this test"
	return &response{Refused: &missing}
}

// repeatable reports whether Temporal's server would make another attempt.
func repeatable(err error, policy *temporal.RetryPolicy, attempt int) bool {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.NonRetryable() || policy == nil {
		return false
	}
	if slices.Contains(policy.NonRetryableErrorTypes, app.Type()) {
		return false
	}
	return policy.MaximumAttempts == 0 || attempt < int(policy.MaximumAttempts)
}

// backoff is how long Temporal's server waits after an attempt.
func backoff(policy *temporal.RetryPolicy, attempt int) time.Duration {
	wait := float64(policy.InitialInterval) * math.Pow(max(policy.BackoffCoefficient, 1), float64(attempt-1))
	if most := float64(policy.MaximumInterval); most > 0 {
		wait = min(wait, most)
	}
	return time.Duration(min(wait, math.MaxInt64/2))
}

// elicitation records the end of an elicitation, and schedules the answers of a new one.
func (s *stage) elicitation(ctx workflow.Context, e workflows.Elicitation) {
	if !s.known[e.ID] {
		s.known[e.ID] = true
		s.trace.Asked = append(s.trace.Asked, &Asked{Elicitation: e, At: s.since(ctx), moment: s.next()})
		s.answer(e)
	}
	for _, a := range s.trace.Asked {
		if a.ID == e.ID && a.State == workflows.ElicitationOpen && e.State != workflows.ElicitationOpen {
			a.State, a.Action, a.By = e.State, e.Action, e.By
			a.Ended, a.closed = s.since(ctx), s.next()
		}
	}
}

// answer sends the answers to an elicitation, each in its time, also one that does not
// fit, to see that the run refuses it.
func (s *stage) answer(e workflows.Elicitation) {
	for i, a := range s.c.written.Answers {
		if a.Step != "" && a.Step != e.StepID && a.Step != string(e.StepPath) || !a.Message.matches(e.Message) {
			continue
		}
		s.trace.answered[i] = true
		s.trace.check(s.c, i, e)
		given := workflows.Answer{
			ElicitationID: e.ID, Digest: e.Digest, Action: a.Action, Content: a.Content, AnsweredBy: a.by(), Via: a.via(e), AnswerID: fmt.Sprintf("%s/%d", e.ID, i),
		}
		after := max(time.Duration(a.After), latency)
		given.At = s.env.Now().Add(after).UTC()
		send, err := workflows.NewSignal(keys, workflows.AnswerSignal, s.c.runID(), given)
		if err != nil {
			s.trace.problem(s.c.Pos, "answering %s: %v", e.ID, err)
			continue
		}
		s.env.RegisterDelayedCallback(func() { s.env.SignalWorkflow(workflows.AnswerSignal, send) }, after)
	}
}

// keys sign the answers of tests.
var keys = func() *secrets.Keys {
	k, err := secrets.NewKeys(secrets.FixedKeys([]byte("tests of definitions")))
	if err != nil {
		panic("deftest: " + err.Error()) // never: there is a key
	}
	return k
}()

// via is the channel of answers to an elicitation.
func (a *answer) via(e workflows.Elicitation) workflows.Channel {
	if e.Mode == definitions.URLMode {
		return workflows.ViaPage
	}
	return workflows.ViaForm
}

func (a *answer) by() string {
	if a.By == "" {
		return tester
	}
	return a.By
}

func (s *stage) begin(ctx workflow.Context, call workflows.ToolCall, attempt int) *Call {
	record := &Call{Step: string(call.StepPath), Tool: call.Tool, Arguments: call.Arguments, Attempt: attempt, At: s.since(ctx), moment: s.next()}
	s.trace.Calls = append(s.trace.Calls, record)
	return record
}

func (s *stage) end(ctx workflow.Context, record *Call, problem string) {
	record.Ended, record.closed, record.Error = s.since(ctx), s.next(), problem
}

// since is the time of the run.
func (s *stage) since(ctx workflow.Context) time.Duration {
	return workflow.Now(ctx).Sub(s.trace.started)
}

func (s *stage) next() int {
	s.moment++
	return s.moment
}
