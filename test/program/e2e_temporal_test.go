package program_test

import (
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
)

// A temporalServer is a Temporal in a process of its own that keeps everything
// in a PostgreSQL: what production has, but small. It is this test program
// again (see TestMain), which holds the server already.
type temporalServer struct {
	t       *testing.T
	address string   // of the frontend, the same after a restart
	env     []string // with which programs may connect to it
	serving *topology.Temporal
}

// newTemporal starts a Temporal on an empty PostgreSQL.
func newTemporal(t *testing.T) *temporalServer {
	t.Helper()
	return newTemporalOn(t, pgtest.Start(t))
}

// newTemporalOn starts a Temporal on what there is in a PostgreSQL.
func newTemporalOn(t *testing.T, pg *topology.PostgreSQL) *temporalServer {
	t.Helper()
	serving := perduretest.Must(topology.NewTemporal([]string{topology.TemporalProgram}, pg.Address))(t)
	s := &temporalServer{t: t, address: serving.Address, serving: serving}
	s.start()
	return s
}

// start starts the process, again if it was killed, and waits until it answers.
func (s *temporalServer) start() {
	s.t.Helper()
	s.serving.Log = &topology.Transcript{}
	serve(s.t, &s.serving.Process)
	if err := s.serving.AwaitReady(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// kill is kill -9.
func (s *temporalServer) kill() {
	s.t.Helper()
	if err := s.serving.Kill(); err != nil {
		s.t.Fatal(err)
	}
}
