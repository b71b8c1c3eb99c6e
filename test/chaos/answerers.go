package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/test/topology/clients"
	"github.com/perdure/perdure/workflows"
)

// channels are the ways to answer a question of a run beside those of clients.
// They say whether whoever answered was told that the answer counts.
var channels = map[string]func(*answerer, context.Context, runs.Run, runs.Elicitation, string) (bool, error){
	"command":        (*answerer).byCommand,
	"runs":           (*answerer).byRuns,
	"approvals page": (*answerer).onPage,
}

var channelNames = []string{"command", "runs", "approvals page"}

const answerPatience = 20 * time.Second

// An answerer looks for runs that wait, and answers them.
type answerer struct {
	w   *world
	rng *rand.Rand
}

func (a *answerer) work(ctx context.Context) {
	for pause(ctx, time.Duration(200+a.rng.IntN(400))*time.Millisecond) {
		list, done := context.WithTimeout(ctx, 5*time.Second)
		waiting, err := a.w.door.List(list, runs.Filter{Waiting: true, Limit: 500})
		done()
		if err != nil || len(waiting) == 0 {
			continue // away, for example
		}
		for range 5 {
			a.answer(ctx, waiting[a.rng.IntN(len(waiting))])
		}
	}
}

func (a *answerer) answer(ctx context.Context, run runs.Run) {
	for _, e := range run.Open() {
		ctx, done := context.WithTimeout(ctx, answerPatience)
		switch e.Kind {
		case runs.ForCaller:
			a.question(ctx, run, e)
		case runs.Reconciliation:
			a.reconcile(ctx, run, e)
		case runs.Compensation: // it is tried again until it works
			_, _ = a.w.door.Answer(ctx, run.ID, runs.Answer{ElicitationID: e.ID, Action: workflows.Decline, By: "operator", Via: runs.ViaCommand})
		}
		done()
	}
}

// question answers on one channel, or on two at once. Some are declined, and
// some are never answered.
func (a *answerer) question(ctx context.Context, run runs.Run, e runs.Elicitation) {
	if a.w.leaves(run.ID) {
		return
	}
	if a.rng.IntN(4) == 0 {
		a.forge(ctx, run, e)
	}
	first := channelNames[a.rng.IntN(len(channelNames))]
	if a.rng.IntN(4) > 0 {
		a.on(ctx, first, run, e)
		return
	}
	second, ended := channelNames[a.rng.IntN(len(channelNames))], make(chan struct{})
	go func() { defer close(ended); a.on(ctx, second, run, e) }()
	a.on(ctx, first, run, e)
	<-ended
}

// on answers on a channel, and notes that before it can be known what comes of
// it.
func (a *answerer) on(ctx context.Context, channel string, run runs.Run, e runs.Elicitation) {
	text := a.w.verdict()
	given := Answer{Run: string(run.ID), Question: e.ID, Channel: channel, Content: digest(text)}
	a.w.note(func(r *Record) { r.Answers = append(r.Answers, given) })
	won, err := channels[channel](a, ctx, run, e, text)
	if given.Won = won && err == nil; given.Won {
		a.w.note(func(r *Record) { r.Answers = append(r.Answers, given) })
	}
}

func content(text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"verdict": text}) // of a string
	return raw
}

func (a *answerer) byCommand(ctx context.Context, run runs.Run, e runs.Elicitation, text string) (bool, error) {
	cmd := exec.CommandContext(ctx, a.w.perdure, "runs", "answer", string(run.ID), "--step", e.StepID, "--accept",
		"--content", string(content(text)), "--address", a.w.production.Temporal.Address, "--key-file", a.w.production.KeyFile(), "-o", "json")
	var out bytes.Buffer
	cmd.Stdout = &out
	_ = cmd.Run() // 1 if another answer counts
	var decision struct{ Won bool }
	err := json.Unmarshal(out.Bytes(), &decision)
	return decision.Won, err
}

func (a *answerer) byRuns(ctx context.Context, run runs.Run, e runs.Elicitation, text string) (bool, error) {
	d, err := a.w.door.Answer(ctx, run.ID, runs.Answer{ElicitationID: e.ID, Action: workflows.Accept, Content: content(text), By: "answerer", Via: runs.ViaCommand})
	return d.Won, err
}

// forge answers as somebody does who reaches Temporal and no more. Nobody has
// given such an answer, and none is to count.
func (a *answerer) forge(ctx context.Context, run runs.Run, e runs.Elicitation) {
	text := a.w.verdict()
	_ = a.w.temporal.SignalWorkflow(ctx, string(run.ID), "", workflows.AnswerSignal,
		workflows.Answer{ElicitationID: e.ID, Action: workflows.Accept, Content: content(text), AnsweredBy: "answerer", AnswerID: text})
}

func (a *answerer) onPage(ctx context.Context, run runs.Run, e runs.Elicitation, text string) (bool, error) {
	approver, err := a.w.approver(ctx)
	if err != nil {
		return false, err
	}
	return false, approver.Answer(ctx, a.w.production.URL+"/approvals/"+string(run.ID), e.ID, "accept", map[string]string{"verdict": text})
}

// approver is the person who answers on the approvals page. They sign in once.
func (w *world) approver(ctx context.Context) (*clients.Approver, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signedIn != nil {
		return w.signedIn, nil
	}
	approver, err := clients.SignInByToken(ctx, w.production.URL, clients.ApproverToken)
	if err == nil {
		w.signedIn = approver
	}
	return approver, err
}

// reconcile says what became of a call, as the log of the backend has it. That
// it was not executed is only known when no request can be on its way any more.
func (a *answerer) reconcile(ctx context.Context, run runs.Run, e runs.Elicitation) {
	if e.Call == nil {
		return
	}
	happened, err := a.w.happened(e.Call.Key)
	says := runs.Reconciled{Outcome: runs.Happened, Result: `{"did": "as the log has it"}`}
	switch {
	case err != nil:
		return
	case happened:
	case a.w.quiet.Load():
		says = runs.Reconciled{Outcome: runs.NotHappened}
	case a.rng.IntN(20) == 0:
		says = runs.Reconciled{Outcome: runs.Fail}
	default:
		return
	}
	raw, err := json.Marshal(says)
	if err != nil {
		return
	}
	_, _ = a.w.door.Answer(ctx, run.ID, runs.Answer{ElicitationID: e.ID, Action: workflows.Accept, Content: raw, By: "reconciler", Via: runs.ViaCommand}) // it is looked at again
}

// cancelled are the tools whose runs are cancelled, as often as they stand here.
// What others have called is so at both ends.
var cancelled = []string{"stop", "stop", "parent"}

// A canceller cancels runs that are under way.
type canceller struct {
	w   *world
	rng *rand.Rand
}

func (c *canceller) work(ctx context.Context) {
	for pause(ctx, time.Duration(300+c.rng.IntN(900))*time.Millisecond) {
		list, done := context.WithTimeout(ctx, 5*time.Second)
		tool := cancelled[c.rng.IntN(len(cancelled))]
		running, err := c.w.door.List(list, runs.Filter{Tool: tool, Status: workflows.Running, Limit: 20})
		done()
		if err != nil || len(running) == 0 {
			continue
		}
		c.cancel(ctx, string(running[c.rng.IntN(len(running))].ID))
	}
}

func (c *canceller) cancel(ctx context.Context, run string) {
	ctx, done := context.WithTimeout(ctx, answerPatience)
	defer done()
	var err error
	switch c.rng.IntN(3) {
	case 0:
		err = exec.CommandContext(ctx, c.w.perdure, "runs", "cancel", run, "--address", c.w.production.Temporal.Address).Run()
	case 1:
		err = c.w.door.Cancel(ctx, runs.RunID(run), "chaos")
	default:
		s := clients.Sessionless{URL: c.w.url()}
		_, _ = s.Request(ctx, 1, "tools/call", "perdure_run_cancel", `"name":"perdure_run_cancel","arguments":{"runId":"`+run+`"}`)
		return // what it says is for a model to read
	}
	if err == nil {
		c.w.note(func(r *Record) { r.Cancels = append(r.Cancels, Cancel{run, time.Now().UnixNano()}) })
	}
}

// dial opens the door that answerers and the checker use: to Temporal itself,
// by no link.
func dial(address string) (client.Client, error) {
	return client.NewLazyClient(client.Options{HostPort: address, Logger: quietLogger})
}
