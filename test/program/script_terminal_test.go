package program_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Keys of what scripts keep.
type (
	environmentKey struct{}
	milestoneKey   struct{}
)

// Milestones are when a script began, and when it passed the last one.
type milestones struct{ began, last time.Time }

// passMilestone logs how long a script took since the milestone before: milestone NAME….
func passMilestone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: milestone NAME")
	}
	m, now := ts.Value(milestoneKey{}).(*milestones), time.Now()
	ts.Logf("milestone  %-40s %6.1fs  %6.1fs", strings.Join(args, " "), now.Sub(m.last).Seconds(), now.Sub(m.began).Seconds())
	m.last = now
}

// typesAfter separates what the screen ends with from what is typed then.
const typesAfter = " →"

// runInTerminal runs perdure at a terminal: [!] terminal KEYS SCREEN ARG…. Each line of
// the file KEYS is what the screen ends with, →, and what a person then types; ^C is
// Ctrl-C. In the end the screen must show the file SCREEN, as showsAs compares it.
func runInTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: [!] terminal KEYS SCREEN ARG...")
	}
	cmd := exec.Command("perdure", args[2:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), ts.Value(environmentKey{}).(*testscript.Env).Vars
	t := &scriptT{ts: ts}
	term := startInTerminal(t, coloured(cmd))
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		prompt, keys, _ := strings.Cut(strings.TrimSuffix(line, "\n"), typesAfter)
		keys = strings.TrimPrefix(keys, " ")
		until(t, "the terminal to show "+prompt, func() bool { return strings.HasSuffix(strings.TrimRight(term.rows(), "\n "), prompt) })
		if keys == "^C" {
			term.types("\x03")
			continue
		}
		asked := term.text()
		term.enter(keys)
		until(t, "the terminal to show what is typed", func() bool { return term.text() != asked })
	}
	select {
	case err := <-term.ended:
		if (err != nil) != neg {
			t.Fatalf("perdure %s: %v", strings.Join(args[2:], " "), err)
		}
	case <-time.After(patience):
		t.Fatalf("perdure %s does not end", strings.Join(args[2:], " "))
	}
	shown := slowStarts.ReplaceAllString(term.rows(), "")
	if want := ts.ReadFile(args[1]); !showsAs(shown, want) {
		t.Fatalf("the screen shows\n%s\nnot\n%s", shown, want)
	}
}

// slowStarts are the lines that only a slow machine sees.
var slowStarts = regexp.MustCompile(`(?m)^waiting for .* to start, \d+s so far\n`)

// A scriptT is a script where a test is wanted.
type scriptT struct {
	testing.TB // nil: what is not below has no meaning for a script

	ts     *testscript.TestScript
	failed bool
}

func (t *scriptT) Helper()                          {}
func (t *scriptT) Failed() bool                     { return t.failed }
func (t *scriptT) Cleanup(f func())                 { t.ts.Defer(f) }
func (t *scriptT) Fatal(args ...any)                { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t *scriptT) Skipf(format string, args ...any) { t.Fatalf(format, args...) }
func (t *scriptT) Logf(format string, args ...any)  { t.ts.Logf(format, args...) }

func (t *scriptT) Fatalf(format string, args ...any) {
	t.failed = true
	t.ts.Fatalf(format, args...)
}
