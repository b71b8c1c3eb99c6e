// Package devserver runs a whole Temporal server with its Web UI inside this
// process, on SQLite files of one directory.
//
// Everything that is committed survives the death of the process (kill -9);
// with Options.Durable it survives the death of the machine as well. Open
// workflows continue where they were when a server starts on the same directory
// again. One process at a time may use a directory.
//
// Only this package imports go.temporal.io/server and the ui-server, which are large: a
// build that connects to another Temporal omits it.
package devserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/server/temporal"

	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/web"
)

// DefaultRetention is how long closed workflows are kept unless
// Options.Retention says otherwise.
const DefaultRetention = 30 * 24 * time.Hour

// How long the parts of Start and Stop may take.
const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
)

// construction lets one server at a time start in this process: ports are chosen before
// they are opened, and the server's packages share tables.
var construction sync.Mutex

// Options of a server. Dir is required; everything else has a default.
type Options struct {
	// Dir holds the SQLite files. It is made if it does not exist.
	Dir string
	// Listen is the address of the Temporal frontend, host:port. Port 0 takes
	// a free one. "" = 127.0.0.1:0.
	Listen string
	// UIListen is the address of the Web UI, host:port. "" = no Web UI.
	UIListen string
	// UIWrite lets every user of the Web UI start, signal, reset and end runs. Default: it
	// only shows them.
	UIWrite bool
	// UICodec is the URL of the codec endpoint by which the Web UI reads payloads; the
	// browser sends the cookies of its host. "" = as set in the browser.
	UICodec string
	// Namespace is made if it does not exist. "" = default.
	Namespace string
	// SearchAttributes that are added to the namespace: name → type (bool, datetime,
	// double, int, keyword, keyword_list, text).
	SearchAttributes map[string]string
	// Durable flushes every commit to the disk, which costs a millisecond or
	// two per workflow task. Without it a power cut may lose the last moments, and no
	// more.
	Durable bool
	// Retention of closed workflows, for a namespace that is made. 0 =
	// DefaultRetention.
	Retention time.Duration
	// SuggestAfter is the length of a history, in events, at which the server suggests
	// that a workflow continues as new. 0 = the server's default.
	SuggestAfter int
	// Logger logs the server's warnings. nil = slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// A Server is a running Temporal server.
type Server struct {
	ports  ports
	keys   *web.Pair
	lock   *store.DataLock
	log    *serverLog
	server temporal.Server
	ui     *webUI // nil = off

	stop sync.Once
}

// Start runs a server and returns when it takes calls. The caller stops it. ctx bounds
// only the start.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	if o.Dir == "" {
		return nil, errors.New("starting Temporal: no directory given for its data")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making Temporal's data directory: %w", err)
	}
	lock, err := store.LockData(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{lock: lock, log: newServerLog(o.Logger)}
	if s.keys, err = web.OpenPair(KeyFile(o.Dir)); err == nil {
		err = s.start(ctx, o)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	// The Web UI's port is opened first, since that can fail at once, and served last.
	uiListener, err := listenUI(o.UIListen)
	if err != nil {
		return err
	}
	if err := s.startTemporal(ctx, o); err != nil {
		if uiListener != nil {
			uiListener.Close()
		}
		return err
	}
	if uiListener == nil {
		return nil
	}
	pair, err := os.ReadFile(KeyFile(o.Dir))
	if err != nil {
		return err
	}
	s.ui, err = serveUI(uiListener, uiOptions{frontend: s.Address(), pair: pair, namespace: o.Namespace, codec: o.UICodec, write: o.UIWrite, log: o.Logger})
	return err
}

func (s *Server) startTemporal(ctx context.Context, o Options) error {
	if err := s.launch(ctx, o); err != nil {
		return err
	}
	return awaitReady(ctx, s.Address(), o.Namespace, s.keys)
}

// launch starts the server's services; they may not all answer yet.
func (s *Server) launch(ctx context.Context, o Options) error {
	construction.Lock()
	defer construction.Unlock()
	main := database(filepath.Join(o.Dir, "temporal.db"), o.Durable)
	visibility := database(filepath.Join(o.Dir, "visibility.db"), false)
	if err := prepare(ctx, main, visibility, o); err != nil {
		return err
	}
	var err error
	for range 5 { // somebody may take a port between finding and opening it
		if s.ports, err = choosePorts(o.Listen); err != nil {
			return err
		}
		err = s.log.guard(func() error {
			server, err := newServer(main, visibility, s.ports, s.keys, o.SuggestAfter, s.log)
			if err != nil {
				return err // beside a server that cannot be stopped
			}
			s.server = server
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) { // of the log, as text
			break
		}
	}
	if err == nil {
		err = s.log.guard(func() error { return s.server.Start() })
	}
	if err != nil {
		return fmt.Errorf("starting Temporal: %w", err)
	}
	return nil
}

// KeyFile is the file in a data directory with the key pair for its Temporal:
// certificate and key, as PEM.
func KeyFile(dir string) string { return filepath.Join(dir, "temporal.pem") }

// Address of the Temporal frontend, host:port. Clients need the key pair.
func (s *Server) Address() string { return s.ports.address(s.ports.frontend) }

// InternalAddresses are those by which the services of Temporal reach each other.
// Clients need the key pair.
func (s *Server) InternalAddresses() []string {
	p := s.ports
	return []string{p.address(p.history), p.address(p.matching), p.address(p.worker)}
}

// TLS is the configuration of clients.
func (s *Server) TLS() *tls.Config { return s.keys.Client() }

// UIAddress is the address of the Web UI, host:port; "" if it is off.
func (s *Server) UIAddress() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.address
}

// HoldsData reports whether the data directory is still the one that the server uses.
func (s *Server) HoldsData() bool { return s.lock.Held() }

// AwaitDataLoss returns an error once the data directory is another one, or gone; nil
// when ctx ends.
func (s *Server) AwaitDataLoss(ctx context.Context) error { return s.lock.AwaitLoss(ctx) }

// Stop ends the Web UI, then the server, then releases the directory. It takes a few
// seconds at most, and may be called more than once.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.log.quiet()
		if s.ui != nil {
			s.ui.close()
		}
		if s.server != nil {
			s.stopTemporal()
		}
		s.lock.Release()
	})
}

func (s *Server) stopTemporal() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = s.server.Stop() // a failed stop loses nothing
	}()
	select {
	case <-stopped:
	case <-time.After(stopTimeout):
	}
}

// ports are the addresses that the services of one server listen on.
type ports struct {
	ip                                  string
	frontend, history, matching, worker int
}

func (p ports) address(port int) string { return net.JoinHostPort(p.ip, strconv.Itoa(port)) }

// choosePorts finds free ports for all services, and releases them for the server to
// open.
func choosePorts(listen string) (ports, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ports{}, fmt.Errorf("listening on %s for Temporal: %w", listen, err)
	}
	search := &portSearch{}
	defer search.release()
	front, err := search.listen(host, port)
	if err != nil {
		return ports{}, fmt.Errorf("listening on %s for Temporal: %w", listen, err)
	}
	p := ports{ip: front.IP.String(), frontend: front.Port}
	for _, service := range []*int{&p.history, &p.matching, &p.worker} {
		found, err := search.listen(p.ip, "0")
		if err != nil {
			return ports{}, fmt.Errorf("finding a free port for Temporal: %w", err)
		}
		*service = found.Port
	}
	return p, nil
}

// The search avoids ports that systems give to connections (from 32768 on, or higher):
// one of these could be taken between finding and opening it. Each process begins at
// another port, and comes last to those that it has had: clients may still look for a server
// there.
const (
	lowestPort  = 10_000
	portsEach   = 8
	portsPlaces = 1_250
)

var searched atomic.Int64 // ports that this process has looked at

// A portSearch holds the ports that it has found until it is released, so that
// they differ.
type portSearch struct {
	held []net.Listener
}

// listen takes a port; "0" = any that is free.
func (s *portSearch) listen(host, port string) (*net.TCPAddr, error) {
	if port != "0" {
		return s.hold(host, port)
	}
	for range portsPlaces * portsEach {
		next := int64(os.Getpid()*portsEach) + searched.Add(1) - 1
		port := lowestPort + int(next%(portsPlaces*portsEach))
		if addr, err := s.hold(host, strconv.Itoa(port)); err == nil {
			return addr, nil
		}
	}
	return s.hold(host, "0") // which gives the error
}

func (s *portSearch) hold(host, port string) (*net.TCPAddr, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	s.held = append(s.held, l)
	return l.Addr().(*net.TCPAddr), nil
}

func (s *portSearch) release() {
	for _, l := range s.held {
		l.Close()
	}
}
