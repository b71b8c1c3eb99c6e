package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/topology"
	"github.com/perdure/perdure/workflows"
)

var quietLogger = slog.New(slog.DiscardHandler)

// A world is perdure dev with its backend, and what is known of its runs.
type world struct {
	setting
	dir    string
	life   context.Context
	author *author
	list   []object // definitions
	called []string // those that callers call

	backend  *backend
	dev      *topology.Process
	log      *os.File
	temporal client.Client
	door     *runs.Client

	mu       sync.Mutex
	seen     map[string]*seen // by run ID
	polled   time.Time        // what is seen is as new
	calls    []*call
	findings []string
	counts   map[string]int
	killed   []time.Time
}

// Seen is what Temporal's index shows of a run.
type seen struct {
	id, parent string
	executions []string // the oldest first
	open       map[string]bool
}

func newWorld(ctx context.Context, s setting, dir string) (w *world, err error) {
	w = &world{setting: s, dir: dir, life: ctx, seen: map[string]*seen{}, counts: map[string]int{}}
	if w.backend, err = newBackend(s.seed); err != nil {
		return w, err
	}
	w.author = &author{rng: w.rng(1), undoable: map[string]bool{}, thorough: map[string]bool{}}
	w.list, w.called = w.author.write()
	if _, err := parsed(w.list); err != nil {
		return w, err
	}
	if err := w.startDev(); err != nil {
		return w, err
	}
	pair, err := web.LoadPair(filepath.Join(dir, "data", "temporal.pem"))
	if err != nil {
		return w, err
	}
	w.temporal, err = client.NewLazyClient(client.Options{HostPort: w.frontend(), Logger: quietLogger, ConnectionOptions: client.ConnectionOptions{TLS: pair.Client()}})
	if err != nil {
		return w, err
	}
	keys, err := secrets.NewKeys(secrets.KeyFile(filepath.Join(dir, "data", "key")))
	w.door = runs.New(runs.Config{Client: w.temporal, Keys: keys, Logger: quietLogger})
	return w, err
}

// frontend is the address of Temporal.
func (w *world) frontend() string {
	return w.dev.Command[slices.Index(w.dev.Command, "--temporal-listen")+1]
}

// startDev writes the configuration and starts perdure with it.
func (w *world) startDev() error {
	var effects []object
	for tool, class := range tools {
		effects = append(effects, object{"tool": tool, "class": class})
	}
	effects = append(effects, object{"tool": truth, "class": "read"})
	backend := object{"name": "be", "transport": "streamable-http", "url": "http://" + w.backend.address + "/mcp", "effects": effects}
	if w.seed%3 == 0 {
		backend["limits"] = object{"concurrency": 4}
	}
	config, err := json.Marshal(object{
		"quotas":         object{"openRuns": 1000000, "runsPerMinute": 1000000, "waitingRuns": 1000000, "requests": 100000},
		"backends":       []object{backend},
		"compositeTools": w.list,
	})
	if err != nil {
		return err
	}
	file := filepath.Join(w.dir, "perdure.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	if w.log, err = os.Create(filepath.Join(w.dir, "dev.log")); err != nil {
		return err
	}
	listen, err := topology.FreeAddress()
	if err != nil {
		return err
	}
	frontend, err := topology.FreeAddress()
	if err != nil {
		return err
	}
	program, err := filepath.Abs(w.perdure)
	if err != nil {
		return err
	}
	w.dev = topology.Service(listen, program, "dev", "--config", file, "--data", filepath.Join(w.dir, "data"),
		"--listen", listen, "--ui-listen", "", "--temporal-listen", frontend, "--call-patience", "1s")
	w.dev.Name, w.dev.Dir, w.dev.Log = "dev", w.dir, w.log
	return w.dev.StartReady(w.life)
}

func (w *world) rng(part int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(part))) }

func (w *world) logf(format string, args ...any) {
	if w.trace {
		fmt.Printf("%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
}

func (w *world) find(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, fmt.Sprintf(format, args...))
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// rage makes all calls, and lets everything else happen meanwhile.
func (w *world) rage() error {
	ctx, cancel := context.WithCancel(w.life)
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { w.look(ctx) })
	others.Go(func() { (&answerer{w: w, rng: w.rng(2)}).work(ctx) })
	calls := make(chan *call)
	var callers sync.WaitGroup
	for range w.par {
		callers.Go(func() {
			for c := range calls {
				c.live(w.life)
			}
		})
	}
	storm, calm := context.WithCancel(ctx)
	others.Go(func() { w.kill(storm, w.rng(3)) })
	for n := range w.runs {
		c := newCall(w, n)
		w.mu.Lock()
		w.calls = append(w.calls, c)
		w.mu.Unlock()
		select {
		case calls <- c:
		case <-ctx.Done():
		}
	}
	close(calls)
	callers.Wait()
	calm()
	cancel()
	others.Wait()
	return w.life.Err()
}

// kill kills the process now and then.
func (w *world) kill(ctx context.Context, rng *rand.Rand) {
	for w.kills > 0 && pause(ctx, w.kills/2+time.Duration(rng.Int64N(int64(w.kills)))) {
		w.logf("kill -9")
		w.mu.Lock()
		w.counts["kill -9"]++
		w.killed = append(w.killed, time.Now())
		w.mu.Unlock()
		err := w.dev.Kill()
		if err == nil {
			<-w.dev.Ended()
			err = w.dev.StartReady(w.life)
		}
		if err != nil && ctx.Err() == nil {
			w.find("dev does not start again: %v", err)
			return
		}
	}
}

// look reads Temporal's index over and over.
func (w *world) look(ctx context.Context) {
	for pause(ctx, 400*time.Millisecond) {
		began := time.Now()
		list, err := w.executions(ctx, began)
		if err != nil {
			continue // it is being started
		}
		w.mu.Lock()
		for _, s := range w.seen {
			clear(s.open)
		}
		slices.SortFunc(list, func(a, b *workflowpb.WorkflowExecutionInfo) int {
			return a.StartTime.AsTime().Compare(b.StartTime.AsTime())
		})
		for _, info := range list {
			w.take(info)
		}
		w.polled = began
		w.mu.Unlock()
	}
}

// executions are those that are open, or were started not long ago.
func (w *world) executions(ctx context.Context, now time.Time) (list []*workflowpb.WorkflowExecutionInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r := &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", PageSize: 500,
		Query: fmt.Sprintf("ExecutionStatus = 'Running' OR StartTime > '%s'", now.Add(-30*time.Second).UTC().Format(time.RFC3339))}
	for {
		page, err := w.temporal.ListWorkflow(ctx, r)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Executions...)
		if r.NextPageToken = page.NextPageToken; len(r.NextPageToken) == 0 {
			return list, nil
		}
	}
}

func (w *world) take(info *workflowpb.WorkflowExecutionInfo) {
	id, execution := info.Execution.WorkflowId, info.Execution.RunId
	s := w.seen[id]
	if s == nil {
		s = &seen{id: id, open: map[string]bool{}}
		w.seen[id] = s
	}
	if !slices.Contains(s.executions, execution) {
		s.executions = append(s.executions, execution)
	}
	if info.CloseTime == nil {
		s.open[execution] = true
	}
	var parent workflows.Parent
	if p := info.GetMemo().GetFields()[workflows.MemoParent]; p != nil && converter.GetDefaultDataConverter().FromPayload(p, &parent) == nil {
		s.parent = parent.RunID
	}
}

// tree is a run and all that are below it, that one first, as the index showed them last.
func (w *world) tree(id string) (tree []seen, polled time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	within := func(s *seen) bool {
		for s != nil && s.id != id {
			s = w.seen[s.parent]
		}
		return s != nil
	}
	for _, key := range slices.Sorted(maps.Keys(w.seen)) {
		if s := w.seen[key]; within(s) {
			c := seen{id: s.id, parent: s.parent, executions: slices.Clone(s.executions), open: maps.Clone(s.open)}
			tree = append(tree, c)
		}
	}
	slices.SortStableFunc(tree, func(a, b seen) int { return rank(a.id != id) - rank(b.id != id) })
	return tree, w.polled
}

func rank(late bool) int {
	if late {
		return 1
	}
	return 0
}

// keep copies what is known to a directory: what the backend did, what was done to runs,
// and their histories.
func (w *world) keep(to string, findings []string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	fmt.Printf("kept in %s\n", to)
	write := func(name string, v any) {
		if raw, err := json.MarshalIndent(v, "", " "); err == nil {
			_ = os.WriteFile(filepath.Join(to, name), raw, 0o644) // what can be kept
		}
	}
	write("definitions.json", w.list)
	write("findings.json", findings)
	for _, c := range w.calls {
		if !c.suspect {
			continue
		}
		var events []event
		for _, e := range w.backend.events {
			if e.About == c.about {
				events = append(events, e)
			}
		}
		write(c.about+".json", object{"run": c.id, "deeds": c.deeds, "events": events})
		tree, _ := w.tree(c.id)
		for _, s := range tree {
			for i, execution := range s.executions {
				w.keepHistory(filepath.Join(to, fmt.Sprintf("%s-%s-%d.json", c.about, filepath.Base(filepath.Dir(s.id))+"_"+filepath.Base(s.id), i)), s.id, execution)
			}
		}
	}
	log, err := os.ReadFile(w.log.Name())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "dev.log"), log, 0o644)
}

func (w *world) keepHistory(file, id, execution string) {
	events, err := w.history(context.WithoutCancel(w.life), id, execution)
	if err != nil {
		return
	}
	var raw []byte
	for _, e := range events {
		line, _ := protojson.Marshal(e)
		raw = append(append(raw, line...), '\n')
	}
	_ = os.WriteFile(file, raw, 0o644) // what can be kept
}

func (w *world) close() {
	if w.temporal != nil {
		w.temporal.Close()
	}
	if w.dev != nil {
		w.dev.End()
		w.log.Close()
	}
	if w.backend != nil {
		w.backend.server.Close()
	}
}

// pause waits; false = the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
