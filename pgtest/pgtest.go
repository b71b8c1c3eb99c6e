// Package pgtest answers "where does PostgreSQL come from in a test?": it runs
// one of the test's own, in a directory that goes with it, from the programs
// that are installed (Debian: postgresql). No container and no running service
// is used. The addresses of other programs under test come from here as well.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// User is the superuser of every server; it needs no password.
const User = "perdure"

// requireVar names what tests must not be skipped for the lack of, with commas.
const requireVar = "PERDURE_TEST_REQUIRE"

// A Server is a PostgreSQL that runs until the test ends.
type Server struct {
	Address string // host:port
}

// URL is how to connect to a database of the server; postgres exists.
func (s *Server) URL(database string) string {
	return "postgres://" + User + "@" + s.Address + "/" + database + "?sslmode=disable"
}

// Start runs a server. Where PostgreSQL is not installed the test is skipped,
// or fails if PERDURE_TEST_REQUIRE says postgres.
//
// What it commits survives its clients but not a crash of the machine: it does
// not wait for the disk.
func Start(t testing.TB) *Server {
	t.Helper()
	programs, err := find()
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv(requireVar), ","), "postgres") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, err := start(t, programs)
	if err != nil {
		t.Fatalf("starting PostgreSQL: %v", err)
	}
	return s
}

// find gives the directory of PostgreSQL's programs, of the newest version.
func find() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return major(a) - major(b) })
		return filepath.Dir(found[len(found)-1]), nil
	}
	if program, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(program), nil
	}
	return "", errors.New("needs PostgreSQL, which .ci/test-deps installs")
}

// major is the version that a path such as /usr/lib/postgresql/15/bin/initdb is of.
func major(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program)))) // others come first
	return n
}

func start(t testing.TB, programs string) (*Server, error) {
	who, err := owner()
	if err != nil {
		return nil, err
	}
	// t.TempDir is below a directory that is closed to the user who runs it.
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return nil, err
		}
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, program), args...)
		cmd.Dir = dir
		cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		// A group of its own: Ctrl-C is the test's to handle.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who, Setpgid: true}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", User, "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address)
	cmd := command("postgres", "-D", data, "-k", dir, "-h", host, "-p", port,
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=128MB")
	return &Server{Address: address}, run(t, cmd, command("pg_isready", "-h", host, "-p", port))
}

// run starts the server and waits until it takes connections.
func run(t testing.TB, server, isReady *exec.Cmd) error {
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = server.Wait(); close(ended) }() // the log says why
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // the quick way down; nothing is kept
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			return fmt.Errorf("postgres ended: %s", &log)
		default:
		}
		probe := *isReady
		if probe.Run() == nil {
			return nil
		}
	}
	return errors.New("it takes no connections within a minute")
}

// owner is who runs the server: postgres where the test is root's, since
// PostgreSQL refuses to run as root; nil = the user of the test.
func owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("it does not run as root, and: %w", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}

// Where FreeAddress looks: below the ports that systems give to connections,
// one of which could be taken before whoever asked opens it. Programs under
// test begin at places of their own.
const (
	lowestPort = 20_000
	ports      = 12_000
)

var nextPort atomic.Int64

func init() { nextPort.Store(int64(os.Getpid()) * 100 % ports) }

// FreeAddress gives an address of this machine where nothing listens, for a
// program that the test starts. It gives none twice.
func FreeAddress() (string, error) {
	for range ports {
		port := lowestPort + nextPort.Add(1)%ports
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("there is no free port")
}
