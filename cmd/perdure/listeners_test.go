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
