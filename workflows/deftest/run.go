package deftest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

const (
	// tester is the caller, and answers where a case does not say who does.
	tester = "tester"

	// patience is how long a case may make no progress. A run that waits in vain is
	// ended by its own timeout, so this is for bugs.
	patience = 30 * time.Second
)

// defaultStart is when runs start by default.
var defaultStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// A Trace has the events of a case. Times are those of the workflow, since the start
// of the run.
type Trace struct {
	Calls    []*Call
	Asked    []*Asked
	Steps    []workflows.StepReport
	Output   json.RawMessage    // of a run that completed
	Failure  *workflows.Failure // of one that did not
	Duration time.Duration

	started  time.Time
	answered map[int]bool // answers of the case that were sent
	problems []Problem
	notes    []string // hints on why the case failed
}

// A Call is one attempt of a call of a tool.
type Call struct {
	Step      string          `json:"step"` // path
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Attempt   int             `json:"attempt"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     string          `json:"error,omitempty"`
	Failed    bool            `json:"failed,omitempty"`
	GivenUp   bool            `json:"givenUp,omitempty"` // too slow for the workflow task, and made again
	At        time.Duration   `json:"at"`                // nanoseconds
	Ended     time.Duration   `json:"ended"`

	moment, closed int
}

// Asked is an elicitation and its end.
type Asked struct {
	workflows.Elicitation
	At, Ended time.Duration

	moment, closed int
}

// A Problem is one difference from what is expected.
type Problem struct {
	Pos     definitions.Position
	Message string
	Diff    string // lines that start with "- " are expected, with "+ " got; "" = none
}

func (t *Trace) problem(pos definitions.Position, format string, args ...any) {
	t.problems = append(t.problems, Problem{Pos: pos, Message: fmt.Sprintf(format, args...)})
}

// check adds a note if the run will refuse an answer.
func (t *Trace) check(c *Case, i int, e workflows.Elicitation) {
	a := c.written.Answers[i]
	if a.Action != workflows.Accept {
		return
	}
	if err := definitions.CheckAnswer(e.AnswerSchema(), a.Content); err != nil {
		t.notes = append(t.notes, fmt.Sprintf("the answer at %s is not taken: %v", a.Pos, err))
	}
}

// made are the calls that count: one that was given up and made again counts once.
func (t *Trace) made() []*Call {
	var made []*Call
	for _, call := range t.Calls {
		if !call.GivenUp {
			made = append(made, call)
		}
	}
	return made
}

// A Result is the result of a case.
type Result struct {
	Case     *Case
	Problems []Problem // none = it passed
	Trace    *Trace
	Took     time.Duration // of real time
}

// Passed reports whether there are no problems.
func (r *Result) Passed() bool { return len(r.Problems) == 0 }

// Run runs the case. It can be run again.
func (c *Case) Run() *Result {
	start := time.Now()
	trace := c.run()
	return &Result{Case: c, Problems: c.compare(trace), Trace: trace, Took: time.Since(start)}
}

// run executes the composite tool with the case's answers.
func (c *Case) run() *Trace {
	trace := &Trace{started: cmp.Or(c.written.Started, defaultStart), answered: map[int]bool{}}
	for _, list := range c.mocks {
		for _, r := range list {
			r.used = false
		}
	}
	arguments, err := c.Definition.Arguments(c.written.Arguments)
	if err != nil {
		trace.Failure = &workflows.Failure{Error: workflows.Error{
			Code: codes.InvalidArguments, Category: codes.CategoryValidation, Message: err.Error(),
		}}
		return trace
	}
	c.execute(trace, arguments)
	return trace
}

// execute runs the workflow in a test environment of its own. A panic of the
// environment becomes a problem of this case alone.
func (c *Case) execute(trace *Trace, arguments json.RawMessage) {
	defer func() {
		if broken := recover(); broken != nil {
			trace.problem(c.Pos, "the run came to no end: %v", broken)
		}
	}()
	env := c.environment(trace)
	id := c.runID()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue})
	if after := c.written.Cancel; after != nil {
		env.RegisterDelayedCallback(env.CancelWorkflow, max(time.Duration(*after), latency))
	}
	input := workflows.RunInput{
		Definition: workflows.Pin(c.Definition),
		Arguments:  arguments,
		Caller:     workflows.Caller{Subject: tester},
		Lineage:    id,
		Tools:      c.tools,
		MaxValue:   workflows.MaxResultSize, // as it is; so called runs keep no outcome, which would have to be read from a history
	}
	env.ExecuteWorkflow(input.WorkflowType(), input)
	trace.Duration = env.Now().Sub(trace.started)
	trace.ended(env, c)
}

// runID is that of the run of the case.
func (c *Case) runID() string { return cmp.Or(c.written.Run, c.Definition.Name+"/test") }

func (c *Case) environment(trace *Trace) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: patience,
		Interceptors:             []interceptor.WorkerInterceptor{&stage{c: c, env: env, trace: trace, known: map[string]bool{}, below: map[string]string{}}},
	})
	env.SetTestTimeout(patience)
	env.SetStartTime(trace.started)
	workflows.Register(env, workflows.Trust{Keys: keys})
	return env
}

// ended reads how the run ended.
func (t *Trace) ended(env *testsuite.TestWorkflowEnvironment, c *Case) {
	if value, err := env.QueryWorkflow(workflows.StepsQuery); err != nil {
		t.problem(c.Pos, "asking the run for its steps: %v", err)
	} else if err := value.Get(&t.Steps); err != nil {
		t.problem(c.Pos, "reading the steps of the run: %v", err)
	}
	err := env.GetWorkflowError()
	if err == nil {
		var result workflows.RunResult
		if err := env.GetWorkflowResult(&result); err != nil {
			t.problem(c.Pos, "reading the result of the run: %v", err)
		}
		t.Output = result.Output
		return
	}
	var endless *temporal.TimeoutError
	if errors.As(err, &endless) { // of the environment: runs keep their time themselves
		t.problem(c.Pos, "the run never ends%s", t.waitsFor())
		return
	}
	t.Failure = failureOf(err)
}

// waitsFor names the elicitations without an answer.
func (t *Trace) waitsFor() string {
	var open []string
	for _, a := range t.Asked {
		if a.State == workflows.ElicitationOpen {
			open = append(open, string(a.StepPath))
		}
	}
	if open == nil {
		return ""
	}
	return ", since nobody answers " + strings.Join(open, ", ")
}

// failureOf is why a run failed.
func failureOf(err error) *workflows.Failure {
	var f workflows.Failure
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &app) && app.HasDetails():
		_ = app.Details(&f) // without details the message is used
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		_ = cancelled.Details(&f)
	}
	if f.Error.Message == "" {
		f.Error = workflows.Error{Code: codes.Internal, Category: codes.CategoryInternal, Message: err.Error()}
	}
	return &f
}

// status is that of a step at the end; "" = unknown.
func (t *Trace) status(id string) string {
	i := slices.IndexFunc(t.Steps, func(s workflows.StepReport) bool { return s.ID == id })
	if i < 0 {
		return ""
	}
	return t.Steps[i].Status
}
