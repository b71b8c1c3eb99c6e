package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/perduretest"
)

// Each flag that opens a port is in the list of listeners, for those who decide
// what a firewall lets through.
func TestListenersAreDocumented(t *testing.T) {
	t.Parallel()
	text := perduretest.Read(t, filepath.Join("..", "..", "docs", "security.md"))
	_, section, _ := strings.Cut(string(text), "\n## Listeners\n")
	section, _, _ = strings.Cut(section, "\n## ")
	parser, err := kong.New(&commandLine{}, kong.Exit(func(int) {}), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Leaves(false) {
		for _, flag := range command.Flags {
			named := strings.Contains(section, "--"+flag.Name)
			if strings.HasSuffix(flag.Name, "listen") && flag.Target.Kind() != reflect.Bool && !named {
				t.Errorf("docs/security.md, Listeners, does not name --%s of perdure %s", flag.Name, command.Path())
			}
		}
	}
}

// TestDefaultsAreDocumented: what a flag does by default is what the manual promises.
func TestDefaultsAreDocumented(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commandLine{}, kong.Exit(func(int) {}), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, command := range parser.Model.Leaves(false) {
		for _, flag := range command.Flags {
			defaults[command.Path()+" --"+flag.Name] = flag.Default
		}
	}
	var pages string
	for _, name := range []string{"operations.md", "security.md"} {
		pages += string(perduretest.Read(t, filepath.Join("..", "..", "docs", name)))
	}
	for flag, promise := range map[string]struct{ value, text string }{
		"gateway --reattach-window":  {"10m", "for `--reattach-window` after its end (10 min;"},
		"gateway --disconnect-grace": {"60s", "waits for `--disconnect-grace` (60 s)"},
		"gateway --stream-retry":     {"5s", "after `--stream-retry` (5 s,"},
		"gateway --grace":            {"20s", "gets `--grace` (default 20 s)"},
		"gateway --retention":        {"720h", "`--retention`, default 30 days"},
		"worker --quarantine-after":  {"2", "when two workers were lost that executed it alone** (`--quarantine-after`)"},
		"runs resume --rate":         {"5", "`--rate` (5) a second"},
		"runs resume --limit":        {"1000", "`--limit` (1000) at most"},
	} {
		if defaults[flag] != promise.value {
			t.Errorf("the default of perdure %s is %q, not %q", flag, defaults[flag], promise.value)
		}
		if !strings.Contains(pages, promise.text) {
			t.Errorf("the manual does not say %q of perdure %s", promise.text, flag)
		}
	}
}
