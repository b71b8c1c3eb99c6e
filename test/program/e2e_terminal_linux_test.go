package program_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hinshun/vt10x"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology"
)

// A terminal is a command with a person at the keyboard.
type terminal struct {
	t      testing.TB
	keys   *os.File
	screen *topology.Transcript
	ended  chan error
}

// How large terminals are.
const (
	terminalRows    = 30
	terminalColumns = 100
)

// startInTerminal starts a command with a pseudo-terminal as its input and
// output.
func startInTerminal(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	var unlock, number int32
	ioctl(t, keys, syscall.TIOCSPTLCK, &unlock)
	ioctl(t, keys, syscall.TIOCGPTN, &number)
	tty := perduretest.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	defer tty.Close()
	size := [4]uint16{terminalRows, terminalColumns}
	ioctl(t, keys, syscall.TIOCSWINSZ, &size)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	perduretest.NoError(t, cmd.Start())
	term := &terminal{t: t, keys: keys, screen: &topology.Transcript{}, ended: make(chan error, 1)}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		_, _ = keys.WriteTo(term.screen) // ends with an error when the other side is closed
	}()
	go func() {
		err := cmd.Wait()
		<-seen
		term.ended <- err
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows\n%s", term.text())
		}
		killGroup(cmd)
		_ = keys.Close()
	})
	return term
}

func ioctl[V any](t testing.TB, f *os.File, request uintptr, value *V) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
		t.Fatalf("ioctl %x: %v", request, errno)
	}
}

// shows waits until a text stands at the end of what is on the screen.
func (t *terminal) shows(text string) {
	t.t.Helper()
	until(t.t, "the terminal to show "+text, func() bool { return strings.HasSuffix(t.text(), text) })
}

func (t *terminal) enter(line string) {
	t.t.Helper()
	t.types(line + "\n")
}

// types sends keys, which may be control characters.
func (t *terminal) types(keys string) {
	t.t.Helper()
	if _, err := t.keys.WriteString(keys); err != nil {
		t.t.Fatal(err)
	}
}

// text is all that was sent to the screen.
func (t *terminal) text() string {
	return strings.ReplaceAll(t.screen.String(), "\r\n", "\n")
}

// rows is what a person sees, with what has scrolled away.
func (t *terminal) rows() string {
	const scrolled = 2000
	screen := vt10x.New(vt10x.WithSize(terminalColumns, scrolled))
	_, _ = screen.Write([]byte(t.screen.String()))
	var rows []string
	for _, row := range strings.Split(screen.String(), "\n") {
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n") + "\n"
}

// coloured gives a command the environment of a person who has not turned colours off,
// and with them what changes in place.
func coloured(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(cmd.Env, "NO_COLOR=", "TERM=xterm")
	return cmd
}
