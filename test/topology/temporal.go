package topology

import (
	"context"
	"log/slog"
	"net"

	"go.temporal.io/sdk/client"
)

// A Temporal is a server in a process of its own that keeps everything in a
// PostgreSQL. Its settings are those of the official image.
type Temporal struct{ Process }

// NewTemporal prepares a server. The command is package standalone's
// TemporalProgram, which makes the databases if there are none.
func NewTemporal(command []string, postgreSQL string) (*Temporal, error) {
	host, port, err := net.SplitHostPort(postgreSQL)
	if err != nil {
		return nil, err
	}
	s := &Temporal{Process{Name: TemporalName, Command: command, Env: []string{
		"DB=postgres12_pgx", "POSTGRES_SEEDS=" + host, "DB_PORT=" + port, "POSTGRES_USER=" + superuser, "POSTGRES_PWD=none",
		"NUM_HISTORY_SHARDS=4", "BIND_ON_IP=127.0.0.1", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1", "LOG_LEVEL=error",
	}}}
	for _, name := range []string{"FRONTEND_GRPC_PORT", "FRONTEND_HTTP_PORT", "HISTORY_GRPC_PORT", "MATCHING_GRPC_PORT", "WORKER_GRPC_PORT"} {
		address, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		s.Env = append(s.Env, name+"="+port)
		if s.Address == "" {
			s.Address = address // of the frontend, the same after a restart
		}
	}
	s.Ready = s.healthy
	return s, nil
}

func (s *Temporal) healthy(ctx context.Context) bool {
	c, err := client.NewLazyClient(client.Options{HostPort: s.Address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err == nil
}
