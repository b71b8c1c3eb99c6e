//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// mapValues keep large values; while they are away nothing can be fetched.
type mapValues struct {
	kept sync.Map
	away atomic.Bool
}

func (m *mapValues) Put(_ context.Context, id, _ string, data []byte) error {
	m.kept.Store(id, data)
	return nil
}

func (m *mapValues) Get(_ context.Context, id string) ([]byte, error) {
	data, ok := m.kept.Load(id)
	if m.away.Load() || !ok {
		return nil, errors.New("the database is away")
	}
	return data.([]byte), nil
}

// An unread is a Temporal with one worker for the tasks of runs, which has the
// key, and others for their calls.
type unread struct {
	of      client.Client
	backend activities.Caller
	resolve activities.Resolve
	reads   converter.DataConverter // large values as well; nil = the default
}

// client is one with keys, "" = none, that keeps large values.
func (u unread) client(t *testing.T, keys string, values payloads.Values) (client.Client, converter.DataConverter) {
	t.Helper()
	return sealedClient(t, u.of, keys, func(o *client.Options) {
		payloads.Keep(o, values)
		payloads.ReportUnread(o, workflows.Unread)
	})
}

// work starts a worker for runs, or for their calls.
func (u unread) work(t *testing.T, c client.Client, calls bool) (stop func()) {
	t.Helper()
	w := worker.New(c, workflows.TaskQueue, worker.Options{DisableWorkflowWorker: calls, LocalActivityWorkerOnly: !calls})
	if !calls {
		workflows.Register(w, trust)
	}
	all := runs.New(runs.Config{Keys: testKeys, Client: c, DataConverter: u.reads})
	activities.Register(w, activities.New(u.backend, nil, activities.Options{LastAttempt: all.CallHistory().LastAttempt, SentUnread: all.CallHistory().SentUnread, Resolve: u.resolve}))
	perduretest.NoError(t, w.Start())
	stop = sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	return stop
}

// Steps whose calls are taken up by a worker that cannot read them, because it
// has no key or another one, or cannot fetch what is large of them, wait for one
// that can; so do steps that call composite tools. What is unsafe is sent once,
// and nothing counts as of unknown outcome.
func TestUnreadCalls(t *testing.T) {
	t.Parallel()
	const key, another = "first:" + "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a", "second:" + "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"
	of := startTemporal(t, slog.New(slog.DiscardHandler))
	for _, tc := range []struct {
		name, keys string
		away       bool
		source     string
		made       []string
	}{
		{"no keys", "", false, `steps: [{id: pay, tool: make, arguments: {what: "{{.params.what}}"}}]`, []string{"make"}},
		{"another key", another, false, `steps: [{id: pay, tool: make, arguments: {what: "{{.params.what}}"}}]`, []string{"make"}},
		{"values that are away", key, true, `steps: [{id: pay, tool: make, arguments: {what: "{{.params.what}}"}}]`, []string{"make"}},
		{"a called run", "", false, `steps: [{id: call, type: workflow, workflow: below}]`, []string{"make"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defs, diags := definitions.Parse("unread.yaml", []byte(`{name: unread, description: d, parameters: {type: object, properties: {what: {type: string}}}, `+tc.source+"}\n---\n"+
				`{name: below, description: d, steps: [{id: make, tool: make}]}`))
			perduretest.NoError(t, diags.Err())
			tools := map[string]definitions.Tool{"make": {Name: "make", Backend: "be", Original: "make"}}
			below := defs[1]
			made := &notingBackend{}
			u := unread{of: of, backend: made, resolve: func(context.Context, workflows.DefinitionRef) (workflows.ResolvedDefinition, error) {
				return workflows.ResolvedDefinition{Tools: tools, Definition: workflows.Pinned{Name: below.Name, Digest: below.Digest(), Source: below.Source()}}, nil
			}}
			values := &mapValues{}
			has, sealed := u.client(t, key+"\n"+another, values)
			u.reads = payloads.Reader(sealed, values)
			defer u.work(t, has, false)()
			behind := values
			if tc.away {
				behind = &mapValues{}
			}
			blind, _ := u.client(t, tc.keys, behind)
			stop := u.work(t, blind, true)

			door := runs.New(runs.Config{Keys: testKeys, Client: has, DataConverter: u.reads})
			arguments, _ := json.Marshal(map[string]string{"what": strings.Repeat("large", 50<<10)})
			started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: arguments, Tools: tools})
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the run to wait for a worker that can read its call", func() bool {
				run, err := door.Get(t.Context(), started.ID)
				return err == nil && run.WaitingFor == workflows.HeldByPayload
			})
			if made := made.made(); len(made) > 0 {
				t.Errorf("before that %v were called", made)
			}
			stop()
			defer u.work(t, has, true)()
			var seq int64
			done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
			if done.Outcome.Failure != nil {
				t.Errorf("ended with %+v", done.Outcome.Failure)
			}
			if diff := cmp.Diff(tc.made, made.made()); diff != "" {
				t.Errorf("calls: %s", diff)
			}
		})
	}
}

// faultyValues are values that are away from a call on until they are back.
type faultyValues struct {
	payloads.Values
	away atomic.Bool
}

func (f *faultyValues) Put(ctx context.Context, id, run string, data []byte) error {
	if f.away.Load() {
		return errors.New("the database is away")
	}
	return f.Values.Put(ctx, id, run, data)
}

func (f *faultyValues) Get(ctx context.Context, id string) ([]byte, error) {
	if f.away.Load() {
		return nil, errors.New("the database is away")
	}
	return f.Values.Get(ctx, id)
}

// A call whose result could not be stored was sent: that the attempt which
// Temporal makes then cannot be read does not have it sent again, nor when the run
// is cancelled meanwhile, and resumed.
func TestUnreadAfterItWasSent(t *testing.T) {
	t.Parallel()
	const key = "first:" + "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	defs, diags := definitions.Parse("unread.yaml", []byte(`{name: unread, description: d, parameters: {type: object, properties: {what: {type: string}}},
steps: [{id: pay, tool: make, arguments: {what: "{{.params.what}}"}}]}`))
	perduretest.NoError(t, diags.Err())
	of := startTemporal(t, slog.New(slog.DiscardHandler))
	for _, resumed := range []bool{false, true} {
		values := &mapValues{}
		faulty := &faultyValues{Values: values}
		var calls atomic.Int64
		large, _ := json.Marshal(map[string]string{"what": strings.Repeat("large", 50<<10)})
		u := unread{of: of, backend: countingBackend{&calls, func() (*backends.Result, error) {
			faulty.away.Store(true)
			return &backends.Result{Structured: large}, nil
		}}}
		has, sealed := u.client(t, key, values)
		u.reads = payloads.Reader(sealed, values)
		runsEnd := u.work(t, has, false)
		makes, _ := u.client(t, key, faulty)
		callsEnd := u.work(t, makes, true)
		door := runs.New(runs.Config{Keys: testKeys, Client: has, DataConverter: u.reads})
		started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: large,
			Tools: map[string]definitions.Tool{"make": {Name: "make", Backend: "be", Original: "make"}}})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the run to wait for a worker that can read its call", func() bool {
			run, err := door.Get(t.Context(), started.ID)
			return err == nil && run.WaitingFor == workflows.HeldByPayload
		})
		var seq int64
		if resumed {
			perduretest.NoError(t, door.Cancel(t.Context(), started.ID, "test"))
			nextEvent(t, door, started.ID, &seq, runs.EventDone)
			plan, err := door.Resumptions().Plan(t.Context(), started.ID, history.ResumeRequest{})
			if err == nil {
				err = door.Resumptions().Execute(t.Context(), plan)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		faulty.away.Store(false)
		done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
		if f := done.Outcome.Failure; f == nil || f.Error.Category != codes.CategoryOutcomeUnknown {
			t.Errorf("resumed %t: ended with %+v", resumed, done.Outcome)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("resumed %t: the unsafe tool was called %d times", resumed, n)
		}
		callsEnd()
		runsEnd()
	}
}

// A worker without any keys that takes up a task of a sealed run does not fail
// the run, which goes on with one that has the key. Until then lists, counts and the run
// itself say what it waits for.
func TestRunOfAWorkerWithoutKeys(t *testing.T) {
	t.Parallel()
	backend := &notingBackend{}
	u := unread{of: startTemporal(t, slog.New(slog.DiscardHandler)), backend: backend}
	values := &mapValues{}
	has, sealed := u.client(t, "first:"+strings.Repeat("0a", 32), values)
	blind, _ := u.client(t, "", values)
	stop := u.work(t, blind, false)
	defer u.work(t, has, true)()

	defs, diags := definitions.Parse("unread.yaml", []byte(`{name: unread, description: d, steps: [{id: pay, tool: make}]}`))
	perduretest.NoError(t, diags.Err())
	door := runs.New(runs.Config{Keys: testKeys, Client: has, DataConverter: payloads.Reader(sealed, values)})
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`),
		Tools: map[string]definitions.Tool{"make": {Name: "make", Backend: "be", Original: "make"}}})
	if err != nil {
		t.Fatal(err)
	}
	waits := runs.Filter{WaitingFor: runs.NoWorker}
	until(t, "the run to wait for a worker that has the key", func() bool {
		listed, err := door.List(t.Context(), waits)
		return err == nil && len(listed) == 1 && listed[0].ID == started.ID && listed[0].WaitingFor == runs.NoWorker
	})
	if counts, err := door.Count(t.Context()); err != nil || counts.Waiting[runs.NoWorker] != 1 || counts.Status[runs.Running] != 1 {
		t.Errorf("counted: %+v, %v", counts, err)
	}
	if detail, err := door.Show(t.Context(), started.ID); err != nil || !strings.Contains(detail.Problem, "first") {
		t.Errorf("it shows %+v, %v", detail, err)
	}
	stop()
	defer u.work(t, has, false)()
	var seq int64
	if done := nextEvent(t, door, started.ID, &seq, runs.EventDone); done.Outcome.Failure != nil {
		t.Errorf("ended with %+v", done.Outcome.Failure)
	}
	if diff := cmp.Diff([]string{"make"}, backend.made()); diff != "" {
		t.Errorf("calls: %s", diff)
	}
	until(t, "the run not to be listed any more", func() bool {
		listed, err := door.List(t.Context(), waits)
		return err == nil && len(listed) == 0
	})
	if detail, err := door.Show(t.Context(), started.ID); err != nil || detail.Problem != "" || detail.WaitingFor != "" {
		t.Errorf("in the end it shows %+v, %v", detail, err)
	}
}
