package approvals

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

//go:embed pages.html
var pagesHTML string

//go:embed style.css
var styleCSS string

// pages writes HTML.
type pages struct {
	templates *template.Template
	policy    string // Content-Security-Policy
}

// A page is what all pages have.
type page struct {
	Title   string
	Visitor string // "" = not signed in
	Leave   string // token of the form that signs out; "" = not signed in
}

type listData struct {
	page
	Rows  []row
	First bool   // this is the first page
	Next  string // "" = there is no more
}

type runData struct {
	page
	ID                         runs.RunID
	Tool, Version, Status      string
	Caller, Path               string
	Started, Closed            moment
	Arguments, Result, Failure string
	Script                     string     // that an agent has sent, with the numbers of its lines
	Notice                     string     // of an answer that was not taken
	Open, Others, Answered     []question // for the visitor, for others, and not open any more
}

type problemData struct {
	page
	Says, Then string
}

type loginData struct {
	page
	Link   bool   // one signs in by a one-time link, and otherwise by a token
	To     string // where to continue
	Of     string // run whose page that is; "" = none
	Reason string // why the last try did not work
}

// newPages parses the templates, which are part of the program.
func newPages() *pages {
	style := template.CSS(styleCSS)
	digest := sha256.Sum256([]byte(styleCSS))
	return &pages{
		templates: template.Must(template.New("pages").Funcs(template.FuncMap{
			"style": func() template.CSS { return style },
			"marks": func() template.HTML { return placeOfMarks },
			"parts": jsonParts,
			"exact": exact,
		}).Parse(pagesHTML)),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	}
}

// setHeaders keeps what is shown from caches, frames and other sites. The referrer is
// not omitted altogether, since browsers then hide from us as well where a form comes
// from.
func (p *pages) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func (p *pages) show(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "cannot show this page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, withMarks(b.String())) // the browser disconnected
}

// placeOfMarks is where a page reports that it has marks.
const placeOfMarks = "<!-- marks -->"

// marked finds marks in HTML.
var marked = regexp.MustCompile(`\[(U(\+|&#43;)[0-9A-F]{4,6}|0x[0-9A-F]{2})\]`)

// withMarks has a whole page show what cannot be seen. Text of others never has
// the place in it, since it is escaped.
func withMarks(page string) string {
	shown, advice := view.Text(page), ""
	if marked.MatchString(shown) {
		advice = `<p class="notice" role="alert">` + view.Advice + "</p>"
	}
	return strings.Replace(shown, placeOfMarks, advice, 1)
}

// A jsonPart is a string of JSON, or the text between two of them. Each string is laid
// out by itself: letters that are written from right to left change the order of
// nothing else.
type jsonPart struct {
	Text   string
	String bool
}

var jsonStrings = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func jsonParts(text string) []jsonPart {
	var parts []jsonPart
	at := 0
	for _, span := range jsonStrings.FindAllStringIndex(text, -1) {
		parts = append(parts, jsonPart{text[at:span[0]], false}, jsonPart{text[span[0]:span[1]], true})
		at = span[1]
	}
	return append(parts, jsonPart{text[at:], false})
}

// problem reports that something does not work, and what to do.
func (p *pages) problem(w http.ResponseWriter, status int, who auth.Identity, says, then string) {
	p.show(w, status, "problem", problemData{page: page{Title: says, Visitor: who.Subject}, Says: says, Then: then})
}

// page is the frame of a page for a visitor.
func (in *inbox) page(who auth.Identity, title string) page {
	return page{Title: title, Visitor: who.Caller(), Leave: in.forms.Sign(in.now(), who.Caller(), leaving)}
}

// leaving is what the form that signs out is for.
const leaving = "sign out"
