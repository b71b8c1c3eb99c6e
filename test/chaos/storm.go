package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// How long what follows a storm may take.
const (
	inFlight    = 5 * time.Second  // until no request is on its way any more
	finishLimit = 45 * time.Second // for calls under way
	settleLimit = 3 * time.Minute  // since a run has ended or begun to wait
)

// How many there are of each.
const (
	answererCount = 3
	firstCaller   = 1000 // among the parts that have a source of chance: World.rng
)

// storm lets callers, answerers and the nemesis loose for some time, and then
// lets everything come to rest.
func (w *world) storm(d time.Duration) (map[string]int, error) {
	calm, cancelCalm := context.WithCancel(w.life) // until the end of this function
	defer cancelCalm()
	ctx, cancel := context.WithTimeout(w.life, d)
	defer cancel()

	finish, cancelFinish := context.WithCancel(w.life)
	defer cancelFinish()
	var callers, others, people sync.WaitGroup
	others.Go(func() { w.call(ctx, finish, &callers) })
	for i := range answererCount {
		a := &answerer{w: w, rng: w.rng(100 + i)}
		people.Go(func() { a.work(calm) })
	}
	people.Go(func() { w.release(calm) })
	others.Go(func() { (&canceller{w: w, rng: w.rng(200)}).work(ctx) })
	n := &nemesis{w: w, busy: map[string]bool{}, done: map[string]int{}}
	n.plan(w.rng(400))
	for i := range hands {
		others.Go(func() { n.rage(ctx, w.rng(300+i)) })
	}
	others.Wait()
	w.logf("quiet")
	if err := w.heal(); err != nil {
		return n.done, err
	}
	time.AfterFunc(finishLimit, cancelFinish)
	time.AfterFunc(inFlight, func() { w.quiet.Store(true) })
	callers.Wait()
	err := w.settle()
	cancelCalm()
	people.Wait()
	return n.done, err
}

// call begins calls at the rate of the storm until the context ends, of each kind of
// client in turn, however many are under way; these are ended by finish.
func (w *world) call(ctx, finish context.Context, callers *sync.WaitGroup) {
	names := slices.DeleteFunc(sortedKinds(), func(kind string) bool { return !w.clients.MatchString(kind) })
	for n := 0; pause(ctx, time.Duration(float64(time.Second)/w.rate)); n++ {
		c := &caller{w: w, number: n, kind: names[n%len(names)], rng: w.rng(firstCaller + n)}
		callers.Go(func() { c.call(finish) })
	}
}

// release lets runs go on that are quarantined. None kills its worker: the nemesis
// has killed one while it executed such a run alone.
func (w *world) release(ctx context.Context) {
	for pause(ctx, time.Second) {
		list, err := w.door.List(ctx, runs.Filter{Called: true, Status: runs.Quarantined})
		if err != nil {
			continue
		}
		for _, run := range list {
			w.logf("releasing %s", run.ID)
			_ = w.door.Release(ctx, run.ID, "operator", "the nemesis did it") // it is looked at again
		}
	}
}

func sortedKinds() []string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// heal has everything serve again. Links are healed by whoever has harmed them.
func (w *world) heal() error {
	for _, p := range w.processes() {
		if !p.Running() {
			if err := p.Start(); err != nil {
				return err
			}
		}
		if err := p.AwaitReady(w.life); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until every run has ended or waits for somebody who will not
// come. Where none has done so for long, that is for the checker to find.
func (w *world) settle() error {
	least, until := math.MaxInt, time.Now().Add(settleLimit)
	for {
		open, err := w.unsettled(w.life)
		switch {
		case err == nil && open == 0 && w.quiet.Load():
			return nil
		case err == nil && open < least:
			least, until = open, time.Now().Add(settleLimit)
		}
		if !pause(w.life, time.Second) {
			return w.life.Err()
		}
		if time.Now().After(until) {
			if err != nil {
				return fmt.Errorf("runs cannot be listed: %w", err)
			}
			return nil
		}
	}
}

func (w *world) unsettled(ctx context.Context) (int, error) {
	list, err := w.door.List(ctx, runs.Filter{Called: true, Query: "CloseTime IS NULL", Limit: 10_000})
	open := 0
	for _, listed := range list {
		run, err := w.door.Get(ctx, listed.ID) // the list is behind
		if err != nil {
			return 0, err
		}
		if run.Closed == nil && !w.rests(run) {
			open++
		}
	}
	return open, err
}

// rests says whether a run waits for an answer that nobody will give.
func (w *world) rests(run *runs.Run) bool {
	open := run.Open()
	return len(open) > 0 && w.leaves(run.ID) && !slices.ContainsFunc(open, func(e runs.Elicitation) bool { return e.Kind != runs.ForCaller })
}

// collect completes the record with what backends and Temporal know.
func (w *world) collect() (*Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.record
	var err error
	if r.Effects, err = w.effects(); err != nil {
		return nil, err
	}
	ids := map[runs.RunID]bool{}
	list, err := w.door.List(w.life, runs.Filter{Called: true, Limit: 100_000})
	if err != nil {
		return nil, err
	}
	for _, run := range list {
		ids[run.ID] = true
	}
	for _, c := range r.Calls { // the list may lack what clients know
		if c.Run != "" {
			ids[runs.RunID(c.Run)] = true
		}
	}
	for id := range ids {
		run, err := w.readRun(id)
		if errors.Is(err, runs.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading %s: %w", id, err)
		}
		r.Runs = append(r.Runs, *run)
	}
	return r, nil
}

// readRun makes a Run of a history.
func (w *world) readRun(id runs.RunID) (*Run, error) {
	state, err := w.door.Get(w.life, id)
	if err != nil {
		return nil, err
	}
	h := newHistory(Run{ID: string(id), Tool: state.Tool, Status: string(state.Status)})
	if state.Closed == nil && len(state.Open()) == 0 {
		h.run.Status = string(workflows.Running)
	}
	raw := &historypb.History{}
	events := w.temporal.GetWorkflowHistory(w.life, string(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		h.add(e)
		raw.Events = append(raw.Events, e)
	}
	w.histories[string(id)] = raw
	for _, e := range state.Elicitations {
		h.gate(e)
	}
	return &h.run, nil
}
