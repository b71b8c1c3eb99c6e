package topology

import (
	"context"
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
	"syscall"
	"time"
)

// superuser is the superuser of every PostgreSQL; it needs no password.
const superuser = "perdure"

// ErrNoPostgreSQL says that PostgreSQL is not installed.
var ErrNoPostgreSQL = errors.New("needs PostgreSQL, which .ci/test-deps installs")

// A PostgreSQL is a server of its own, from the programs that are installed
// (Debian: postgresql).
//
// What it commits survives a kill -9 but not a crash of the machine: it does
// not wait for the disk.
type PostgreSQL struct {
	Process

	programs  string // the directory of PostgreSQL's programs
	dir       string
	temporary bool // dir goes with it
}

// NewPostgreSQL makes an empty server in a directory, which must be one that
// the user who runs it can reach; "" = a temporary one. It is not started.
func NewPostgreSQL(dir string) (_ *PostgreSQL, err error) {
	s := &PostgreSQL{dir: dir}
	if s.programs, err = postgreSQLPrograms(); err != nil {
		return nil, err
	}
	if s.credential, err = postgreSQLOwner(); err != nil {
		return nil, err
	}
	if dir == "" {
		if s.dir, err = os.MkdirTemp("", "postgresql"); err != nil {
			return nil, err
		}
		s.temporary = true
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing PostgreSQL: %w", err), s.Close())
	}
	return s, nil
}

func (s *PostgreSQL) prepare() (err error) {
	if s.credential != nil {
		if err := os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
			return err
		}
	}
	if s.Address, err = FreeAddress(); err != nil {
		return err
	}
	// Small segments of its log, so that a small disk is enough.
	data := filepath.Join(s.dir, "data")
	if err := s.run(context.Background(), "initdb", "-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-sync", "--wal-segsize=4"); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(s.Address)
	s.Name, s.Dir, s.Env = PostgreSQLName, s.dir, []string{"LC_ALL=C"}
	s.Command = []string{filepath.Join(s.programs, "postgres"), "-D", data, "-k", s.dir, "-h", host, "-p", port,
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=128MB", "-c", "max_wal_size=64MB"}
	s.quit = syscall.SIGQUIT
	s.Ready = func(ctx context.Context) bool {
		return s.run(ctx, "pg_isready", "-h", host, "-p", port) == nil
	}
	return nil
}

// URL is how to connect to a database of the server; postgres exists.
func (s *PostgreSQL) URL(database string) string {
	return "postgres://" + superuser + "@" + s.Address + "/" + database + "?sslmode=disable"
}

// Dump writes a database to a file, as a backup does.
func (s *PostgreSQL) Dump(ctx context.Context, database, file string) error {
	return s.outside(ctx, "pg_dump", "--format=custom", "--file", file, s.URL(database))
}

// Text writes a database to a file as statements, in which values stand as they
// are: none is compressed, and bytes are hexadecimal digits.
func (s *PostgreSQL) Text(ctx context.Context, database, file string) error {
	return s.outside(ctx, "pg_dump", "--format=plain", "--file", file, s.URL(database))
}

// Restore makes a database of what Dump has written.
func (s *PostgreSQL) Restore(ctx context.Context, database, file string) error {
	if err := s.outside(ctx, "createdb", "--maintenance-db", s.URL("postgres"), database); err != nil {
		return err
	}
	return s.outside(ctx, "pg_restore", "--exit-on-error", "--dbname", s.URL(database), file)
}

// RestoreOver makes a database what Dump has written while others have it open.
func (s *PostgreSQL) RestoreOver(ctx context.Context, database, file string) error {
	return s.outside(ctx, "pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname", s.URL(database), file)
}

// SignalAll sends a signal to all processes of the server: the children of the
// first have groups of their own. Elsewhere than on Linux it reaches the first
// alone, after which the others end by themselves.
func (s *PostgreSQL) SignalAll(signal syscall.Signal) {
	for _, child := range s.children() {
		_ = syscall.Kill(child, signal) // it may have ended
	}
	s.SignalGroup(signal)
}

// children are the processes that the first one has started.
func (s *PostgreSQL) children() (pids []int) {
	pid := s.PID()
	listed, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // it may have ended
	for _, child := range strings.Fields(string(listed)) {
		if number, err := strconv.Atoi(child); err == nil {
			pids = append(pids, number)
		}
	}
	return pids
}

// KillAll is kill -9 of all processes of the server. It waits until all have ended:
// before that, their shared memory keeps another server from starting.
func (s *PostgreSQL) KillAll() error {
	s.SignalGroup(syscall.SIGSTOP) // so that it starts nothing meanwhile
	children := s.children()
	s.SignalAll(syscall.SIGKILL)
	<-s.Ended()
	deadline := time.Now().Add(30 * time.Second)
	for _, child := range children {
		for isRunning(child) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d of PostgreSQL does not end", child)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// isRunning reports whether a process is there and more than its exit status.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// Close ends the server. Its directory goes if it is a temporary one.
func (s *PostgreSQL) Close() error {
	s.End()
	if s.temporary {
		return os.RemoveAll(s.dir)
	}
	return nil
}

// run runs a program of PostgreSQL's as who runs the server.
func (s *PostgreSQL) run(ctx context.Context, program string, args ...string) error {
	return s.command(ctx, s.credential, program, args)
}

// outside runs one as whoever runs this process.
func (s *PostgreSQL) outside(ctx context.Context, program string, args ...string) error {
	return s.command(ctx, nil, program, args)
}

func (s *PostgreSQL) command(ctx context.Context, who *syscall.Credential, program string, args []string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, program), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who, Setpgid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// postgreSQLPrograms gives the directory of PostgreSQL's programs, of the
// newest version.
func postgreSQLPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return major(a) - major(b) })
		return filepath.Dir(found[len(found)-1]), nil
	}
	if program, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(program), nil
	}
	return "", ErrNoPostgreSQL
}

// major is the version that a path such as /usr/lib/postgresql/15/bin/initdb is of.
func major(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program)))) // others come first
	return n
}

// postgreSQLOwner is who runs the server: postgres where this process is
// root's, since PostgreSQL refuses to run as root; nil = the user of this
// process.
func postgreSQLOwner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and: %w", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}
