package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/store"
)

// A Request asks to publish all definitions and modules of some files, or none.
type Request struct {
	Files   []File `json:"files"`
	Version string `json:"version,omitempty"` // of all of them; "" = each one's own
	Force   bool   `json:"force,omitempty"`   // also if callers break, or a tool is unknown
	DryRun  bool   `json:"dryRun,omitempty"`  // only report
}

// A Publisher is the identity that publishes, with what its publications are checked
// against.
type Publisher struct {
	By    string            // identity, for the history
	Tools definitions.Tools // now offered; required
	// All lists Tools, for scripts that compute names. nil = these lock none.
	All func() []definitions.Tool
	// May reports whether the publisher may publish a name. nil = every name.
	May func(name string) bool
	// Taken says why a composite tool cannot have its name, or its name for clients;
	// "" = it can. nil = every name is free.
	Taken func(d *definitions.Definition) string
	// MaxDepth bounds the depth of composite tools that call each other; 0 =
	// definitions.MaxWorkflowDepth.
	MaxDepth int
	// Prefix is the server's prefix for names of composite tools.
	Prefix string
	// Permission says which calls of the definitions are allowed. nil = all.
	Permission definitions.Permission
	// MayRead reports whether the publisher may read, and so load, a module.
	// nil = every module.
	MayRead func(name string) bool
}

// A Publication is the result for one definition or module.
type Publication struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	// New is false if the same content was published under this version before.
	New bool `json:"new"`
	// Previous is the version that it was compared with; "" = it is the first one.
	Previous string   `json:"previous,omitempty"`
	Breaks   []string `json:"breaks,omitempty"`  // what may fail for callers of the previous version
	Notices  []string `json:"notices,omitempty"` // what else they may notice
}

// A Report is the result of a Request. Nothing is published if one of the diagnostics
// is an error.
type Report struct {
	Publications []Publication           `json:"publications"`
	Diagnostics  definitions.Diagnostics `json:"diagnostics"`
}

// The checks of diagnostics about publications.
const (
	checkVersion   = "version"         // missing or invalid
	checkPublished = "published"       // other content was published under it
	checkBreaking  = "breaking-change" // callers would break
	checkNoticed   = "noticed"         // callers notice a difference
	checkTool      = "unknown-tool"    // not offered at present
	checkWorkflow  = "unknown-workflow"
	checkName      = "name"       // the name is taken
	checkPermitted = "permission" // the publisher may not
	checkFile      = "file"       // the configuration has a definition of the name
	checkLoads     = "script-load"
	checkSize      = "limit" // no run of it could start
)

// maxPublished bounds a definition and the schemas of its tools together, in bytes:
// each run carries them beside its arguments.
const maxPublished = 1 << 20

// Publish checks definitions and publishes them. Their mistakes are in the report; an
// error is one of the store.
func (r *Registry) Publish(ctx context.Context, p Publisher, q Request) (*Report, error) {
	if r.store == nil {
		return nil, ErrNoStore
	}
	given, diags, err := r.readOne(ctx, q)
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() { // what else is wrong is reported in the same round
		diags = append(diags, definitions.Check(given.defs, definitions.CheckOptions{MaxDepth: p.MaxDepth})...)
	}
	if diags.HasErrors() || !permitted(p, given, &diags) {
		return &Report{Diagnostics: sorted(diags)}, nil
	}
	var report *Report
	err = r.edit(ctx, p.By, func() ([]store.Edit, error) {
		b := &batch{registry: r, publisher: p, request: q, diags: slices.Clone(diags)}
		report = b.publish(given)
		if q.DryRun || b.diags.HasErrors() {
			return nil, nil
		}
		return b.edits, nil
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// edit makes the edits of f, which is called when the registry knows all that was
// published before.
func (r *Registry) edit(ctx context.Context, by string, f func() ([]store.Edit, error)) error {
	r.mu.RLock()
	known := r.last
	r.mu.RUnlock()
	news := false
	err := r.store.Edit(ctx, by, known, func(read store.News) ([]store.Edit, error) {
		news = r.take(read)
		return f()
	})
	if news {
		r.notify()
	}
	if err != nil {
		return err
	}
	if err := r.Load(ctx); err != nil { // published; Follow loads it later
		r.log.Warn("cannot read the new publication", "error", err)
	}
	return nil
}

func sorted(diags definitions.Diagnostics) definitions.Diagnostics {
	diags.Sort()
	if diags == nil {
		return definitions.Diagnostics{}
	}
	return diags
}

func problem(pos definitions.Position, check, format string, args ...any) definitions.Diagnostic {
	return definitions.Diagnostic{Pos: pos, Severity: definitions.SeverityError, Message: fmt.Sprintf(format, args...), Check: check}
}

// permitted is checked first, before any message that reveals other publications.
func permitted(p Publisher, all given, diags *definitions.Diagnostics) bool {
	may := true
	check := func(pos definitions.Position, name string) {
		if p.May != nil && !p.May(name) {
			*diags = append(*diags, problem(pos, checkPermitted, "you may not publish %s: authorization.publishers of the configuration lists who may", name))
			may = false
		}
	}
	for _, d := range all.defs {
		check(d.Pos, d.Name)
		if d.Expose.As != "" { // it takes this name, too
			check(d.Pos, d.Expose.As)
		}
	}
	for _, m := range all.modules {
		check(m.pos, m.Name)
	}
	return may
}

// A batch is what is published at once, under the lock of all publications.
type batch struct {
	registry     *Registry
	publisher    Publisher
	request      Request
	modules      []*definitions.Module // that are published with it
	publications []Publication
	edits        []store.Edit
	diags        definitions.Diagnostics
}

func (b *batch) publish(all given) *Report {
	for _, m := range all.modules {
		if slices.ContainsFunc(b.modules, func(other *definitions.Module) bool { return other.Name == m.Name }) {
			b.diags = append(b.diags, problem(m.pos, checkName, "two of the files are called %s, which is the name of one module", m.Name))
			return &Report{Diagnostics: sorted(b.diags)}
		}
		b.modules = append(b.modules, m.Module)
	}
	for _, m := range all.modules {
		b.publications = append(b.publications, b.addModule(m))
	}
	var fresh []*definitions.Definition
	for _, d := range all.defs {
		d, p := b.add(d)
		if p.New {
			fresh = append(fresh, d)
		}
		b.publications = append(b.publications, p)
	}
	b.diags = append(b.diags, b.checked(fresh)...)
	b.callers(fresh)
	return &Report{Publications: b.publications, Diagnostics: sorted(b.diags)}
}

// add checks one definition, and gives it with its modules. One that was published
// before need not be valid today.
func (b *batch) add(d *definitions.Definition) (*definitions.Definition, Publication) {
	versions := b.registry.Versions(d.Name)
	if e, ok := published(versions, d.Version); ok && e.Definition != nil {
		// With the modules that it loaded then: later versions do not change its content.
		if same, _ := d.WithModules(e.Definition.Scripts().Modules()); same.Digest() == e.Published.Digest {
			return same, Publication{Name: d.Name, Version: d.Version, Digest: e.Published.Digest}
		}
	}
	d, diags := d.WithModules(b.module)
	b.diags = append(b.diags, diags...)
	p := Publication{Name: d.Name, Version: d.Version, Digest: d.Digest()}
	p.New = b.isNew(d.Pos, &p, versions)
	if p.New {
		b.compare(&p, versions, d.Place, func(before Entry) []Change { return Changes(before.Definition, d, b.publisher.Prefix) })
		b.edit(d, p)
		b.warnOfFile(d)
		b.checkPinned(d)
	}
	return d, p
}

// published finds a version among those of a name.
func published(versions []Entry, version string) (Entry, bool) {
	i := slices.IndexFunc(versions, func(e Entry) bool { return e.Published.Version == version })
	if i < 0 {
		return Entry{}, false
	}
	return versions[i], true
}

// isNew reports whether nothing was published under a version; other content under it
// is an error.
func (b *batch) isNew(pos definitions.Position, p *Publication, versions []Entry) bool {
	e, ok := published(versions, p.Version)
	if ok && e.Published.Digest != p.Digest {
		b.diags = append(b.diags, problem(pos, checkPublished, "%s %s was published before with other content (%s), and what is published never changes: publish it as another version, such as %s",
			p.Name, p.Version, short(e.Published.Digest), nextPatch(versions)))
	}
	return !ok
}

// checked checks definitions against each other, earlier publications, and tools.
func (b *batch) checked(defs []*definitions.Definition) definitions.Diagnostics {
	p := b.publisher
	diags := definitions.Check(defs, definitions.CheckOptions{Tools: p.Tools, All: b.registry.resolved(defs), MaxDepth: p.MaxDepth, Permission: p.Permission, AllTools: p.All, AllDefinitions: b.registry.definitions})
	for i, d := range diags {
		if (d.Check == checkTool || d.Check == checkWorkflow) && !b.request.Force {
			diags[i].Severity = definitions.SeverityError
			diags[i].Message += "; --force publishes it nevertheless"
		}
	}
	diags = append(diags, b.sameNames(defs)...)
	for _, d := range defs {
		if p.Taken == nil {
			continue
		}
		if why := p.Taken(d); why != "" {
			diags = append(diags, problem(d.Pos, checkName, "%s cannot be offered: %s", d.Name, why))
		}
	}
	return diags
}

// sameNames finds definitions that would be offered under one name.
func (b *batch) sameNames(defs []*definitions.Definition) (diags definitions.Diagnostics) {
	offered := map[string]*definitions.Definition{}
	for _, d := range defs {
		name := d.Expose.Name(b.publisher.Prefix, d.Name)
		other := offered[name]
		switch {
		case d.Expose.Hidden:
		case other == nil:
			offered[name] = d
		case other.Name != d.Name: // reported already
			diags = append(diags, problem(d.Pos, checkName, "%s cannot be offered: %s, which is published with it, is offered under the name %s, too", d.Name, other.Name, name))
		}
	}
	return diags
}

// compare reports what callers of the version before notice, and whether it breaks
// them.
func (b *batch) compare(p *Publication, versions []Entry, place func(path string) definitions.Position, changes func(before Entry) []Change) {
	before, ok := predecessor(p.Version, versions)
	if !ok {
		return
	}
	p.Previous = before.Published.Version
	for _, c := range changes(before) {
		if !c.Breaks {
			noticed := problem(place(c.place), checkNoticed, "%s %s is something else for callers of %s: %s", p.Name, p.Version, p.Previous, c.What)
			noticed.Severity = definitions.SeverityWarning
			p.Notices, b.diags = append(p.Notices, c.What), append(b.diags, noticed)
			continue
		}
		broken := problem(place(c.place), checkBreaking, "%s %s breaks callers of %s: %s", p.Name, p.Version, p.Previous, c.What)
		if !promises(p.Previous, p.Version) || b.request.Force {
			broken.Severity = definitions.SeverityWarning
		} else {
			broken.Message += fmt.Sprintf("; publish it as %s, or with --force", nextMajor(p.Previous))
		}
		p.Breaks, b.diags = append(p.Breaks, c.What), append(b.diags, broken)
	}
}

func (b *batch) edit(d *definitions.Definition, p Publication) {
	locked, err := json.Marshal(b.publisher.lock(d))
	if err != nil {
		b.diags = append(b.diags, problem(d.Pos, checkTool, "the tools of %s cannot be written down: %v", d.Name, err))
		return
	}
	b.write(d.Pos, p, d.Source(), string(locked))
}

func (b *batch) write(pos definitions.Position, p Publication, source json.RawMessage, locked string) {
	if n := len(source) + len(locked); n > maxPublished {
		b.diags = append(b.diags, problem(pos, checkSize, "%s has %d bytes with the schemas of its tools; %d can be published, since each run carries them", p.Name, n, maxPublished))
	}
	note := ""
	if b.request.Force && len(p.Breaks) > 0 {
		note = "forced: breaks callers of " + p.Previous
	}
	b.edits = append(b.edits, store.Edit{Action: store.Published, Note: note, Version: store.Version{
		Name: p.Name, Version: p.Version, Digest: p.Digest, Source: string(source), Lock: locked,
	}})
}

func (b *batch) warnOfFile(d *definitions.Definition) {
	b.registry.mu.RLock()
	file, ok := b.registry.files[d.Name]
	b.registry.mu.RUnlock()
	if !ok {
		return
	}
	warning := problem(d.Pos, checkFile, "%s is also in a file of the server's configuration, at %s, which takes precedence: callers of %s get that one", d.Name, file.Definition.Pos, d.Name)
	warning.Severity = definitions.SeverityWarning
	b.diags = append(b.diags, warning)
}

// predecessor is the version whose callers get the new one instead: the highest one
// below that is neither a pre-release nor deprecated, or the highest one if all are
// deprecated. false = none.
func predecessor(version string, versions []Entry) (before Entry, found bool) {
	for _, e := range versions { // ascending
		v, err := semver.StrictNewVersion(e.Published.Version)
		usable := e.Definition != nil || e.Module != nil
		worse := found && before.Deprecated() == "" && e.Deprecated() != ""
		if err == nil && v.Prerelease() == "" && usable && !worse && compareVersions(e.Published.Version, version) < 0 {
			before, found = e, true
		}
	}
	return before, found
}

// promises reports whether a version must not break callers of another one: it has the
// same major version, or for 0.x the same minor one.
func promises(before, version string) bool {
	a, errA := semver.StrictNewVersion(before)
	b, errB := semver.StrictNewVersion(version)
	return errA == nil && errB == nil && b.Prerelease() == "" &&
		a.Major() == b.Major() && (a.Major() > 0 || a.Minor() == b.Minor())
}

// nextMajor is the next version that may break callers.
func nextMajor(version string) string {
	v, err := semver.StrictNewVersion(version)
	switch {
	case err != nil:
		return "1.0.0"
	case v.Major() == 0:
		return v.IncMinor().String()
	}
	return v.IncMajor().String()
}

func nextPatch(versions []Entry) string {
	v, err := semver.StrictNewVersion(versions[len(versions)-1].Published.Version)
	if err != nil {
		return "1.0.1"
	}
	return v.IncPatch().String()
}

// short shortens a digest so that ByDigest still takes it.
func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }
