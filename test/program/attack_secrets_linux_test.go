package program_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology"
)

// spyBackend reads what it can of the process that has started it.
const spyBackend = `
backends:
  - name: spy
    command: sh
    args:
      - -c
      - |
        [ -e done ] && exit
        exec 2>errors
        env >own
        cat /proc/$PPID/environ >environ
        ls -l /proc/$PPID/fd >files
        head -c 1 /proc/$PPID/maps >maps
        touch done
  - name: elsewhere
    command: "true"
    user: "424242"
    group: "4242"
  - name: remote
    transport: streamable-http
    url: http://127.0.0.1:1/mcp
outgoingAuth:
  backends:
    remote: {type: header_injection, headerInjection: {headerName: X-Key, headerValueEnv: REMOTE_SECRET}}
`

// TestAttackSecretsOfTheProcess: what runs as the same user, such as a backend on
// stdio, reads no secret of perdure's environment, neither its own nor that of
// perdure's process, and none of its memory or open files; a command for payload
// keys inherits none either. That the attack is one is shown by a process that is
// told to stay open to debuggers.
func TestAttackSecretsOfTheProcess(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		dir := t.TempDir()
		putFile(t, filepath.Join(dir, "perdure.yaml"), spyBackend)
		cmd := asNobody(t, dir, "dev", "--config", "perdure.yaml", "--listen", freeAddress(t), "--ui-listen", "", "--temporal-listen", "127.0.0.1:0",
			"--payload-key-command", "sh -c 'env >inherited; echo first:"+strings.Repeat("0a", 32)+"'")
		cmd.Env = append(cmd.Env, "PERDURE_KEY="+strings.Repeat("5ec2e7", 20), "PERDURE_TOKEN=5ec2e7-token", "TEMPORAL_API_KEY=5ec2e7-temporal",
			"TEMPORAL_GRPC_META_X=5ec2e7-meta", "REMOTE_SECRET=5ec2e7-remote", "HARMLESS=yes")
		if open {
			cmd.Env = append(cmd.Env, "PERDURE_DUMPABLE=1")
		}
		var output topology.Transcript
		cmd.Stdout, cmd.Stderr = &output, &output
		perduretest.NoError(t, cmd.Start())
		until(t, "the backend to have looked, and the other to be refused", func() bool {
			_, err := os.Stat(filepath.Join(dir, "done"))
			return err == nil && strings.Contains(output.String(), "may not start it as user 424242, group 4242")
		})
		read := func(name string) string {
			text := perduretest.Read(t, filepath.Join(dir, name))
			return string(text)
		}
		for _, name := range []string{"own", "inherited"} {
			if text := read(name); strings.Contains(text, "5ec2e7") || strings.Contains(text, "HARMLESS") != (name == "inherited") {
				t.Errorf("open %t: the environment %s is %s", open, name, text)
			}
		}
		if got := strings.Contains(read("environ"), "5ec2e7") && read("files") != "" && read("maps") != ""; got != open {
			t.Errorf("open %t: the backend reads %t: %s", open, got, read("errors"))
		}
		if got := read("environ") + read("files") + read("maps"); !open && got != "" {
			t.Errorf("the backend reads %q", got)
		}
		killGroup(cmd)
		_ = cmd.Wait()
	}
}

// asNobody is a command that runs as a user who is not root, in a directory of
// theirs.
func asNobody(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, dir, args...)
	t.Cleanup(func() { killGroup(cmd) })
	if os.Geteuid() != 0 {
		return cmd
	}
	const nobody = 65534
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	bin := t.TempDir()
	perduretest.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	perduretest.NoError(t, os.Chown(dir, nobody, nobody))
	from := perduretest.Must(os.Open(cmd.Path))(t)
	defer from.Close()
	to := perduretest.Must(os.OpenFile(filepath.Join(bin, "perdure"), os.O_CREATE|os.O_WRONLY, 0o755))(t)
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	perduretest.NoError(t, to.Close())
	cmd.Path = to.Name()
	cmd.Env = append(cmd.Env, "HOME="+dir)
	return cmd
}
