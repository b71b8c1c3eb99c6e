package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/topology"
)

// A waiting call is one of a client that cannot go on before a person has
// answered. It costs its gateway what this measures: memory, and processor time
// while nothing happens.

// gateDefinition waits for a day.
const gateDefinition = `
quotas: {openRuns: 1000000, runsPerMinute: 1000000, waitingRuns: 1000000, requests: 100000}
compositeTools:
  - name: gate
    description: Waits for a person.
    steps:
      - {id: approval, type: elicitation, message: "Go on?", timeout: 24h}
`

// capabilities are those of the kinds of clients whose calls stay open. One of
// 2026-07-28 that can be asked, or that takes tasks, waits without a request.
var capabilities = map[string]string{
	"asked on the stream of its call": `{"elicitation":{}}`,
	"cannot be asked":                 `{}`,
}

// A gatewayLab is a perdure dev, which has Temporal and the worker, and a
// perdure gateway beside it, which is measured.
type gatewayLab struct {
	lab
	perdure  string
	address  string // of Temporal
	temporal client.Client
	keys     *secrets.Keys

	gateway *exec.Cmd
	url     string
}

// measureWaiting prints a row for each kind of client.
func measureWaiting(ctx context.Context, perdure string, calls int) error {
	l, err := newGatewayLab(ctx, perdure)
	if err != nil {
		return err
	}
	defer l.close()
	fmt.Printf("%d calls that wait at a gate, on one gateway\n\n", calls)
	fmt.Print("| client | memory of the gateway before | with all waiting | a call | processor while they wait | all answered and told in |\n|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(capabilities)) {
		if err := l.startGateway(ctx); err != nil {
			return err
		}
		if err := l.measure(ctx, kind, calls); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

func newGatewayLab(ctx context.Context, perdure string) (_ *gatewayLab, err error) {
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return nil, err
	}
	l := &gatewayLab{lab: lab{dir: dir}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.perdure, err = filepath.Abs(perdure); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "perdure.yaml"), []byte("backends: []"+gateDefinition), 0o600); err != nil {
		return nil, err
	}
	if l.address, err = topology.FreeAddress(); err != nil {
		return nil, err
	}
	if _, _, err = l.serve(ctx, "dev", "--ui-listen", "", "--temporal-listen", l.address); err != nil {
		return nil, err
	}
	if l.keys, err = secrets.NewKeys(secrets.KeyFile(filepath.Join(dir, ".perdure", "key"))); err != nil {
		return nil, err
	}
	pair, err := web.LoadPair(devserver.KeyFile(filepath.Join(dir, ".perdure")))
	if err != nil {
		return nil, err
	}
	l.temporal, err = client.DialContext(ctx, client.Options{HostPort: l.address, Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: pair.Client()}})
	return l, err
}

// startGateway starts a gateway that has served nobody yet.
func (l *gatewayLab) startGateway(ctx context.Context) error {
	cmd, address, err := l.serve(ctx, "gateway", "--address", l.address, "--key-file", filepath.Join(l.dir, ".perdure", "key"), "--call-patience", "0s")
	l.gateway, l.url = cmd, "http://"+address+"/mcp"
	return err
}

// serve starts a command of perdure and waits until it is ready.
func (l *gatewayLab) serve(ctx context.Context, args ...string) (*exec.Cmd, string, error) {
	address, err := topology.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(l.perdure, append(args, "--config", "perdure.yaml", "--listen", address, "--log-level", "error")...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), web.PairEnvironment(devserver.KeyFile(".perdure"))...)
	if err := l.lab.start(cmd); err != nil {
		return nil, "", err
	}
	return cmd, address, awaitReady(ctx, address)
}

func (l *gatewayLab) close() {
	if l.temporal != nil {
		l.temporal.Close()
	}
	l.lab.close()
}

// idle is how long processor time is measured.
const idle = 30 * time.Second

func (l *gatewayLab) measure(ctx context.Context, kind string, calls int) error {
	before, err := memory(l.gateway.Process.Pid)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, calls)
	for i := range calls {
		stream, err := l.begin(ctx, capabilities[kind], i)
		if err != nil {
			return err
		}
		go func() { defer stream.Close(); ended <- untilResult(stream) }()
	}
	if err := l.awaitGates(ctx, calls); err != nil {
		return err
	}
	cpu, err := processor(l.gateway.Process.Pid)
	if err != nil {
		return err
	}
	time.Sleep(idle)
	after, err := memory(l.gateway.Process.Pid)
	if err != nil {
		return err
	}
	cpuAfter, err := processor(l.gateway.Process.Pid)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := l.answerAll(ctx); err != nil {
		return err
	}
	for range calls {
		if err := <-ended; err != nil {
			return err
		}
	}
	fmt.Printf("| %s | %d MB | %d MB | %d KB | %.1f %% of a core | %.1f s |\n", kind, before>>10, after>>10, (after-before)/int64(calls),
		100*(cpuAfter-cpu).Seconds()/idle.Seconds(), time.Since(begun).Seconds())
	return nil
}

// begin opens a session and calls the gate; the stream of the call is the
// caller's to close.
func (l *gatewayLab) begin(ctx context.Context, capabilities string, i int) (io.ReadCloser, error) {
	first, err := l.post(ctx, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"bench","version":"1"}}}`, capabilities))
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, first.Body)
	first.Body.Close()
	call, err := l.post(ctx, first.Header.Get("Mcp-Session-Id"), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"gate","arguments":{}}}`, i+1))
	if err != nil {
		return nil, err
	}
	return call.Body, nil
}

func (l *gatewayLab) post(ctx context.Context, session, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		request.Header.Set("Mcp-Session-Id", session)
		request.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		response.Body.Close()
		err = errors.New(response.Status)
	}
	return response, err
}

// untilResult reads a stream until the call has a result.
func untilResult(stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var m struct{ Result json.RawMessage }
		if ok && json.Unmarshal([]byte(data), &m) == nil && len(m.Result) > 0 {
			return nil
		}
	}
	return fmt.Errorf("a stream ended without its result: %v", lines.Err())
}

// awaitGates waits until so many runs wait for a person.
func (l *gatewayLab) awaitGates(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		waiting, err := l.waiting(ctx)
		if err != nil || len(waiting) >= n {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (l *gatewayLab) waiting(ctx context.Context) ([]runs.Run, error) {
	return l.runs().List(ctx, runs.Filter{Waiting: true, Limit: 10_000})
}

func (l *gatewayLab) runs() *runs.Client {
	return runs.New(runs.Config{Client: l.temporal, Keys: l.keys, Logger: slog.New(slog.DiscardHandler)})
}

// answerAll accepts every open gate.
func (l *gatewayLab) answerAll(ctx context.Context) error {
	waiting, err := l.waiting(ctx)
	if err != nil {
		return err
	}
	answers := make(chan runs.Run)
	errs := make(chan error, len(waiting))
	var people sync.WaitGroup
	for range 8 {
		people.Go(func() {
			for run := range answers {
				for _, e := range run.Open() {
					_, err := l.runs().Answer(ctx, run.ID, runs.Answer{ElicitationID: e.ID, Action: "accept", Content: json.RawMessage(`{}`), By: "bench", Via: runs.ViaCommand})
					errs <- err
				}
			}
		})
	}
	for _, run := range waiting {
		answers <- run
	}
	close(answers)
	people.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// memory is what a process occupies, in KB.
func memory(pid int) (int64, error) { return statusField(pid, "VmRSS:") }

// statusField is a field of what Linux says of a process.
func statusField(pid int, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), name)
	number, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	return strconv.ParseInt(number, 10, 64)
}

// processor is the time that a process has computed.
func processor(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read", pid)
	}
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	const tick = 10 * time.Millisecond // Linux, since ever
	return time.Duration(user+system) * tick, errors.Join(errUser, errSystem)
}
