package backends

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// How long a child may take to end after its stdin was closed, and then after
// SIGTERM, before it is killed.
const (
	stdinGrace = 2 * time.Second
	termGrace  = 3 * time.Second
)

// A process is the program of a child, with its pipes.
type process struct {
	cfg     Config
	secrets secrets // of cfg
	logger  *slog.Logger
	noise   *flow           // of what it writes to stderr
	unread  <-chan struct{} // closed when nothing of it is wanted any more

	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	tail   stderrTail
	exited chan struct{} // closed when the process has ended
}

// start starts the program. It calls ended with the cause of the end before it closes
// exited.
func (p *process) start(ended func(error)) error {
	account, err := findAccount(p.cfg.User, p.cfg.Group)
	if err != nil {
		return err
	}
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdinR.Close()
	stdoutR, stdoutW, err := os.Pipe()
	if err != nil {
		stdinW.Close()
		return err
	}
	defer stdoutW.Close()
	p.stdin, p.stdout = stdinW, stdoutR

	p.cmd = exec.Command(p.cfg.Command, p.cfg.Args...)
	p.cmd.Dir = p.cfg.Dir
	p.cmd.Env = childEnv(account, p.cfg.Env)
	p.cmd.Stdin, p.cmd.Stdout = stdinR, stdoutW
	p.cmd.Stderr = &lineWriter{line: p.stderrLine, pace: p.pace}
	p.cmd.WaitDelay = time.Second // what the child started may hold stderr open
	ownGroup(p.cmd)
	account.take(p.cmd)

	started := make(chan error, 1)
	go p.run(started, ended)
	if err := <-started; err != nil {
		p.stdin.Close()
		p.stdout.Close()
		return account.explain(err)
	}
	return nil
}

// run starts the process and waits for it on one locked thread: Linux sends
// the parent-death signal when the thread that started the child ends.
func (p *process) run(started chan<- error, ended func(error)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.cmd.Wait()
	p.kill() // what the child left behind
	ended(exitError(err, p.tail.last()))
	close(p.exited)
	// Its last output is still in the pipe. A process that left the group may hold the
	// pipe open.
	_ = p.stdout.SetReadDeadline(time.Now().Add(time.Second))
}

func (p *process) isStarted() bool { return p.cmd != nil && p.cmd.Process != nil }

// kill ends the process and all that it has started.
func (p *process) kill() { signalGroup(p.cmd, os.Kill) }

// end closes the stdin of the process, then sends SIGTERM, then kills it.
func (p *process) end() {
	_ = p.stdin.Close()
	if !p.exitedWithin(stdinGrace) {
		signalGroup(p.cmd, terminate)
		if !p.exitedWithin(termGrace) {
			p.kill()
			<-p.exited
		}
	}
}

func exitError(err error, stderr string) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	if stderr != "" {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return err
}

// childEnv is a small environment: the variables that every program needs and those of the
// configuration, without our secrets.
func childEnv(a *account, extra map[string]string) []string {
	env := a.env()
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

// pace slows down a child that keeps writing to stderr.
func (p *process) pace(n int) {
	select {
	case <-time.After(p.noise.wait(n)):
	case <-p.unread:
	}
}

func (p *process) stderrLine(line string) {
	line = p.secrets.without(line)
	p.tail.add(line)
	p.logger.Debug("stderr of backend", "line", line)
}

func (p *process) exitedWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// A lineWriter hands on whole lines, cut at 4 KB.
type lineWriter struct {
	buf  []byte
	line func(string)
	pace func(n int) // waits until n bytes may have come
}

const maxStderrLine = 4 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	w.pace(len(p))
	w.buf = append(w.buf, p...)
	for {
		i := bytes.IndexByte(w.buf, '\n')
		if i < 0 && len(w.buf) < maxStderrLine {
			return len(p), nil
		}
		if i < 0 {
			i = maxStderrLine - 1
		}
		w.line(strings.TrimRight(string(w.buf[:i]), "\r"))
		w.buf = w.buf[min(i+1, len(w.buf)):]
	}
}

// A stderrTail keeps why a process may have ended: of its last lines the one that names an
// error, as stack traces and how the program is used follow it, or else the last that is
// not empty.
type stderrTail struct {
	mu    sync.Mutex
	line  string
	cause string // "" = none of the last maxTrace lines names an error
	since int    // lines since cause, those of a usage left out
	usage int    // lines since how the program is used began; 0 = it has not
}

// maxTrace is how many lines may follow an error that they belong to; maxUsage is how
// many may say how the program is used.
const (
	maxTrace = 30
	maxUsage = 300
)

var usageBegins = regexp.MustCompile(`(?i)^\s*usage( of [^:]*)?:`)

var namesError = regexp.MustCompile(`(?i)^\s*(uncaught\s+)?[\w.]*(error|exception|panic|fatal)\b[^:]*: `)

func (t *stderrTail) add(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.usage > 0:
		t.usage = (t.usage + 1) % maxUsage
	case usageBegins.MatchString(line):
		t.cause, t.usage = cmp.Or(t.cause, t.line), 1
	default:
		t.since++
	}
	t.line = line
	switch {
	case namesError.MatchString(line):
		t.cause, t.since, t.usage = line, 0, 0
	case t.since > maxTrace:
		t.cause = ""
	}
}

func (t *stderrTail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.cause, t.line)
}
