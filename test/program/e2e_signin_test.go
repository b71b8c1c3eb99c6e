package program_test

import (
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestApprovalBySomebodyElse: a caller with a token of an issuer is given the
// link to a question that clients must not answer; an approver signs in at the
// same issuer with a browser, and answers.
func TestApprovalBySomebodyElse(t *testing.T) {
	t.Parallel()
	issuer := perduretest.NewIssuer(t)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "secret"), "the-secret\n")
	putFile(t, filepath.Join(dir, "tools/release.yaml"), `
name: release
description: Asks on the page.
steps:
  - {id: approval, type: elicitation, mode: url, message: Release it?, onDecline: {action: continue}}
output:
  properties:
    decision: {type: string, description: What was answered, value: "{{.steps.approval.action}}"}
`)
	putFile(t, filepath.Join(dir, "perdure.yaml"), `
name: test
backends: []
incomingAuth:
  type: oidc
  oidc: {issuer: `+issuer.URL+`, audience: tools, clientId: perdure, clientSecretFile: secret}
authorization:
  approvers:
    - {tools: [release], groups: [leads]}
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--definitions", "tools")

	calls, err := transport.NewStreamableHTTP(d.url(), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + issuer.Token("ann", "tools", nil)}))
	if err != nil {
		t.Fatal(err)
	}
	ann := initialize(t, client.NewClient(calls), modern)
	result := perduretest.Must(toolCall{name: "release"}.by(t.Context(), ann))(t)
	link := regexp.MustCompile(`http://\S+/approvals/(release/\w+)`).FindStringSubmatch(asJSON(t, result.Content))
	if link == nil {
		t.Fatalf("there is no link in %s", asJSON(t, result.Content))
	}

	signIn := func(subject string, groups ...string) *person {
		issuer.Login = perduretest.Login{Subject: subject, ClientID: "perdure", Secret: "the-secret", Claims: perduretest.Claims{"groups": groups}}
		return newPerson(t)
	}
	if page := signIn("bob").open(t, link[0]); !strings.Contains(page, "There is no such run of yours.") {
		t.Errorf("bob sees %s", page)
	}
	if page := signIn("ann").open(t, link[0]); !strings.Contains(page, "Release it?") || !strings.Contains(page, "called by you") {
		t.Errorf("ann, who called, sees %s", page)
	}
	lea := signIn("lea", "leads")
	page := lea.open(t, link[0])
	form := url.Values{"action": {"decline"}}
	for _, name := range []string{"question", "token"} {
		_, after, _ := strings.Cut(page, `action="/approvals/release/`)
		hidden := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(after)
		if hidden == nil {
			t.Fatalf("there is no %s in %s", name, page)
		}
		form.Set(name, html.UnescapeString(hidden[1]))
	}
	if page := lea.send(t, link[0], form); !strings.Contains(page, "declined by you") {
		t.Errorf("after the answer: %s", page)
	}
	got := toolCall{name: "perdure_run_await", arguments: map[string]any{"runId": link[1]}}.must(t, ann)
	sameJSON(t, "the result", got, `{"decision":"decline"}`)
	var shown struct {
		Elicitations []struct{ By string }
	}
	perduretest.NoError(t, json.Unmarshal([]byte(d.run(t, "runs", "show", link[1], "-o", "json")), &shown))
	if len(shown.Elicitations) != 1 || shown.Elicitations[0].By != issuer.URL+"#lea" {
		t.Errorf("answered by %+v", shown.Elicitations)
	}
}

// A person uses a browser that keeps cookies.
type person struct{ browser *http.Client }

func newPerson(t *testing.T) *person {
	t.Helper()
	jar := perduretest.Must(cookiejar.New(nil))(t)
	return &person{&http.Client{Jar: jar, Timeout: patience}}
}

// open shows the page at a URL, wherever that leads.
func (p *person) open(t *testing.T, url string) (page string) {
	t.Helper()
	request := perduretest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	return p.do(t, request)
}

func (p *person) send(t *testing.T, url string, form url.Values) (page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return p.do(t, request)
}

func (p *person) do(t *testing.T, request *http.Request) (page string) {
	t.Helper()
	response := perduretest.Must(p.browser.Do(request))(t)
	defer response.Body.Close()
	body := perduretest.Must(io.ReadAll(response.Body))(t)
	return string(body)
}
