//go:build unix

package backends

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestAccount: users and groups are names or numbers, and what the system does not
// know is said.
func TestAccount(t *testing.T) {
	t.Parallel()
	us := &account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	for _, tc := range []struct {
		user, group, wrong string
		want               account
	}{
		{user: "root", want: account{uid: 0, gid: 0, name: "root"}},
		{user: "0", want: account{uid: 0, gid: 0, name: "root"}},
		{user: "root", group: "4242", want: account{uid: 0, gid: 4242, name: "root"}},
		{user: "424242", group: "4242", want: account{uid: 424242, gid: 4242}},
		{group: "4242", want: account{uid: us.uid, gid: 4242}},
		{user: "no_such_user", wrong: `user "no_such_user" not found`},
		{user: "424242", wrong: "name the group as well"},
		{user: "-1", group: "1", wrong: "user \"-1\" not found"},
		{user: "4294967295", group: "1", wrong: "not found"},
		{user: "root", group: "no_such_group", wrong: `group "no_such_group" not found`},
		{user: "root", group: "-1", wrong: "group \"-1\" not found"},
	} {
		a, err := findAccount(tc.user, tc.group)
		if tc.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s:%s: got %v, want %q", tc.user, tc.group, err, tc.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s:%s: %v", tc.user, tc.group, err)
			continue
		}
		a.home = ""
		if *a != tc.want {
			t.Errorf("%s:%s is %+v", tc.user, tc.group, *a)
		}
	}
	if a, err := findAccount("", ""); a != nil || err != nil {
		t.Errorf("nothing is %+v, %v", a, err)
	}
	err := (&account{uid: 7, gid: 8}).explain(&os.PathError{Op: "fork/exec", Path: "x", Err: syscall.EPERM})
	if !strings.Contains(err.Error(), "may not start it as user 7, group 8") {
		t.Error(err)
	}
}

// TestAttackBackendAsAnotherUser: a process with a user has none of our groups and
// nothing of our environment, and so cannot read our files.
func TestAttackBackendAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	cfg := childConfig("server")
	cfg.Command = forAll(t, cfg.Command)
	cfg.User, cfg.Group = "nobody", "4242"
	p := open(t, cfg)
	if got := text(t, p, "account"); got != "65534 4242 []" {
		t.Errorf("the process is %s", got)
	}
	if env := text(t, p, "env"); !strings.Contains(env, "USER=nobody") || strings.Contains(env, "HOME="+os.Getenv("HOME")+"\n") {
		t.Errorf("the process has %s", env)
	}
}

// forAll copies a program to where everybody may execute it.
func forAll(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	perduretest.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	from := perduretest.Must(os.Open(program))(t)
	defer from.Close()
	name := filepath.Join(dir, "child")
	to := perduretest.Must(os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755))(t)
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	perduretest.NoError(t, to.Close())
	return name
}
