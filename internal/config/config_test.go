package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/perduretest"
)

// Each testdata/X.yaml is Loaded; X.out holds the diagnostics.
func TestConfigurationDiagnostics(t *testing.T) {
	t.Setenv("GITHUB_API_TOKEN", "secret")
	for _, file := range perduretest.Files(t, "testdata/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, diags := Load(Sources{Config: file})
			var got strings.Builder
			for _, d := range diags {
				got.WriteString(d.String() + "\n")
			}
			perduretest.Golden(t, strings.TrimSuffix(file, ".yaml")+".out", got.String())
		})
	}
}

func TestConfigurationSettings(t *testing.T) {
	t.Setenv("GITHUB_API_TOKEN", "secret")
	found, diags := Load(Sources{Config: "testdata/peer.yaml"})
	perduretest.NoError(t, diags.Err())
	want := Settings{
		Name:     "engineering-vmcp",
		LogLevel: "debug",
		Auth:     Auth{Ruled: true},
		Outgoing: map[string]credentials.Strategy{
			"github": {Header: &credentials.Header{Name: "Authorization", Value: credentials.Source{Env: "GITHUB_API_TOKEN"}}},
			"jira":   {Header: &credentials.Header{Name: "X-API-Version", Value: credentials.Source{Inline: "v1"}}},
		},
		Backends: []backends.Config{
			{
				Name: "github", Transport: backends.StreamableHTTP, URL: "http://127.0.0.1:9001/mcp",
				Env: map[string]string{},
				Effects: []backends.EffectRule{
					{Tool: "get_*", Class: "read"},
					{Tool: "create_pr", Class: "keyed", KeyArgument: "request_id"},
				},
				Timeout: 45 * time.Second,
			},
			{
				Name: "jira", Transport: backends.SSE, URL: "https://jira.example.com/sse",
				Env:     map[string]string{},
				Timeout: 5 * time.Second,
			},
			{
				Name: "files", Transport: backends.Stdio, Command: "npx",
				Args:             []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"},
				Env:              map[string]string{"LEVEL": "debug", "GITHUB_API_TOKEN": "secret"},
				TrustAnnotations: true,
				Timeout:          30 * time.Second,
			},
		},
		Aggregation: backends.Aggregation{
			Strategy: "priority", PrefixFormat: "{workload}_", Priority: []string{"github", "jira"},
			Tools: []backends.WorkloadTools{
				{
					Workload: "github", Filter: []string{"create_pr", "merge_pr", "list_issues"},
					Overrides: map[string]backends.Override{"create_pr": {Name: "gh_create_pr", Description: "Create a GitHub pull request"}},
				},
				{Workload: "jira", ExcludeAll: true},
				{Workload: "files", ExcludeAll: true},
			},
		},
	}
	if diff := cmp.Diff(want, found.Settings); diff != "" {
		t.Errorf("Settings (-want +got)\n%s", diff)
	}
	if _, err := backends.New(found.Backends, found.Aggregation, nil); err != nil {
		t.Errorf("the pool refuses the Settings: %v", err)
	}
}

// TestToolConfigs shows that an MCPToolConfig beside its server shapes the tools of a
// backend, and that what the backend's own entry says goes first.
func TestToolConfigs(t *testing.T) {
	t.Parallel()
	found, diags := Load(Sources{Config: "testdata/resources_tools.yaml"})
	perduretest.NoError(t, diags.Err())
	no := false
	opens := backends.Override{Name: "open_issue", Description: "Opens an issue.", Annotations: backends.Annotations{DestructiveHint: &no}}
	want := []backends.WorkloadTools{
		{Workload: "tracker", Filter: []string{"create_issue", "get_issue"}, Overrides: map[string]backends.Override{"create_issue": opens, "get_issue": {Name: "issue"}}},
		{Workload: "wiki", Filter: []string{"get_page"}, Overrides: map[string]backends.Override{"create_issue": opens, "get_issue": {Name: "show_issue"}}},
	}
	if diff := cmp.Diff(want, found.Aggregation.Tools); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Each backend has the strategy that is said for it, or else the default if it
// has headers.
func TestConfigurationOutgoing(t *testing.T) {
	t.Setenv("GITHUB_API_TOKEN", "secret")
	found, diags := Load(Sources{Config: "testdata/delegated.yaml"})
	perduretest.NoError(t, diags.Err())
	file := credentials.Source{File: "testdata/secret"}
	want := map[string]credentials.Strategy{
		"caller": {TokenExchange: &credentials.TokenExchange{SubjectTokenType: "urn:ietf:params:oauth:token-type:jwt", Client: credentials.Client{
			TokenURL: "https://idp.example.com/token", ID: "perdure", Secret: credentials.Source{Env: "GITHUB_API_TOKEN"},
			Scopes: []string{"read", "write"}, Audience: "https://backends.example.com"}}},
		"own":   {ClientCredentials: &credentials.ClientCredentials{Client: credentials.Client{TokenURL: "http://127.0.0.1:1/token", ID: "own", Secret: file}}},
		"keyed": {Header: &credentials.Header{Name: "X-Key", Value: file}},
		"pass":  {PassThrough: true},
	}
	if diff := cmp.Diff(want, found.Outgoing); diff != "" {
		t.Errorf("strategies (-want +got)\n%s", diff)
	}
	if got := strings.Join(found.Delegating(), " "); got != "caller pass" {
		t.Errorf("credentials of callers are for %s", got)
	}
}

const resourceText = `apiVersion: toolhive.stacklok.dev/v1beta1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: my-workflow}
spec:
  name: my_workflow
  description: d
  steps: [{id: a, tool: be_echo}]
`

func TestDefinitionFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "defs/b.yml"), resourceText)
	write(t, filepath.Join(dir, "defs/sub/a.yaml"), "name: bare\ndescription: d\nsteps: [{id: a, tool: be_echo}]\n")
	write(t, filepath.Join(dir, "defs/README.md"), "not YAML: [")
	write(t, filepath.Join(dir, "config.yaml"), "backends: [{name: be, url: http://127.0.0.1:1/mcp, transport: sse}]\n"+
		"compositeToolRefs: [{name: my-workflow}]\n"+
		"compositeTools: [{name: inline, description: d, steps: [{id: a, tool: be_echo}]}]\n")

	src := Sources{Config: filepath.Join(dir, "config.yaml"), Definitions: []string{filepath.Join(dir, "defs")}}
	found, diags := Load(src)
	if diags != nil {
		t.Fatalf("diagnostics: %v", diags)
	}
	if diff := cmp.Diff([]string{"inline", "my_workflow"}, namesOf(found.Definitions)); diff != "" {
		t.Errorf("definitions (-want +got)\n%s", diff)
	}

	before := src.Stamp()
	write(t, filepath.Join(dir, "defs/c.yaml"), strings.ReplaceAll(resourceText, "my_workflow", "inline"))
	if src.Stamp() == before {
		t.Error("a new file does not change the stamp")
	}
	_, diags = Load(src)
	text := ""
	for _, d := range diags {
		text += d.String() + "\n"
	}
	if !diags.HasErrors() || !strings.Contains(text, "config.yaml:3") || !strings.Contains(text, "c.yaml:5") {
		t.Errorf("a clash of two files must name both places, got\n%s", text)
	}
}

// Files of other programs in a directory keep none of its definitions from loading; one
// that is named is a mistake.
func TestForeignFiles(t *testing.T) {
	loaded, diags := Load(Sources{Definitions: []string{"testdata/foreign"}})
	if diags.HasErrors() || len(loaded.Definitions) != 1 {
		t.Errorf("%d definitions, %v", len(loaded.Definitions), diags)
	}
	var got strings.Builder
	for _, d := range diags {
		got.WriteString(d.String() + "\n")
	}
	perduretest.Golden(t, "testdata/foreign/all.out", got.String())
	if _, diags := Load(Sources{Definitions: []string{"testdata/foreign/compose.yaml"}}); !diags.HasErrors() {
		t.Errorf("a file of another program is taken: %v", diags)
	}
	mixed := filepath.Join(t.TempDir(), "mixed.yaml")
	write(t, mixed, "services: {web: {image: nginx}}\n---\n"+resourceText)
	loaded, diags = Load(Sources{Definitions: []string{mixed}})
	if diags.HasErrors() || len(diags) != 1 || len(loaded.Definitions) != 1 {
		t.Errorf("beside a definition: %d definitions, %v", len(loaded.Definitions), diags)
	}
}

// Files of a mounted ConfigMap are links to a directory that Kubernetes exchanges:
// each is one definition, and what is exchanged is noticed.
func TestDefinitionsOfAConfigMap(t *testing.T) {
	t.Parallel()
	mounted := t.TempDir()
	definition := func(name string) string {
		return "name: " + name + "\ndescription: d\nsteps: [{id: a, type: script, scriptFile: a.star}]\n"
	}
	mount := func(version, name string) {
		write(t, filepath.Join(mounted, version, "deploy.yaml"), definition(name))
		write(t, filepath.Join(mounted, version, "a.star"), "return 1\n")
		if err := errors.Join(os.Symlink(version, filepath.Join(mounted, "..new")), os.Rename(filepath.Join(mounted, "..new"), filepath.Join(mounted, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	mount("..2026_11_22_01", "deploy")
	for _, file := range []string{"deploy.yaml", "a.star"} {
		perduretest.NoError(t, os.Symlink(filepath.Join("..data", file), filepath.Join(mounted, file)))
	}
	write(t, filepath.Join(mounted, ".#deploy.yaml"), "what an editor leaves")
	linked := filepath.Join(t.TempDir(), "definitions")
	perduretest.NoError(t, os.Symlink(mounted, linked))
	for _, src := range []Sources{{Definitions: []string{mounted}}, {Definitions: []string{linked}}} {
		found, diags := Load(src)
		if diags.HasErrors() || len(found.Definitions) != 1 {
			t.Fatalf("%v: %d definitions, %v", src.Definitions, len(found.Definitions), diags)
		}
	}
	src := Sources{Definitions: []string{mounted}}
	before := src.Stamp()
	mount("..2026_11_22_02", "replaced")
	if src.Stamp() == before {
		t.Error("what was exchanged is not noticed")
	}
	if found, diags := Load(src); diags.HasErrors() || namesOf(found.Definitions)[0] != "replaced" {
		t.Errorf("after the exchange: %v, %v", namesOf(found.Definitions), diags)
	}
}

// TestCertificatesAreReadAtTheStart: certificates of a backend are those of the moment in
// which the configuration was read. A change of their file is not one of the configuration.
func TestCertificatesAreReadAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, bundle := Sources{Config: filepath.Join(dir, "perdure.yaml")}, filepath.Join(dir, "ca.pem")
	write(t, src.Config, "name: x\nbackends: [{name: a, url: \"https://a.example/mcp\", transport: streamable-http, caBundlePath: \""+bundle+"\"}]\n")
	write(t, bundle, "first")
	found, diags := Load(src)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	before := src.Stamp()
	write(t, bundle, "another one")
	if string(found.Backends[0].CACertificates) != "first" || src.Stamp() != before {
		t.Errorf("certificates %q, the configuration is read again: %t", found.Backends[0].CACertificates, src.Stamp() != before)
	}
	if found, _ = Load(src); string(found.Backends[0].CACertificates) != "another one" {
		t.Errorf("after a restart: %q", found.Backends[0].CACertificates)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	perduretest.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	perduretest.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}

func TestLibraryIsValid(t *testing.T) {
	t.Parallel()
	found, diags := Load(Sources{Library: true})
	if len(diags) > 0 {
		t.Errorf("diagnostics: %v", diags)
	}
	if len(found.Definitions) < 3 {
		t.Errorf("got %d definitions", len(found.Definitions))
	}
}

func namesOf(defs []*definitions.Definition) []string {
	var names []string
	for _, d := range defs {
		names = append(names, d.Name)
	}
	return names
}

// TestNamedDefinitions shows that references in a configuration select what is
// offered, and that what those call is there for them.
func TestNamedDefinitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	file := write("tools.yaml", `
{name: outer, description: d, steps: [{id: a, type: workflow, workflow: inner}]}
---
{name: inner, description: d, steps: [{id: a, type: workflow, workflow: innermost}]}
---
{name: innermost, description: d, steps: [{id: a, type: wait, for: 1s}]}
---
{name: other, description: d, steps: [{id: a, type: workflow, workflow: inner}]}
`)
	config := write("config.yaml", `{incomingAuth: {type: anonymous}, backends: [], compositeTools: [{name: own, description: d, steps: [{id: a, type: wait, for: 1s}]}], compositeToolRefs: [{name: outer}]}`)
	found, diags := Load(Sources{Config: config, Definitions: []string{file}})
	perduretest.NoError(t, diags.Err())
	var got []string
	for _, d := range found.Definitions {
		got = append(got, strings.Join(append([]string{d.Name}, d.Expose.Callers...), " < "))
		if d.Expose.Hidden != (len(d.Expose.Callers) > 0) {
			t.Errorf("%s is hidden: %v", d.Name, d.Expose.Hidden)
		}
	}
	if diff := cmp.Diff([]string{"own", "outer", "inner < outer", "innermost < inner"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestClientServers shows that the servers of an MCP client's file are backends.
func TestClientServers(t *testing.T) {
	t.Setenv("GITHUB_API_TOKEN", "secret")
	found, diags := Load(Sources{Config: "testdata/client.yaml"})
	if diags.HasErrors() { // client.out has the others
		t.Fatal(diags)
	}
	want := []backends.Config{
		{Name: "files", Transport: backends.Stdio, Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp", "./docs"}, Env: map[string]string{"TOKEN": "secret"}, Dir: "/srv"},
		{Name: "remote", Transport: backends.StreamableHTTP, URL: "https://example.com/mcp", Headers: backends.Headers{"Authorization": "Bearer secret"}},
		{Name: "events", Transport: backends.SSE, URL: "http://127.0.0.1:9/sse"},
		{Name: "plain", Transport: backends.StreamableHTTP, URL: "http://127.0.0.1:9/mcp"},
	}
	if diff := cmp.Diff(want, found.Backends, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if header := string(found.Backends[1].Headers["Authorization"]); header != "Bearer secret" {
		t.Errorf("the header is %q", header)
	}
	if text, err := os.ReadFile("testdata/client.yaml"); err != nil || !IsConfiguration("testdata/client.yaml", text) {
		t.Errorf("it is no configuration: %v", err)
	}
}

// TestClientServersInOtherForms: the program may be in a list or in one text, and its
// transport may be called local.
func TestClientServersInOtherForms(t *testing.T) {
	t.Parallel()
	files := backends.Config{Name: "files", Transport: backends.Stdio, Command: "npx", Args: []string{"-y", "files"}}
	text := files
	text.Name, files.Env = "text", map[string]string{"LEVEL": "debug"}
	for file, want := range map[string]backends.Config{"testdata/client_local.yaml": files, "testdata/client_text.yaml": text} {
		found, _ := Load(Sources{Config: file})
		if diff := cmp.Diff(want, found.Backends[0], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", file, diff)
		}
	}
}

// TestServerIsConfiguration: a file with a VirtualMCPServer is a configuration, whatever is
// beside it.
func TestServerIsConfiguration(t *testing.T) {
	t.Parallel()
	const definition = "name: a\ndescription: d\nsteps: [{id: s, tool: be_echo}]\n"
	for text, want := range map[string]bool{
		"kind: VirtualMCPServer\nspec: {config: {}}\n":                   true,
		definition + "---\nkind: VirtualMCPServer\nspec: {config: {}}\n": true,
		"kind: VirtualMCPCompositeToolDefinition\nspec: {name: a}\n":     false,
		definition + "---\n" + definition:                                false,
	} {
		if got := IsConfiguration("a.yaml", []byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestManyDefinitionsInAFile: what is kept of a file grows with its size, and not
// with its size for each definition in it.
func TestManyDefinitionsInAFile(t *testing.T) {
	const many = 500
	var text strings.Builder
	text.WriteString("backends: [{name: be, transport: streamable-http, url: 'http://127.0.0.1:1/mcp'}]\ncompositeTools:\n")
	for i := range many {
		fmt.Fprintf(&text, "  - name: tool_%d\n    description: Calls be.\n    steps:\n", i)
		for step := range 10 {
			fmt.Fprintf(&text, "      - id: s%d\n        tool: be_echo\n        arguments:\n          message: hello\n", step)
		}
	}
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	perduretest.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	before := perduretest.Heap()
	loaded, diags := Load(Sources{Config: file})
	if diags.HasErrors() || len(loaded.Definitions) != many {
		t.Fatalf("%d definitions, %v", len(loaded.Definitions), diags)
	}
	kept := perduretest.Heap() - before
	t.Logf("%d KB of text, %d KB kept", text.Len()>>10, kept>>10)
	if kept > 64<<20 {
		t.Errorf("%d MB are kept of a file of %d KB", kept>>20, text.Len()>>10)
	}
	runtime.KeepAlive(loaded)
}

// TestCommentsInJSON shows that what editors write into JSON is read, with its lines
// and columns as they are.
func TestCommentsInJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := "// of the team\n{\n\t/* two\n\tlines */ \"servers\": {\n\t\t\"docs\": {\"url\": \"http://127.0.0.1:9/mcp\", }, // ours\n\t\t\"bad\": {\"type\": \"pigeon // not a \\\" comment\", \"url\": \"http://127.0.0.1:9/mcp\"},\n\t},\n}\n"
	if !IsConfiguration(file, []byte(text)) {
		t.Error("it is no configuration")
	}
	perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	_, diags := Load(Sources{Config: file})
	want := fmt.Sprintf(`%s:6:19: backends[1].transport: "pigeon // not a \" comment" is not known; use streamable-http, sse or stdio [value]`, file)
	if got := fmt.Sprint(diags.Err()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzPlainJSON(f *testing.F) {
	for _, text := range []string{`{"a": "//", /* b */ "c": 1} // d`, `{"a\"`, `/*`, "\t/**/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := plainJSON([]byte(text))
		if len(got) != len(text) || strings.Count(string(got), "\n") != strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, got)
		}
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Errorf("%q was JSON, and %q is not", text, got)
		}
	})
}

// TestConfigurationAmongDefinitions: the file of the configuration in a directory of
// definitions is read once.
func TestConfigurationAmongDefinitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "vmcp.yaml")
	write(t, config, `apiVersion: toolhive.stacklok.dev/v1beta1
kind: VirtualMCPServer
spec: {config: {backends: [{name: a, command: x}]}}
---
apiVersion: toolhive.stacklok.dev/v1beta1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: greet}
spec: {name: greet, description: d, steps: [{id: s, tool: a_say}]}
`)
	write(t, filepath.Join(dir, "other.yaml"), "{name: other, description: d, steps: [{id: s, tool: a_say}]}\n")
	loaded, diags := Load(Sources{Config: config, Definitions: []string{dir}})
	if len(diags) > 0 || len(loaded.Definitions) != 2 {
		t.Errorf("loaded %d definitions, want greet and other; said %v", len(loaded.Definitions), diags)
	}
}
