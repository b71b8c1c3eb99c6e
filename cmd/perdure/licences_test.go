package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

// linked are the modules that are linked into the program, sorted.
func linked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	cmd.Stderr = os.Stderr
	out := perduretest.Must(cmd.Output())(t)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.Compact(modules)
}

// TestLicences holds docs/licences.md against what is linked into the program: it
// names each module, and only licences that a program of any licence may use.
func TestLicences(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("asks the go command")
	}
	page := perduretest.Read(t, "../../docs/licences.md")
	allowed := []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "ISC", "MPL-2.0", "Unlicense", "CC0-1.0"}
	var named []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "/") && !strings.Contains(cells[1], ".") {
			continue
		}
		module, licence := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		named = append(named, module)
		if !slices.Contains(allowed, licence) && module != "github.com/nexus-rpc/nexus-proto-annotations" { // which states none
			t.Errorf("%s has the licence %q", module, licence)
		}
	}
	slices.Sort(named)
	if diff := cmp.Diff(linked(t), named); diff != "" {
		t.Errorf("make licences writes docs/licences.md anew (-linked +named):\n%s", diff)
	}
}

// The archives have the text of every licence that asks for that.
func TestLicenceTexts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("asks the go command")
	}
	cmd := exec.Command(".ci/licences", "texts")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	texts := map[string]string{}
	for part := range strings.SplitSeq(string(perduretest.Must(cmd.Output())(t)), "\n==== ") {
		module, text, _ := strings.Cut(part, "\n")
		texts[module] = strings.TrimSpace(text)
	}
	without := []string{"github.com/cactus/go-statsd-client/statsd", "github.com/nexus-rpc/nexus-proto-annotations"}
	for _, module := range append(linked(t), "Go") {
		if texts[module] == "" && !slices.Contains(without, module) {
			t.Errorf("the licence of %s is missing", module)
		}
	}
}

// TestSBOM reads what this program was built of from its file.
func TestSBOM(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("asks the go command")
	}
	self := perduretest.Must(os.Executable())(t)
	cmd := exec.Command("go", "run", "./.ci/sbom", self, "v1.2.3")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out := perduretest.Must(cmd.Output())(t)
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(out, &bom); err != nil || bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Version != "v1.2.3" {
		t.Fatalf("%v: %.200s", err, out)
	}
	found := map[string]bool{}
	for _, c := range bom.Components {
		found[c.Name] = c.Version != "" && strings.HasSuffix(c.PURL, "@"+strings.TrimPrefix(c.Version, "go"))
	}
	for _, name := range []string{"Go", "go.temporal.io/sdk", "github.com/mark3labs/mcp-go"} {
		if !found[name] {
			t.Errorf("%s is not among the %d components, with its version", name, len(found))
		}
	}
}
