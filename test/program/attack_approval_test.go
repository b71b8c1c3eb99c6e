package program_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
)

const gatedRelease = `
compositeTools:
  - name: release
    description: Asks on the page.
    timeout: 48h
    steps:
      - {id: approval, type: elicitation, mode: url, message: Release it?, timeout: 24h, onDecline: {action: continue}}
    output:
      properties:
        decision: {type: string, description: What was answered, value: "{{.steps.approval.action}}"}
  - name: ship
    description: Asks wherever.
    timeout: 48h
    steps:
      - {id: approval, type: elicitation, message: Ship it?, timeout: 24h, onDecline: {action: continue}}
    output:
      properties:
        decision: {type: string, description: What was answered, value: "{{.steps.approval.action}}"}
`

// A fetcher is what a tool of a backend can do that fetches URLs, as many do: it
// sends what it is told to, with cookies.
type fetcher struct{ browser *http.Client }

func newFetcher(t *testing.T) *fetcher {
	jar := perduretest.Must(cookiejar.New(nil))(t)
	return &fetcher{&http.Client{Jar: jar, Timeout: patience}}
}

func (f *fetcher) fetch(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	text := func(name string) string { s, _ := arguments[name].(string); return s }
	request, err := http.NewRequestWithContext(ctx, text("method"), text("url"), strings.NewReader(text("body")))
	if err != nil {
		return nil, err
	}
	headers, _ := arguments["headers"].(map[string]any)
	for name, value := range headers {
		request.Header.Set(name, fmt.Sprint(value))
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := f.browser.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if _, main, ok := bytes.Cut(body, []byte("<main>")); ok {
		body = main
	}
	return mcp.NewToolResultText(fmt.Sprintf("%d %s", response.StatusCode, body)), err
}

// An agent is a model with the tools of dev, one of which fetches URLs.
type agent struct {
	*devProcess
	client *client.Client
}

// fetch has the tool fetch something; headers are names and values in turn.
func (a agent) fetch(t *testing.T, method, url, body string, headers ...string) string {
	t.Helper()
	set := map[string]any{}
	for i := 0; i < len(headers); i += 2 {
		set[headers[i]] = headers[i+1]
	}
	result, err := toolCall{name: "be_fetch", arguments: map[string]any{"method": method, "url": url, "body": body, "headers": set}}.by(t.Context(), a.client)
	if err != nil || len(result.Content) == 0 {
		t.Fatalf("fetching %s: %v", url, err)
	}
	return mcp.GetTextFromContent(result.Content[0])
}

// gated starts a run that asks, and gives its ID and page.
func (a agent) gated(t *testing.T, tool string) (id, page string) {
	t.Helper()
	result := perduretest.Must(toolCall{name: tool}.by(t.Context(), a.client))(t)
	found := regexp.MustCompile(`runId":"(` + tool + `/\w+)`).FindStringSubmatch(strings.ReplaceAll(asJSON(t, result), `\"`, `"`))
	if found == nil {
		t.Fatalf("no run in %s", asJSON(t, result))
	}
	return found[1], "http://" + a.address + "/approvals/" + found[1]
}

func (d *devProcess) waits(t *testing.T, id, after string) {
	t.Helper()
	if shown := d.run(t, "runs", "show", id, "-o", "json"); !strings.Contains(shown, `"status": "waiting"`) {
		t.Fatalf("after %s the run does not wait any more: %s", after, shown)
	}
}

const formType = "application/x-www-form-urlencoded"

// TestAttackApprovalByFetching: in dev, an agent whose backend has a tool that
// fetches URLs cannot answer a question on the approvals page, by whatever request,
// cookie, forged link, Host or file of the data directory; the person at the
// terminal can, with a link that is good once.
func TestAttackApprovalByFetching(t *testing.T) {
	t.Parallel()
	tool := newFetcher(t)
	fakes := serveFakes(t, map[string]fakeTool{"be_fetch": tool.fetch})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration(`[{tool: "*", class: read}]`)+gatedRelease)
	d := startDev(t, dir, "--config", "perdure.yaml")
	a := agent{d, d.dial(t, legacy, nil)}
	id, page := a.gated(t, "release")
	site := "http://" + d.address

	answer := url.Values{"question": {"approval#1"}, "action": {"accept"}, "token": {"x"}}.Encode()
	stamped := url.Values{"question": {"approval#1"}, "action": {"accept"},
		"token": {auth.NewStamps("approvals form", time.Hour, []byte("a guess"), nil).Sign(time.Now(), "anonymous", id, "approval#1")}}.Encode()
	file := perduretest.Read(t, filepath.Join(dir, ".perdure", "dev.json"))
	if code := regexp.MustCompile(`code=|key|token`).Find(file); code != nil {
		t.Errorf("dev.json says how to get in: %s", file)
	}
	for name, try := range map[string]func() string{
		"looks at the list":   func() string { return a.fetch(t, "GET", site+"/approvals", "") },
		"looks at the run":    func() string { return a.fetch(t, "GET", page, "") },
		"heads for the login": func() string { return a.fetch(t, "GET", site+"/approvals/login?to=/approvals/"+id, "") },
		"answers":             func() string { return a.fetch(t, "POST", page, answer, "Content-Type", formType) },
		"answers as a browser would": func() string {
			return a.fetch(t, "POST", page, stamped, "Content-Type", formType, "Origin", site, "Sec-Fetch-Site", "same-origin", "Referer", page)
		},
		"answers under a rebound name": func() string {
			return a.fetch(t, "POST", page, stamped, "Content-Type", formType, "Host", "evil.example")
		},
		"answers as a proxy would": func() string {
			return a.fetch(t, "POST", page, stamped, "Content-Type", formType, "X-Forwarded-For", "127.0.0.1", "X-Forwarded-Host", "127.0.0.1")
		},
		"answers with a cookie": func() string {
			return a.fetch(t, "POST", page, stamped, "Content-Type", formType, "Cookie", "perdure-session=AAAA")
		},
		"answers with a bearer token": func() string {
			return a.fetch(t, "POST", page, stamped, "Content-Type", formType, "Authorization", "Bearer anonymous")
		},
		"signs in by a token": func() string {
			return a.fetch(t, "POST", site+"/approvals/login", url.Values{"access": {"anonymous"}}.Encode(), "Content-Type", formType)
		},
		"comes back from an issuer": func() string { return a.fetch(t, "GET", site+"/approvals/callback?code=x&state=AAAAAAAAAA", "") },
		"guesses the code":          func() string { return a.fetch(t, "GET", site+"/approvals/login?code=7K3F-9QWM", "") },
		"forges a link": func() string {
			return a.fetch(t, "GET", site+"/approvals/login?"+url.Values{"code": {auth.NewLinkCode([]byte("a guess"))}}.Encode(), "")
		},
	} {
		got := try()
		if strings.Contains(got, "Release it?") || strings.Contains(got, "accepted by") || strings.Contains(got, "code=") {
			t.Errorf("an agent that %s gets %s", name, got)
		}
		d.waits(t, id, "an agent "+name)
	}
	guesses := 0
	for ; guesses < 60; guesses++ {
		if strings.HasPrefix(a.fetch(t, "GET", fmt.Sprintf("%s/approvals/login?code=%d", site, guesses), ""), "429 ") {
			break
		}
	}
	if guesses == 60 {
		t.Error("an agent may guess for ever")
	}

	// No command answers what is for the page, and no client.
	if out, told, err := d.try(t, "runs", "answer", id, "--accept"); err == nil || !strings.Contains(told, "on the approvals page") || !strings.Contains(told, "perdure approvals open "+id) {
		t.Errorf("perdure runs answer says %s%s (%v)", out, told, err)
	}
	forms := dial(t, d.url(), legacy, says("accept", map[string]any{}))
	if result, err := (toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 1}}).by(t.Context(), forms); err != nil || result.IsError {
		t.Errorf("waiting for the run: %+v %v", result, err)
	}
	d.waits(t, id, "everything else")
	if shown := d.run(t, "runs", "show", id); !strings.Contains(shown, "perdure approvals open "+id) || strings.Contains(shown, "runs answer") {
		t.Errorf("runs show tells to answer by other means: %s", shown)
	}
	d.stop(os.Interrupt, patience) // the guesses of this machine are forgotten
	d.start()

	link := d.signInLink(t)
	if head, err := http.Head(link); err != nil || head.StatusCode != http.StatusOK {
		t.Errorf("looking where the link leads: %v %v", head, err)
	}
	person := newPerson(t)
	if got := person.open(t, link); !strings.Contains(got, "Release it?") {
		t.Fatalf("the link leads to %s", got)
	}
	again := agent{d, d.dial(t, legacy, nil)}
	if got := again.fetch(t, "GET", link, ""); !strings.HasPrefix(got, "401 ") || strings.Contains(got, "Release it?") {
		t.Errorf("the link is good for the agent as well: %s", got)
	}

	// Other sites, and names that were rebound, cannot use the browser of a person.
	token := regexp.MustCompile(`name="token" value="([^"]+)">\s*<div class="buttons">`).FindStringSubmatch(person.open(t, page))
	if token == nil {
		t.Fatalf("there is no form in %s", person.open(t, page))
	}
	accept := url.Values{"question": {"approval#1"}, "action": {"accept"}, "token": {token[1]}}
	for name, headers := range map[string][]string{
		"another site":          {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"another port":          {"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:9"},
		"a page without origin": {"Origin", "null"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(accept.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", formType)
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		if got := person.do(t, request); strings.Contains(got, "accepted by") {
			t.Errorf("%s answers with the browser of a person: %s", name, got)
		}
		d.waits(t, id, name)
	}
	stolen := person.browser.Jar.Cookies(&url.URL{Scheme: "http", Host: d.address, Path: "/"})[0].String()
	if got := again.fetch(t, "GET", page, "", "Host", "evil.example", "Cookie", stolen); strings.Contains(got, "Release it?") {
		t.Errorf("a rebound name is served: %s", got)
	}
	if got := person.send(t, page, accept); !strings.Contains(got, "accepted by you") {
		t.Errorf("the person's answer: %s", got)
	}
	got := toolCall{name: awaitTool, arguments: map[string]any{"runId": id}}.must(t, again.client)
	sameJSON(t, "the result", got, `{"decision":"accept"}`)

	// What a client may answer, the command of an operator may, too.
	shipped, _ := again.gated(t, "ship")
	d.run(t, "runs", "answer", shipped, "--accept")
}

// bearing is a client of dev with a token.
func (d *devProcess) bearing(t *testing.T, token string) *client.Client {
	t.Helper()
	calls, err := transport.NewStreamableHTTP(d.url(), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token}))
	if err != nil {
		t.Fatal(err)
	}
	return initialize(t, client.NewClient(calls), legacy)
}

// TestAttackApprovalByCallerToken: the token with which a program calls does not
// open the approvals page, unless the operator says so by name.
func TestAttackApprovalByCallerToken(t *testing.T) {
	t.Parallel()
	const agents, persons = "alice-calls-by-this", "alice-approves-by-this"
	issuer := perduretest.NewIssuer(t)
	byToken := "incomingAuth: {type: token, tokenFile: tokens.yaml}\n"
	byIssuer := "incomingAuth: {type: oidc, oidc: {issuer: " + issuer.URL + ", audience: tools"
	for name, tc := range map[string]struct {
		config  string
		called  string // the token with which the agent calls
		entered map[string]string
	}{
		"tokens, and nothing for people": {byToken, agents, map[string]string{agents: "404", persons: "404"}},
		"tokens, and others for people": {byToken + "approvals: {tokenFile: approvers.yaml}\n", agents,
			map[string]string{agents: "403", persons: "200", "neither-of-the-two": "401"}},
		"tokens, and the same for people": {byToken + "approvals: {callerTokens: true}\n", agents, map[string]string{agents: "200", persons: "401"}},
		"an issuer without clientId":      {byIssuer + "}}\n", issuer.Token("alice", "tools", nil), map[string]string{"": "404"}},
		"an issuer, and tokens for people": {byIssuer + "}}\napprovals: {tokenFile: approvers.yaml}\nauthorization: {approvers: [{tools: [release], subjects: [alice]}]}\n",
			issuer.Token("alice", "tools", nil), map[string]string{"": "403", persons: "200"}},
		"an issuer at which people sign in": {byIssuer + ", clientId: perdure}}\n", issuer.Token("alice", "tools", nil), map[string]string{"": "404"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			putFile(t, filepath.Join(dir, "tokens.yaml"), "tokens: [{subject: alice, env: AGENTS}]\n")
			putFile(t, filepath.Join(dir, "approvers.yaml"), "tokens: [{subject: alice, env: PERSONS}, {subject: sly, env: SLY}]\n")
			putFile(t, filepath.Join(dir, "perdure.yaml"), "backends: []\n"+tc.config+gatedRelease)
			d := newDev(t, dir, "--config", "perdure.yaml")
			d.env = append(d.env, "AGENTS="+agents, "PERSONS="+persons, "SLY="+agents) // which is in both files
			d.start()
			a := agent{d, d.bearing(t, tc.called)}
			id, page := a.gated(t, "release")
			site := "http://" + d.address
			for token, status := range tc.entered {
				if token == "" {
					token = tc.called
				}
				tool := newFetcher(t)
				fetch := func(method, url, body string, headers map[string]any) string {
					result, err := tool.fetch(t.Context(), map[string]any{"method": method, "url": url, "body": body, "headers": headers})
					if err != nil {
						t.Fatal(err)
					}
					return mcp.GetTextFromContent(result.Content[0])
				}
				if got := fetch("GET", page, "", map[string]any{"Authorization": "Bearer " + token}); strings.Contains(got, "Release it?") {
					t.Errorf("a bearer token opens the page: %s", got)
				}
				got := fetch("POST", site+"/approvals/login", url.Values{"access": {token}, "to": {"/approvals/" + id}}.Encode(), map[string]any{"Content-Type": formType})
				if !strings.HasPrefix(got, status) || strings.Contains(got, "Release it?") != (status == "200") {
					t.Errorf("signing in by %s is answered %s, want %s", token, got, status)
				}
			}
			d.waits(t, id, "signing in")
			got := newPerson(t).open(t, page)
			if closed := strings.Contains(tc.config, "approvals:") || strings.Contains(tc.config, "clientId"); !closed && !strings.Contains(got, "approvals.tokenFile") {
				t.Errorf("a closed page does not say what would open it: %s", got)
			}
		})
	}
}

// TestLinkOnTheTerminal: dev prints a link that signs in on its terminal, and into
// a log or for the program that has started it none.
func TestLinkOnTheTerminal(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`http://\S+/approvals/login\?code=\S+`)
	d := newDev(t, t.TempDir())
	term := startInTerminal(t, d.program(d.args...))
	until(t, "the banner", func() bool { return strings.Contains(term.text(), "mcpServers") })
	shown := link.FindString(term.text())
	if got := newPerson(t).open(t, shown); !strings.Contains(got, "Nothing waits for your answer.") {
		t.Errorf("the link %q opens %s", shown, got)
	}
	if got := newPerson(t).open(t, shown); !strings.Contains(got, "This link has expired, or was used before.") {
		t.Errorf("the link opens twice: %s", got)
	}
	into := startDev(t, t.TempDir())
	until(t, "the banner", func() bool { return strings.Contains(into.output.String(), "mcpServers") })
	if shown := into.output.String(); link.MatchString(shown) || !strings.Contains(shown, "perdure approvals open") {
		t.Errorf("dev without a terminal prints %s", shown)
	}
}
