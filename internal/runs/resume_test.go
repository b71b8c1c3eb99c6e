package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A script notes the calls of a run and fails some of them.
type script struct {
	mu    sync.Mutex
	calls []string          // "STEPPATH ARGUMENT n"
	keys  map[string]string // by step path
	fails map[string]func(workflows.ToolCall) error
}

func newScript(t *testing.T) *script {
	s := &script{keys: map[string]string{}, fails: map[string]func(workflows.ToolCall) error{}}
	scripted.Store(t.Name(), s.call)
	t.Cleanup(func() { scripted.Delete(t.Name()) })
	return s
}

func (s *script) call(call workflows.ToolCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var args struct{ N string }
	_ = json.Unmarshal(call.Arguments, &args)
	s.calls = append(s.calls, strings.TrimSpace(string(call.StepPath)+" "+args.N))
	s.keys[string(call.StepPath)] = call.IdempotencyKey
	if f := s.fails[string(call.StepPath)]; f != nil {
		return f(call)
	}
	return nil
}

// fail lets calls of a step fail, or work again with nil.
func (s *script) fail(path string, f func(workflows.ToolCall) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails[path] = f
}

// made are the calls since it was last asked.
func (s *script) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func failing(call workflows.ToolCall) error {
	return workflows.Report(workflows.Attempt{Call: call, Number: 1}.Answered("it does not work"))
}

func losing(call workflows.ToolCall) error {
	return workflows.Report(workflows.Attempt{Call: call, Number: 1}.Lost("the connection broke"))
}

// five are five steps in a row; the third is a question.
const five = `
name: five
description: Five steps.
parameters: {type: object, properties: {as: {type: string}, n: {type: string, default: "0"}}}
steps:
  - {id: one, tool: write, arguments: {as: "{{.params.as}}", n: "1"}}
  - {id: two, type: forEach, dependsOn: [one], collection: '["a", "b"]', step: {tool: write, arguments: {as: "{{.params.as}}", n: "{{.forEach.item}}"}}}
  - {id: three, type: elicitation, dependsOn: [two], message: Go on?}
  - {id: four, tool: write, dependsOn: [three], arguments: {as: "{{.params.as}}", n: "{{.params.n}}"}}
  - {id: five, tool: write, dependsOn: [four], arguments: {as: "{{.params.as}}", n: "{{.steps.four.output.said.n}}"}}
`

func fiveSteps(t *testing.T) runs.StartRequest {
	req := request(t, five)
	req.Arguments = json.RawMessage(fmt.Sprintf(`{"as":%q,"n":"0"}`, t.Name()))
	return req
}

// runToFailure starts a run of five steps that fails in the fourth.
func runToFailure(t *testing.T, c *runs.Client, s *script) (runs.RunID, []runs.Event) {
	t.Helper()
	id := start(t, c, fiveSteps(t))
	opened := followTo(t, c, id, 0, runs.EventOpened)
	answer(t, c, id, runs.Answer{ElicitationID: opened[len(opened)-1].Elicitation.ID, Action: "accept", By: "ada"})
	events := followTo(t, c, id, 0, runs.EventDone)
	if status := events[len(events)-1].Outcome.Status; status == workflows.Completed {
		t.Fatalf("the run is %s", status)
	}
	if diff := cmp.Diff([]string{"one 1", "two[0] a", "two[1] b", "four 0"}, sortedPairs(s.made())); diff != "" {
		t.Fatalf("calls of the first execution: %s", diff)
	}
	return id, events
}

// sortedPairs puts the items of the forEach, which run at once, in order.
func sortedPairs(calls []string) []string {
	for i := 1; i < len(calls); i++ {
		if strings.HasPrefix(calls[i], "two[0]") && strings.HasPrefix(calls[i-1], "two[1]") {
			calls[i], calls[i-1] = calls[i-1], calls[i]
		}
	}
	return calls
}

func resumeRun(t *testing.T, c *runs.Client, id runs.RunID, req history.ResumeRequest) *history.ResumePlan {
	t.Helper()
	plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, req))(t)
	perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
	return plan
}

// fates are one line for each step of a plan.
func fates(plan *history.ResumePlan) []string {
	var lines []string
	for _, s := range plan.Steps {
		line := string(s.Path) + " " + s.Plan
		if s.Risk {
			line += ", at risk"
		}
		lines = append(lines, line)
	}
	return lines
}

// A failed run continues from where it failed, as the same run for its followers. It does
// not repeat completed calls or answered questions.
func TestResume(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	s.fail("four", failing)
	id, before := runToFailure(t, c, s)
	key := s.keys["four"]
	s.fail("four", nil)

	plan := resumeRun(t, c, id, history.ResumeRequest{By: "ada"})
	if diff := cmp.Diff([]string{"one reused", "two[0] reused", "two[1] reused", "three reused", "four executed"}, fates(plan)); diff != "" {
		t.Errorf("plan: %s", diff)
	}
	after := followTo(t, c, id, 0, runs.EventDone)
	if diff := cmp.Diff([]string{"four 0", "five 0"}, s.made()); diff != "" {
		t.Errorf("calls of the second execution: %s", diff)
	}
	if s.keys["four"] != key {
		t.Errorf("the call that failed has another key")
	}
	if outcome := after[len(after)-1].Outcome; outcome.Status != workflows.Completed {
		t.Errorf("ended %s: %+v", outcome.Status, outcome.Failure)
	}
	n := len(before) - 1
	if diff := cmp.Diff(before[:n], after[:n]); diff != "" {
		t.Errorf("events of the first execution have changed:\n%s", diff)
	}
	if diff := cmp.Diff(after[n:], rest(t, c, id, before[n].Seq)); diff != "" {
		t.Errorf("after the first end (-want +got):\n%s", diff)
	}
	if outcome, err := c.Result(t.Context(), id); err != nil || outcome.Status != workflows.Completed {
		t.Errorf("result %+v, %v", outcome, err)
	}
	detail, err := c.Show(t.Context(), id)
	if err != nil || len(detail.Steps) != 7 || detail.Caller != "alice" {
		t.Errorf("show: %+v, %v", detail, err)
	}
	if started, err := c.Start(t.Context(), runs.StartRequest{ID: id, Definition: definition(t, five)}); err != nil || !started.Attached {
		t.Errorf("starting it again: %+v, %v; want to attach", started, err)
	}
	for status, want := range map[runs.Status]int{workflows.Failed: 0, workflows.Completed: 1, "": 1} {
		filter := runs.Filter{Tool: "five", Status: status, Query: "WorkflowId = '" + string(id) + "'"}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			list, err := c.List(t.Context(), filter)
			if err == nil && len(list) == want && (want == 0 || list[0].Status == workflows.Completed) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("listed as %q: %+v, %v; want %d", status, list, err, want)
			}
		}
	}
	if _, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}); !errors.Is(err, runs.ErrNotResumable) {
		t.Errorf("a completed run: %v", err)
	}
}

// A call of unknown outcome must be reconciled before a run continues, and is not made
// again by accident.
func TestResumeOfUnknownOutcomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		request history.ResumeRequest
		answer  string // to what the run asks
		calls   []string
	}{
		{"happened", history.ResumeRequest{Otherwise: runs.Happened}, "", []string{"five"}},
		{"happened, with a result", history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{"four": json.RawMessage(`{"said":{"n":"7"}}`)}}, "", []string{"five 7"}},
		{"not happened", history.ResumeRequest{Unknown: map[workflows.StepPath]string{"four": runs.NotHappened}}, "", []string{"four 0", "five 0"}},
		{"ask, and it happened", history.ResumeRequest{Otherwise: history.AskAgain}, `{"outcome":"happened","result":"{\"said\":{\"n\":\"8\"}}"}`, []string{"five 8"}},
		{"ask, and it did not", history.ResumeRequest{Otherwise: history.AskAgain}, `{"outcome":"not_happened"}`, []string{"four 0", "five 0"}},
	} {
		t.Run(strings.ReplaceAll(tc.name, ",", ""), func(t *testing.T) {
			t.Parallel()
			c, _ := connect(t)
			s := newScript(t)
			s.fail("four", losing)
			id, _ := runToFailure(t, c, s)
			key := s.keys["four"]
			s.fail("four", nil)
			plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
			if len(plan.OutcomeUnknown) != 1 || plan.OutcomeUnknown[0].Path != "four" || plan.OutcomeUnknown[0].Call.Key != key {
				t.Errorf("unsettled: %+v", plan.OutcomeUnknown)
			}
			if err := c.Resumptions().Execute(t.Context(), plan); !errors.Is(err, runs.ErrOutcomeUnknown) {
				t.Errorf("without a word about it: %v", err)
			}
			resumeRun(t, c, id, tc.request)
			if tc.answer != "" {
				opened := followTo(t, c, id, 0, runs.EventOpened) // of the first execution
				opened = append(opened, followTo(t, c, id, opened[len(opened)-1].Seq, runs.EventOpened)...)
				asked := opened[len(opened)-1].Elicitation
				if asked.Kind != runs.Reconciliation {
					t.Fatalf("asked %+v", asked)
				}
				answer(t, c, id, runs.Answer{ElicitationID: asked.ID, Action: "accept", Content: json.RawMessage(tc.answer), By: "ada"})
			}
			events := followTo(t, c, id, 0, runs.EventDone)
			if outcome := events[len(events)-1].Outcome; outcome.Status != workflows.Completed {
				t.Errorf("ended %s: %+v", outcome.Status, outcome.Failure)
			}
			if diff := cmp.Diff(tc.calls, s.made()); diff != "" {
				t.Errorf("calls of the second execution: %s", diff)
			}
		})
	}
}

// A gate that was declined, and so let the run fail, is asked again, by another
// ID: an old answer does not count for it.
func TestResumeAsksAgain(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	id := start(t, c, fiveSteps(t))
	followTo(t, c, id, 0, runs.EventOpened)
	answer(t, c, id, runs.Answer{ElicitationID: "three#1", Action: "decline", By: "ada"})
	done := followTo(t, c, id, 0, runs.EventDone)
	s.made()
	resumeRun(t, c, id, history.ResumeRequest{})
	opened := followTo(t, c, id, done[len(done)-1].Seq, runs.EventOpened)
	if got := opened[len(opened)-1].Elicitation.ID; got != "three#2" {
		t.Errorf("asked as %s, want three#2", got)
	}
	if d, err := c.Answer(t.Context(), id, runs.Answer{ElicitationID: "three#1", Action: "accept", By: "eve"}); err != nil || d.Won {
		t.Errorf("an answer to the question before: %+v, %v", d, err)
	}
	answer(t, c, id, runs.Answer{ElicitationID: "three#2", Action: "accept", By: "ada"})
	followTo(t, c, id, 0, runs.EventDone)
	if diff := cmp.Diff([]string{"four 0", "five 0"}, s.made()); diff != "" {
		t.Error(diff)
	}
}

// What the request changes is planned first: steps whose arguments stay the
// same are not executed again.
func TestResumeWithChanges(t *testing.T) {
	t.Parallel()
	fixed := strings.Replace(five, `n: "1"`, `n: "one"`, 1)
	for _, tc := range []struct {
		name   string
		req    func(t *testing.T) history.ResumeRequest
		fates  []string
		calls  []string
		atRisk int
	}{
		{"other arguments", func(t *testing.T) history.ResumeRequest {
			return history.ResumeRequest{Arguments: map[string]json.RawMessage{"n": json.RawMessage(`"9"`)}}
		}, []string{"one reused_if_same, at risk", "two[0] reused_if_same, at risk", "two[1] reused_if_same, at risk", "three reused_if_same", "four executed"},
			[]string{"four 9", "five 9"}, 3},
		{"another definition", func(t *testing.T) history.ResumeRequest {
			return history.ResumeRequest{Definition: definition(t, fixed)}
		},
			[]string{"one reused_if_same, at risk", "two[0] reused_if_same, at risk", "two[1] reused_if_same, at risk", "three reused_if_same", "four executed"},
			[]string{"one one", "four 0", "five 0"}, 3},
		{"a result", func(t *testing.T) history.ResumeRequest {
			return history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{"four": json.RawMessage(`{"said":{"n":"5"}}`)}}
		}, []string{"one reused", "two[0] reused", "two[1] reused", "three reused", "four given"}, []string{"five 5"}, 0},
		{"from a step", func(t *testing.T) history.ResumeRequest {
			return history.ResumeRequest{From: []string{"two"}, Results: map[workflows.StepPath]json.RawMessage{"two[0]": json.RawMessage(`{}`)}}
		},
			[]string{"one reused", "two[0] given", "two[1] executed_again, at risk", "three executed", "four executed"}, []string{"two[1] b"}, 1},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, _ := connect(t)
			s := newScript(t)
			s.fail("four", failing)
			id, before := runToFailure(t, c, s)
			s.fail("four", nil)
			plan := resumeRun(t, c, id, tc.req(t))
			if diff := cmp.Diff(tc.fates, fates(plan)); diff != "" {
				t.Errorf("plan: %s", diff)
			}
			if len(plan.AtRisk()) != tc.atRisk {
				t.Errorf("%d steps at risk, want %d", len(plan.AtRisk()), tc.atRisk)
			}
			end := runs.EventDone
			if tc.name == "from a step" {
				end = runs.EventOpened // the gate depends on what is executed again
			}
			followTo(t, c, id, before[len(before)-1].Seq, end)
			if diff := cmp.Diff(tc.calls, s.made()); diff != "" {
				t.Errorf("calls of the second execution: %s", diff)
			}
		})
	}
}

// Of two resumptions that were planned at the same time, one is made.
func TestResumeOnce(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	s.fail("four", failing)
	id, _ := runToFailure(t, c, s)
	plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
	resumeRun(t, c, id, history.ResumeRequest{})
	if err := c.Resumptions().Execute(t.Context(), plan); !errors.Is(err, runs.ErrChanged) {
		t.Errorf("the second resumption: %v", err)
	}
	followTo(t, c, id, 0, runs.EventDone)
	// It has failed again, in another execution, from which it continues.
	s.fail("four", nil)
	resumeRun(t, c, id, history.ResumeRequest{})
	s.made()
	followTo(t, c, id, 0, runs.EventDone)
	if outcome, err := c.Result(t.Context(), id); err != nil || outcome.Status != workflows.Completed {
		t.Errorf("result %+v, %v", outcome, err)
	}
}

// Of two resumptions that were planned at once, also the second one is refused that
// reaches Temporal only when the first one has failed again.
func TestResumeOnceThoughItFails(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	s.fail("four", failing)
	id, _ := runToFailure(t, c, s)
	arrived, goOn := make(chan bool), make(chan bool)
	slow, err := client.Dial(client.Options{
		HostPort: shared.server.Address(), Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: shared.server.TLS(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if strings.HasSuffix(method, "/StartWorkflowExecution") {
					arrived <- true
					<-goOn
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	second := runs.New(runs.Config{Keys: testKeys, Client: slow})
	late := perduretest.Must(second.Resumptions().Plan(t.Context(), id, history.ResumeRequest{By: "bob"}))(t)
	refused := make(chan error, 1)
	go func() { refused <- second.Resumptions().Execute(t.Context(), late) }()
	<-arrived // it has looked whether the run is as it was
	resumeRun(t, c, id, history.ResumeRequest{By: "ada"})
	followTo(t, c, id, 0, runs.EventDone)
	s.made()
	close(goOn)
	if err := <-refused; !errors.Is(err, runs.ErrChanged) {
		t.Errorf("the second resumption: %v", err)
	}
	if calls := s.made(); len(calls) > 0 {
		t.Errorf("the second resumption has made %v", calls)
	}
	s.fail("four", nil)
	resumeRun(t, c, id, history.ResumeRequest{})
	followTo(t, c, id, 0, runs.EventDone)
	if outcome, err := c.Result(t.Context(), id); err != nil || outcome.Status != workflows.Completed {
		t.Errorf("result %+v, %v", outcome, err)
	}
}

// A run whose results are too large to be handed on says so, and what to do; with
// the largest step executed again it fits.
func TestResumeOfALargeRun(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	s.fail("last", failing)
	req := request(t, `
name: large
description: Gives much.
parameters: {type: object, properties: {as: {type: string}, text: {type: string}}}
steps:
  - {id: one, tool: write, arguments: {as: "{{.params.as}}", text: "{{.params.text}}"}}
  - {id: two, tool: write, dependsOn: [one], arguments: {as: "{{.params.as}}", text: "{{.params.text}}"}}
  - {id: last, tool: write, dependsOn: [two], arguments: {as: "{{.params.as}}"}}
`)
	req.Arguments = json.RawMessage(fmt.Sprintf(`{"as":%q,"text":%q}`, t.Name(), strings.Repeat("x", 700<<10)))
	id := start(t, c, req)
	followTo(t, c, id, 0, runs.EventDone)
	if _, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}); err == nil || !strings.Contains(err.Error(), "--from STEP") || !strings.Contains(err.Error(), "one (") {
		t.Fatalf("got %v", err)
	}
	s.fail("last", nil)
	resumeRun(t, c, id, history.ResumeRequest{From: []string{"two"}})
	followTo(t, c, id, 0, runs.EventDone)
	if outcome, err := c.Result(t.Context(), id); err != nil || outcome.Status != workflows.Completed {
		t.Errorf("result %+v, %v", outcome, err)
	}
}

// What was undone is executed again, with a key of its own; what depends on it
// counts only if it comes out the same.
func TestResumeOfACompensatedRun(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	s.fail("three", failing)
	id := start(t, c, request(t, `
name: undo
description: Undoes.
parameters: {type: object, properties: {as: {type: string}}}
steps:
  - {id: one, tool: write, arguments: {as: "{{.params.as}}", n: "1"}, compensate: {tool: write, arguments: {as: "{{.params.as}}", n: undo}}}
  - {id: two, tool: write, dependsOn: [one], arguments: {as: "{{.params.as}}", n: "2"}}
  - {id: three, tool: write, dependsOn: [two], arguments: {as: "{{.params.as}}", n: "3"}}
`))
	followTo(t, c, id, 0, runs.EventDone)
	if diff := cmp.Diff([]string{"one 1", "two 2", "three 3", "one/compensate#1 undo"}, s.made()); diff != "" {
		t.Fatal(diff)
	}
	key, undoKey := s.keys["one"], s.keys["one/compensate#1"]
	plan := resumeRun(t, c, id, history.ResumeRequest{})
	if diff := cmp.Diff([]string{"one executed_again", "two reused_if_same, at risk", "three executed"}, fates(plan)); diff != "" {
		t.Errorf("plan: %s", diff)
	}
	events := followTo(t, c, id, 0, runs.EventDone)
	if diff := cmp.Diff([]string{"one 1", "three 3", "one/compensate#1 undo"}, s.made()); diff != "" {
		t.Errorf("calls of the second execution: %s", diff)
	}
	if s.keys["one"] == key || s.keys["one/compensate#1"] == undoKey {
		t.Error("a call after the compensation has the key of the one before")
	}
	if f := events[len(events)-1].Outcome.Failure; f == nil || len(f.Compensated) != 1 {
		t.Errorf("got %+v", f)
	}
}

// A call that was under way when its run was cancelled or terminated has an
// unknown outcome.
func TestResumeOfACallUnderWay(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "terminated"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, _ := connect(t)
			s := newScript(t)
			began, goOn := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(goOn) })
			s.fail("only", func(workflows.ToolCall) error {
				close(began)
				s.mu.Unlock()
				<-goOn
				s.mu.Lock()
				return nil
			})
			id := start(t, c, request(t, `
name: only
description: One step.
parameters: {type: object, properties: {as: {type: string}}}
steps: [{id: only, tool: write, arguments: {as: "{{.params.as}}"}}]
`))
			<-began
			s.fail("only", nil)
			end, status := c.Cancel, workflows.Cancelled
			if how == "terminated" {
				end, status = c.Terminate, workflows.Terminated
			}
			perduretest.NoError(t, end(t.Context(), id, "test"))
			done := followTo(t, c, id, 0, runs.EventDone)
			if got := done[len(done)-1].Outcome.Status; got != status {
				t.Errorf("the run is %s", got)
			}
			plan, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{})
			if err != nil || len(plan.OutcomeUnknown) != 1 || plan.OutcomeUnknown[0].Path != "only" {
				t.Fatalf("the plan is %+v, %v", plan, err)
			}
			resumeRun(t, c, id, history.ResumeRequest{Otherwise: runs.Happened})
			followTo(t, c, id, done[len(done)-1].Seq, runs.EventDone)
			if made := s.made(); len(made) != 1 {
				t.Errorf("calls: %v", made)
			}
		})
	}
}
