package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/perdure/perdure/test/topology"
)

// A nemesis does harm to one part of the world after the other, and heals what
// it has done. Two hands of it are at work at the same time.
type nemesis struct {
	w *world

	all  []harm
	mu   sync.Mutex
	busy map[string]bool // parts that are being harmed
	due  []harm          // a kill of each kind of process, which no storm leaves to chance
	done map[string]int  // what was done how often, as "kill worker"
}

const hands = 2

// A harm is something that can be done to a part; it heals before it returns,
// at once if the context ends.
type harm struct {
	what   string
	part   string
	weight int
	do     func(ctx context.Context, rng *rand.Rand) error
}

// kind is what the part is one of: "worker" of worker-2, "connection" of a link.
func (h harm) kind() string {
	switch {
	case strings.Contains(h.part, " to "):
		return "connection"
	case h.part == "web":
		return "HTTP backend"
	default:
		return strings.TrimRight(h.part, "-0123456789")
	}
}

// plan finds what can be done, and puts one kill of each kind of process in a row.
func (n *nemesis) plan(rng *rand.Rand) {
	n.all = n.harms()
	planned := map[string]bool{}
	for _, h := range n.all {
		if h.what == "kill" && !planned[h.kind()] {
			planned[h.kind()] = true
			n.due = append(n.due, h)
		}
	}
	rng.Shuffle(len(n.due), func(i, j int) { n.due[i], n.due[j] = n.due[j], n.due[i] })
}

// rage harms until the context ends.
func (n *nemesis) rage(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, time.Duration(300+rng.IntN(1500))*time.Millisecond) {
		h, ok := n.take(rng)
		if !ok {
			continue
		}
		begun := time.Now()
		err := h.do(ctx, rng)
		n.w.logf("%s %s for %s: %v", h.what, h.part, time.Since(begun).Round(time.Millisecond), err)
		n.give(h)
	}
}

func pick(all []harm, rng *rand.Rand) harm {
	sum := 0
	for _, h := range all {
		sum += h.weight
	}
	at := rng.IntN(sum)
	for _, h := range all {
		if at -= h.weight; at < 0 {
			return h
		}
	}
	panic("not reached")
}

// take chooses a harm, every second time one that is due; false = its part is being
// harmed.
func (n *nemesis) take(rng *rand.Rand) (harm, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, due := pick(n.all, rng), len(n.due) > 0 && rng.IntN(2) == 0
	if due {
		h = n.due[0]
	}
	if n.busy[h.part] {
		return harm{}, false
	}
	if due {
		n.due = n.due[1:]
	}
	n.busy[h.part] = true
	return h, true
}

func (n *nemesis) give(h harm) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.busy, h.part)
	n.done[h.what+" "+h.kind()]++
}

// harms are all that can be done.
func (n *nemesis) harms() []harm {
	p := n.w.production
	var all []harm
	for _, s := range append(append([]*topology.Process{n.w.web}, p.Gateways...), p.Workers...) {
		all = append(all,
			harm{"kill", s.Name, 6, n.kill(s, s.Kill)},
			harm{"pause", s.Name, 3, n.stopGroup(s)})
		if s != n.w.web {
			all = append(all, harm{"restart", s.Name, 2, n.restart(s)})
		}
	}
	all = append(all,
		harm{"kill", p.Proxy.Name, 2, n.kill(p.Proxy, p.Proxy.Kill)},
		harm{"pause", p.Proxy.Name, 2, n.stopGroup(p.Proxy)},
		harm{"kill", p.Temporal.Name, 4, n.kill(&p.Temporal.Process, p.Temporal.Kill)},
		harm{"pause", p.Temporal.Name, 3, n.stopGroup(&p.Temporal.Process)},
		harm{"kill", p.PostgreSQL.Name, 3, n.kill(&p.PostgreSQL.Process, p.PostgreSQL.KillAll)},
		harm{"pause", p.PostgreSQL.Name, 3, n.stopPostgreSQL},
		harm{"kill", "stdio backend", 5, n.killChildren})
	for _, l := range n.w.links {
		all = append(all,
			harm{"cut", l.Name, 3, n.cut(l)},
			harm{"refuse", l.Name, 1, n.refuse(l)},
			harm{"delay", l.Name, 1, n.delay(l)},
			harm{"stall", l.Name, 1, n.stall(l)})
	}
	if n.w.quota != "" {
		all = append(all, harm{"fill the disk of", p.PostgreSQL.Name, 4, n.fill})
	}
	return slices.DeleteFunc(all, func(h harm) bool { return !n.w.only.MatchString(h.what + " " + h.part) })
}

// between is a time, most often a short one.
func between(rng *rand.Rand, most time.Duration) time.Duration {
	part := rng.Float64()
	return time.Duration(part * part * float64(most))
}

// kill is kill -9, and after some time a start.
func (n *nemesis) kill(s *topology.Process, kill func() error) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		if err := kill(); err != nil {
			return err
		}
		pause(ctx, between(rng, 5*time.Second))
		return n.start(s)
	}
}

// restart ends a process as an operator does.
func (n *nemesis) restart(s *topology.Process) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		if err := s.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-s.Ended():
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%s does not end", s.Name)
		}
		return n.start(s)
	}
}

// start starts a process, until it stays: what it needs may be away.
func (n *nemesis) start(s *topology.Process) error {
	for n.w.life.Err() == nil {
		if err := s.Start(); err != nil {
			return err
		}
		soon, done := context.WithTimeout(n.w.life, 3*time.Second)
		err := s.AwaitReady(soon)
		done()
		if err == nil || s.Running() { // it is not ready as long as something else is away
			return nil
		}
		pause(n.w.life, 200*time.Millisecond)
	}
	return n.w.life.Err()
}

func (n *nemesis) stopGroup(s *topology.Process) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		s.SignalGroup(syscall.SIGSTOP)
		defer s.SignalGroup(syscall.SIGCONT)
		pause(ctx, between(rng, 15*time.Second))
		return nil
	}
}

// stopPostgreSQL stops all of its processes.
func (n *nemesis) stopPostgreSQL(ctx context.Context, rng *rand.Rand) error {
	all := n.w.production.PostgreSQL
	all.SignalAll(syscall.SIGSTOP)
	defer all.SignalAll(syscall.SIGCONT)
	pause(ctx, between(rng, 15*time.Second))
	return nil
}

// killChildren kills a backend that gateways and workers have started.
func (n *nemesis) killChildren(_ context.Context, rng *rand.Rand) error {
	files, err := filepath.Glob(filepath.Join(n.w.dir, "*.pid"))
	if err != nil || len(files) == 0 {
		return err
	}
	file := files[rng.IntN(len(files))]
	_, pid, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".pid"), "-")
	number, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", number)); err == nil && strings.Contains(string(command), n.w.dir) {
		err = syscall.Kill(number, syscall.SIGKILL)
		_ = os.Remove(file)
		return err
	}
	return os.Remove(file) // it is gone with its parent
}

func (n *nemesis) cut(l *topology.Link) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		for range 1 + rng.IntN(3) {
			l.Cut()
			pause(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
		}
		return nil
	}
}

func (n *nemesis) refuse(l *topology.Link) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		l.Refuse()
		l.Cut()
		pause(ctx, between(rng, 5*time.Second))
		return l.Accept()
	}
}

func (n *nemesis) delay(l *topology.Link) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		l.SetDelay(time.Duration(20+rng.IntN(300)) * time.Millisecond)
		defer l.SetDelay(0)
		pause(ctx, between(rng, 8*time.Second))
		return nil
	}
}

func (n *nemesis) stall(l *topology.Link) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		defer l.Stall()()
		pause(ctx, between(rng, 12*time.Second))
		return nil
	}
}

// fill leaves PostgreSQL no room on its disk.
func (n *nemesis) fill(ctx context.Context, rng *rand.Rand) error {
	file := filepath.Join(n.w.quota, "filler")
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for until := time.Now().Add(between(rng, 6*time.Second)); time.Now().Before(until) && ctx.Err() == nil; {
		if _, err := f.Write(block); err != nil { // it is full, and stays so when others give room
			pause(ctx, 20*time.Millisecond)
		}
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	if s := &n.w.production.PostgreSQL.Process; !s.Running() {
		return n.start(s)
	}
	return nil
}
