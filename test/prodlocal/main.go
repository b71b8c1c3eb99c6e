// Command prodlocal runs what production consists of on this machine, as
// processes: PostgreSQL, Temporal on it, its Web UI, two gateways, two workers,
// and a proxy before the gateways. Nothing of it is kept.
//
//	go build -tags nodev -o bin/perdure-nodev ./cmd/perdure
//	cd test && go run ./prodlocal -perdure ../bin/perdure-nodev -config prodlocal/perdure.yaml
//
// It serves until Ctrl-C. `make prod-local` runs the whole-program tests
// against it, `make prod-local KEEP=1` lets people look at it.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/perdure/perdure/test/topology"
	"github.com/perdure/perdure/test/topology/standalone"
)

// defaultConfig is where the checkout has a configuration to look at, whose root is
// the directory of the process.
const defaultConfig = "test/prodlocal/perdure.yaml"

func main() {
	if len(os.Args) > 1 {
		if program := standalone.Programs()[os.Args[1]]; program != nil {
			os.Args = slices.Delete(os.Args, 1, 2)
			program()
			return
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "prodlocal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	perdure := flag.String("perdure", "bin/perdure-nodev", "the program perdure")
	config := flag.String("config", defaultConfig, "the configuration of gateways and workers")
	listen := flag.String("listen", "127.0.0.1:4483", "where the proxy serves")
	uiListen := flag.String("ui-listen", "", "where the Web UI serves; empty: any free address")
	data := flag.String("data", "", "directory for what the processes print; empty: a temporary one")
	flag.Parse()
	cfg := topology.Config{Listen: *listen, UIListen: *uiListen, ServiceFlags: []string{"--grace", "5s"}, Dir: *data}
	if cfg.Dir == "" {
		if cfg.Dir, err = os.MkdirTemp("", "prodlocal"); err != nil {
			return err
		}
		defer os.RemoveAll(cfg.Dir)
	}
	if cfg.Perdure, cfg.ConfigFile, err = absolute(*perdure, *config); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Standalone = []string{self}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	token := rand.Text()
	approvers := fmt.Sprintf("tokens: [{subject: approver, sha256: %x}]\n", sha256.Sum256([]byte(token)))
	if err := os.WriteFile(filepath.Join(cfg.Dir, "approvers.yaml"), []byte(approvers), 0o600); err != nil {
		return err
	}
	p, err := topology.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w; the logs of all parts are in %s", err, cfg.Dir)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	tell(p, cfg.Perdure[0], cfg.Dir, token)
	<-ctx.Done()
	return nil
}

func absolute(perdure, config string) ([]string, string, error) {
	program, errProgram := filepath.Abs(perdure)
	file, errFile := filepath.Abs(config)
	return []string{program}, file, errors.Join(errProgram, errFile)
}

// tell says where everything is, and what one can try with it.
func tell(p *topology.Production, perdure, logs, token string) {
	fmt.Printf("MCP         %s/mcp\nApprovals   %s/approvals (token %s)\nWeb UI      %s\nLogs        %s\n\n", p.URL, p.URL, token, p.UIURL, logs)
	for _, s := range slices.Concat([]*topology.Process{p.Proxy}, p.Gateways, p.Workers) {
		fmt.Printf("%-11s pid %-8d http://%s/readyz?verbose\n", s.Name, s.PID(), s.Address)
	}
	fmt.Printf("%-11s pid %-8d %s\n", p.Temporal.Name, p.Temporal.PID(), p.Temporal.Address)
	fmt.Printf("%-11s pid %-8d %s\n", p.PostgreSQL.Name, p.PostgreSQL.PID(), p.PostgreSQL.URL("temporal"))
	fmt.Printf(`
  %[1]s tools --url %[2]s/mcp
  %[1]s runs list --waiting --address %[3]s
  kill -9 PID     of a gateway or a worker: the other one goes on

Ctrl-C ends all of it, and nothing is kept.
`, perdure, p.URL, p.Temporal.Address)
}
