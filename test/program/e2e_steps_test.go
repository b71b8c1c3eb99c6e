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
  - id: gate
    type: elicitation
    message: Go on?
    dependsOn: [info, each]
  - id: pause
    type: wait
    for: 3s
    dependsOn: [gate]
  - id: bad
    tool: repo_file_content
    arguments: {path: "no\tsuch.txt"}
    dependsOn: [pause]
`

// A varying is what differs from call to call on a screen.
var shownVaries = []struct{ pattern, instead string }{
	{`shown/[a-z2-7]+`, "shown/ID"},
	{`http://[^/]+/`, "http://SERVER/"},
	{`\b(\d+(\.\d+)?m?s)( *)`, "TOOK "},
	{` +\n`, "\n"},
	{`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`, "*"},
	{`waits until \S+ \S+`, "waits until T"},
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
  ✓ info  repo_info          TOOK
  ✓ each                     TOOK 2 done
    ✓ [0]  repo_file_content  TOOK
    ✓ [1]  repo_file_content  TOOK

Go on?
[a]ccept, [d]ecline or [c]ancel?
`
	equalScreens(t, "while it asks", term, asked)
	term.enter("a")
	waits := `  ✓ gate                 TOOK accepted
  * pause  waits until T  TOOK
  * 3 of 5 steps  TOOK
`
	until(t, "the tree while the run waits", func() bool { return strings.HasSuffix(steady(term.rows()), "cancel? a\n"+waits) })
	if err := receive(t, term.ended, "the call to end"); err == nil {
		t.Error("the call succeeds")
	}
	equalScreens(t, "in the end", term, strings.TrimSuffix(asked, "\n")+` a
  ✓ gate                      TOOK accepted
  ✓ pause  waits until T  TOOK
  ✗ bad    repo_file_content
`)
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
