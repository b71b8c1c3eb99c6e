package program_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/topology"
)

// plantedSecrets are what must stand nowhere, by what they are.
type plantedSecrets map[string]string

// plant makes a secret and remembers it. What comes in between the parts of a
// token is no secret, so each part is looked for.
func (s plantedSecrets) plant(what, secret string) string {
	s[what] = secret
	for i, part := range strings.Split(secret, ".") {
		if i > 0 { // the first is the header of a JWT
			s[fmt.Sprintf("%s, part %d", what, i)] = part
		}
	}
	return secret
}

// absent looks for every secret, in each of its forms.
func (s plantedSecrets) absent(t *testing.T, where string, data []byte) {
	t.Helper()
	for what, secret := range s {
		if i := indexOf(data, secret); i >= 0 {
			t.Errorf("%s: %s stands there: …%q", where, what, data[max(0, i-60):i])
		}
	}
}

// indexOf is where a text stands: as it is, in hexadecimal digits, or as base64
// has it, whatever stands before; -1 = nowhere.
func indexOf(data []byte, text string) int {
	forms := []string{text, hex.EncodeToString([]byte(text))}
	for before := range 3 { // bytes of the group of three in which it begins
		encoded := base64.RawStdEncoding.EncodeToString([]byte("\x00\x00"[:before] + text))
		from, to := []int{0, 2, 3}[before], len(encoded)
		if (before+len(text))%3 != 0 {
			to-- // which depends on what follows
		}
		forms = append(forms, encoded[from:to])
	}
	for _, form := range forms {
		if i := bytes.Index(data, []byte(form)); i >= 0 {
			return i
		}
	}
	return -1
}

// absentFromDatabases looks through all values of databases. One that is known to
// stand there in clear must be found, in any of them.
func (s plantedSecrets) absentFromDatabases(t *testing.T, pg *topology.PostgreSQL, clear string, databases ...string) {
	t.Helper()
	found := false
	for _, database := range databases {
		file := filepath.Join(t.TempDir(), database+".sql")
		perduretest.NoError(t, pg.Text(t.Context(), database, file))
		text := perduretest.Read(t, file)
		s.absent(t, "the database "+database, text)
		found = found || indexOf(text, clear) >= 0
	}
	if !found {
		t.Errorf("not even %.40q is found in the databases", clear)
	}
}

// TestSecretsAreFound shows that what is looked for is found in every form that
// the tests of secrets meet.
func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-7f31"
	for before := range 7 {
		for after := range 4 {
			whole := []byte(strings.Repeat("~", before) + secret + strings.Repeat("~", after))
			for form, text := range map[string]string{"as it is": string(whole), "hex": hex.EncodeToString(whole), "base64": base64.StdEncoding.EncodeToString(whole)} {
				if indexOf([]byte(text), secret) < 0 {
					t.Errorf("%s, after %d bytes and before %d: %s", form, before, after, text)
				}
			}
		}
	}
	if indexOf([]byte("a-secret-7f30"), secret) >= 0 {
		t.Error("found where it is not")
	}
}

// absentFromTemporal looks through all that Temporal keeps of all runs:
// descriptions with memo and search attributes, and every event, both as bytes,
// where payloads are plain, and as JSON.
func (s plantedSecrets) absentFromTemporal(t *testing.T, address, namespace string, access *tls.Config) {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{TLS: access}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	s.absentFromMessage(t, "the list of runs", list)
	if len(list.Executions) == 0 {
		t.Error("there are no runs to look through")
	}
	plain := false // whether what runs hold can be found at all
	for _, run := range list.Executions {
		id := run.Execution.WorkflowId
		described := perduretest.Must(c.DescribeWorkflowExecution(t.Context(), id, run.Execution.RunId))(t)
		s.absentFromMessage(t, id, described)
		events := c.GetWorkflowHistory(t.Context(), id, run.Execution.RunId, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event := perduretest.Must(events.Next())(t)
			plain = s.absentFromMessage(t, fmt.Sprintf("%s, event %d %s", id, event.EventId, event.EventType), event) || plain
		}
	}
	if !plain {
		t.Error("not even the name of a tool is found in histories")
	}
}

// absentFromMessage also says whether the name of a tool is found.
func (s plantedSecrets) absentFromMessage(t *testing.T, where string, m proto.Message) (plain bool) {
	t.Helper()
	raw := perduretest.Must(proto.Marshal(m))(t)
	text := perduretest.Must(protojson.Marshal(m))(t)
	s.absent(t, where, raw)
	s.absent(t, where+" as JSON", text)
	return bytes.Contains(raw, []byte("be_read"))
}

// absentFromFiles looks through all files of a directory.
func (s plantedSecrets) absentFromFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		s.absent(t, name, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const secretsTools = `authorization: {publishers: [{tools: [published], groups: ["*"]}]}
compositeTools:
  - name: both
    description: Reads, asks and writes.
    steps:
      - {id: look, tool: be_read}
      - {id: gate, type: elicitation, message: Go?, schema: {type: object}, timeout: 1h, dependsOn: [look]}
      - {id: write, tool: be_write, dependsOn: [gate]}
  - name: fails
    description: Calls what fails.
    steps: [{id: fail, tool: be_fail}]
  - name: big
    description: Gives more than a history takes.
    steps: [{id: big, tool: be_big}]
  - name: scripted
    description: A script, to be promoted.
    tools: [be_read]
    script: |
      return be_read()
`

// publishedTool is one that is published.
const publishedTool = "{name: published, description: Reads., version: 1.0.0, steps: [{id: look, tool: be_read}]}\n"

// TestNoSecrets plants secrets wherever there may be one, makes calls of every
// kind, those that are refused included, and looks for the secrets in all that
// is kept and told. They are checked to have been used: callers got in, and the
// backend got its credentials.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	for name, incoming := range map[string]func(*testing.T, plantedSecrets, *devProcess) (configuration string, tokens []string){
		"oidc":  oidcSecrets,
		"token": tokenFileSecrets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planted := plantedSecrets{}
			dir := t.TempDir()
			d := newDev(t, dir, "--config", "perdure.yaml", "--log-level", "debug", "--large-values")
			configuration, tokens := incoming(t, planted, d)
			fakes := serveFakes(t, map[string]fakeTool{
				"be_read": structuredAnswer(`{"text":"read"}`), "be_write": structuredAnswer(`{"text":"written"}`), "be_fail": failingAnswer("no room left"),
				"be_big": textAnswer(strings.Repeat("large ", 60<<10)),
			})
			outgoing := outgoingSecrets(t, planted, d)
			collected := startCollector(t)
			write(t, filepath.Join(dir, "perdure.yaml"), configuration+collected.configuration()+outgoing+secretsTools+fakes.configuration("[{tool: read, class: read}]"))
			write(t, filepath.Join(dir, "published.yaml"), publishedTool)
			d.start()
			var told bytes.Buffer
			command := func(args ...string) {
				out, errOut, _ := d.try(t, args...)
				told.WriteString(out + errOut)
			}
			for i, token := range tokens {
				file := filepath.Join(t.TempDir(), "token") // not where the program keeps what it keeps
				write(t, file, token)
				command("tools", "--token-file", file)
				command("call", "be_read", "--token-file", file)
				command("call", "fails", "--token-file", file)
				command("call", "be_fail", "--token-file", file)
				command("call", "both", "--answer", "accept", "--content", "{}", "--token-file", file)
				command("call", "both", "--timeout", "1s", "--token-file", file)
				command("tools", "--token-file", file, "--effects")
				command("call", "big", "--token-file", file)
				command("call", "scripted", "--token-file", file)
				command("publish", "published.yaml", "--token-file", file)
				command("call", "published", "--token-file", file)
				if i == 0 && fakes.count("be_write", "") != 1 {
					t.Errorf("the first caller did not get through: %s", told.String())
				}
				for j, bad := range []string{token + "x", "x" + token} {
					_, challenge, body := ask(t, d.url(), http.MethodPost, planted.plant(fmt.Sprintf("bad token %d of %d", j, i), bad))
					told.WriteString(challenge + body)
				}
			}
			command("runs", "list")
			command("doctor", "--config", "perdure.yaml", "--database", "postgres://nobody:"+planted.plant("a password", "database-password-5e1c")+"@127.0.0.1:1/x")
			for _, tool := range []string{"both", "fails", "big"} {
				run := runIn(d.run(t, "runs", "list", "--tool", tool), tool+"/")
				command("runs", "show", run)
				command("runs", "logs", run)
			}
			promoted := t.TempDir()
			d.run(t, "script", "promote", runIn(d.run(t, "runs", "list", "--tool", "scripted"), "scripted/"), "--name", "promoted", "--dir", promoted)
			planted.absentFromFiles(t, promoted)
			for what, pattern := range map[string]string{"large values": "values/*/*", "published tools": "registry.jsonl", "promoted scripts": filepath.Join(promoted, "*_test.yaml")} {
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(dir, ".perdure", pattern)
				}
				found, err := filepath.Glob(pattern)
				if err != nil || !slices.ContainsFunc(found, func(name string) bool { info, err := os.Stat(name); return err == nil && info.Size() > 0 }) {
					t.Errorf("there are no %s to look through, %v", what, err)
				}
			}
			planted.absent(t, "what commands print", told.Bytes())
			dev, err := readDevFile(filepath.Join(dir, ".perdure"))
			if err != nil || dev == nil {
				t.Fatalf("no dev in %s: %v", dir, err)
			}
			pair := perduretest.Must(web.LoadPair(temporalKey(filepath.Join(dir, ".perdure"))))(t)
			planted.absentFromTemporal(t, dev.Temporal, dev.Namespace, pair.Client())
			if got := fakes.authorized(); len(got) == 0 || slices.ContainsFunc(got, func(c string) bool { return c != outgoingValue }) {
				t.Errorf("the backend got the credentials %q", got)
			}
			planted.absent(t, "the log", []byte(d.interrupt(patience)))
			planted.absentFromFiles(t, filepath.Join(dir, ".perdure"))
			if len(collected.exported()) == 0 {
				t.Error("nothing was exported")
			}
			planted.absent(t, "what is exported", collected.exported())
		})
	}
}

// oidcSecrets are the tokens of an identity provider: a good one, and one
// whose caller is refused.
func oidcSecrets(t *testing.T, planted plantedSecrets, d *devProcess) (configuration string, tokens []string) {
	t.Helper()
	issuer := perduretest.NewIssuer(t)
	d.env = append(d.env, "PERDURE_TEST_LOGIN="+planted.plant("the client secret", "client-secret-0b0a1f4e"))
	claims := perduretest.Claims{"groups": []string{"dev"}}
	tokens = []string{
		planted.plant("a token", issuer.Token("alice", d.url(), claims)),
		planted.plant("a token for others", issuer.Token("alice", "https://other.example.com", claims)),
	}
	return fmt.Sprintf("incomingAuth:\n  type: oidc\n  oidc: {issuer: %q, clientId: perdure, clientSecretEnv: PERDURE_TEST_LOGIN, audience: %q}\n", issuer.URL, d.url()), tokens
}

// tokenFileSecrets are tokens of a file, by digest and by variable.
func tokenFileSecrets(t *testing.T, planted plantedSecrets, d *devProcess) (configuration string, tokens []string) {
	t.Helper()
	digested, variable := planted.plant("a token by digest", "digested-token-4c1d90aa"), planted.plant("a token by variable", "variable-token-77e01b5f")
	d.env = append(d.env, "PERDURE_TEST_TOKEN="+variable)
	digest := sha256.Sum256([]byte(digested))
	write(t, filepath.Join(d.dir, "tokens.yaml"), fmt.Sprintf(
		"tokens:\n  - {subject: alice, groups: [dev], sha256: %s}\n  - {subject: bob, env: PERDURE_TEST_TOKEN}\n", hex.EncodeToString(digest[:])))
	return "incomingAuth: {type: token, tokenFile: tokens.yaml}\n", []string{digested, variable}
}

// outgoingValue is what a backend gets; see outgoingSecrets.
const outgoingValue = "Bearer outgoing-secret-93d0c2b7"

// outgoingSecrets are the credentials for backends.
func outgoingSecrets(t *testing.T, planted plantedSecrets, d *devProcess) (configuration string) {
	t.Helper()
	planted.plant("a header of a backend", strings.TrimPrefix(outgoingValue, "Bearer "))
	d.env = append(d.env, "PERDURE_TEST_HEADER="+outgoingValue)
	return "outgoingAuth: {source: inline, default: {type: header_injection, headerInjection: {headerName: Authorization, headerValueEnv: PERDURE_TEST_HEADER}}}\n"
}
