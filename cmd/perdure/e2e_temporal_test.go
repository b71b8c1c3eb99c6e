package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	temporalsql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql" // the plugin postgres12_pgx
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resolver"
	schemas "go.temporal.io/server/schema"
	schema "go.temporal.io/server/schema/postgresql/v12"
	"go.temporal.io/server/temporal"

	"github.com/perdure/perdure/pgtest"
)

// A temporalServer is a Temporal in a process of its own that keeps everything
// in a PostgreSQL: what production has, but small. It is this test program
// again (see TestMain), which holds the server already; its settings are those
// of the official image.
type temporalServer struct {
	t       *testing.T
	address string   // of the frontend, the same after a restart
	env     []string // its settings

	cmd   *exec.Cmd
	log   *transcript
	ended chan struct{}
}

const (
	temporalCommand = "temporal-on-postgresql" // of the test program
	plugin          = "postgres12_pgx"         // with which Temporal uses PostgreSQL
)

// newTemporal starts a Temporal on an empty PostgreSQL.
func newTemporal(t *testing.T) *temporalServer {
	t.Helper()
	pg := pgtest.Start(t)
	setUpDatabases(t, pg)
	host, port, _ := net.SplitHostPort(pg.Address)
	s := &temporalServer{t: t, env: []string{
		"DB=" + plugin, "POSTGRES_SEEDS=" + host, "DB_PORT=" + port, "POSTGRES_USER=" + pgtest.User, "POSTGRES_PWD=none",
		"NUM_HISTORY_SHARDS=4", "BIND_ON_IP=127.0.0.1", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1", "LOG_LEVEL=error",
	}}
	for _, name := range []string{"FRONTEND_GRPC_PORT", "FRONTEND_HTTP_PORT", "HISTORY_GRPC_PORT", "MATCHING_GRPC_PORT", "WORKER_GRPC_PORT"} {
		address, err := pgtest.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(address)
		s.env = append(s.env, name+"="+port)
		if s.address == "" {
			s.address = address
		}
	}
	s.start()
	return s
}

// start starts the process, again if it was killed, and waits until it answers.
func (s *temporalServer) start() {
	s.t.Helper()
	s.log = &transcript{}
	s.cmd = group(os.TempDir(), exec.Command(temporalCommand))
	s.cmd.Env = append(s.cmd.Env, s.env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // its log says how
		close(ended)
	}(s.cmd, s.ended)
	cmd, ended, log := s.cmd, s.ended, s.log
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("Temporal:\n%s", log)
		}
		killGroup(cmd)
		<-ended
	})
	s.awaitHealthy()
}

func (s *temporalServer) awaitHealthy() {
	s.t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: s.address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	until(s.t, "Temporal to answer", func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("Temporal ended: %s", s.log)
		default:
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err == nil
	})
}

// kill is kill -9.
func (s *temporalServer) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.ended
}

// setUpDatabases does what temporal-sql-tool does before a server's first start.
func setUpDatabases(t *testing.T, pg *pgtest.Server) {
	t.Helper()
	for _, db := range []struct{ name, schema, version string }{
		{"temporal", "temporal", schema.Version},
		{"temporal_visibility", "visibility", schema.VisibilityVersion},
	} {
		if err := setUpDatabase(t.Context(), pg, db.name, db.schema, db.version); err != nil {
			t.Fatalf("setting up the database %s: %v", db.name, err)
		}
	}
}

func setUpDatabase(ctx context.Context, pg *pgtest.Server, name, schema, version string) error {
	tables, err := fs.ReadFile(schemas.Assets(), "postgresql/v12/"+schema+"/schema.sql")
	if err != nil {
		return err
	}
	if err := execute(ctx, pg.URL("postgres"), "create database "+name); err != nil {
		return err
	}
	if err := execute(ctx, pg.URL(name), string(tables)); err != nil {
		return err
	}
	admin, err := temporalsql.NewSQLAdminDB(sqlplugin.DbKindUnknown, &config.SQL{
		PluginName: plugin, DatabaseName: name, ConnectAddr: pg.Address, User: pgtest.User,
	}, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer admin.Close()
	return errors.Join(admin.CreateSchemaVersionTables(), admin.UpdateSchemaVersion(name, version, version))
}

func execute(ctx context.Context, url, statements string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, statements)
	return err
}

// temporalMain is the command of the test program.
func temporalMain() {
	if err := runTemporal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runTemporal runs the server until it is killed. Its settings are those of
// devserver, without which it takes a tenth of a second for each task.
func runTemporal() error {
	c, err := config.Load(config.WithEmbedded())
	if err != nil {
		return err
	}
	settings := dynamicconfig.StaticClient{}
	for key, value := range map[string]any{
		"history.transferProcessorMaxPollRPS":  10000,
		"history.timerProcessorMaxPollRPS":     10000,
		"history.timerProcessorMaxTimeShift":   10 * time.Millisecond,
		"matching.numTaskqueueReadPartitions":  1,
		"matching.numTaskqueueWritePartitions": 1,
		"frontend.namespaceRPS":                100000,
	} {
		settings[dynamicconfig.MakeKey(key)] = value
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range c.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(fmt.Sprintf("127.0.0.1:%d", service.RPC.GRPCPort))
	}
	s, err := temporal.NewServer(
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts), // one host of each: they need not find each other
		temporal.WithDynamicConfigClient(settings),
		temporal.InterruptOn(make(chan any)),
	)
	if err != nil {
		return err
	}
	return s.Start()
}
