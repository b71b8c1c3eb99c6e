package devserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/rpc/encryption"
	"go.temporal.io/server/common/searchattribute/sadefs"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/perdure/perdure/internal/web"
)

// Values in the database that must not change.
const (
	clusterName = "active"
	clusterID   = "00000000-0000-4000-8000-000000000001"

	// One database takes one writer, so more shards would only be more queues to read: with
	// four of them a run took 11 to 14 % more processor time.
	shards = 1
)

// customColumns are the columns that search attributes can take, with their
// types.
var customColumns = sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes

func parseUUID(s string) (primitives.UUID, error) { return primitives.ParseUUID(s) }

// tuning makes one small server fast. The defaults are for a cluster: what takes 6 ms
// here takes 100 ms with them.
var tuning = map[string]any{
	"history.transferProcessorMaxPollRPS":    10000, // by far the largest gain
	"history.timerProcessorMaxPollRPS":       10000,
	"history.timerProcessorMaxTimeShift":     10 * time.Millisecond, // timers fire promptly
	"history.longPollExpirationInterval":     20 * time.Second,
	"matching.numTaskqueueReadPartitions":    1,
	"matching.numTaskqueueWritePartitions":   1,
	"frontend.namespaceRPS":                  100000,
	"frontend.rps":                           100000,
	"history.rps":                            100000,
	"matching.rps":                           100000,
	"history.hostLevelCacheMaxSize":          8096,
	"frontend.namespaceRPS.visibility":       100000,
	"frontend.enableUpdateWorkflowExecution": true,
	"frontend.WorkflowPauseEnabled":          true, // for runs that take their worker down

	// A worker that stops loses no task that is handed out in that moment; else the outcome
	// of its call would be unknown, although nothing was called.
	"frontend.enableCancelWorkerPollsOnShutdown": true,

	// No other server needs to notice the stop.
	"frontend.shutdownDrainDuration":           0 * time.Second,
	"frontend.shutdownFailHealthCheckDuration": 0 * time.Second,
	"history.shutdownDrainDuration":            0 * time.Second,
	"matching.shutdownDrainDuration":           0 * time.Second,
}

// newServer makes a server with all services of Temporal, without starting it.
func newServer(main, visibility *config.SQL, p ports, keys *web.Pair, suggestAfter int, log *serverLog) (temporal.Server, error) {
	c := serverConfig(main, visibility, p)
	settings := dynamicconfig.StaticClient{}
	for key, value := range tuning {
		settings[dynamicconfig.MakeKey(key)] = value
	}
	if suggestAfter > 0 {
		settings[dynamicconfig.MakeKey("limit.historyCount.suggestContinueAsNew")] = suggestAfter
	}
	authorizer, err := authorization.GetAuthorizerFromConfig(&c.Global.Authorization)
	if err != nil {
		return nil, err
	}
	claims, err := authorization.GetClaimMapperFromConfig(&c.Global.Authorization, log)
	if err != nil {
		return nil, err
	}
	return temporal.NewServer(
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts(c)),
		temporal.WithLogger(log),
		temporal.WithTLSConfigFactory(onlyWith{keys}),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(settings),
	)
}

func serverConfig(main, visibility *config.SQL, p ports) *config.Config {
	c := &config.Config{}
	c.Global.Membership.MaxJoinDuration = 30 * time.Second
	c.Global.Membership.BroadcastAddress = p.ip
	c.Persistence = config.Persistence{
		NumHistoryShards: shards,
		DefaultStore:     "main",
		VisibilityStore:  "visibility",
		DataStores: map[string]config.DataStore{
			"main":       {SQL: main},
			"visibility": {SQL: visibility},
		},
	}
	c.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled:                true,
			InitialFailoverVersion: 1,
			RPCAddress:             p.address(p.frontend),
			ClusterID:              clusterID,
		}},
	}
	c.DCRedirectionPolicy.Policy = "noop"
	c.Services = map[string]config.Service{
		"frontend": service(p.ip, p.frontend),
		"history":  service(p.ip, p.history),
		"matching": service(p.ip, p.matching),
		"worker":   service(p.ip, p.worker),
	}
	c.Archival.History.State, c.Archival.Visibility.State = "disabled", "disabled"
	c.NamespaceDefaults.Archival.History.State = "disabled"
	c.NamespaceDefaults.Archival.Visibility.State = "disabled"
	c.PublicClient.HostPort = p.address(p.frontend)
	return c
}

// service listens for gRPC only: any web page in a browser could use its HTTP API.
func service(ip string, port int) config.Service {
	return config.Service{RPC: config.RPC{BindOnIP: ip, GRPCPort: port}}
}

// onlyWith makes all services of the server accept only peers with the key pair, also
// each other.
type onlyWith struct{ keys *web.Pair }

var _ encryption.TLSConfigProvider = onlyWith{}

// GetInternodeServerConfig is for the services among themselves.
func (o onlyWith) GetInternodeServerConfig() (*tls.Config, error) { return o.keys.Server(), nil }

// GetInternodeClientConfig is for the services among themselves.
func (o onlyWith) GetInternodeClientConfig() (*tls.Config, error) { return o.keys.Client(), nil }

// GetFrontendServerConfig is for all others.
func (o onlyWith) GetFrontendServerConfig() (*tls.Config, error) { return o.keys.Server(), nil }

// GetFrontendClientConfig is for the server's own workflows.
func (o onlyWith) GetFrontendClientConfig() (*tls.Config, error) { return o.keys.Client(), nil }

// GetRemoteClusterClientConfig is for other clusters; there are none.
func (o onlyWith) GetRemoteClusterClientConfig(string) (*tls.Config, error) {
	return o.keys.Client(), nil
}

// GetExpiringCerts gives nothing: Open replaces expired certificates.
func (o onlyWith) GetExpiringCerts(time.Duration) (expiring, expired encryption.CertExpirationMap, err error) {
	return nil, nil, nil
}

func hosts(c *config.Config) map[primitives.ServiceName]static.Hosts {
	byName := map[primitives.ServiceName]static.Hosts{}
	for name, s := range c.Services {
		addr := net.JoinHostPort(s.RPC.BindOnIP, strconv.Itoa(s.RPC.GRPCPort))
		byName[primitives.ServiceName(name)] = static.SingleLocalHost(addr)
	}
	return byName
}

// awaitReady returns when the frontend answers for the namespace.
func awaitReady(ctx context.Context, address, namespace string, keys *web.Pair) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(keys.Client())))
	if err != nil {
		return err
	}
	defer conn.Close()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	for {
		// The list uses everything that a start of a workflow needs: the
		// namespace cache, the search attributes and the database.
		_, err := frontend.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace, PageSize: 1}, grpc.WaitForReady(true))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for Temporal at %s: %w", address, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
