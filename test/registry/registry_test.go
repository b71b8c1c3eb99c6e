package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/test/pgtest"
)

// forEachStore runs a test with registries on every kind of store, which is
// empty: open opens one, as another process would where there can be several.
func forEachStore(t *testing.T, f func(t *testing.T, open func() *registry.Registry)) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		kept := perduretest.Must(store.OpenRegistryFile(filepath.Join(t.TempDir(), "registry.jsonl")))(t)
		t.Cleanup(kept.Close)
		f(t, func() *registry.Registry { return newRegistry(t, kept) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Start(t).URL("postgres")
		f(t, func() *registry.Registry {
			p := perduretest.Must(store.OpenPostgres(t.Context(), url, nil, nil))(t)
			t.Cleanup(p.Close)
			return newRegistry(t, p.Registry())
		})
	})
}

// memoryRegistry is a registry of one process.
func memoryRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	kept := perduretest.Must(store.OpenRegistryFile(filepath.Join(t.TempDir(), "registry.jsonl")))(t)
	t.Cleanup(kept.Close)
	return newRegistry(t, kept)
}

// stores has what a registry of a test keeps its versions in.
var stores sync.Map

func storeOf(r *registry.Registry) store.Registry {
	kept, _ := stores.Load(r)
	return kept.(store.Registry)
}

func newRegistry(t *testing.T, kept store.Registry) *registry.Registry {
	t.Helper()
	r := registry.New(registry.Options{Store: kept, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	perduretest.NoError(t, r.Load(t.Context()))
	stores.Store(r, kept)
	return r
}

// greet is a definition of a name; of its lines, more replaces those that begin alike.
func greet(name, version string, more ...string) string {
	lines := []string{
		"name: " + name,
		"description: Greets.",
		"version: " + version,
		`parameters: {type: object, properties: {who: {type: string}, times: {type: integer, default: 1}}, required: [who]}`,
		`steps: [{id: say, tool: echo.say, arguments: {text: "{{.params.who}}"}}]`,
		`output: {properties: {text: {type: string, description: What was said., value: "{{.steps.say.output.text}}"}}, required: [text]}`,
	}
	for _, line := range more {
		key, _, _ := strings.Cut(line, ":")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+":") })
		lines[i] = line
	}
	return strings.Join(lines, "\n") + "\n"
}

// say is the tool of the definitions.
var say = definitions.Tool{
	Name: "say", Backend: "echo", Original: "say", Description: "Says it.",
	InputSchema:  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
}

func toolsOf(tools ...definitions.Tool) definitions.Tools {
	return func(name string) (definitions.Tool, bool) {
		for _, t := range tools {
			if name == t.Name || name == t.Backend+"."+t.Original {
				return t, true
			}
		}
		return definitions.Tool{}, false
	}
}

var ada = registry.Publisher{By: "ada", Tools: toolsOf(say)}

func request(texts ...string) registry.Request {
	var q registry.Request
	for i, text := range texts {
		q.Files = append(q.Files, registry.File{Name: fmt.Sprintf("file%d.yaml", i), Text: text})
	}
	return q
}

// publish publishes, and fails the test where that is refused.
func publish(t *testing.T, r *registry.Registry, texts ...string) *registry.Report {
	t.Helper()
	report := perduretest.Must(r.Publish(t.Context(), ada, request(texts...)))(t)
	if report.Diagnostics.HasErrors() {
		t.Fatalf("refused: %v", report.Diagnostics)
	}
	return report
}

// refused publishes what is refused with a diagnostic, of which it gives the text.
func refused(t *testing.T, r *registry.Registry, q registry.Request, check string) string {
	t.Helper()
	report := perduretest.Must(r.Publish(t.Context(), ada, q))(t)
	for _, d := range report.Diagnostics {
		if d.Check == check && d.Severity == definitions.SeverityError {
			return d.String()
		}
	}
	t.Errorf("no error %s among %v", check, report.Diagnostics)
	return ""
}

func check(t *testing.T, r *registry.Registry, reference, want string) {
	t.Helper()
	ref := perduretest.Must(definitions.ParseReference(reference))(t)
	got := "none"
	if e, err := r.Resolve(ref); err == nil {
		got = e.Definition.Version
		if e.Published == nil {
			got = "file " + got
		}
	} else if none := new(registry.NotFoundError); !errors.As(err, &none) {
		t.Errorf("%s: error %v", reference, err)
	}
	if got != want {
		t.Errorf("%s is %s, want %s", reference, got, want)
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		check(t, r, "greet", "none")
		first := publish(t, r, greet("greet", "1.0.0"))
		if p := first.Publications[0]; !p.New || p.Name != "greet" || p.Version != "1.0.0" || !strings.HasPrefix(p.Digest, "sha256:") {
			t.Errorf("published is %+v", p)
		}
		check(t, r, "greet", "1.0.0")

		t.Run("the same again changes nothing", func(t *testing.T) {
			again := publish(t, r, "# written otherwise\n"+greet("greet", "1.0.0"))
			if p := again.Publications[0]; p.New || p.Digest != first.Publications[0].Digest {
				t.Errorf("published again is %+v", p)
			}
			if events, err := r.History(t.Context(), "greet", 10); err != nil || len(events) != 1 {
				t.Errorf("the history is %v, %v", events, err)
			}
		})
		t.Run("also when a tool of it is gone", func(t *testing.T) {
			report, err := r.Publish(t.Context(), registry.Publisher{By: "ben", Tools: toolsOf()}, request(greet("greet", "1.0.0")))
			if err != nil || report.Diagnostics.HasErrors() {
				t.Errorf("%+v, %v", report, err)
			}
		})
		t.Run("other content under the same version is refused", func(t *testing.T) {
			text := refused(t, r, request(greet("greet", "1.0.0", "description: Greets well.")), "published")
			if !strings.Contains(text, "1.0.1") || !strings.HasPrefix(text, "file0.yaml:1:") {
				t.Errorf("the error is %s", text)
			}
			if e, err := r.Resolve(definitions.Reference{Name: "greet"}); err != nil || e.Definition.Description != "Greets." {
				t.Errorf("greet is %+v, %v", e.Definition, err)
			}
		})
		t.Run("all or none", func(t *testing.T) {
			refused(t, r, request(greet("hail", "1.0.0"), greet("greet", "1.0.0", "description: Greets well.")), "published")
			check(t, r, "hail", "none")
		})
		t.Run("one may be asked what would become of it", func(t *testing.T) {
			q := request(greet("hail", "1.0.0"))
			q.DryRun = true
			report, err := r.Publish(t.Context(), ada, q)
			if err != nil || report.Diagnostics.HasErrors() || !report.Publications[0].New {
				t.Errorf("%+v, %v", report, err)
			}
			check(t, r, "hail", "none")
		})
		t.Run("is found by its digest", func(t *testing.T) {
			digest := first.Publications[0].Digest
			for _, d := range []string{digest, digest[:20]} {
				if e, ok := r.ByDigest(d); !ok || e.Definition.Name != "greet" {
					t.Errorf("%s is %+v, %t", d, e, ok)
				}
			}
			if _, ok := r.ByDigest(digest[:8]); ok {
				t.Error("one digit is taken for a digest")
			}
		})
		t.Run("is there for other processes", func(t *testing.T) { check(t, open(), "greet", "1.0.0") })
	})
}

func TestRefusedPublications(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		for name, tt := range map[string]struct {
			text, version, check string
		}{
			"no version":              {strings.Replace(greet("a", "1.0.0"), "version: 1.0.0\n", "", 1), "", "version"},
			"build metadata":          {greet("a", "1.0.0+7"), "", "version"},
			"no semantic version":     {greet("a", "1.0.0"), "two", "version"},
			"unknown tool":            {greet("a", "1.0.0", "steps: [{id: say, tool: echo.shout}]"), "", "unknown-tool"},
			"argument of a tool":      {greet("a", "1.0.0", "steps: [{id: say, tool: say}]"), "", "missing-argument"},
			"a mistake":               {greet("a", "1.0.0", "steps: [{id: say, tool: say, dependsOn: [x]}]"), "", "unknown-step"},
			"nothing to publish":      {"", "", "foreign"},
			"a field that is none":    {greet("a", "1.0.0") + "x: 1\n", "", "unknown-key"},
			"the name of a tool":      {greet("taken", "1.0.0"), "", "name"},
			"somebody else's":         {greet("theirs", "1.0.0"), "", "permission"},
			"two of the same at once": {greet("a", "1.0.0") + "---\n" + greet("a", "1.1.0"), "", "duplicate-name"},
		} {
			t.Run(name, func(t *testing.T) {
				q := request(tt.text)
				q.Version = tt.version
				p := ada
				p.May = func(name string) bool { return name != "theirs" }
				p.Taken = func(d *definitions.Definition) string { return strings.TrimPrefix(d.Name, "a") }
				report := perduretest.Must(r.Publish(t.Context(), p, q))(t)
				if !slices.ContainsFunc(report.Diagnostics, func(d definitions.Diagnostic) bool {
					return d.Check == tt.check && d.Severity == definitions.SeverityError && d.Pos.File == "file0.yaml"
				}) {
					t.Errorf("no error %s among %v", tt.check, report.Diagnostics)
				}
			})
		}
		if all := r.Versions(""); len(all) != 0 {
			t.Errorf("published is %v", all)
		}
	})
}

func TestBreakingVersions(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		demanding := `parameters: {type: object, properties: {who: {type: string}, times: {type: string}}, required: [who, times]}`
		publish(t, r, greet("greet", "1.0.0"))
		for _, version := range []string{"1.0.1", "1.1.0"} {
			text := refused(t, r, request(greet("greet", version, demanding)), "breaking-change")
			if !strings.Contains(text, "1.0.0") || !strings.Contains(text, "publish it as 2.0.0") || !strings.Contains(text, "file0.yaml:4:") {
				t.Errorf("the error is %s", text)
			}
		}
		rc := publish(t, r, greet("greet", "1.1.0-rc.1", demanding))
		if p := rc.Publications[0]; len(p.Breaks) != 2 || p.Previous != "1.0.0" {
			t.Errorf("of a pre-release is told %+v", p)
		}
		publish(t, r, greet("greet", "1.1.0"))
		major := publish(t, r, greet("greet", "2.0.0", demanding))
		if p := major.Publications[0]; len(p.Breaks) != 2 || p.Previous != "1.1.0" {
			t.Errorf("of a new major version is told %+v", p)
		}
		publish(t, r, greet("greet", "1.2.0"))
		refused(t, r, request(greet("greet", "1.2.1", "output: {properties: {said: {type: string, description: d, value: x}}}")), "breaking-change")

		q := request(greet("greet", "2.0.1"))
		q.Force = true
		report, err := r.Publish(t.Context(), ada, q)
		if err != nil || report.Diagnostics.HasErrors() || len(report.Publications[0].Breaks) == 0 {
			t.Errorf("forced: %+v, %v", report, err)
		}
		if events, err := r.History(t.Context(), "greet", 1); err != nil || !strings.Contains(events[0].Note, "forced") {
			t.Errorf("the history says %+v, %v", events, err)
		}

		publish(t, r, greet("quiet", "1.0.0"))
		refused(t, r, request(greet("quiet", "1.1.0")+"expose: {hidden: true, callers: [other]}\n"), "breaking-change")
		often := `parameters: {type: object, properties: {who: {type: string}, times: {type: integer, default: 2}}, required: [who]}`
		noticed := publish(t, r, greet("quiet", "1.1.0", often))
		if p := noticed.Publications[0]; len(p.Breaks) != 0 || len(p.Notices) != 1 || noticed.Diagnostics[0].Check != "noticed" || noticed.Diagnostics[0].Pos.Line != 4 {
			t.Errorf("of another default is told %+v, %v", p, noticed.Diagnostics)
		}

		keyed := publish(t, r, greet("quiet", "1.2.0", often)+"businessKey: 'for {{.params.who}}'\nfailureMode: best_effort\n")
		if p := keyed.Publications[0]; len(p.Breaks) != 0 || len(p.Notices) != 2 || keyed.Diagnostics[1].Check != "noticed" || keyed.Diagnostics[1].Pos.Line != 7 {
			t.Errorf("of a business key is told %+v, %v", p, keyed.Diagnostics)
		}

		publish(t, r, greet("withdrawn", "1.0.0"))
		publish(t, r, greet("withdrawn", "1.1.0"))
		for _, step := range []struct{ deprecate, breaks string }{{"1.1.0", "1.0.0"}, {"1.0.0", "1.1.0"}} {
			if _, err := r.Deprecate(t.Context(), "ada", definitions.Reference{Name: "withdrawn", Version: step.deprecate}, registry.Deprecation{Reason: "twice"}); err != nil {
				t.Fatal(err)
			}
			if text := refused(t, r, request(greet("withdrawn", "1.2.0", demanding)), "breaking-change"); !strings.Contains(text, "breaks callers of "+step.breaks) {
				t.Errorf("with %s deprecated: %s", step.deprecate, text)
			}
		}

		publish(t, r, greet("young", "0.1.0"))
		refused(t, r, request(greet("young", "0.1.1", demanding)), "breaking-change")
		publish(t, r, greet("young", "0.2.0", demanding))
	})
}

// What is so large that no run of it could start is not published.
func TestLargePublication(t *testing.T) {
	t.Parallel()
	r := memoryRegistry(t)
	refused(t, r, request(greet("whale", "1.0.0", "description: "+strings.Repeat("x", 17<<10))), "limit")
	refused(t, r, request(greet("whale", "1.0.0")+"annotations: {title: "+strings.Repeat("x", 1<<20)+"}\n"), "limit")
	publish(t, r, greet("whale", "1.0.0", "description: "+strings.Repeat("x", 15<<10)))
}

// Two that are published together are not offered under one name.
func TestNameOfTwo(t *testing.T) {
	t.Parallel()
	r := memoryRegistry(t)
	named := func(name, as string) string { return greet(name, "1.0.0") + "expose: {as: " + as + "}\n" }
	if text := refused(t, r, request(named("one", "shared"), named("two", "shared")), "name"); !strings.Contains(text, "one, which is published with it, is offered under the name shared") {
		t.Errorf("the error is %s", text)
	}
	refused(t, r, request(greet("one", "1.0.0"), named("two", "one")), "name")
	publish(t, r, named("one", "first"), named("two", "second"), greet("first_of_all", "1.0.0"))
}

// What steps call must be there, and must not lead back, whatever was published
// when.
func TestPublishedCallers(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		calls := func(reference string) string {
			return "steps: [{id: say, type: workflow, workflow: \"" + reference + "\"}]"
		}
		plain := "parameters: {type: object}"
		output := "output: {properties: {text: {type: string, description: d, value: x}}}"
		refused(t, r, request(greet("a", "1.0.0", plain, output, calls("b"))), "unknown-workflow")
		publish(t, r, greet("b", "1.0.0", plain, output), greet("a", "1.0.0", plain, output, calls("b@1")))
		refused(t, r, request(greet("a", "1.1.0", plain, output, calls("b@2"))), "unknown-workflow")
		if text := refused(t, r, request(greet("b", "1.1.0", plain, output, calls("a"))), "workflow-cycle"); !strings.Contains(text, "call each other: b 1.1.0 → a 1.0.0 → b") {
			t.Errorf("the error is %s", text)
		}
		publish(t, r, greet("b", "2.0.0", plain, output), greet("c", "1.0.0", plain, output, calls("b@2")))

		// What a name means is not what is published with it, but the latest
		// version: of a pre-release there is none.
		refused(t, r, request(greet("f", "1.0.0", plain, output, calls("e")), greet("e", "1.0.0-rc.1", plain, output)), "unknown-workflow")
		publish(t, r, greet("f", "1.0.0", plain, output, calls("e@1.0.0-rc.1")), greet("e", "1.0.0-rc.1", plain, output))
		// Nor does a patch of an old version lead back by it.
		publish(t, r, greet("g", "1.0.0", plain, output), greet("g2", "1.0.0", plain, output, calls("g")))
		publish(t, r, greet("g", "2.0.0", plain, output))
		publish(t, r, greet("g", "1.0.1", plain, output, calls("g2")))
		refused(t, r, request(greet("g", "2.0.1", plain, output, calls("g2"))), "workflow-cycle")
	})
}

// Who publishes is told of the composite tools that call the name and would no
// longer be right.
func TestCallersThatAreNoLongerRight(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		callee := func(version, parameters string) string {
			return greet("callee", version, "parameters: {type: object, properties: {"+parameters+"}, required: [n]}")
		}
		calls := func(name, reference string) string {
			return greet(name, "1.0.0", "parameters: {type: object}", `output: {properties: {text: {type: string, description: d, value: x}}}`,
				`steps: [{id: say, type: workflow, workflow: "`+reference+`", arguments: {n: "1"}}]`)
		}
		publish(t, r, callee("1.0.0", "n: {type: string}"))
		publish(t, r, calls("latest", "callee"), calls("pinned", "callee@1"))
		if p := publish(t, r, callee("1.1.0", "n: {type: string}, m: {type: string}")).Publications[0]; len(p.Breaks) != 0 {
			t.Errorf("of a harmless version is told %v", p.Breaks)
		}
		report := publish(t, r, greet("callee", "2.0.0", "parameters: {type: object, properties: {n: {type: string}, m: {type: string}}, required: [n, m]}"))
		told := strings.Join(report.Publications[0].Breaks, "\n")
		if !strings.Contains(told, "latest 1.0.0 is no longer right") || !strings.Contains(told, "m") || strings.Contains(told, "pinned") {
			t.Errorf("of a breaking version is told %s", told)
		}
	})
}

// Scripts are published with the files that were sent, and no file of the server
// is read.
func TestPublishedScripts(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		q := request("name: sums\nversion: 1.0.0\ndescription: Sums.\nscriptFile: main.star\n")
		refused(t, r, q, "script-file")
		q.Files[0].Scripts = map[string]string{
			"main.star": "load(\"lib.star\", \"double\")\nreturn double(2)\n", "lib.star": "def double(n):\n    return 2 * n\n",
		}
		if report, err := r.Publish(t.Context(), ada, q); err != nil || report.Diagnostics.HasErrors() {
			t.Fatalf("%+v, %v", report, err)
		}
		e, err := open().Resolve(definitions.Reference{Name: "sums"})
		if err != nil || !strings.Contains(e.Definition.Script, "double(2)") || !strings.Contains(e.Definition.Modules["lib.star"], "2 * n") {
			t.Errorf("sums is %+v, %v", e.Definition, err)
		}
	})
}

func TestForceATool(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		q := request(greet("greet", "1.0.0"))
		q.Force = true
		report, err := r.Publish(t.Context(), registry.Publisher{By: "ada", Tools: toolsOf()}, q)
		if err != nil || report.Diagnostics.HasErrors() {
			t.Fatalf("%+v, %v", report, err)
		}
		e, err := r.Resolve(definitions.Reference{Name: "greet"})
		if err != nil || len(e.Lock) != 0 {
			t.Errorf("what is locked of a tool that is not there: %+v, %v", e.Lock, err)
		}
	})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		for _, version := range []string{"1.0.0", "1.2.0", "1.10.0", "2.0.0", "3.0.0-rc.1"} {
			publish(t, r, greet("greet", version))
		}
		publish(t, r, greet("next", "1.0.0-rc.1"))
		for reference, want := range map[string]string{
			"greet": "2.0.0", "greet@1": "1.10.0", "greet@^1.0": "1.10.0", "greet@1.2": "1.2.0", "greet@1.2.0": "1.2.0", "greet@~1.0": "1.0.0",
			"greet@3": "none", "greet@3.0.0-rc.1": "3.0.0-rc.1", "greet@4": "none", "next": "none", "next@1.0.0-rc.1": "1.0.0-rc.1", "other": "none",
		} {
			check(t, r, reference, want)
		}
		_, err := r.Resolve(definitions.Reference{Name: "next"})
		if err == nil || !strings.Contains(err.Error(), "1.0.0-rc.1") {
			t.Errorf("the error is %v", err)
		}

		t.Run("a deprecated version is for who has no other", func(t *testing.T) {
			done, err := r.Deprecate(t.Context(), "ben", definitions.Reference{Name: "greet", Version: "1.10.0"}, registry.Deprecation{Reason: "too loud"})
			if err != nil || len(done) != 1 {
				t.Fatalf("deprecated %v, %v", done, err)
			}
			check(t, r, "greet@1", "1.2.0")
			check(t, r, "greet@1.10.0", "1.10.0")
			if done, err = r.Deprecate(t.Context(), "ben", definitions.Reference{Name: "greet", Version: "1.10.0"}, registry.Deprecation{Reason: "deprecated", Keep: true}); err != nil || len(done) != 0 {
				t.Fatalf("the reason is replaced: %v, %v", done, err)
			}
			if done, err = r.Deprecate(t.Context(), "ben", definitions.Reference{Name: "greet"}, registry.Deprecation{Reason: "too loud"}); err != nil || len(done) != 4 {
				t.Fatalf("deprecated %v, %v", done, err)
			}
			check(t, r, "greet", "2.0.0")
			check(t, r, "greet@1", "1.10.0")
			if done, err = r.Deprecate(t.Context(), "ben", definitions.Reference{Name: "greet", Version: "1.2"}, registry.Deprecation{}); err != nil || len(done) != 1 {
				t.Fatalf("restored %v, %v", done, err)
			}
			check(t, r, "greet", "1.2.0")
			if _, err = r.Deprecate(t.Context(), "ben", definitions.Reference{Name: "greet", Version: "7"}, registry.Deprecation{Reason: "x"}); err == nil {
				t.Error("a version that is not there is deprecated")
			}
		})
		t.Run("a file goes before", func(t *testing.T) {
			def := func(version string) *definitions.Definition {
				defs, _ := definitions.Parse("f.yaml", []byte(greet("greet", version)))
				return defs[0]
			}
			r.SetFiles([]*definitions.Definition{def("1.5.0")})
			check(t, r, "greet", "file 1.5.0")
			check(t, r, "greet@1.5", "file 1.5.0")
			check(t, r, "greet@1.2.0", "1.2.0")
			r.SetFiles([]*definitions.Definition{def("1.2.0")})
			check(t, r, "greet@1.2.0", "1.2.0")
			report := publish(t, r, greet("greet", "2.1.0"))
			if d := report.Diagnostics; len(d) != 1 || d[0].Check != "file" || !strings.Contains(d[0].Message, "f.yaml") {
				t.Errorf("of the file is told %v", d)
			}
			r.SetFiles(nil)
			check(t, r, "greet", "2.1.0")
		})
	})
}

// Fifty publish at once at two processes. Of those who have the same version with
// other content one wins; of the same content one is new, and nobody is refused.
func TestFiftyPublishers(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		processes := []*registry.Registry{open(), open()}
		const publishers = 50
		outcomes := make([]*registry.Report, publishers)
		var all sync.WaitGroup
		for i := range publishers {
			text := greet("same", "1.0.0")
			switch i % 3 {
			case 0:
				text = greet("rivals", "1.0.0", fmt.Sprintf("description: Greets as %d.", i))
			case 1:
				text = greet("many", fmt.Sprintf("1.%d.0", i))
			}
			all.Go(func() {
				report, err := processes[i%2].Publish(t.Context(), ada, request(text))
				if err != nil {
					t.Error(err)
				}
				outcomes[i] = report
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		news, refusals := map[string]int{}, map[string]int{}
		for i, report := range outcomes {
			p := report.Publications[0]
			if report.Diagnostics.HasErrors() {
				refusals[p.Name]++
			} else if p.New {
				news[p.Name]++
				if p.Name == "rivals" {
					check(t, processes[i%2], "rivals", "1.0.0")
				}
			}
		}
		if news["same"] != 1 || news["rivals"] != 1 || news["many"] != 17 || refusals["rivals"] != 16 || len(refusals) != 1 {
			t.Errorf("new are %v, refused %v", news, refusals)
		}
		for _, r := range processes {
			perduretest.NoError(t, r.Load(t.Context()))
			if n := len(r.Versions("")); n != 19 {
				t.Errorf("there are %d versions", n)
			}
		}
		a, b := processes[0].Versions(""), processes[1].Versions("")
		for i := range a {
			if a[i].Published.Digest != b[i].Published.Digest {
				t.Errorf("one process has %s, the other %s", a[i].Published.Digest, b[i].Published.Digest)
			}
		}
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		here, there := open(), open()
		ctx, stop := context.WithCancel(t.Context())
		changed, ended := make(chan struct{}, 10), make(chan struct{})
		there.OnChange(func() { changed <- struct{}{} })
		go func() { defer close(ended); there.Follow(ctx) }()
		publish(t, here, greet("greet", "1.0.0"))
		<-changed
		check(t, there, "greet", "1.0.0")
		if _, err := here.Deprecate(t.Context(), "ada", definitions.Reference{Name: "greet"}, registry.Deprecation{Reason: "old"}); err != nil {
			t.Fatal(err)
		}
		<-changed
		if e := there.Current()[0]; e.Deprecated() != "old" || e.Published.By != "ada" {
			t.Errorf("greet is %+v", e.Published)
		}
		stop()
		<-ended
	})
}

// The database is restored from a backup while processes have it open: they serve and
// publish what it has then, also where as much was published since as was lost.
func TestRestoredRegistry(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	open := func() *registry.Registry {
		p := perduretest.Must(store.OpenPostgres(t.Context(), server.URL("postgres"), nil, nil))(t)
		t.Cleanup(p.Close)
		return newRegistry(t, p.Registry())
	}
	here := open()
	publish(t, here, greet("greet", "1.0.0"))
	backup := filepath.Join(t.TempDir(), "backup")
	perduretest.NoError(t, server.Dump(t.Context(), "postgres", backup))
	publish(t, here, greet("greet", "1.1.0"))
	publish(t, here, greet("lost", "1.0.0"))
	perduretest.NoError(t, server.RestoreOver(t.Context(), "postgres", backup))
	there := open()
	publish(t, there, greet("greet", "1.2.0"))
	publish(t, there, greet("late", "1.0.0"))
	perduretest.NoError(t, here.Load(t.Context()))
	for _, r := range []*registry.Registry{here, there} {
		check(t, r, "greet", "1.2.0")
		check(t, r, "greet@1.1.0", "none")
		check(t, r, "late", "1.0.0")
		check(t, r, "lost", "none")
	}
	publish(t, here, greet("greet", "1.3.0"))
	check(t, here, "greet", "1.3.0")
}

// What somebody has put into the store by other ways is not used.
func TestForgedVersion(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		publish(t, r, greet("greet", "1.0.0"))
		genuine := *r.Versions("greet")[0].Published
		forged := genuine
		forged.Version, forged.Source = "1.0.1", strings.Replace(genuine.Source, "1.0.0", "1.0.1", 1)
		kept := storeOf(r)
		err := kept.Edit(t.Context(), "eve", store.Mark{}, func(store.News) ([]store.Edit, error) {
			return []store.Edit{{Action: store.Published, Version: forged}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		perduretest.NoError(t, r.Load(t.Context()))
		check(t, r, "greet", "1.0.0")
		check(t, r, "greet@1.0.1", "none")
	})
}

// A file that states a published version and has other content is told of once,
// whichever of the two comes later.
func TestFileThatContradicts(t *testing.T) {
	t.Parallel()
	file := func(text string) []*definitions.Definition {
		defs, diags := definitions.Parse("f.yaml", []byte(text))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return defs
	}
	same, other := greet("greet", "1.0.0"), greet("greet", "1.0.0", "description: Greets otherwise.")
	for name, steps := range map[string][]func(*registry.Registry){
		"file first":        {func(r *registry.Registry) { r.SetFiles(file(other)) }, func(r *registry.Registry) { publish(t, r, same) }},
		"publication first": {func(r *registry.Registry) { publish(t, r, same) }, func(r *registry.Registry) { r.SetFiles(file(other)) }},
	} {
		kept := perduretest.Must(store.OpenRegistryFile(filepath.Join(t.TempDir(), "registry.jsonl")))(t)
		t.Cleanup(kept.Close)
		var logged bytes.Buffer
		r := registry.New(registry.Options{Store: kept, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		for _, step := range steps {
			step(r)
		}
		r.SetFiles(file(other))
		ours, published := file(other)[0], file(same)[0]
		why := r.Contradicts(ours)
		for _, part := range []string{"f.yaml:1", "1.0.0", ours.Digest()[:19], published.Digest()[:19]} {
			if !strings.Contains(why, part) {
				t.Errorf("%s: %q lacks %s", name, why, part)
			}
		}
		if n := strings.Count(logged.String(), "differs from the published version"); n != 1 {
			t.Errorf("%s: it is logged %d times:\n%s", name, n, logged.String())
		}
		for _, text := range []string{same, greet("greet", "1.0.1"), greet("other", "1.0.0")} {
			if why := r.Contradicts(file(text)[0]); why != "" {
				t.Errorf("%s: %s", name, why)
			}
		}
	}
}

func TestWithoutAStore(t *testing.T) {
	t.Parallel()
	r := registry.New(registry.Options{})
	defs, _ := definitions.Parse("f.yaml", []byte(greet("greet", "1.0.0")))
	r.SetFiles(defs)
	r.Follow(t.Context())
	check(t, r, "greet", "file 1.0.0")
	if _, err := r.Publish(t.Context(), ada, request(greet("greet", "1.1.0"))); !errors.Is(err, registry.ErrNoStore) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Deprecate(t.Context(), "ada", definitions.Reference{Name: "greet"}, registry.Deprecation{Reason: "x"}); !errors.Is(err, registry.ErrNoStore) {
		t.Errorf("error %v", err)
	}
}
