package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
)

func star(name, text string) registry.File { return registry.File{Name: "lib/" + name, Text: text} }

// text is a module of a version; what slug gives tells its versions apart.
func text(version, mark string) registry.File {
	return star("text.star", "# version: "+version+"\ndef slug(s, sep = \"-\"):\n    return \""+mark+"\" + s\n")
}

// slugs is a definition of a version that loads something.
func slugs(version, load string) registry.File {
	return registry.File{Name: "slugs.yaml", Text: "name: slugs\nversion: " + version + "\ndescription: Slugs.\nscript: |\n  load(\"" + load + "\", \"slug\")\n  return slug(\"x\")\n"}
}

func of(files ...registry.File) registry.Request { return registry.Request{Files: files} }

func published(t *testing.T, r *registry.Registry, files ...registry.File) *registry.Report {
	t.Helper()
	report, err := r.Publish(t.Context(), ada, of(files...))
	if err != nil || report.Diagnostics.HasErrors() {
		t.Fatalf("%v, %v", report, err)
	}
	return report
}

// loaded gives which version of text.star the definition slugs of a version has
// in it, and its text.
func loaded(t *testing.T, r *registry.Registry, reference string) (version, text string) {
	t.Helper()
	ref := perduretest.Must(definitions.ParseReference(reference))(t)
	e := perduretest.Must(r.Resolve(ref))(t)
	for _, m := range e.Definition.Scripts().Published() {
		if m.Name == "text.star" {
			if want := (&definitions.Module{Name: m.Name, Version: m.Version, Text: e.Definition.Modules[m.Load]}).Digest(); m.Digest != want {
				t.Errorf("the digest of %v is not that of what %s has in it", m, reference)
			}
			return m.Version, e.Definition.Modules[m.Load]
		}
	}
	t.Fatalf("%s loads %v", reference, e.Definition.Scripts().Published())
	return "", ""
}

// What a definition loads is the latest that fits when it is published, and stays
// so.
func TestModulesArePinned(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		if said := refused(t, r, of(slugs("1.0.0", "text.star@^1.0")), "script-load"); !strings.Contains(said, "slugs.yaml:5:3") || !strings.Contains(said, "perdure publish text.star") {
			t.Errorf("without the module: %s", said)
		}
		published(t, r, text("1.0.0", "one "), text2("2.0.0"), slugs("1.0.0", "text.star@^1.0")) // at once
		published(t, r, text("1.1.0", "new "))
		published(t, r, text("1.2.0-rc.1", "rc "))
		if version, text := loaded(t, open(), "slugs"); version != "1.0.0" || !strings.Contains(text, `"one "`) {
			t.Errorf("slugs 1.0.0 has %s: %s", version, text)
		}
		again := published(t, r, slugs("1.0.0", "text.star@^1.0"))
		if again.Publications[0].New {
			t.Error("a later version of what it loads makes a definition another one")
		}
		published(t, r, slugs("1.1.0", "text.star@^1.0"))
		if version, _ := loaded(t, open(), "slugs@1.1.0"); version != "1.1.0" {
			t.Errorf("slugs 1.1.0 has %s", version)
		}
		if _, err := r.Deprecate(t.Context(), "ada", definitions.Reference{Name: "text.star", Version: "1.1.0"}, registry.Deprecation{Reason: "wrong"}); err != nil {
			t.Fatal(err)
		}
		published(t, r, slugs("1.2.0", "text.star@^1.0"))
		if version, _ := loaded(t, open(), "slugs@1.2.0"); version != "1.0.0" {
			t.Errorf("slugs 1.2.0 has %s, want the one that is not deprecated", version)
		}
		e := perduretest.Must(r.Resolve(definitions.Reference{Name: "slugs", Version: "1.1.0"}))(t)
		if drift := r.ModuleDrift(e, func(name string) bool { return name == "text.star" }); len(drift) != 1 || drift[0].Deprecated != "wrong" {
			t.Errorf("the drift of slugs 1.1.0 is %+v", drift)
		}
		if drift := r.ModuleDrift(e, func(string) bool { return false }); len(drift) != 0 {
			t.Errorf("whoever may not read the module is told %+v", drift)
		}
		for _, e := range r.Current() {
			if e.Definition.Name != "slugs" {
				t.Errorf("%s is a composite tool", e.Definition.Name)
			}
		}
	})
}

// text2 is a module of another name, which only takes its place in a request.
func text2(version string) registry.File {
	return star("other.star", "# version: "+version+"\nload(\"text.star@1\", \"slug\")\ndef loud(s):\n    return slug(s).upper()\n")
}

// A module is published as a definition is.
func TestPublishModules(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		published(t, r, text("1.0.0", ""))
		if again := published(t, r, text("1.0.0", "")); again.Publications[0].New {
			t.Error("the same content is published twice")
		}
		if said := refused(t, r, of(text("1.0.0", "other")), "published"); !strings.Contains(said, "1.0.1") {
			t.Errorf("other content: %s", said)
		}
		forced := of(text("1.0.0", "other"))
		forced.Force = true
		refused(t, r, forced, "published")
		for name, q := range map[string]struct {
			file  registry.File
			check string
			says  string
		}{
			"no version":    {star("text.star", "x = 1\n"), "version", "# version: 1.0.0"},
			"syntax":        {star("text.star", "# version: 1.0.1\ndef (\n"), "script-syntax", "lib/text.star:2:6"},
			"a plain file":  {star("b.star", "# version: 1.0.0\nload(\"a.star\", \"f\")\n"), "script-load", "NAME.star@VERSION"},
			"missing":       {star("b.star", "# version: 1.0.0\nload(\"a.star@1\", \"f\")\n"), "script-load", "lib/b.star:2:1"},
			"no version of": {star("b.star", "# version: 1.0.0\nload(\"text.star@2\", \"slug\")\n"), "script-load", "known versions: 1.0.0"},
			"no function":   {star("b.star", "# version: 1.0.0\nload(\"text.star@1\", \"slack\")\n"), "script-load", "has no slack; known names: slug"},
			"calls":         {star("b.star", "# version: 1.0.0\nx = [be_echo(n=1)]\ndef f():\n    return be_echo(n=2)\n"), "script-load", "lib/b.star:2:6: what is loaded only defines"},
			"breaking":      {star("text.star", "# version: 1.1.0\ndef slug(s, max, sep = \"-\"):\n    return s\n"), "breaking-change", "max is required; publish it as 2.0.0"},
			"gone":          {star("text.star", "# version: 1.1.0\ndef slag(s):\n    return s\n"), "breaking-change", "slug(s, sep=…) is gone"},
		} {
			if said := refused(t, r, of(q.file), q.check); !strings.Contains(said, q.says) {
				t.Errorf("%s: %s, want %s", name, said, q.says)
			}
		}
		refused(t, r, of(registry.File{Name: "a.yaml", Text: strings.Replace(greet("a", "1.0.0"), "name: a", "name: a.star", 1)}), "name")
		refused(t, r, of(text("2.0.0", ""), registry.File{Name: "text.star", Text: "# version: 2.0.1\n"}), "name")
		versioned := of(star("b.star", "def f():\n    return 1\n"))
		versioned.Version = "1.4.0"
		if report, err := r.Publish(t.Context(), ada, versioned); err != nil || report.Diagnostics.HasErrors() {
			t.Fatalf("%v, %v", report, err)
		}
		if m, err := open().Module(definitions.Reference{Name: "b.star", Version: "^1.2"}); err != nil || m.Version != "1.4.0" {
			t.Errorf("b.star is %v, %v", m, err)
		}
		events, err := r.History(t.Context(), "text.star", 10)
		if err != nil || len(events) != 1 {
			t.Errorf("the history has %v, %v", events, err)
		}
	})
}

// Modules that load each other are refused with the way.
func TestModulesInACircle(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		published(t, r, star("a.star", "# version: 1.0.0\ndef f():\n    return 1\n"))
		published(t, r, star("b.star", "# version: 1.0.0\nload(\"a.star@1\", \"f\")\ndef g():\n    return f()\n"))
		said := refused(t, r, of(star("a.star", "# version: 1.1.0\nload(\"b.star@1\", \"g\")\ndef f():\n    return g()\n")), "script-load")
		if !strings.Contains(said, "b.star@1 → a.star@1 → b.star@1") {
			t.Errorf("refused with %s", said)
		}
	})
}

// What a publisher may not read is not there for what they publish.
func TestModulesOfOthers(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		published(t, r, text("1.0.0", ""))
		ben := registry.Publisher{By: "ben", Tools: toolsOf(say), MayRead: func(name string) bool { return name != "text.star" }}
		report := perduretest.Must(r.Publish(t.Context(), ben, of(slugs("1.0.0", "text.star@^1.0"))))(t)
		if said := report.Diagnostics.Err(); said == nil || !strings.Contains(said.Error(), "published module text.star not found") {
			t.Errorf("ben is told %v", said)
		}
	})
}

// What is shown of a publication can be published again, and cannot be other
// than what it says.
func TestPinsAreHeldAgainstWhatIsPublished(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		published(t, r, text("1.0.0", ""), slugs("1.0.0", "text.star@^1.0"))
		e := perduretest.Must(r.Resolve(definitions.Reference{Name: "slugs"}))(t)
		shown := registry.File{Name: "shown.yaml", Text: string(e.Definition.Source())}
		if again := published(t, r, shown); again.Publications[0].New {
			t.Error("what is shown is something else")
		}
		m := &definitions.Module{Name: "text.star", Version: "1.0.0", Text: "def slug(s):\n    return 1\n"}
		forged, _ := definitions.FromSource(e.Definition.Source())
		forged.Modules["text.star@^1.0"] = m.Text
		forged.Version = "1.0.1"
		refused(t, r, of(registry.File{Name: "forged.yaml", Text: string(forged.Source())}), "script-pin")
		forged.Pinned["text.star@^1.0"] = &definitions.Pin{Version: m.Version, Digest: m.Digest()}
		forged.Version = "1.0.2"
		if said := refused(t, r, of(registry.File{Name: "forged.yaml", Text: string(forged.Source())}), "script-load"); !strings.Contains(said, "is something else") {
			t.Errorf("forged: %s", said)
		}
	})
}

// A definition of a file has what it loads put into it when that is there, and
// then keeps it.
func TestFilesLoadModules(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, open func() *registry.Registry) {
		r := open()
		defs, diags := definitions.Parse("slugs.yaml", []byte(slugs("1.0.0", "text.star@^1.0").Text))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		changes := 0
		r.OnChange(func() { changes++ })
		r.SetFiles(defs)
		e, err := r.Resolve(definitions.Reference{Name: "slugs"})
		if err != nil || e.Definition.Scripts().Loadable() == nil || !strings.Contains(e.Definition.Scripts().Loadable().Error(), "perdure publish text.star") {
			t.Fatalf("without the module: %v, %v", e.Definition.Scripts().Loadable(), err)
		}
		published(t, r, text("1.0.0", ""))
		if version, _ := loaded(t, r, "slugs"); version != "1.0.0" || changes < 2 {
			t.Errorf("it has %s after %d changes", version, changes)
		}
		published(t, r, text("1.1.0", ""))
		if version, _ := loaded(t, r, "slugs"); version != "1.0.0" {
			t.Errorf("it has %s while the file is the same", version)
		}
		if len(defs[0].Scripts().Pending()) == 0 {
			t.Error("the definition that was given has changed")
		}
		r.SetFiles(defs)
		if version, _ := loaded(t, r, "slugs"); version != "1.1.0" {
			t.Errorf("taken over again, it has %s", version)
		}
		if diff := cmp.Diff([]registry.Change(nil), registry.ChangesLoading(&definitions.Module{Text: "def f(a, *, b = 1):\n    pass\n"}, &definitions.Module{Text: "def f(a, *args, b = 2, c = 3):\n    pass\n"})); diff != "" {
			t.Error(diff)
		}
	})
}
