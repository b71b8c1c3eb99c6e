package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure/test/topology"
)

// A lab is the backend and the servers under measurement, as processes.
type lab struct {
	dir   string
	load  string            // the load client
	urls  map[string]string // of the servers, by configuration, and of the backend
	pids  map[string]int    // of their processes
	procs []*exec.Cmd

	configs map[string]string // of perdure: tools as unsafe as they are, and declared ones
}

// declared says of the benchmark's reading tools that they read.
const declared = `    effects:
      - {tool: echo, class: read}
      - {tool: list, class: read}
      - {tool: sleep, class: read}
`

// scripts are composites of the load client's configuration as scripts, after
// its last composite tool.
const scripts = `
  - name: chain_script
    description: chain_of_5 as a script
    parameters: {type: object, properties: {message: {type: string}}, required: [message]}
    script: |
      message = data["message"]
      for i in range(5):
          message = be_echo(message="%s%d" % (message, i + 1))["message"]
      return {"message": message}
  - name: foreach_script
    description: foreach_50 as a script
    parameters: {type: object, properties: {n: {type: integer, default: 50}}}
    script: |
      items = be_list(n=data["n"])["items"]
      done = map_parallel(lambda it: be_echo(message=it["name"]), items, max=10)
      return {"count": len(items), "completed": len(done), "failed": 0}
`

// newLab has servers of a build under measurement.
func newLab(ctx context.Context, perdure, load string) (_ *lab, err error) {
	l, err := newBackend(ctx, load)
	if err != nil {
		return nil, err
	}
	for name, text := range l.configs {
		if err := l.serve(ctx, perdure, name, text); err != nil {
			l.close()
			return nil, fmt.Errorf("starting perdure (%s): %w", name, err)
		}
	}
	return l, nil
}

// newBackend has a backend, the load client and the configurations for it.
func newBackend(ctx context.Context, load string) (_ *lab, err error) {
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, load: filepath.Join(dir, "load"), urls: map[string]string{}, pids: map[string]int{}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	for bin, pkg := range map[string]string{l.load: "./load", filepath.Join(dir, "backend"): "./cmd/backend"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", bin, pkg)
		build.Dir, build.Stderr = load, os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("building %s of %s: %w", pkg, load, err)
		}
	}
	address, err := topology.FreeAddress()
	if err != nil {
		return nil, err
	}
	if err := l.start(exec.Command(filepath.Join(dir, "backend"), "-quiet", "-addr", address)); err != nil {
		return nil, err
	}
	l.urls["backend"] = "http://" + address + "/be/mcp"
	source, err := os.ReadFile(filepath.Join(load, "load", "bench.yaml"))
	if err != nil {
		return nil, err
	}
	config := strings.ReplaceAll(string(source), "{backend}", address) + scripts
	transport := "    transport: streamable-http\n"
	l.configs = map[string]string{
		"default": config,
		"read":    strings.Replace(config, transport, transport+declared, 1),
	}
	return l, nil
}

// serve starts perdure with a configuration and waits until it is ready.
func (l *lab) serve(ctx context.Context, perdure, name, config string) error {
	file := filepath.Join(l.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	address, err := topology.FreeAddress()
	if err != nil {
		return err
	}
	cmd := exec.Command(perdure, "dev", "--config", file, "--data", filepath.Join(l.dir, name), "--listen", address, "--ui-listen", "", "--log-level", "error")
	if err := l.start(cmd); err != nil {
		return err
	}
	l.pids[name] = cmd.Process.Pid
	l.urls[name] = "http://" + address + "/mcp"
	return awaitReady(ctx, address)
}

// awaitReady waits until a server takes calls.
func awaitReady(ctx context.Context, address string) error {
	for range 600 {
		if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("not ready after 30 s")
}

func (l *lab) start(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.procs = append(l.procs, cmd)
	return nil
}

// measure returns the measurement of a server's composites by the load client.
func (l *lab) measure(config string) func(context.Context, shape, int, time.Duration) (figure, figure, error) {
	return l.calling(l.urls[config], func() (time.Duration, error) { return processor(l.pids[config]) })
}

// calling returns the measurement of the tools at a URL by the load client. spent is the
// processor time that their server has taken.
func (l *lab) calling(url string, spent func() (time.Duration, error)) func(context.Context, shape, int, time.Duration) (figure, figure, error) {
	return func(ctx context.Context, s shape, callers int, d time.Duration) (seq, con figure, err error) {
		before, err := spent()
		if err != nil {
			return seq, con, err
		}
		cmd := exec.CommandContext(ctx, l.load, "-url", url, "-n", fmt.Sprint(s.calls), "-c", fmt.Sprint(callers), "-d", d.String(), s.name, s.arguments)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return seq, con, err
		}
		dec := json.NewDecoder(bytes.NewReader(out))
		if err := dec.Decode(&seq); err != nil {
			return seq, con, fmt.Errorf("reading the load client's figures: %w", err)
		}
		if err := dec.Decode(&con); err != nil {
			return seq, con, fmt.Errorf("reading the load client's figures: %w", err)
		}
		after, err := spent()
		seq.CPU = (after - before) / time.Duration(runsOf(seq, con, callers))
		return seq, con, err
	}
}

// runsOf is how many runs there were in two measurements of the load client, which makes
// ten calls, and two of each caller, before it measures.
func runsOf(seq, con figure, callers int) int { return 10 + seq.Calls + 2*callers + con.Calls }

func (l *lab) close() {
	for _, p := range l.procs {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
		_ = p.Wait()
	}
	_ = os.RemoveAll(l.dir)
}
