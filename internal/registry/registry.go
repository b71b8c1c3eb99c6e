// Package registry finds the definition, and its version, that a name means.
//
// There are two sources. Definitions of files belong to the configuration of a
// process; published ones are kept in a store that processes share, and never
// change. A file goes before what is published, so that publishing cannot replace
// what the configuration says:
//
//	name              the file's definition; without one, the latest published version
//	name@CONSTRAINT   the latest published version that fits; a file's definition is one
//	                  of them where it has a version that is not published
//
// The latest version is never a pre-release, unless the constraint names one, and
// a deprecated version only if nothing else matches. A run carries the
// definition that was found, so it ends with the definition with which it started.
//
// Modules, which scripts load, are published like definitions. The modules that a
// definition loads are added to it when it is published, or when its file is read;
// later publications do not change it.
package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/store"
)

// Types of the store that front ends use.
type (
	Version = store.Version
	Event   = store.Event
)

// ErrNoStore is the error of publishing without a store.
var ErrNoStore = errors.New("this server has no registry")

// A NotFoundError says that a reference matches no definition.
type NotFoundError struct {
	Reference definitions.Reference
	Versions  []string // of the name, ascending
}

func (e *NotFoundError) Error() string {
	switch {
	case len(e.Versions) == 0 && definitions.IsModuleName(e.Reference.Name):
		return fmt.Sprintf("published module %s not found: perdure publish %s", e.Reference.Name, e.Reference.Name)
	case len(e.Versions) == 0:
		return fmt.Sprintf("composite tool %s not found", e.Reference.Name)
	case e.Reference.Version == "":
		return fmt.Sprintf("%s has only pre-releases: name one of %s", e.Reference.Name, list(e.Versions))
	}
	return fmt.Sprintf("%s has no version %s; known versions: %s", e.Reference.Name, e.Reference.Version, list(latestFirst(e.Versions)))
}

func latestFirst(versions []string) []string {
	latest := slices.Clone(versions)
	slices.Reverse(latest)
	return latest
}

// An Entry is a definition or a module that a reference can mean. It never changes.
type Entry struct {
	Definition *definitions.Definition // nil of a module
	Module     *definitions.Module     // nil of a definition
	Published  *store.Version          // nil = it is in a file
	Lock       []Locked                // its tools, as they were when it was published; nil of a file
	compared   *comparisons
}

// Deprecated says why the entry must not be used; "" = it is not deprecated.
func (e Entry) Deprecated() string {
	if e.Published == nil {
		return ""
	}
	return e.Published.Deprecated
}

// Options of a registry.
type Options struct {
	Store  store.Registry // what was published; nil = nothing can be
	Drift  DriftPolicy    // what happens when tools have changed
	Logger *slog.Logger   // nil = slog.Default()
}

// A Registry has all definitions of a process. It is safe for concurrent use.
type Registry struct {
	store  store.Registry
	drift  DriftPolicy
	log    *slog.Logger
	logged sync.Map // what was logged last, by the drifted tool or the differing file

	reading chan struct{} // has room for one request whose files are read

	mu        sync.RWMutex
	files     map[string]Entry
	order     []string           // names of files, as they were given
	published map[string][]Entry // by name, in ascending order of version; those that cannot be read have no Definition and no Module
	last      store.Mark         // up to which published is known
	onChange  []func()
}

// New makes an empty registry.
func New(o Options) *Registry {
	return &Registry{reading: make(chan struct{}, 1), store: o.Store, drift: o.Drift, log: cmp.Or(o.Logger, slog.Default()), files: map[string]Entry{}, published: map[string][]Entry{}}
}

// isNews notes what is logged about something, and reports whether it was not so before.
func (r *Registry) isNews(about, text string) bool {
	before, _ := r.logged.Swap(about, text)
	return before != text
}

// OnChange calls f after every change of what names mean.
func (r *Registry) OnChange(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onChange = append(r.onChange, f)
}

// notify reports that references may resolve differently.
func (r *Registry) notify() {
	r.mu.RLock()
	listeners := slices.Clone(r.onChange)
	r.mu.RUnlock()
	r.warnOfFiles()
	for _, f := range listeners {
		f()
	}
}

// SetFiles replaces the definitions of files. Their names differ.
func (r *Registry) SetFiles(defs []*definitions.Definition) {
	files, order := map[string]Entry{}, make([]string, len(defs))
	for i, d := range defs {
		files[d.Name], order[i] = Entry{Definition: d}, d.Name
	}
	r.mu.Lock()
	r.files, r.order = files, order
	r.pinFiles()
	r.mu.Unlock()
	r.notify()
}

// pinFiles adds published modules to the definitions of files that load them and lack
// them so far.
func (r *Registry) pinFiles() {
	for name, e := range r.files {
		e.Definition, _ = e.Definition.WithModules(r.module)
		r.files[name] = e
	}
}

// Load reads what was published up to now.
func (r *Registry) Load(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	r.mu.RLock()
	after := r.last
	r.mu.RUnlock()
	news, err := r.store.Versions(ctx, after)
	if err != nil {
		return err
	}
	if r.take(news) {
		r.notify()
	}
	return nil
}

// Follow reads publications as they happen, until ctx ends.
func (r *Registry) Follow(ctx context.Context) {
	if r.store == nil {
		return
	}
	r.store.Follow(ctx, func() {
		if err := r.Load(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot read published versions; still serving the earlier ones", "error", err)
		}
	})
}

// take adds what the store has, which may be known already, and reports whether
// anything was new.
func (r *Registry) take(news store.News) bool {
	entries := make([]Entry, len(news.Versions))
	for i, v := range news.Versions {
		entries[i] = r.read(v)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if news.Last == r.last || !news.Anew && news.Last.Seq < r.last.Seq { // another reader was faster
		return false
	}
	if news.Anew {
		r.log.Warn("the registry lacks what was published last, as if it was restored from a backup; serving what it has now")
		clear(r.published)
	}
	r.last = news.Last
	for _, e := range entries {
		r.put(e)
	}
	r.pinFiles()
	return true
}

func (r *Registry) put(e Entry) {
	name := e.Published.Name
	versions := slices.DeleteFunc(slices.Clone(r.published[name]), func(o Entry) bool { return o.Published.Version == e.Published.Version })
	versions = append(versions, e)
	slices.SortFunc(versions, func(a, b Entry) int { return compareVersions(a.Published.Version, b.Published.Version) })
	r.published[name] = versions
}

// compareVersions orders versions as semver does; others come first.
func compareVersions(a, b string) int {
	x, errX := semver.StrictNewVersion(a)
	y, errY := semver.StrictNewVersion(b)
	switch {
	case errX != nil || errY != nil:
		return cmp.Or(cmp.Compare(present(x), present(y)), strings.Compare(a, b))
	}
	return x.Compare(y)
}

func present(v *semver.Version) int {
	if v == nil {
		return 0
	}
	return 1
}

// read makes an entry of what the store has. A damaged one, or one that this build does
// not understand, cannot be resolved.
func (r *Registry) read(v store.Version) Entry {
	e, err := entryOf(v)
	if err != nil {
		r.log.Error("a published version cannot be used", "name", v.Name, "version", v.Version, "error", err)
		return Entry{Published: &v}
	}
	return e
}

func entryOf(v store.Version) (e Entry, err error) {
	e.Published, e.compared = &v, &comparisons{byTool: map[string]comparison{}}
	if digest([]byte(v.Source)) != v.Digest {
		return e, errors.New("its content does not match its digest")
	}
	name, version := "", ""
	if m, notOne := definitions.ModuleFromSource([]byte(v.Source)); definitions.IsModuleName(v.Name) && notOne == nil {
		e.Module, name, version = m, m.Name, m.Version
	} else if e.Definition, err = definitions.FromSource([]byte(v.Source)); err == nil {
		name, version = e.Definition.Name, e.Definition.Version
		err = json.Unmarshal([]byte(v.Lock), &e.Lock)
	}
	if err == nil && (name != v.Name || version != v.Version) {
		err = fmt.Errorf("it is %s %s", name, version)
	}
	return e, err
}

// Find is Resolve that also reads the store if a reference is unknown, for callers that
// may know of a publication first.
func (r *Registry) Find(ctx context.Context, ref definitions.Reference) (Entry, error) {
	e, err := r.Resolve(ref)
	if err == nil || r.store == nil {
		return e, err
	}
	if err := r.Load(ctx); err != nil {
		r.log.Warn("cannot read published versions", "error", err)
	}
	return r.Resolve(ref)
}

// Current gives what names mean without a version: first those of files, in their
// order, then the others by name.
func (r *Registry) Current() []Entry {
	r.mu.RLock()
	names := slices.Clone(r.order)
	for _, name := range slices.Sorted(maps.Keys(r.published)) {
		if _, inFile := r.files[name]; !inFile {
			names = append(names, name)
		}
	}
	r.mu.RUnlock()
	var current []Entry
	for _, name := range names {
		if e, err := r.Resolve(definitions.Reference{Name: name}); err == nil {
			current = append(current, e)
		}
	}
	return current
}

// Versions gives all publications of a name, "" = of all names, by name and ascending
// version, with modules. An entry that cannot be used has neither Definition nor
// Module.
func (r *Registry) Versions(name string) []Entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var entries []Entry
	for _, n := range slices.Sorted(maps.Keys(r.published)) {
		if name == "" || n == name {
			entries = append(entries, r.published[n]...)
		}
	}
	return entries
}

// definitions gives all that can be called: those of files, and every published
// version.
func (r *Registry) definitions() []*definitions.Definition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*definitions.Definition
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		all = append(all, r.files[name].Definition)
	}
	for _, name := range slices.Sorted(maps.Keys(r.published)) {
		for _, e := range r.published[name] {
			all = append(all, e.Definition)
		}
	}
	return slices.DeleteFunc(all, func(d *definitions.Definition) bool { return d == nil })
}

// MinDigits is how many digits of a digest are enough for ByDigest.
const MinDigits = 8

// ByDigest gives the published version with a digest, which may be shortened to
// MinDigits or more; false = none, or more than one.
func (r *Registry) ByDigest(digest string) (Entry, bool) {
	const shortest = len("sha256:") + MinDigits
	var found []Entry
	for _, e := range r.Versions("") {
		if len(digest) >= shortest && strings.HasPrefix(e.Published.Digest, digest) && (e.Definition != nil || e.Module != nil) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		return Entry{}, false
	}
	return found[0], true
}

// History gives the last entries about a name, "" = all, the newest first.
func (r *Registry) History(ctx context.Context, name string, limit int) ([]store.Event, error) {
	if r.store == nil {
		return nil, ErrNoStore
	}
	return r.store.History(ctx, name, limit)
}
