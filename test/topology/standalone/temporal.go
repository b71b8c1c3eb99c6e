package standalone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
)

// temporalServer runs the server until it is killed. Its dynamic settings are
// those of devserver, without which it takes a tenth of a second for each task,
// and it looks every second, not every three minutes, whether a build of the
// workers has runs left.
func temporalServer() error {
	if err := setUpDatabases(context.Background()); err != nil {
		return err
	}
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
		"frontend.WorkflowPauseEnabled":        true,

		"frontend.enableCancelWorkerPollsOnShutdown": true,

		"matching.wv.VersionDrainageStatusVisibilityGracePeriod": time.Second,
		"matching.wv.VersionDrainageStatusRefreshInterval":       time.Second,
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

// setUpDatabases does what temporal-sql-tool does before a server's first start.
func setUpDatabases(ctx context.Context) error {
	for _, db := range []struct{ name, schema, version string }{
		{"temporal", "temporal", schema.Version},
		{"temporal_visibility", "visibility", schema.VisibilityVersion},
	} {
		if err := setUpDatabase(ctx, db.name, db.schema, db.version); err != nil {
			return fmt.Errorf("setting up the database %s: %w", db.name, err)
		}
	}
	return nil
}

func setUpDatabase(ctx context.Context, name, schema, version string) error {
	tables, err := fs.ReadFile(schemas.Assets(), "postgresql/v12/"+schema+"/schema.sql")
	if err != nil {
		return err
	}
	var refused *pgconn.PgError
	const exists = "42P04"
	if err := execute(ctx, "postgres", "create database "+name); errors.As(err, &refused) && refused.Code == exists {
		return nil
	} else if err != nil {
		return err
	}
	if err := execute(ctx, name, string(tables)); err != nil {
		return err
	}
	admin, err := temporalsql.NewSQLAdminDB(sqlplugin.DbKindUnknown, &config.SQL{
		PluginName: os.Getenv("DB"), DatabaseName: name, ConnectAddr: postgreSQL(), User: os.Getenv("POSTGRES_USER"),
	}, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer admin.Close()
	return errors.Join(admin.CreateSchemaVersionTables(), admin.UpdateSchemaVersion(name, version, version))
}

func postgreSQL() string {
	return net.JoinHostPort(os.Getenv("POSTGRES_SEEDS"), os.Getenv("DB_PORT"))
}

func execute(ctx context.Context, database, statements string) error {
	c, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", os.Getenv("POSTGRES_USER"), postgreSQL(), database))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, statements)
	return err
}
