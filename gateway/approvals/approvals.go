// Package approvals is the approvals page: where a person sees in a browser what
// runs ask, and answers.
//
//	GET  /approvals            the open elicitations that the visitor may answer
//	GET  /approvals/TOOL/NAME  a run, with a form for each of its elicitations
//	POST /approvals/TOOL/NAME  an answer
//
// The page holds nothing. Elicitations come from runs, an answer goes through
// runs.Answer, and auth.Policy decides what a visitor may see and answer:
// a run that one may not see does not exist. Everything works without
// JavaScript; there is none.
package approvals

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Prefix is the path of the page.
const Prefix = "/approvals"

// Path is the page of a run. Each part of the ID is a part of the path, since many
// proxies do not let an encoded slash pass; with one it is found as well.
func Path(id runs.RunID) string {
	parts := strings.Split(string(id), "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return Prefix + "/" + strings.Join(parts, "/")
}

// Runs is what the page wants of runs; *runs.Client has it.
type Runs interface {
	Get(ctx context.Context, id runs.RunID) (*runs.Run, error)
	CalledWith(ctx context.Context, id runs.RunID) (runs.CalledWith, error)
	Result(ctx context.Context, id runs.RunID) (*runs.Outcome, error)
	Answer(ctx context.Context, id runs.RunID, answer runs.Answer) (runs.Decision, error)
	ListPage(ctx context.Context, filter runs.Filter, from string) (page []runs.Run, next string, err error)
}

// Options of the page. Runs, Login and Key are required.
type Options struct {
	Runs   Runs
	Login  *auth.Login  // who the visitors are; its path is Prefix
	Policy *auth.Policy // nil = everybody sees and answers their own runs

	// Key signs the forms. Replicas share it.
	Key []byte
	// RetiredKeys still verify forms, but sign no new ones. nil = none.
	RetiredKeys [][]byte
	// Bodies are what large answers share with other requests. nil = their own.
	Bodies *web.Bodies
	// PublicURL is where browsers reach the server, if not at the Host header. "" =
	// they do.
	PublicURL string

	Logger *slog.Logger // nil = slog.Default()
}

// Limits of requests.
const (
	maxForm     = 16 << 10 // bytes of a form that holds no answer
	maxAnswer   = 4 << 20  // bytes of an answer: 1 MB, in the writing of forms
	answerLimit = 30 * time.Second
	formLife    = 24 * time.Hour // in which a form may be filled in
)

// An inbox serves the page.
type inbox struct {
	Options
	pages *pages
	forms *auth.Stamps // of forms: the sender of one has been given it
	now   func() time.Time
}

// New makes the handler of everything at and below Prefix.
func New(o Options) (http.Handler, error) {
	if o.Runs == nil || o.Login == nil || len(o.Key) == 0 {
		return nil, errors.New("approvals: Runs, Login and Key are required")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Bodies == nil {
		o.Bodies = web.NewBodies(web.Work(), web.Patience)
	}
	in := &inbox{Options: o, pages: newPages(), forms: auth.NewStamps("approvals form", formLife, o.Key, o.RetiredKeys), now: time.Now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Prefix, in.visitor(in.list))
	mux.HandleFunc("GET "+Prefix+"/{$}", in.visitor(in.list))
	mux.HandleFunc("GET "+Prefix+"/{id...}", in.visitor(in.show))
	mux.HandleFunc("POST "+Prefix+"/{id...}", in.visitor(in.answer))
	mux.HandleFunc("GET "+Prefix+"/login", in.login)
	mux.HandleFunc("POST "+Prefix+"/login", in.loginByToken)
	mux.HandleFunc("GET "+Prefix+"/callback", in.loginByIssuer)
	mux.HandleFunc("POST "+Prefix+"/logout", in.visitor(in.logout))
	return in.protect(mux)
}

// protect keeps other sites from sending forms here, and from showing the page
// within one of theirs.
func (in *inbox) protect(h http.Handler) (http.Handler, error) {
	origins := http.NewCrossOriginProtection()
	if in.PublicURL != "" {
		u, err := url.Parse(in.PublicURL)
		if err != nil {
			return nil, err
		}
		if err := origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, err
		}
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		in.pages.problem(w, http.StatusForbidden, auth.Identity{}, "This form was sent by another site.", "Nothing was done.")
	}))
	checked := origins.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in.pages.setHeaders(w.Header())
		checked.ServeHTTP(w, r)
	}), nil
}

// visitor lets those in who are known, and sends the others to sign in.
func (in *inbox) visitor(serve func(http.ResponseWriter, *http.Request, auth.Identity)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := in.Login.Authenticate(r)
		var refusal *auth.Refusal
		switch {
		case err == nil:
			serve(w, r.WithContext(in.Bodies.Within(r.Context(), web.Caller(who.Known(), r))), who)
		case errors.Is(err, auth.ErrNotSignedIn) && r.Method == http.MethodPost:
			in.pages.problem(w, http.StatusUnauthorized, who, "You are not signed in any more.",
				"Your answer was not taken. Open the page again, sign in, and answer.")
		case errors.Is(err, auth.ErrNotSignedIn):
			http.Redirect(w, r, Prefix+"/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.As(err, &refusal):
			in.Logger.Warn("cannot identify a visitor of the approvals page", "error", err)
			in.pages.problem(w, http.StatusServiceUnavailable, who, "Who you are cannot be checked at the moment.", "Nothing is lost. Try again in a moment.")
		default:
			in.Logger.Info("refusing a visitor of the approvals page", "remote", r.RemoteAddr, "error", err)
			in.pages.problem(w, http.StatusForbidden, who, "This page is not for you.", err.Error())
		}
	}
}

// signedFor reports whether a form was given to a visitor for this.
func (in *inbox) signedFor(r *http.Request, who auth.Identity, what ...string) bool {
	_, valid := in.forms.Verify(in.now(), r.PostForm.Get("token"), append([]string{who.Caller()}, what...)...)
	return valid
}

// visible finds a run that the visitor may see, or answers why it shows none.
func (in *inbox) visible(w http.ResponseWriter, r *http.Request, who auth.Identity) (*runs.Run, bool) {
	id := runs.RunID(r.PathValue("id"))
	run, err := in.Runs.Get(r.Context(), id)
	if err == nil && !in.Policy.May(who, auth.See, object(run)) {
		err = runs.ErrNotFound
	}
	if err != nil {
		in.fail(w, who, id, err)
		return nil, false
	}
	return run, true
}

// fail answers for a run that cannot be shown.
func (in *inbox) fail(w http.ResponseWriter, who auth.Identity, id runs.RunID, err error) {
	var full *web.FullError
	switch {
	case errors.As(err, &full):
		w.Header().Set("Retry-After", full.RetryAfter())
		in.pages.problem(w, http.StatusServiceUnavailable, who, "Too many large results are read at once.", "Nothing is lost. Try again in a moment.")
	case errors.Is(err, runs.ErrNotFound):
		in.pages.problem(w, http.StatusNotFound, who, "There is no such run of yours.",
			"It may have been deleted after its retention time, or belong to another caller.")
	case errors.Is(err, runs.ErrUnavailable), errors.Is(err, runs.ErrUnread), errors.Is(err, context.DeadlineExceeded):
		in.pages.problem(w, http.StatusServiceUnavailable, who, unavailable, "Nothing is lost. Try again in a moment.")
	default:
		in.Logger.Error("showing a run", "run", id, "error", err)
		in.pages.problem(w, http.StatusInternalServerError, who, "Something is wrong here.", "See the log of the server.")
	}
}

const unavailable = "Runs cannot be reached at the moment."

func object(run *runs.Run) auth.Object { return auth.Object{Tool: run.Tool, Owner: run.Caller} }

// mayAnswer reports whether a question is for the visitor. What is not put to the
// caller of a run is for its operators.
func (in *inbox) mayAnswer(who auth.Identity, run *runs.Run, e runs.Elicitation) bool {
	if e.Kind != runs.ForCaller {
		return in.Policy.May(who, auth.Operate, object(run))
	}
	on := object(run)
	on.Approvers = e.Approvers
	return in.Policy.May(who, auth.Answer, on)
}
