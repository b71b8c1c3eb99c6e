package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A Process is a program that serves until it is ended, and can then be started
// again, at the same address. It has a process group of its own, so that Ctrl-C
// is for whoever started it. Its methods may be called at the same time.
type Process struct {
	Name    string    // in errors
	Address string    // host:port where it serves; "" = it says nothing of it
	Command []string  // the program and its arguments
	Dir     string    // "" = that of this process
	Env     []string  // besides the environment of this process
	Log     io.Writer // nil = Output keeps what it prints
	// Ready says whether it serves. nil = once it was started.
	Ready func(context.Context) bool

	credential *syscall.Credential
	quit       syscall.Signal // the quick way down, for the whole group; 0 = SIGKILL

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended
	output *Transcript   // where there is no Log
}

// Service is a process that says at /readyz of its address whether it serves.
func Service(address string, command ...string) *Process {
	return &Process{Address: address, Command: command, Ready: Answers("http://" + address + "/readyz")}
}

// Answers says whether a page is served with status 200.
func Answers(url string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
}

// Start starts the process, which need not be ready when it returns.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		select {
		case <-p.ended:
		default:
			return fmt.Errorf("%s runs already", p.Name)
		}
	}
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.credential}
	withParent(cmd.SysProcAttr)
	cmd.WaitDelay = time.Second // what it has started may hold its output open
	out := p.Log
	if out == nil {
		p.output = &Transcript{}
		out = p.output
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // its state says how
		close(ended)
	}()
	return nil
}

// readyLimit is how long a process may take until it serves.
const readyLimit = time.Minute

// AwaitReady waits until the process serves.
func (p *Process) AwaitReady(ctx context.Context) error {
	if p.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		probe, done := context.WithTimeout(ctx, time.Second)
		ready := p.Ready(probe)
		done()
		if ready {
			return nil
		}
		select {
		case <-p.Ended():
			return fmt.Errorf("%s ended with %s: %s", p.Name, p.State(), p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.Name, ctx.Err(), p.Output())
		case <-time.After(50 * time.Millisecond): // another process has nothing to wait on
		}
	}
}

// StartReady starts the process and waits until it serves.
func (p *Process) StartReady(ctx context.Context) error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.AwaitReady(ctx)
}

// Ended is closed once the process, as it was started last, has ended. Before
// the first start it is nil.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Running says whether the process was started and has not ended.
func (p *Process) Running() bool {
	ended := p.Ended()
	if ended == nil {
		return false
	}
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// State is how the process has ended; nil = it was not started, or runs.
func (p *Process) State() *os.ProcessState {
	if p.Running() || p.started() == nil {
		return nil
	}
	return p.started().ProcessState
}

func (p *Process) started() *exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd
}

// PID is the number of the process, as it was started last; 0 = never.
func (p *Process) PID() int {
	if cmd := p.started(); cmd != nil {
		return cmd.Process.Pid
	}
	return 0
}

// Output is what the process has printed since its last start, where it has no
// Log.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.output == nil {
		return ""
	}
	return p.output.String()
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(signal os.Signal) error {
	cmd := p.started()
	if cmd == nil {
		return fmt.Errorf("%s was not started", p.Name)
	}
	return cmd.Process.Signal(signal)
}

// Kill is kill -9, of the process and of nothing that it has started. It waits
// for the end.
func (p *Process) Kill() error {
	if err := p.Signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Ended()
	return nil
}

// SignalGroup sends a signal to the process and to all that it has started.
func (p *Process) SignalGroup(signal syscall.Signal) {
	if cmd := p.started(); cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, signal) // ended already
	}
}

// killGroup is kill -9 of the process and of all that it has started. It waits
// for the end.
func (p *Process) killGroup() {
	if p.started() != nil {
		p.SignalGroup(syscall.SIGKILL)
		<-p.Ended()
	}
}

// End ends the process and all that it has started, if it was started.
func (p *Process) End() {
	if p.started() == nil {
		return
	}
	if p.quit != 0 && p.Running() {
		p.SignalGroup(syscall.SIGCONT) // one that is stopped does not hear
		_ = p.Signal(p.quit)
		<-p.Ended()
	}
	p.killGroup()
}

// A Transcript keeps what a process prints. It may be used at the same time.
type Transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
