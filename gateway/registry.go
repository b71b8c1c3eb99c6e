package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/web"
)

// RegistryPrefix is below which paths publishing is. Requests and answers are
// JSON; what is wrong with a request is answered as a RegistryError:
//
//	POST publish     a registry.Request, answered by a Published
//	POST deprecate   a Deprecation, answered by []RegistryVersion: those that were not so before
//	GET versions     ?name=, answered by []RegistryVersion
//	GET definition   ?reference= or ?digest=, answered by a RegistryVersion with Source and Tools
//	GET history      ?name=&limit=, answered by []registry.Event
//	GET drift        answered by []DriftedVersion
const RegistryPrefix = "/registry/"

// A Published is a registry.Report as it is sent.
type Published struct {
	// Published says that all of it is: false of a dry run, and where a problem is
	// an error.
	Published    bool                   `json:"published"`
	Publications []registry.Publication `json:"publications"`
	Problems     []Problem              `json:"problems"`
}

// A Problem is a diagnostic as it is sent.
type Problem struct {
	File     string               `json:"file,omitempty"`
	Line     int                  `json:"line,omitempty"`
	Column   int                  `json:"column,omitempty"`
	Severity definitions.Severity `json:"severity"`
	Message  string               `json:"message"`
	Check    string               `json:"check"`
}

// A Deprecation asks for versions to be deprecated for a reason; "" = not any
// more.
type Deprecation struct {
	Reference string `json:"reference"`
	Reason    string `json:"reason"`
	// Keep leaves versions that are deprecated already the reason that they have.
	Keep bool `json:"keep,omitempty"`
}

// A RegistryVersion is one version of a composite tool, or of a module, whose
// name ends in .star.
type RegistryVersion struct {
	Name       string            `json:"name"`
	Version    string            `json:"version,omitempty"`
	Digest     string            `json:"digest"`
	By         string            `json:"by,omitempty"`
	At         *time.Time        `json:"at,omitempty"` // nil = it stands in a file
	Deprecated string            `json:"deprecated,omitempty"`
	File       string            `json:"file,omitempty"`   // where it stands, if it is not published
	Latest     bool              `json:"latest,omitempty"` // it is what the name means
	Source     json.RawMessage   `json:"source,omitempty"`
	Tools      []registry.Locked `json:"tools,omitempty"` // as they were when it was published
	// Modules are what its scripts load of what is published.
	Modules []definitions.PinnedModule `json:"modules,omitempty"`
	// Prefix is what the server puts before names that expose.as does not give; told
	// with Source.
	Prefix string `json:"prefix,omitempty"`
}

// A DriftedVersion is a published version whose tools are not as they were, or
// with modules of which there are later versions, or that are deprecated.
type DriftedVersion struct {
	Name    string                 `json:"name"`
	Version string                 `json:"version"`
	Latest  bool                   `json:"latest,omitempty"`
	Tools   []registry.Drifted     `json:"tools"`
	Modules []registry.ModuleDrift `json:"modules,omitempty"`
}

// A RegistryError says why a request was not answered.
type RegistryError struct {
	Message string `json:"error"`
}

// handleRegistry adds what is below RegistryPrefix.
func (g *Gateway) handleRegistry(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(r *http.Request, who auth.Identity) (any, error){
		"POST publish": g.publish, "POST deprecate": g.deprecate, "GET versions": g.versions,
		"GET definition": g.definition, "GET history": g.history, "GET drift": g.drift,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+RegistryPrefix+path, func(w http.ResponseWriter, r *http.Request) {
			if who, ok := g.admit(w, r); ok {
				g.answerRegistry(w, r, who, serve)
			}
		})
	}
}

// answerRegistry is where errors of the registry become answers.
func (g *Gateway) answerRegistry(w http.ResponseWriter, r *http.Request, who auth.Identity, serve func(*http.Request, auth.Identity) (any, error)) {
	body, free, err := g.opts.Bodies.Read(w, r, web.Caller(who.Known(), r), g.opts.MaxRequest)
	var answer any
	switch {
	case err == nil:
		defer free()
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer, err = serve(r, who)
	default:
		code, why := web.Refusal(w.Header(), err)
		err = &badRequest{code, why}
	}
	var missing *registry.NotFoundError
	var bad *badRequest
	code := http.StatusOK
	switch {
	case err == nil:
	case errors.As(err, &missing):
		code, answer = http.StatusNotFound, RegistryError{err.Error()}
	case errors.As(err, &bad):
		code, answer = bad.code, RegistryError{bad.message}
	case errors.Is(err, registry.ErrNoStore):
		code, answer = http.StatusNotImplemented, RegistryError{"this server has no registry: it needs a database, --database or PERDURE_DATABASE_URL"}
	default:
		g.log.Error("a request to the registry has failed", "path", r.URL.Path, "error", err)
		code, answer = http.StatusServiceUnavailable, RegistryError{"the registry cannot be reached at the moment: try again"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client went away
}

// A badRequest is one that makes no sense, or may not be made.
type badRequest struct {
	code    int
	message string
}

func (e *badRequest) Error() string { return e.message }

// readJSON reads the body of a request. A page of another site cannot send JSON
// without being asked for its origin.
func readJSON(r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &badRequest{http.StatusUnsupportedMediaType, "Content-Type must be application/json"}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil && !utf8.Valid(body) {
		return &badRequest{http.StatusBadRequest, "the request is not UTF-8 text"}
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(into)
	}
	if err != nil {
		return &badRequest{http.StatusBadRequest, "the request cannot be read: " + err.Error()}
	}
	return nil
}

func (g *Gateway) publish(r *http.Request, who auth.Identity) (any, error) {
	var q registry.Request
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	report, err := g.opts.Registry.Publish(r.Context(), registry.Publisher{
		By: who.Principal(), Tools: g.findTool, All: g.allTools, Taken: g.taken, MaxDepth: g.opts.MaxDepth, Prefix: g.opts.Prefix,
		May:     func(name string) bool { return g.opts.Policy.May(who, auth.Publish, auth.Object{Tool: name}) },
		MayRead: func(name string) bool { return g.mayRead(who, auth.Object{Tool: name}) },

		Permission: func(u definitions.Use) string { return g.mayUse(who, u) },
	}, q)
	if err != nil {
		return nil, err
	}
	answer := Published{
		Published:    !q.DryRun && !report.Diagnostics.HasErrors(),
		Publications: append([]registry.Publication{}, report.Publications...), Problems: []Problem{},
	}
	for _, d := range report.Diagnostics {
		answer.Problems = append(answer.Problems, Problem{d.Pos.File, d.Pos.Line, d.Pos.Column, d.Severity, d.Message, d.Check})
	}
	if answer.Published {
		for _, p := range report.Publications {
			g.log.Info("published", "name", p.Name, "version", p.Version, "new", p.New, "by", who.Principal())
		}
	}
	return answer, nil
}

func (g *Gateway) deprecate(r *http.Request, who auth.Identity) (any, error) {
	var q Deprecation
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	ref, err := g.reference(who, q.Reference)
	if err != nil {
		return nil, err
	}
	switch on := (auth.Object{Tool: ref.Name}); {
	case !g.mayRead(who, auth.Object{Tool: ref.Name}):
		return nil, &registry.NotFoundError{Reference: ref}
	case !g.opts.Policy.May(who, auth.Publish, on):
		return nil, &badRequest{http.StatusForbidden, "you may not deprecate versions of " + ref.Name + ": authorization.publishers of the configuration says who may"}
	}
	done, err := g.opts.Registry.Deprecate(r.Context(), who.Principal(), ref, registry.Deprecation{Reason: strings.TrimSpace(q.Reason), Keep: q.Keep})
	if err != nil {
		return nil, err
	}
	answer := []RegistryVersion{}
	for _, v := range done {
		answer = append(answer, publishedVersion(v))
	}
	return answer, nil
}

// reference reads a reference whose name is that of a definition, or else the one
// under which clients see it, as far as whoever asks may read it.
func (g *Gateway) reference(who auth.Identity, text string) (definitions.Reference, error) {
	name, version, versioned := strings.Cut(text, "@")
	ref := g.meant(who, definitions.Reference{Name: name})
	if ref.Name != name && versioned {
		ref.Version = version
	}
	if ref.Name != name {
		text = ref.String()
	}
	ref, err := definitions.ParseReference(text)
	if err != nil {
		return ref, &badRequest{http.StatusBadRequest, err.Error()}
	}
	return ref, nil
}

// meant is what a name means: that of a definition itself, or the definition that
// clients see under it, in its version if that is a tool of its own.
func (g *Gateway) meant(who auth.Identity, as definitions.Reference) definitions.Reference {
	if _, err := g.opts.Registry.Look(as); err == nil || len(g.opts.Registry.Versions(as.Name)) > 0 {
		return as
	}
	for _, c := range g.listing.Load().all {
		d := c.Definition
		if c.Name != as.Name || !g.mayReadVersion(who, registry.Entry{Definition: d}) {
			continue
		}
		if c.Name == d.ExposedName(g.opts.Prefix) {
			return definitions.Reference{Name: d.Name}
		}
		return definitions.Reference{Name: d.Name, Version: d.Version}
	}
	return as
}

func publishedVersion(v registry.Version) RegistryVersion {
	return RegistryVersion{Name: v.Name, Version: v.Version, Digest: v.Digest, By: v.By, At: &v.At, Deprecated: v.Deprecated}
}

// described is an entry without what it says.
func (g *Gateway) described(e registry.Entry) RegistryVersion {
	if e.Published == nil {
		d := e.Definition
		return RegistryVersion{Name: d.Name, Version: d.Version, Digest: d.Digest(), File: d.Pos.String(), Latest: true}
	}
	v := publishedVersion(*e.Published)
	ref := definitions.Reference{Name: v.Name}
	if e.Module != nil {
		latest, err := g.opts.Registry.Module(ref)
		v.Latest = err == nil && latest.Version == v.Version
		return v
	}
	latest, err := g.opts.Registry.Resolve(ref)
	v.Latest = err == nil && latest.Published != nil && latest.Published.Version == v.Version
	return v
}

func (g *Gateway) versions(r *http.Request, who auth.Identity) (any, error) {
	name := g.meant(who, definitions.Reference{Name: r.URL.Query().Get("name")}).Name
	answer := []RegistryVersion{}
	for _, e := range g.opts.Registry.Current() {
		if e.Published == nil && (name == "" || name == e.Definition.Name) && g.mayReadVersion(who, e) {
			answer = append(answer, g.described(e))
		}
	}
	for _, e := range g.opts.Registry.Versions(name) {
		if g.mayReadVersion(who, e) {
			answer = append(answer, g.described(e))
		}
	}
	return answer, nil
}

func (g *Gateway) definition(r *http.Request, who auth.Identity) (any, error) {
	var e registry.Entry
	ref := definitions.Reference{Name: r.URL.Query().Get("digest")}
	e, found := g.opts.Registry.ByDigest(ref.Name)
	if ref.Name == "" {
		var err error
		if ref, err = g.reference(who, r.URL.Query().Get("reference")); err != nil {
			return nil, err
		}
		if e, err = g.opts.Registry.Look(ref); err != nil && g.mayRead(who, auth.Object{Tool: ref.Name}) {
			return nil, g.withVersions(err, func(e registry.Entry) bool { return g.mayReadVersion(who, e) })
		}
		found = err == nil
	} else if digits := strings.TrimPrefix(ref.Name, "sha256:"); len(digits) < registry.MinDigits {
		return nil, &badRequest{http.StatusBadRequest, "give at least " + strconv.Itoa(registry.MinDigits) + " digits of a digest"}
	}
	if !found || !g.mayReadVersion(who, e) {
		return nil, &registry.NotFoundError{Reference: ref}
	}
	v := g.described(e)
	if e.Module != nil {
		v.Source = e.Module.Source()
		return v, nil
	}
	v.Source, v.Tools, v.Modules, v.Prefix = e.Definition.Source(), e.Lock, e.Definition.PinnedModules(), g.opts.Prefix
	return v, nil
}

// withVersions leaves of the versions that an error names those that whoever gets
// it may know.
func (g *Gateway) withVersions(err error, known func(registry.Entry) bool) error {
	var missing *registry.NotFoundError
	if !errors.As(err, &missing) {
		return err
	}
	told := &registry.NotFoundError{Reference: missing.Reference, Versions: slices.Clone(missing.Versions)}
	for _, e := range g.opts.Registry.Versions(missing.Reference.Name) {
		if !known(e) {
			told.Versions = slices.DeleteFunc(told.Versions, func(v string) bool { return v == e.Published.Version })
		}
	}
	return told
}

const (
	defaultHistory = 50
	maxHistory     = 1000
)

func (g *Gateway) history(r *http.Request, who auth.Identity) (any, error) {
	query := r.URL.Query()
	limit := defaultHistory
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxHistory {
			return nil, &badRequest{http.StatusBadRequest, "limit must be a number from 1 to " + strconv.Itoa(maxHistory)}
		}
		limit = n
	}
	name := g.meant(who, definitions.Reference{Name: query.Get("name")}).Name
	events, err := g.opts.Registry.History(r.Context(), name, limit)
	if err != nil {
		return nil, err
	}
	versions := map[string]registry.Entry{}
	for _, e := range g.opts.Registry.Versions(name) {
		versions[e.Published.Name+"@"+e.Published.Version] = e
	}
	answer := []registry.Event{}
	for _, e := range events {
		of, known := versions[e.Name+"@"+e.Version]
		if known && g.mayReadVersion(who, of) || !known && g.mayRead(who, auth.Object{Tool: e.Name}) {
			answer = append(answer, e)
		}
	}
	return answer, nil
}

func (g *Gateway) drift(_ *http.Request, who auth.Identity) (any, error) {
	answer := []DriftedVersion{}
	for _, e := range g.opts.Registry.Versions("") {
		if e.Definition == nil || e.Deprecated() != "" || !g.mayReadVersion(who, e) {
			continue
		}
		modules := g.opts.Registry.ModuleDrift(e, func(name string) bool { return g.mayRead(who, auth.Object{Tool: name}) })
		tools := e.Drift(g.findTool)
		if len(tools)+len(modules) > 0 {
			v := g.described(e)
			answer = append(answer, DriftedVersion{v.Name, v.Version, v.Latest, tools, modules})
		}
	}
	return answer, nil
}
