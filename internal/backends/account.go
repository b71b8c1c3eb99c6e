//go:build unix

package backends

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// An account is the user and the group as which a process runs.
type account struct {
	uid, gid   uint32
	name, home string // "" = the system has no such user
}

// CheckAccount reports why a process cannot run as a user and a group, by name or
// number; both may be "".
func CheckAccount(user, group string) error {
	_, err := findAccount(user, group)
	return err
}

// findAccount finds them; nil = ours. Without a group it is the user's own, without
// a user ours.
func findAccount(userName, group string) (*account, error) {
	if userName == "" && group == "" {
		return nil, nil
	}
	a := &account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if userName != "" {
		found, err := findUser(userName)
		switch id, notNumber := number(userName); {
		case err == nil:
			a.uid, _ = number(found.Uid)
			a.gid, _ = number(found.Gid)
			a.name, a.home = found.Username, found.HomeDir
		case notNumber != nil:
			return nil, fmt.Errorf("user %q not found on this system", userName)
		case group == "":
			return nil, fmt.Errorf("cannot find the group of user %s; name the group as well", userName)
		default:
			a.uid = id
		}
	}
	if group != "" {
		found, err := user.LookupGroup(group)
		if err == nil {
			group = found.Gid
		}
		if a.gid, err = number(group); err != nil {
			return nil, fmt.Errorf("group %q not found on this system", group)
		}
	}
	return a, nil
}

func findUser(name string) (*user.User, error) {
	found, err := user.Lookup(name)
	if _, notNumber := number(name); err == nil || notNumber != nil {
		return found, err
	}
	return user.LookupId(name)
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return uint32(n), err
}

// take makes a process run as the account, without further groups; nil = no change.
func (a *account) take(cmd *exec.Cmd) {
	if a == nil || a.uid == uint32(os.Geteuid()) && a.gid == uint32(os.Getegid()) {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// env is a small environment: the variables that every program needs, with those of the
// account's user.
func (a *account) env() []string {
	names := []string{"PATH", "LANG", "TMPDIR", "HOME", "USER"}
	var env []string
	if a != nil && a.uid != uint32(os.Geteuid()) {
		names = names[:3]
		if a.name != "" {
			env = append(env, "HOME="+a.home, "USER="+a.name)
		}
	}
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// explain reports what to do if a process was not permitted to run as the account.
func (a *account) explain(err error) error {
	if a == nil || !errors.Is(err, syscall.EPERM) {
		return err
	}
	return fmt.Errorf("perdure runs as user %d and may not start it as user %d, group %d: %w; start perdure as root, or with CAP_SETUID, CAP_SETGID and CAP_KILL",
		os.Geteuid(), a.uid, a.gid, err)
}
