package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/web"
)

// Publishing is how definitions are published to, and read from, the registry.
type publishing struct {
	registry  *registry.Registry
	tools     *toolset
	rights    *rights
	admission *admission
	prefix    string // of the names of composite tools
	maxDepth  int
	log       *slog.Logger
}

// handle adds what is below RegistryPrefix.
func (pb *publishing) handle(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(r *http.Request, who auth.Identity) (any, error){
		"POST publish": pb.publish, "POST deprecate": pb.deprecate, "GET versions": pb.versions,
		"GET definition": pb.definition, "GET history": pb.history, "GET drift": pb.drift,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+RegistryPrefix+path, func(w http.ResponseWriter, r *http.Request) {
			ctx, who, leave, ok := pb.admission.open(w, r)
			if !ok {
				return
			}
			defer leave()
			pb.respond(w, r.WithContext(ctx), who, serve)
		})
	}
}

// respond is where errors of the registry become answers.
func (pb *publishing) respond(w http.ResponseWriter, r *http.Request, who auth.Identity, serve func(*http.Request, auth.Identity) (any, error)) {
	body, free, err := pb.admission.read(w, r, who)
	if err == nil {
		defer free()
		err = web.Reserve(r.Context(), answerBytes)
	}
	var answer any
	switch {
	case err == nil:
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
		code, answer = http.StatusNotFound, RegistryError{err.Error() + pb.near(who, missing)}
	case errors.As(err, &bad):
		code, answer = bad.code, RegistryError{bad.message}
	case errors.Is(err, registry.ErrNoStore):
		code, answer = http.StatusNotImplemented, RegistryError{"this server has no registry: it needs a database, --database or PERDURE_DATABASE_URL"}
	default:
		pb.log.Error("a request to the registry failed", "path", r.URL.Path, "error", err)
		code, answer = http.StatusServiceUnavailable, RegistryError{"the registry cannot be reached at the moment: try again"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client disconnected
}

// near suggests a name that the caller may read, where one was not found.
func (pb *publishing) near(who auth.Identity, missing *registry.NotFoundError) string {
	if len(missing.Versions) > 0 {
		return ""
	}
	var names []string
	for _, e := range pb.readable(who, "") {
		if e.Published != nil {
			names = append(names, e.Published.Name)
		} else {
			names = append(names, e.Definition.Name)
		}
	}
	return template.DidYouMean(missing.Reference.Name, slices.Compact(slices.Sorted(slices.Values(names))))
}

// answerBytes is what an answer takes of the budget of its caller, in bytes, until its
// reader has it: a definition with the schemas of its tools has half of that.
const answerBytes = 2 << 20

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
		return &badRequest{http.StatusBadRequest, "invalid request: " + err.Error()}
	}
	return nil
}

func (pb *publishing) publish(r *http.Request, who auth.Identity) (any, error) {
	var q registry.Request
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	report, err := pb.registry.Publish(r.Context(), registry.Publisher{
		By: who.Caller(), Tools: pb.tools.steps(), All: pb.tools.all, Taken: pb.tools.taken, MaxDepth: pb.maxDepth, Prefix: pb.prefix,
		May:     func(name string) bool { return pb.rights.allow(who, auth.Publish, auth.Object{Tool: name}) },
		MayRead: func(name string) bool { return pb.rights.mayRead(who, auth.Object{Tool: name}) },

		Permission: func(u definitions.Use) string { return pb.rights.mayUse(who, u) },
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
			pb.log.Info("published", "name", p.Name, "version", p.Version, "new", p.New, "by", who.Caller())
		}
	}
	return answer, nil
}

func (pb *publishing) deprecate(r *http.Request, who auth.Identity) (any, error) {
	var q Deprecation
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	ref, err := pb.reference(who, q.Reference)
	if err != nil {
		return nil, err
	}
	switch on := (auth.Object{Tool: ref.Name}); {
	case !pb.rights.mayRead(who, auth.Object{Tool: ref.Name}):
		return nil, &registry.NotFoundError{Reference: ref}
	case !pb.rights.allow(who, auth.Publish, on):
		return nil, &badRequest{http.StatusForbidden, "you may not deprecate versions of " + ref.Name + ": authorization.publishers of the configuration lists who may"}
	}
	done, err := pb.registry.Deprecate(r.Context(), who.Caller(), ref, registry.Deprecation{Reason: strings.TrimSpace(q.Reason), Keep: q.Keep})
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
// under which clients see it, as far as the caller may read it.
func (pb *publishing) reference(who auth.Identity, text string) (definitions.Reference, error) {
	name, version, versioned := strings.Cut(text, "@")
	ref := pb.meant(who, definitions.Reference{Name: name})
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
func (pb *publishing) meant(who auth.Identity, as definitions.Reference) definitions.Reference {
	if _, err := pb.registry.Look(as); err == nil || len(pb.registry.Versions(as.Name)) > 0 {
		return as
	}
	for _, c := range pb.tools.now().all {
		d := c.Definition
		if c.Name != as.Name || !pb.rights.mayReadVersion(who, registry.Entry{Definition: d}) {
			continue
		}
		if c.Name == d.Expose.Name(pb.prefix, d.Name) {
			return definitions.Reference{Name: d.Name}
		}
		return definitions.Reference{Name: d.Name, Version: d.Version}
	}
	return as
}

// described is an entry without its source.
func (pb *publishing) described(e registry.Entry) RegistryVersion {
	if e.Published == nil {
		d := e.Definition
		return RegistryVersion{Name: d.Name, Version: d.Version, Digest: d.Digest(), File: d.Pos.String(), Latest: true}
	}
	v := publishedVersion(*e.Published)
	ref := definitions.Reference{Name: v.Name}
	if e.Module != nil {
		latest, err := pb.registry.Module(ref)
		v.Latest = err == nil && latest.Version == v.Version
		return v
	}
	latest, err := pb.registry.Resolve(ref)
	v.Latest = err == nil && latest.Published != nil && latest.Published.Version == v.Version
	return v
}

func (pb *publishing) versions(r *http.Request, who auth.Identity) (any, error) {
	name := pb.meant(who, definitions.Reference{Name: r.URL.Query().Get("name")}).Name
	answer := []RegistryVersion{}
	for _, e := range pb.readable(who, name) {
		answer = append(answer, pb.described(e))
	}
	return answer, nil
}

// readable are the definitions of files and the published versions with a name that the
// caller may read; "" = with any name.
func (pb *publishing) readable(who auth.Identity, name string) (entries []registry.Entry) {
	for _, e := range pb.registry.Current() {
		if e.Published == nil && (name == "" || name == e.Definition.Name) {
			entries = append(entries, e)
		}
	}
	entries = append(entries, pb.registry.Versions(name)...)
	return slices.DeleteFunc(entries, func(e registry.Entry) bool { return !pb.rights.mayReadVersion(who, e) })
}

func (pb *publishing) definition(r *http.Request, who auth.Identity) (any, error) {
	var e registry.Entry
	ref := definitions.Reference{Name: r.URL.Query().Get("digest")}
	e, found := pb.registry.ByDigest(ref.Name)
	if ref.Name == "" {
		var err error
		if ref, err = pb.reference(who, r.URL.Query().Get("reference")); err != nil {
			return nil, err
		}
		if e, err = pb.registry.Look(ref); err != nil && pb.rights.mayRead(who, auth.Object{Tool: ref.Name}) {
			return nil, pb.tools.withVersions(err, func(e registry.Entry) bool { return pb.rights.mayReadVersion(who, e) })
		}
		found = err == nil
	} else if digits := strings.TrimPrefix(ref.Name, "sha256:"); len(digits) < registry.MinDigits {
		return nil, &badRequest{http.StatusBadRequest, "give at least " + strconv.Itoa(registry.MinDigits) + " digits of a digest"}
	}
	if !found || !pb.rights.mayReadVersion(who, e) {
		return nil, &registry.NotFoundError{Reference: ref}
	}
	v := pb.described(e)
	if e.Module != nil {
		v.Source = e.Module.Source()
		return v, nil
	}
	v.Source, v.Tools, v.Modules, v.Prefix = e.Definition.Source(), e.Lock, e.Definition.Scripts().Published(), pb.prefix
	return v, nil
}

const (
	defaultHistory = 50
	maxHistory     = 1000
)

func (pb *publishing) history(r *http.Request, who auth.Identity) (any, error) {
	query := r.URL.Query()
	limit := defaultHistory
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxHistory {
			return nil, &badRequest{http.StatusBadRequest, "limit must be a number from 1 to " + strconv.Itoa(maxHistory)}
		}
		limit = n
	}
	name := pb.meant(who, definitions.Reference{Name: query.Get("name")}).Name
	events, err := pb.registry.History(r.Context(), name, limit)
	if err != nil {
		return nil, err
	}
	versions := map[string]registry.Entry{}
	for _, e := range pb.registry.Versions(name) {
		versions[e.Published.Name+"@"+e.Published.Version] = e
	}
	answer := []registry.Event{}
	for _, e := range events {
		of, known := versions[e.Name+"@"+e.Version]
		if known && pb.rights.mayReadVersion(who, of) || !known && pb.rights.mayRead(who, auth.Object{Tool: e.Name}) {
			answer = append(answer, e)
		}
	}
	return answer, nil
}

func (pb *publishing) drift(_ *http.Request, who auth.Identity) (any, error) {
	answer, find := []DriftedVersion{}, pb.tools.steps()
	for _, e := range pb.registry.Versions("") {
		if e.Definition == nil || e.Deprecated() != "" || !pb.rights.mayReadVersion(who, e) {
			continue
		}
		modules := pb.registry.ModuleDrift(e, func(name string) bool { return pb.rights.mayRead(who, auth.Object{Tool: name}) })
		tools := e.Drift(find)
		if len(tools)+len(modules) > 0 {
			v := pb.described(e)
			answer = append(answer, DriftedVersion{v.Name, v.Version, v.Latest, tools, modules})
		}
	}
	return answer, nil
}
