package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/test/topology"
)

// gateTool waits for a day.
const gateTool = `
  - name: gate
    description: Waits for a person.
    steps:
      - {id: approval, type: elicitation, message: "Go on?", timeout: 24h}
`

// openers is how many clients open gates at the same time.
const openers = 32

// measureGates prints what so many open gates cost, whose callers were given handles, and
// what a new call and a list of approvals take before and meanwhile.
func measureGates(ctx context.Context, perdure, load string, gates int) (err error) {
	l, err := newBackend(ctx, load)
	if err != nil {
		return err
	}
	defer l.close()
	p, err := l.startProduction(ctx, perdure, "gates", l.configs["read"]+gateTool, "--call-patience", "1s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	temporal, err := client.DialContext(ctx, client.Options{HostPort: p.Temporal.Address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer temporal.Close()
	all := runs.New(runs.Config{Client: temporal, Logger: slog.New(slog.DiscardHandler)})
	fmt.Print("| open gates | memory of each gateway | of each worker | one_step, p50 / p99 | first page of approvals |\n|---|---|---|---|---|\n")
	if err := l.tellGates(ctx, p, all, 0); err != nil {
		return err
	}
	began := time.Now()
	if err := openGates(ctx, l.load, p.URL+"/mcp", gates); err != nil {
		return err
	}
	took := time.Since(began)
	if err := awaitOpen(ctx, all, gates); err != nil {
		return err
	}
	if err := l.tellGates(ctx, p, all, gates); err != nil {
		return err
	}
	fmt.Printf("\nThey were opened in %s.\n", took.Round(time.Second))
	return nil
}

// openGates calls the gate so often. Each call returns with a handle.
func openGates(ctx context.Context, load, url string, gates int) error {
	var all sync.WaitGroup
	failed := make(chan error, openers)
	for i := range openers {
		all.Go(func() {
			n := gates/openers + min(1, max(0, gates%openers-i))
			if n == 0 {
				return
			}
			out, err := exec.CommandContext(ctx, load, "-url", url, "-gates=false", "-warm", "0", "-timeout", "1h", "-n", fmt.Sprint(n), "gate").CombinedOutput()
			if err != nil {
				failed <- fmt.Errorf("opening gates: %w: %s", err, out)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// awaitOpen waits until so many runs wait for a person.
func awaitOpen(ctx context.Context, all *runs.Client, gates int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		waiting, err := all.List(ctx, runs.Filter{Waiting: true, Limit: gates})
		if err != nil || len(waiting) >= gates {
			return err
		}
		time.Sleep(time.Second)
	}
}

// approvalsPage is how many elicitations a page of approvals shows.
const approvalsPage = 100

func (l *lab) tellGates(ctx context.Context, p *topology.Production, all *runs.Client, gates int) error {
	one := shape{name: "one_step", arguments: `{"message":"hi"}`, calls: 200}
	seq, _, err := l.calling(p.URL+"/mcp", func() (time.Duration, error) { return 0, nil })(ctx, one, 1, time.Second)
	if err != nil {
		return err
	}
	var lists []time.Duration
	for range 20 {
		began := time.Now()
		if _, err := all.List(ctx, runs.Filter{Waiting: true, Limit: approvalsPage}); err != nil {
			return err
		}
		lists = append(lists, time.Since(began))
	}
	slices.Sort(lists)
	var cells []string
	for _, processes := range [][]*topology.Process{p.Gateways, p.Workers} {
		var each []string
		for _, process := range processes {
			rss, err := memory(process.PID())
			if err != nil {
				return err
			}
			each = append(each, fmt.Sprintf("%d MB", rss>>10))
		}
		cells = append(cells, strings.Join(each, ", "))
	}
	fmt.Printf("| %d | %s | %.1f / %.1f ms | %d ms |\n", gates, strings.Join(cells, " | "), seq.P50, seq.P99, lists[len(lists)/2].Milliseconds())
	return nil
}
