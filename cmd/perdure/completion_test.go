package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
)

func testModel(t *testing.T) *kong.Kong {
	t.Helper()
	var cli commandLine
	k := perduretest.Must(newParser(t.Context(), &cli, &console{}))(t)
	return k
}

func TestComplete(t *testing.T) {
	t.Parallel()
	root := testModel(t).Model.Node
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	if err := os.WriteFile(file, []byte("compositeTools: [{name: save, description: d, steps: [{id: a, type: wait, for: 1s}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][]string{
		"ru|":                              {"runs"},
		"runs re|":                         {"result", "release", "resume", "reconcile"},
		"runs list --stat|":                {"--status"},
		"runs list --status c|":            {"completed", "cancelled"},
		"runs list --status=failed --w":    {"--waiting"},
		"call --answer |":                  {"accept", "decline", "cancel"},
		"call x --answer |":                {"accept", "decline", "cancel"},
		"completion |":                     nil,
		"explain unknown-t|":               {"unknown-tool"},
		"nothing such |":                   nil,
		"init --example p|":                {"prepare_review"},
		"publish --config " + file + " s|": {"save"},
		"publish |":                        nil,
		"compl|":                           {"completion"}, // not the command that completes
	} {
		var got []string
		for _, f := range complete(t.Context(), root, strings.Split(strings.TrimSuffix(line, "|"), " ")) {
			got = append(got, f.word)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s completes to %q, want %q", line, got, want)
		}
	}
}

// The scripts are ones that their shells can read; a shell that is not here is not asked.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell, script := range completionScripts {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), "script")
			perduretest.NoError(t, os.WriteFile(file, []byte(script), 0o600))
			if out, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Bash completes what perdure says, with the words as they were typed.
func TestBashCompletes(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script := completionScripts["bash"] + `
perdure() { local IFS=' '; printf '%s\n' "got $*	help" "two words	help"; }
COMP_WORDS=(perdure runs "sh w") COMP_CWORD=2
_perdure
printf '%s|' "${COMPREPLY[@]}"
`
	out, err := exec.Command(bash, "-c", script).CombinedOutput()
	if want := "got complete -- runs sh w|two words|"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// Every command has a page, in which no text is taken for a request.
func TestManPages(t *testing.T) {
	t.Parallel()
	model := testModel(t)
	for _, n := range commands(model.Model.Node) {
		page := manPage(n)
		if !strings.Contains(page, ".SH NAME\nperdure") || strings.Contains(page, "complete --") {
			t.Errorf("the page of %s:\n%s", n.FullPath(), page)
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".TP", ".B", ".I", ".BR", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("the page of %s has %q", n.FullPath(), line)
			}
		}
	}
	if got, want := roff(".so x\n'a\\b-c"), "\\&.so x\n\\&'a\\eb\\-c"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFlagsOfKeys: each flag that validate names for a key of a configuration exists.
func TestFlagsOfKeys(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, command := range testModel(t).Model.Children {
		for _, f := range command.Flags {
			known[f.Name] = true
		}
	}
	for key, flag := range config.Flags {
		if !known[flag] {
			t.Errorf("the flag --%s for the key %s does not exist", flag, key)
		}
	}
}

// TestHelpHasExamples: the help of each command that does something shows how.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	for _, command := range testModel(t).Model.Leaves(true) {
		if !strings.Contains(command.Detail, "\n    ") {
			t.Errorf("the help of perdure %s has no example", command.Path())
		}
	}
}
