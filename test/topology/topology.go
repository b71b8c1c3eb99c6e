// Package topology starts everything that runs in production as processes on
// this machine, without a container.
//
//	client → proxy → gateway 1, 2 ─┐            ┌─ Web UI
//	                               ├─ Temporal ─┴─ PostgreSQL
//	backends ←──── worker 1, 2 ────┘
//
// Each part can be killed, stopped and started again by itself. Tests, chaos
// and prodlocal share it; package standalone has the programs that are not
// perdure's own.
package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Programs of package standalone that Config.Standalone is followed by.
const (
	TemporalProgram = "temporal-on-postgresql"
	UIProgram       = "temporal-web-ui"
	ProxyProgram    = "proxy-of-replicas"
)

// Names of the parts, as Config.Via gets them. Gateways and workers are followed
// by -1 or -2.
const (
	PostgreSQLName = "postgresql"
	TemporalName   = "temporal"
	UIName         = "web-ui"
	ProxyName      = "proxy"
	GatewayName    = "gateway"
	WorkerName     = "worker"
)

// replicas is how many gateways and workers there are.
const replicas = 2

// A Config says what a Production consists of.
type Config struct {
	Dir           string   // must exist; what the parts print is there, in NAME.log
	PostgreSQLDir string   // "" = a temporary one, which goes with it
	Perdure       []string // the program, and what comes before its command
	WorkerPerdure []string // of the workers; nil = Perdure
	Standalone    []string // what runs the programs of package standalone
	ConfigFile    string   // of perdure
	Namespace     string   // "" = default
	Listen        string   // of the proxy; "" = any free address
	UIListen      string   // "" = any free address
	GatewayFlags  []string // besides what they need
	ServiceFlags  []string // of gateways and workers, besides what they need
	Env           []string // of all processes, besides that of this one
	// Via gives the address by which one part reaches another. nil = directly.
	Via func(from, to, address string) (string, error)
}

// A Production is everything that runs in production but backends.
type Production struct {
	PostgreSQL *PostgreSQL
	Temporal   *Temporal
	UI         *Process
	Gateways   []*Process
	Workers    []*Process
	Proxy      *Process
	URL        string // of the proxy, without a path
	UIURL      string

	cfg  Config
	logs []*os.File
}

// Start starts everything and waits until it is ready. What was started ends
// with Close, also after an error, with which it has ended already.
func Start(ctx context.Context, cfg Config) (*Production, error) {
	p := &Production{cfg: cfg}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Production) start(ctx context.Context) (err error) {
	if p.PostgreSQL, err = NewPostgreSQL(p.cfg.PostgreSQLDir); err != nil {
		return err
	}
	if err := p.prepare(PostgreSQLName, &p.PostgreSQL.Process); err != nil {
		return err
	}
	if err := p.PostgreSQL.StartReady(ctx); err != nil {
		return err
	}
	return p.startOn(ctx)
}

// startOn starts everything on a PostgreSQL that runs.
func (p *Production) startOn(ctx context.Context) error {
	database, err := p.via(TemporalName, PostgreSQLName, p.PostgreSQL.Address)
	if err != nil {
		return err
	}
	if p.Temporal, err = NewTemporal(p.standalone(TemporalProgram), database); err != nil {
		return err
	}
	if err := p.prepare(TemporalName, &p.Temporal.Process); err != nil {
		return err
	}
	if err := p.Temporal.StartReady(ctx); err != nil {
		return err
	}
	if err := p.startUI(ctx); err != nil {
		return err
	}
	if err := p.startServices(ctx); err != nil {
		return err
	}
	return p.startProxy(ctx)
}

// prepare gives a process what all have in common.
func (p *Production) prepare(name string, process *Process) error {
	log, err := os.OpenFile(filepath.Join(p.cfg.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	p.logs = append(p.logs, log)
	process.Name, process.Log = name, log
	process.Env = append(process.Env, p.cfg.Env...)
	process.Dir = cmp.Or(process.Dir, p.cfg.Dir)
	return nil
}

func (p *Production) via(from, to, address string) (string, error) {
	if p.cfg.Via == nil {
		return address, nil
	}
	return p.cfg.Via(from, to, address)
}

func (p *Production) standalone(program string, args ...string) []string {
	return slices.Concat(p.cfg.Standalone, []string{program}, args)
}

func (p *Production) startUI(ctx context.Context) error {
	address := p.cfg.UIListen
	if address == "" {
		var err error
		if address, err = FreeAddress(); err != nil {
			return err
		}
	}
	p.UIURL = "http://" + address
	p.UI = &Process{Command: p.standalone(UIProgram, address, p.Temporal.Address, p.namespace()), Ready: Answers(p.UIURL + "/healthz")}
	if err := p.prepare(UIName, p.UI); err != nil {
		return err
	}
	return p.UI.StartReady(ctx)
}

// KeyFile has the key of the gateways and workers.
func (p *Production) KeyFile() string { return filepath.Join(p.cfg.Dir, "key") }

func (p *Production) namespace() string { return cmp.Or(p.cfg.Namespace, "default") }

// startServices starts the gateways and the workers at the same time, as they
// are in production.
func (p *Production) startServices(ctx context.Context) error {
	if err := os.WriteFile(p.KeyFile(), []byte(strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600); err != nil {
		return err
	}
	for i := range replicas {
		gateway, err := p.service(fmt.Sprintf("%s-%d", GatewayName, i+1), p.cfg.Perdure, "gateway", "--listen", p.cfg.GatewayFlags)
		if err != nil {
			return err
		}
		program := p.cfg.WorkerPerdure
		if program == nil {
			program = p.cfg.Perdure
		}
		worker, err := p.service(fmt.Sprintf("%s-%d", WorkerName, i+1), program, "worker", "--health-listen", nil)
		if err != nil {
			return err
		}
		p.Gateways, p.Workers = append(p.Gateways, gateway), append(p.Workers, worker)
	}
	for _, s := range slices.Concat(p.Workers, p.Gateways) {
		if err := s.Start(); err != nil {
			return err
		}
	}
	for _, s := range slices.Concat(p.Workers, p.Gateways) {
		if err := s.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// service is a command of perdure's that serves; listen is the flag with its
// address.
func (p *Production) service(name string, program []string, command, listen string, flags []string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	temporal, err := p.via(name, TemporalName, p.Temporal.Address)
	if err != nil {
		return nil, err
	}
	s := Service(address, slices.Concat(program, []string{command, "--config", p.cfg.ConfigFile, listen, address,
		"--address", temporal, "--namespace", p.namespace(), "--create-namespace", "--key-file", p.KeyFile()}, flags, p.cfg.ServiceFlags)...)
	return s, p.prepare(name, s)
}

func (p *Production) startProxy(ctx context.Context) error {
	var before []string
	for _, g := range p.Gateways {
		address, err := p.via(ProxyName, g.Name, g.Address)
		if err != nil {
			return err
		}
		before = append(before, address)
	}
	address := p.cfg.Listen
	if address == "" {
		var err error
		if address, err = FreeAddress(); err != nil {
			return err
		}
	}
	p.URL = "http://" + address
	p.Proxy = Service(address, p.standalone(ProxyProgram, append([]string{address}, before...)...)...)
	if err := p.prepare(ProxyName, p.Proxy); err != nil {
		return err
	}
	return p.Proxy.StartReady(ctx)
}

// Close ends everything.
func (p *Production) Close() error {
	for _, s := range slices.Concat([]*Process{p.Proxy}, p.Gateways, p.Workers, []*Process{p.UI}) {
		if s != nil {
			s.End()
		}
	}
	if p.Temporal != nil {
		p.Temporal.End()
	}
	var err error
	if p.PostgreSQL != nil {
		err = p.PostgreSQL.Close()
	}
	for _, log := range p.logs {
		log.Close()
	}
	return err
}
