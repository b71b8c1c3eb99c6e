package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/backends"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/runs"
	"github.com/perdure/perdure/workflows"
)

const (
	firstTry    = 10 * time.Second // that a start waits for backends at most
	workerGrace = 5 * time.Second  // that activities under way get at a stop
	healthLimit = time.Second      // of asking Temporal how it is
	busyLimit   = 8 * time.Second  // of computing between two waits of a run, on a busy machine; a workflow task has 10 s
)

// A service is all of perdure but Temporal: backends, worker and gateway.
type service struct {
	temporal client.Client
	pool     *backends.Pool
	worker   worker.Worker
	gateway  *gateway.Gateway
	started  atomic.Bool // every part is up and every backend was tried
}

// Service options; all are required.
type serviceOptions struct {
	Loaded   *loaded
	Temporal client.Client
	Key      []byte
	Patience time.Duration
	Logger   *slog.Logger
}

// startService starts the parts and waits until each backend was tried once.
// The caller stops it.
func startService(ctx context.Context, o serviceOptions) (*service, error) {
	pool, err := backends.New(o.Loaded.Backends, o.Loaded.Aggregation, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &service{temporal: o.Temporal, pool: pool}
	s.gateway, err = gateway.New(gateway.Options{
		Name:      o.Loaded.Name,
		Version:   programVersion(),
		Runs:      runs.New(runs.Config{Client: o.Temporal, Logger: o.Logger}),
		Catalogue: pool,
		Key:       o.Key,
		Patience:  o.Patience,
		Logger:    o.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.worker = worker.New(o.Temporal, workflows.TaskQueue, worker.Options{
		MaxHeartbeatThrottleInterval: time.Second,
		WorkerStopTimeout:            workerGrace,
		DeadlockDetectionTimeout:     busyLimit,
	})
	workflows.Register(s.worker)
	activities.Register(s.worker, activities.New(pool, o.Logger))
	// The worker takes up the runs of an earlier process at once, so the
	// backends that these call come first.
	pool.Start(ctx)
	s.awaitBackends(ctx)
	s.gateway.SetDefinitions(o.Loaded.Definitions)
	if err := s.worker.Start(); err != nil {
		pool.Close()
		return nil, fmt.Errorf("starting the worker: %w", err)
	}
	s.started.Store(true)
	return s, nil
}

// awaitBackends waits until each backend is up or known to be down.
func (s *service) awaitBackends(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstTry)
	defer cancel()
	for ctx.Err() == nil && !s.pool.WaitReady(ctx, 20*time.Millisecond) {
		untried := false
		for _, b := range s.pool.Status() {
			untried = untried || !b.Tried
		}
		if !untried {
			return
		}
	}
}

// stop ends the parts in order: first no more steps are taken up, then those
// under way end, then their backends do. The gateway is drained by then.
func (s *service) stop() {
	s.started.Store(false)
	s.worker.Stop()
	s.pool.Close()
}

// handler serves MCP and what tells how the service is.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(endpoint, s.gateway.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	return mux
}

// serveReady answers 200 when calls can be taken, else 503; with ?verbose, and
// the status as JSON.
func (s *service) serveReady(w http.ResponseWriter, r *http.Request) {
	reasons := s.unready(r.Context())
	code := http.StatusOK
	if len(reasons) > 0 {
		code = http.StatusServiceUnavailable
	}
	if !r.URL.Query().Has("verbose") {
		w.WriteHeader(code)
		fmt.Fprintln(w, http.StatusText(code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s.status(reasons)) // the client went away
}

// unready says why calls cannot be taken; nil = they can.
func (s *service) unready(ctx context.Context) []string {
	var reasons []string
	if !s.started.Load() {
		reasons = append(reasons, "starting or stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	if _, err := s.temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		reasons = append(reasons, "Temporal does not answer")
	}
	return reasons
}

func (s *service) status(reasons []string) serverStatus {
	status := serverStatus{
		Ready: len(reasons) == 0, Reasons: reasons,
		Backends: []backendStatus{}, Composites: []compositeStatus{}, Tools: []toolStatus{},
	}
	for _, b := range s.pool.Status() {
		status.Backends = append(status.Backends, backendStatus{Name: b.Name, Connected: b.Up, Tools: b.Tools, Error: b.Error})
	}
	for _, c := range s.gateway.Composites() {
		status.Composites = append(status.Composites, compositeStatus{
			Name: c.Definition.Name, Version: c.Definition.Version, Available: &c.Available, Reason: c.Reason,
		})
	}
	for _, t := range s.pool.Tools() {
		status.Tools = append(status.Tools, toolStatus{Name: t.Name, Backend: t.Backend, Effect: t.Effect, Hidden: t.Hidden})
	}
	return status
}

// reload takes definitions over when their files change, until ctx ends. Files
// with mistakes change nothing.
func (s *service) reload(ctx context.Context, src sources, log *slog.Logger) {
	last := src.stamp()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		stamp := src.stamp()
		if stamp == last {
			continue
		}
		last = stamp
		found, diags := load(src)
		if err := diags.Err(); err != nil {
			log.Error("changed definitions are not taken over; those of before are still served", "error", err)
			continue
		}
		s.gateway.SetDefinitions(found.Definitions)
		log.Info("definitions reloaded", "definitions", namesOf(found.Definitions))
	}
}

func namesOf(defs []*definitions.Definition) []string {
	var names []string
	for _, d := range defs {
		names = append(names, d.Name)
	}
	return names
}
