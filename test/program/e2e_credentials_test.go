package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
)

// A vault is a token endpoint and the backends that take its tokens.
type vault struct {
	*httptest.Server

	mu      sync.Mutex
	closed  map[string]bool   // subject tokens that are not exchanged any more
	valid   map[string]bool   // values of the header Authorization or X-Key that backends take
	secrets map[string]string // all that was given or taken: what must be nowhere else
	calls   []string          // "BACKEND ARGUMENTS" of executed calls
	given   int
}

const (
	exchangeSecret = "planted-exchange-client-s3cret"
	ownSecret      = "planted-own-client-s3cret"
	headerSecret   = "planted-header-s3cret"
)

// newVault serves the backends keyed, own, caller and pass, and /token.
func newVault(t *testing.T) *vault {
	v := &vault{closed: map[string]bool{}, valid: map[string]bool{headerSecret: true},
		secrets: map[string]string{"exchange": exchangeSecret, "own": ownSecret, "header": headerSecret}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", v.token)
	for _, name := range []string{"keyed", "own", "caller", "pass"} {
		s := mcpserver.NewMCPServer(name, "1", mcpserver.WithToolCapabilities(true))
		s.AddTool(mcp.NewToolWithRawSchema("send", "sends", json.RawMessage(`{"type":"object"}`)), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			arguments, err := json.Marshal(req.GetArguments())
			v.mu.Lock()
			defer v.mu.Unlock()
			v.calls = append(v.calls, name+" "+string(arguments))
			answer := fmt.Sprintf(`{"sent":%q}`, name)
			return mcp.NewToolResultStructured(json.RawMessage(answer), answer), err
		})
		inner := mcpserver.NewStreamableHTTPServer(s)
		mux.Handle("/"+name+"/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v.mu.Lock()
			ok := v.valid[r.Header.Get("X-Key")] || v.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
			v.mu.Unlock()
			if !ok {
				http.Error(w, "who are you, "+r.Header.Get("Authorization")+"?", http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		}))
	}
	v.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		v.CloseClientConnections()
		v.Close()
	})
	return v
}

// token gives tokens that expire at once, so that each use needs another, and
// repeats what it is sent where it refuses.
func (v *vault) token(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, password, _ := r.BasicAuth()
	subject := r.PostFormValue("subject_token")
	if subject != "" && v.closed[subject] || password != exchangeSecret && password != ownSecret {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"%s of %s"}`, subject, password)
		return
	}
	v.given++
	token := fmt.Sprintf("planted-token-%d-s3cret", v.given)
	v.secrets[fmt.Sprintf("token %d", v.given)], v.valid[token] = token, true
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":1}`, token)
}

// expire makes a caller's token of no use for anything but calling perdure, and
// the tokens that were given before of none at all.
func (v *vault) expire(subject string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed[subject] = true
	clear(v.valid)
	v.valid[headerSecret] = true
}

func (v *vault) seen(call string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.calls {
		if c == call {
			n++
		}
	}
	return n
}

// configuration asks for every kind of credentials, and has a run that sends
// with each of them after somebody has agreed.
func (v *vault) configuration(issuer string) string {
	backend := func(name string) string {
		return fmt.Sprintf("  - {name: %s, transport: streamable-http, url: %q}\n", name, v.URL+"/"+name+"/mcp")
	}
	return fmt.Sprintf(`
name: credentials
incomingAuth:
  type: oidc
  oidc: {issuer: %q, audience: perdure, insecureAllowHttp: true}
outgoingAuth:
  backends:
    keyed: {type: header_injection, headerInjection: {headerName: X-Key, headerValueEnv: PLANTED_HEADER}}
    own: {type: client_credentials, clientCredentials: {tokenUrl: %[2]q, clientId: own, clientSecretFile: own.secret}}
    caller: {type: token_exchange, tokenExchange: {tokenUrl: %[2]q, clientId: exchange, clientSecretEnv: PLANTED_EXCHANGE, audience: https://caller}}
    pass: {type: pass_through}
backends:
%[3]scompositeTools:
  - name: tell
    description: Sends at once.
    steps: [{id: caller, tool: caller_send, arguments: {what: told}}]
  - name: announce
    description: Sends once somebody has agreed.
    parameters: {type: object, properties: {what: {type: string}}}
    timeout: 1h
    steps:
      - {id: agree, type: elicitation, message: "Send {{.params.what}}?", timeout: 30m}
      - {id: keyed, tool: keyed_send, dependsOn: [agree], arguments: {what: "{{.params.what}}"}}
      - {id: own, tool: own_send, dependsOn: [agree], arguments: {what: "{{.params.what}}"}}
      - {id: caller, tool: caller_send, dependsOn: [agree], arguments: {what: "{{.params.what}}"}}
      - {id: pass, tool: pass_send, dependsOn: [agree], arguments: {what: "{{.params.what}}"}}
    output:
      properties:
        caller: {type: string, description: who sent, value: "{{.steps.caller.output.sent}}"}
        pass: {type: string, description: who sent, value: "{{.steps.pass.output.sent}}"}
`, issuer, v.URL+"/token", backend("keyed")+backend("own")+backend("caller")+backend("pass"))
}

// dialWith opens a client whose requests carry a bearer token.
func (p *process) dialWith(t *testing.T, token string) *client.Client {
	t.Helper()
	http, err := transport.NewStreamableHTTP("http://"+p.address+endpoint, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token}))
	if err != nil {
		t.Fatal(err)
	}
	return initialize(t, client.NewClient(http), legacy)
}

// A run whose caller's credentials have expired when it needs them says so,
// waits through a kill -9, and goes on with the caller's next request. No secret
// is in its history, its memo or search attributes, in logs or errors, or in
// clear on the disk.
func TestCredentialsOfALongRun(t *testing.T) {
	t.Parallel()
	v, issuer := newVault(t), perduretest.NewIssuer(t)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), v.configuration(issuer.URL))
	putFile(t, filepath.Join(dir, "own.secret"), ownSecret+"\n")
	d := newDev(t, dir, "--config", "perdure.yaml")
	d.env = []string{"PLANTED_HEADER=" + headerSecret, "PLANTED_EXCHANGE=" + exchangeSecret}
	d.start()
	var logs []string

	old := issuer.Token("ada", "perdure", nil)
	v.mu.Lock()
	v.valid[old], v.secrets["old token"] = true, old
	v.mu.Unlock()
	c := d.dialWith(t, old)
	backends := []string{"keyed", "own", "caller", "pass"}
	until(t, "the tools to be listed with the caller's credentials", func() bool {
		listed := names(t, c)
		return !slices.ContainsFunc(backends, func(name string) bool { return !slices.Contains(listed, name+"_send") })
	})
	// Directly first: the request's own credentials are used.
	for _, backend := range backends {
		toolCall{name: backend + "_send", arguments: map[string]any{"what": "direct"}}.must(t, c)
	}
	said := toolCall{name: "announce", arguments: map[string]any{"what": "planted-argument"}}.told(t, c)
	if !strings.Contains(said, "waiting_for_approval") {
		t.Fatalf("the call gave %s", said)
	}
	run := d.onlyRun(t, "announce", "waiting")

	v.expire(old)
	d.run(t, "runs", "answer", run, "--accept")
	needs := func() bool { return strings.Contains(d.run(t, "runs", "list", "--waiting"), "credentials") }
	until(t, "the run to need credentials", needs)
	until(t, "the steps that need none of the caller's", func() bool {
		return v.seen(`keyed {"what":"planted-argument"}`) == 1 && v.seen(`own {"what":"planted-argument"}`) == 1
	})
	said += toolCall{name: "perdure_run_await", arguments: map[string]any{"runId": run, "waitSeconds": 2}}.told(t, c)
	if !strings.Contains(said, "needs_credentials") || !strings.Contains(said, "backend caller") {
		t.Errorf("who waits for the run is told %s", said)
	}
	logs = append(logs, d.output.String())
	d.kill()
	d.start()
	until(t, "the run to need credentials still", needs)
	if n := v.seen(`caller {"what":"planted-argument"}`) + v.seen(`pass {"what":"planted-argument"}`); n != 0 {
		t.Fatalf("%d calls were made without credentials", n)
	}

	fresh := issuer.Token("ada", "perdure", nil)
	v.mu.Lock()
	v.valid[fresh], v.secrets["fresh token"] = true, fresh
	v.mu.Unlock()
	c = d.dialWith(t, fresh)
	await := toolCall{name: "perdure_run_await", arguments: map[string]any{"runId": run, "waitSeconds": 55}}
	result := await.told(t, c)
	for strings.Contains(result, "runId") { // a busy machine
		result = await.told(t, c)
	}
	if !strings.Contains(result, `"caller":"caller","pass":"pass"`) {
		t.Errorf("the result is %s", result)
	}
	for _, backend := range []string{"keyed", "own", "caller", "pass"} {
		if n := v.seen(backend + ` {"what":"planted-argument"}`); n != 1 {
			t.Errorf("%s was called %d times, want 1", backend, n)
		}
	}
	said += result + d.run(t, "runs", "show", run) + d.run(t, "runs", "show", run, "-o", "json") + d.readiness(t, fresh)
	logs = append(logs, d.interrupt(patience))
	history := d.histories(t)
	v.check(t, "what clients are told", said)
	v.check(t, "the logs", strings.Join(logs, "\n"))
	v.check(t, "the histories", history)
	if !strings.Contains(history, "planted-argument") || !strings.Contains(history, "credentials_needed") {
		t.Error("the histories were not read")
	}
	v.checkFiles(t, filepath.Join(dir, ".perdure"))
}

// readiness is what is told of how the server is.
func (d *devProcess) readiness(t *testing.T, token string) string {
	t.Helper()
	_, _, body := ask(t, "http://"+d.address+"/readyz?verbose", http.MethodGet, token)
	return body
}

// What a gateway gets for a caller is used by a worker in another process,
// through a PostgreSQL in which it is sealed, while the keys are changed.
func TestCredentialsBetweenProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("postgres")
	v, issuer := newVault(t), perduretest.NewIssuer(t)
	runsDir := t.TempDir()
	temporal, err := devserver.Start(t.Context(), devserver.Options{
		Dir: runsDir, SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { temporal.Stop() })
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), v.configuration(issuer.URL))
	putFile(t, filepath.Join(dir, "own.secret"), ownSecret)
	older, newer := strings.Repeat("0123456789abcdef", 4)+"\n", strings.Repeat("fedcba9876543210", 4)+"\n"
	putFile(t, filepath.Join(dir, "gateway.key"), newer+older)
	putFile(t, filepath.Join(dir, "worker.key"), older+newer)
	part := func(command, listen string, flags ...string) *process {
		address := perduretest.Must(pgtest.FreeAddress())(t)
		args := append([]string{command, "--config", "perdure.yaml", "--address", temporal.Address(), "--key-file", command + ".key", listen, address}, flags...)
		return &process{t: t, dir: dir, address: address, args: args,
			env: append(web.PairEnvironment(devserver.KeyFile(runsDir)), "PLANTED_HEADER="+headerSecret, "PLANTED_EXCHANGE="+exchangeSecret, "PERDURE_DATABASE_URL="+url)}
	}
	gateway, worker := part("gateway", "--listen"), part("worker", "--health-listen")
	gateway.start()
	worker.start()

	old := issuer.Token("ada", "perdure", nil)
	v.mu.Lock()
	v.valid[old], v.secrets["old token"] = true, old
	v.mu.Unlock()
	c := gateway.dialWith(t, old)
	until(t, "the tool to be listed", func() bool { return slices.Contains(names(t, c), "tell") })
	for _, key := range []string{"one", "two"} {
		said := toolCall{name: "tell", key: key}.told(t, c)
		for strings.Contains(said, "runId") { // a busy machine
			said = toolCall{name: "tell", key: key}.told(t, c)
		}
		if !strings.Contains(said, `"sent":"caller"`) {
			t.Fatalf("the call gave %s", said)
		}
	}
	v.expire(old)
	until(t, "the run to need credentials", func() bool {
		return strings.Contains(toolCall{name: "tell", key: "three"}.told(t, c), "needs_credentials")
	})
	worker.kill()
	worker.start()
	fresh := issuer.Token("ada", "perdure", nil)
	v.mu.Lock()
	v.secrets["fresh token"] = fresh
	v.mu.Unlock()
	c = gateway.dialWith(t, fresh)
	until(t, "the run to go on", func() bool {
		return strings.Contains(toolCall{name: "tell", key: "three"}.told(t, c), `"sent":"caller"`)
	})
	if n := v.seen(`caller {"what":"told"}`); n != 3 {
		t.Errorf("called %d times, want 3", n)
	}
	v.check(t, "the logs", gateway.output.String()+worker.output.String())
	v.check(t, "the database", dumpGrants(t, url))
}

// dumpGrants is all that is in the table, as text.
func dumpGrants(t *testing.T, url string) string {
	t.Helper()
	c := perduretest.Must(pgx.Connect(t.Context(), url))(t)
	defer c.Close(context.Background())
	var all bytes.Buffer
	if _, err := c.PgConn().CopyTo(t.Context(), &all, "copy (select *, encode(sealed, 'escape') from perdure.grants) to stdout"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(all.String(), "caller") {
		t.Errorf("the table holds %s", &all)
	}
	return all.String()
}

// told makes the call and gives all that the client is told.
func (k toolCall) told(t *testing.T, c *client.Client) string {
	t.Helper()
	result, err := k.by(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	return asJSON(t, result.Content) + asJSON(t, result.StructuredContent) + asJSON(t, result.Meta)
}

// check fails the test if a secret is in a text.
func (v *vault) check(t *testing.T, where, text string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, secret := range v.secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the secret %q is in %s", name, where)
		}
	}
}

// checkFiles fails the test if a secret is in a file of the data directory, or
// if the argument of the call is in none: then nothing was looked at.
func (v *vault) checkFiles(t *testing.T, dir string) {
	t.Helper()
	known := false
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(file)
		v.check(t, file, string(text))
		known = known || bytes.Contains(text, []byte("planted-argument"))
		return err
	})
	if err != nil || !known {
		t.Errorf("the data directory was not read: %v", err)
	}
}

// histories are all events of all runs, with what is told of each beside them.
// dev is started again for it.
func (d *devProcess) histories(t *testing.T) string {
	t.Helper()
	d.start()
	c := d.temporal(t)
	list := perduretest.Must(c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{}))(t)
	var all strings.Builder
	for _, info := range list.Executions {
		encoded(t, &all, info)
		events := c.GetWorkflowHistory(t.Context(), info.Execution.WorkflowId, info.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e := perduretest.Must(events.Next())(t)
			encoded(t, &all, e)
		}
	}
	return all.String()
}

// encoded writes a message as it is kept: JSON within it is in clear.
func encoded(t *testing.T, to *strings.Builder, m proto.Message) {
	t.Helper()
	raw := perduretest.Must(proto.Marshal(m))(t)
	to.Write(raw)
}
