package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/test/topology"
	"github.com/perdure/perdure/test/topology/clients"
)

//go:embed chaos.yaml
var definitions string

var quietLogger = slog.New(slog.DiscardHandler)

// A world is production with backends, links between all parts, and whoever
// uses it.
type world struct {
	programs
	name string
	dir  string          // of all that is written
	life context.Context // of the world
	seed uint64

	production *topology.Production
	web        *topology.Process // the backend with HTTP
	links      []*topology.Link
	quota      string // the small disk of PostgreSQL; "" = it has a large one
	temporal   client.Client
	door       *runs.Client
	quiet      atomic.Bool  // nothing is harmed any more, and nothing is on its way
	pairs      atomic.Int64 // calls of once
	verdicts   atomic.Int64
	rolls      atomic.Uint64
	nemesisLog *os.File

	mu        sync.Mutex
	record    Record
	histories map[string]*historypb.History // by run, once they were read
	signedIn  *clients.Approver             // nil = nobody has yet
}

// programs are the paths of the programs of a world.
type programs struct {
	perdure, faulty, prodlocal, self string
	only                             *regexp.Regexp // of what the nemesis can do, such as "kill worker"
	clients                          *regexp.Regexp // of kinds of clients, such as "no key"
	rate                             float64        // calls that begin a second
}

// diskSize is the quota of PostgreSQL: five minutes take about 200 MB of it.
const diskSize = "size=1g,mode=0777"

// newWorld starts a world; it must be closed, also after an error.
func newWorld(ctx context.Context, p programs, dir string, seed uint64) (w *world, err error) {
	w = &world{programs: p, name: filepath.Base(dir), dir: dir, life: ctx, seed: seed, histories: map[string]*historypb.History{}}
	if w.nemesisLog, err = os.Create(filepath.Join(dir, "nemesis.log")); err != nil {
		return w, err
	}
	if os.Getuid() == 0 { // in a namespace of its own, see main
		disk := filepath.Join(dir, "postgresql")
		if err := os.Mkdir(disk, 0o755); err != nil {
			return w, err
		}
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, diskSize); err != nil {
			fmt.Fprintf(os.Stderr, "chaos: no small disk can be mounted (%v), so none is filled\n", err)
		} else {
			w.quota = disk
		}
	}
	config, err := w.startBackends()
	if err != nil {
		return w, err
	}
	cfg := topology.Config{
		Dir: dir, PostgreSQLDir: w.quota, Perdure: []string{p.perdure}, Standalone: []string{p.prodlocal}, ConfigFile: config,
		GatewayFlags: []string{"--call-patience", "2s"}, ServiceFlags: []string{"--grace", "2s"}, Via: w.via,
	}
	if p.faulty != "" {
		cfg.WorkerPerdure = []string{"env", "PERDURE_PLANTED=fault", p.faulty}
	}
	if w.production, err = topology.Start(ctx, cfg); err != nil {
		return w, err
	}
	if w.temporal, err = dial(w.production.Temporal.Address); err != nil {
		return w, err
	}
	keys, err := secrets.NewKeys(secrets.KeyFile(w.production.KeyFile()))
	w.door = runs.New(runs.Config{Client: w.temporal, Keys: keys, Logger: quietLogger})
	return w, err
}

// via puts a link before each part.
func (w *world) via(from, to, address string) (string, error) {
	free, err := topology.FreeAddress()
	if err != nil {
		return "", err
	}
	l, err := topology.NewLink(from+" to "+to, free, address)
	w.links = append(w.links, l)
	return free, err
}

// startBackends starts the backend with HTTP, and gives the configuration with
// both of them.
func (w *world) startBackends() (string, error) {
	address, err := topology.FreeAddress()
	if err != nil {
		return "", err
	}
	backend := []string{w.self, "backend", "--dir", w.dir, "--seed", fmt.Sprint(w.seed)}
	if w.faulty != "" { // what is repeated are calls whose answer was lost
		backend = append(backend, "--loses", "5")
	}
	w.web = &topology.Process{Name: "web", Address: address, Command: slices.Concat(backend, []string{"--name", "web", "--listen", address})}
	if err := w.web.Start(); err != nil {
		return "", err
	}
	reached, err := w.via("perdure", "web", address)
	if err != nil {
		return "", err
	}
	var effects []string
	for tool, class := range tools {
		rule := fmt.Sprintf("{tool: %s, class: %s}", tool, class)
		if tool == "book" {
			rule = fmt.Sprintf("{tool: %s, class: %s, keyArgument: %s}", tool, class, keyArgument)
		}
		effects = append(effects, rule)
	}
	rules := strings.Join(effects, ", ")
	approvers := filepath.Join(w.dir, "approvers.yaml")
	if err := os.WriteFile(approvers, []byte(clients.ApproverFile), 0o600); err != nil {
		return "", err
	}
	config := fmt.Sprintf("quotas: {openRuns: 1000000, runsPerMinute: 1000000, waitingRuns: 1000000, requests: 100000}\nbackends:\n  - {name: web, transport: streamable-http, url: \"http://%s/mcp\", effects: [%s]}\n"+
		"  - {name: pipe, transport: stdio, command: %s, args: [%s, --name, pipe], effects: [%s]}\n%s%s",
		reached, rules, w.self, strings.Join(backend[1:], ", "), rules, clients.ApproverSettings(approvers), definitions)
	file := filepath.Join(w.dir, "perdure.yaml")
	return file, os.WriteFile(file, []byte(config), 0o644)
}

func (w *world) url() string { return w.production.URL + "/mcp" }

// note writes something into the record.
func (w *world) note(f func(*Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.record)
}

// logf writes a line about what was done to the world.
func (w *world) logf(format string, args ...any) {
	fmt.Fprintf(w.nemesisLog, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// rng is a source of its own for each part of the world.
func (w *world) rng(part int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(part))) }

// roll is a number that depends on the seed and on how often it was rolled.
func (w *world) roll() int {
	return rand.New(rand.NewPCG(w.seed, 1_000_000+w.rolls.Add(1))).IntN(1 << 30)
}

// verdict is what nobody has answered before.
func (w *world) verdict() string { return fmt.Sprintf("verdict-%d", w.verdicts.Add(1)) }

// leaves says whether nobody but its client answers a run.
func (w *world) leaves(id runs.RunID) bool {
	h := fnv.New32a()
	h.Write([]byte(id))
	return h.Sum32()%16 == 0
}

// happened says whether the logs know an effect by its key.
func (w *world) happened(key string) (bool, error) {
	effects, err := w.effects()
	return slices.ContainsFunc(effects, func(e Effect) bool { return e.Key == key && e.done() }), err
}

func (w *world) effects() ([]Effect, error) {
	web, errWeb := readEffects(filepath.Join(w.dir, "web.effects"))
	pipe, errPipe := readEffects(filepath.Join(w.dir, "pipe.effects"))
	return append(web, pipe...), errors.Join(errWeb, errPipe)
}

// processes are all that can be harmed.
func (w *world) processes() []*topology.Process {
	p := w.production
	return slices.Concat([]*topology.Process{&p.PostgreSQL.Process, &p.Temporal.Process, p.Proxy, w.web}, p.Workers, p.Gateways)
}

// close ends everything that runs. The logs stay.
func (w *world) close() {
	if w.temporal != nil {
		w.temporal.Close()
	}
	for _, l := range w.links {
		l.Close()
	}
	if w.production != nil {
		_ = w.production.Close() // what is left is in the directory of the world
	}
	if w.web != nil {
		w.web.End()
	}
	if w.quota != "" {
		_ = syscall.Unmount(w.quota, 0)
		_ = os.Remove(w.quota)
	}
	w.nemesisLog.Close()
}
