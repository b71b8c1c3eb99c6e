package program_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const shownSteps = `name: shown
description: Does something of each kind.
steps:
  - id: info
    tool: repo_info
  - id: each
    type: forEach
    collection: '["README.md", "main.go"]'
    step: {tool: repo_file_content, arguments: {path: "{{.forEach.item}}"}}
    dependsOn: [info]
  - id: gate
    type: elicitation
    message: Go on?
    dependsOn: [each]
  - id: pause
    type: wait
    for: 3s
    dependsOn: [gate]
  - id: bad
    tool: repo_file_content
    arguments: {path: "no\u202esuch.txt"}
    dependsOn: [pause]
`

// A varying is what differs from call to call on a screen.
var shownVaries = []struct{ pattern, instead string }{
	{`shown/[a-z2-7]+`, "shown/ID"},
	{`http://[^/]+/`, "http://SERVER/"},
	{`\b\d+(\.\d+)?m?s\b`, "TOOK"},
	{`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`, "*"},
	{`waits until \S+`, "waits until T"},
	{` +\n`, "\n"},
	{`(\S) {2,}`, "$1  "}, // columns are as wide as what is in them
}

func steady(screen string) string {
	for _, v := range shownVaries {
		screen = regexp.MustCompile(v.pattern).ReplaceAllString(screen, v.instead)
	}
	return screen
}

// TestCallOnATerminal: the steps of a call change in place, a form has the screen for
// itself, and in the end there stands what happened, what is left and what can be done.
// Without a terminal, or with NO_COLOR, there is a line for each event.
func TestCallOnATerminal(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	putFile(t, filepath.Join(dir, "definitions/shown.yaml"), shownSteps)
	d := startDev(t, dir, "--definitions", "definitions")

	term := startInTerminal(t, coloured(d.program("call", "shown")))
	term.shows("[c]ancel? ")
	asked := `shown/ID  http://SERVER/approvals/shown/ID
  ✓ info  repo_info  TOOK
  ✓ each  TOOK  2 done
    ✓ [0]  repo_file_content  TOOK
    ✓ [1]  repo_file_content  TOOK

Go on?
[a]ccept, [d]ecline or [c]ancel?`
	equalScreens(t, "while it asks", term, asked+"\n")
	term.enter("a")
	waits := ` a
  ✓ gate  TOOK  accepted
  * pause  waits until T  TOOK
  * 3 of 5 steps  TOOK
`
	until(t, "the tree while the run waits", func() bool { return steady(term.rows()) == asked+waits })
	if err := receive(t, term.ended, "the call to end"); err == nil {
		t.Error("the call succeeds")
	}
	begins := asked + ` a
  ✓ gate  TOOK  accepted
  ✓ pause  waits until T  TOOK
  ✗ bad  repo_file_content
    step bad: repo_file_content failed: there is no no[U+202E]such.txt in HEAD`
	ends := `
✗ shown/ID failed in TOOK
  what happened  perdure runs show shown/ID
  resume  perdure runs resume shown/ID
`
	if got := steady(term.rows()); !strings.HasPrefix(got, begins) || !strings.HasSuffix(got, ends) {
		t.Errorf("in the end, the screen shows\n%s\nwant\n%s …%s", got, begins, ends)
	}
	onlySteersItself(t, term)

	plain := startInTerminal(t, d.program("call", "shown", "--answer", "decline"))
	if err := receive(t, plain.ended, "the call to end"); err == nil {
		t.Error("a call that is declined succeeds")
	}
	if text := plain.text(); strings.Contains(text, "\x1b") || !strings.Contains(text, "  gate: declined\n") {
		t.Errorf("with NO_COLOR, it prints %q", text)
	}
}

func equalScreens(t *testing.T, when string, term *terminal, want string) {
	t.Helper()
	if got := steady(term.rows()); got != want {
		t.Errorf("%s, the screen shows\n%s\nwant\n%s", when, got, want)
	}
}
