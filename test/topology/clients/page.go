package clients

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// hidden finds the fields of a form that say which question it is about.
var hidden = regexp.MustCompile(`<input type="hidden" name="(question|token)" value="([^"]*)">`)

// ErrNotAsked says that a page has no form for a question.
var ErrNotAsked = errors.New("the page asks nothing of the kind")

// An Approver answers questions with a browser in which somebody has signed in to
// the approvals page.
type Approver struct{ browser *http.Client }

// ApproverToken signs in to an approvals page whose configuration has
// ApproverSettings, with ApproverFile in the file.
const ApproverToken = "token-of-a-person-who-approves"

// ApproverFile is a token file that knows ApproverToken.
var ApproverFile = fmt.Sprintf("tokens: [{subject: approver, sha256: %x}]\n", sha256.Sum256([]byte(ApproverToken)))

// ApproverSettings have a configuration let the owner of ApproverToken, which is in
// a token file, answer for all tools.
func ApproverSettings(file string) string {
	return "approvals: {tokenFile: " + file + "}\nauthorization: {approvers: [{tools: [\"*\"], subjects: [approver]}]}\n"
}

// SignInByToken opens a browser, and signs in at a server by a token.
func SignInByToken(ctx context.Context, server, token string) (*Approver, error) {
	a := newApprover()
	_, err := a.browse(ctx, http.MethodPost, server+"/approvals/login", url.Values{"access": {token}}.Encode())
	return a, err
}

// SignInByLink opens a browser, and signs in by a one-time link.
func SignInByLink(ctx context.Context, link string) (*Approver, error) {
	a := newApprover()
	_, err := a.browse(ctx, http.MethodGet, link, "")
	return a, err
}

func newApprover() *Approver {
	jar, _ := cookiejar.New(nil) // never fails
	return &Approver{&http.Client{Jar: jar}}
}

// Answer answers a question as a browser does on the page of a run: it gets the
// form and sends it. Fields are those of the question's schema; an empty question
// is the only one that the page asks.
func (a *Approver) Answer(ctx context.Context, page, question, action string, fields map[string]string) error {
	text, err := a.browse(ctx, http.MethodGet, page, "")
	if err != nil {
		return err
	}
	form := url.Values{"action": {action}}
	for name, value := range fields {
		form.Set("field."+name, value)
	}
	about := ""
	for _, field := range hidden.FindAllStringSubmatch(text, -1) {
		name, value := field[1], html.UnescapeString(field[2])
		if name == "question" {
			about = value
		}
		if question == "" || about == question {
			form.Set(name, value)
		}
	}
	if !form.Has("question") {
		return ErrNotAsked
	}
	_, err = a.browse(ctx, http.MethodPost, page, form.Encode())
	return err
}

// Page is the text of a page.
func (a *Approver) Page(ctx context.Context, page string) (string, error) {
	return a.browse(ctx, http.MethodGet, page, "")
}

func (a *Approver) browse(ctx context.Context, method, page, form string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, page, strings.NewReader(form))
	if err != nil {
		return "", err
	}
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := a.browser.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s of %s: %s", method, page, response.Status)
	}
	return string(text), err
}
