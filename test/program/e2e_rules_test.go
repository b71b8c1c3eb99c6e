package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
)

// A ruleCase is an entry of testdata/e2e/rules.yaml: a definition, and what
// comes of calling it. Values are exact.
type ruleCase struct {
	Rule   string     // what holds
	Define yaml.Node  // the definition
	Calls  []ruleCall // one at least
	Listed yaml.Node  // what tools/list says of it, as far as is written
	Absent string     // instead of calls: why it is not offered, a part of the reason

	Pos definitions.Position
}

// A ruleCall is a call, and what the client and the backend get.
type ruleCall struct {
	Arguments json.RawMessage // nil = none
	Answers   []ruleAnswer    // to the questions in the order in which they come
	Result    json.RawMessage // structured content; nil = an error is expected
	Error     string          // regular expression for the text of the error
	Sent      []string        // calls that the backend received, in any order: TOOL ARGUMENTS

	Pos definitions.Position
}

type ruleAnswer struct {
	Asked   string // regular expression for the question; "" = any
	Action  string
	Content json.RawMessage
}

// TestRules holds the rules of the language, corner by corner, against the
// program: every number as it came over the wire, by clients of both eras.
func TestRules(t *testing.T) {
	t.Parallel()
	var cases []ruleCase
	var document yaml.Node
	const file = "testdata/e2e/rules.yaml"
	data := perduretest.Read(t, file)
	perduretest.NoError(t, yaml.Unmarshal(data, &document))
	perduretest.NoError(t, definitions.Decode(file, &document, &cases).Err())
	backend := newExactBackend(t)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), ruleConfiguration(t, backend, cases))
	d := startDev(t, dir, "--config", "perdure.yaml")
	for _, version := range []string{legacy, modern} {
		asked := &questions{}
		s := d.exact(t, version, asked)
		tools := perduretest.Must(s.tools(t.Context()))(t)
		for _, c := range cases {
			t.Run(version+"/"+c.Rule, func(t *testing.T) {
				if c.Absent != "" {
					c.checkAbsence(t, d, s, tools)
					return
				}
				c.checkListing(t, tools)
				for _, call := range c.Calls {
					call.check(t, s, asked, backend, c.name())
				}
			})
		}
	}
}

// ruleConfiguration has all definitions, and tools of which clients do not see
// all.
func ruleConfiguration(t *testing.T, backend *exactBackend, cases []ruleCase) string {
	t.Helper()
	var composites []yaml.Node
	for _, c := range cases {
		composites = append(composites, c.Define)
	}
	text := perduretest.Must(yaml.Marshal(composites))(t)
	return fmt.Sprintf(`
backends:
  - {name: be, transport: streamable-http, url: %q, trustAnnotations: true, effects: [{tool: shaky, class: idempotent}]}
aggregation:
  conflictResolution: prefix
  tools: [{workload: be, filter: [echo, typed, look]}]
compositeTools:
`, backend.url) + "  " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ") + "\n"
}

func (c ruleCase) name() string {
	for i := 0; i+1 < len(c.Define.Content); i += 2 {
		if c.Define.Content[i].Value == "name" {
			return c.Define.Content[i+1].Value
		}
	}
	return ""
}

func (c ruleCase) checkListing(t *testing.T, tools []remoteTool) {
	i := slices.IndexFunc(tools, func(tool remoteTool) bool { return tool.Name == c.name() })
	if i < 0 {
		t.Fatalf("%s: %s is not offered", c.Pos, c.name())
	}
	if c.Listed.IsZero() {
		return
	}
	var want map[string]any
	perduretest.NoError(t, c.Listed.Decode(&want))
	var got map[string]any
	perduretest.NoError(t, json.Unmarshal([]byte(asJSON(t, tools[i])), &got))
	for key, value := range want {
		sameJSON(t, key, asJSON(t, got[key]), asJSON(t, value))
	}
}

// checkAbsence holds that a definition is not offered, and that everything which
// can be asked says why. A tool of a backend may have the name.
func (c ruleCase) checkAbsence(t *testing.T, d *devProcess, s *exactClient, tools []remoteTool) {
	for _, tool := range tools {
		if tool.Name == c.name() && tool.Description == "d" {
			t.Errorf("%s: %s is offered", c.Pos, c.name())
		}
	}
	if result, err := s.call(t.Context(), c.name(), json.RawMessage(`{}`)); err == nil && result.Meta.Run.ID != "" {
		t.Errorf("%s: %s runs: %s", c.Pos, c.name(), result.raw)
	}
	for from, text := range map[string]string{
		"perdure definitions": d.run(t, "definitions"),
		"the log":             d.output.String(),
		"/readyz?verbose":     d.readiness(t, ""),
	} {
		lines := strings.Split(text, "\n")
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, c.name()) && strings.Contains(line, c.Absent) }) {
			t.Errorf("%s: %s does not say that %s is missing because of %s:\n%s", c.Pos, from, c.name(), c.Absent, text)
		}
	}
}

func (k ruleCall) check(t *testing.T, s *exactClient, asked *questions, backend *exactBackend, tool string) {
	t.Helper()
	backend.take()
	asked.expect(k.Answers)
	arguments := k.Arguments
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	result, err := s.call(t.Context(), tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", k.Pos, err)
	}
	switch {
	case k.Result == nil:
		if !result.IsError || !regexp.MustCompile(k.Error).MatchString(result.text()) {
			t.Errorf("%s: the result is %s, want an error that says %s", k.Pos, result.raw, k.Error)
		}
	case result.IsError:
		t.Errorf("%s: the call failed: %s", k.Pos, result.text())
	default:
		sameJSON(t, k.Pos.String()+": the result", string(result.Structured), string(k.Result))
		sameJSON(t, k.Pos.String()+": the result in words", result.text(), string(k.Result))
	}
	for _, problem := range asked.problems() {
		t.Errorf("%s: %s", k.Pos, problem)
	}
	if k.Sent != nil {
		got := backend.take() // what undoes is called before the result
		slices.Sort(got)
		if diff := cmp.Diff(slices.Sorted(slices.Values(k.Sent)), got); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", k.Pos, diff)
		}
	}
}

// questions answers those of a client.
type questions struct {
	mu      sync.Mutex
	answers []ruleAnswer
	wrong   []string
}

func (q *questions) expect(answers []ruleAnswer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers, q.wrong = answers, nil
}

func (q *questions) problems() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.answers {
		q.wrong = append(q.wrong, "nobody asked for "+a.Action+" "+a.Asked)
	}
	return q.wrong
}

// Elicit is the client's elicitation handler.
func (q *questions) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	result := &mcp.ElicitationResult{}
	if len(q.answers) == 0 {
		q.wrong = append(q.wrong, "nobody expects the question "+request.Params.Message)
		result.Action = mcp.ElicitationResponseActionCancel
		return result, nil
	}
	answer := q.answers[0]
	q.answers = q.answers[1:]
	if !regexp.MustCompile(answer.Asked).MatchString(request.Params.Message) {
		q.wrong = append(q.wrong, fmt.Sprintf("the question is %q, want %s", request.Params.Message, answer.Asked))
	}
	result.Action = mcp.ElicitationResponseAction(answer.Action)
	if answer.Content != nil {
		result.Content = answer.Content
	}
	return result, nil
}

// exact opens a client of an era that keeps the digits of numbers.
func (d *devProcess) exact(t *testing.T, version string, ask client.ElicitationHandler) *exactClient {
	t.Helper()
	web, err := transport.NewStreamableHTTP(d.url(), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	kept := backends.NewExactTransport(web)
	c := client.NewClient(kept, client.WithElicitationHandler(ask), client.WithMaxInputRoundTrips(math.MaxInt))
	return &exactClient{client: initialize(t, c, version), transport: kept}
}

// An exactBackend is an MCP server that keeps the digits of numbers.
type exactBackend struct {
	url string

	mu    sync.Mutex
	calls []string       // TOOL ARGUMENTS
	tries map[string]int // of shaky, by key
}

// exactTools are its tools. typed and hidden take the same; echo says nothing
// of what it takes.
var exactTools = func() string {
	const typed = `{"type":"object","properties":{
		"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},
		"o":{"type":"object","properties":{"i":{"type":"integer"},"l":{"type":"array","items":{"type":"number"}},"deep":{"type":"object","properties":{"b":{"type":"boolean"}}}}},
		"a":{"type":"array","items":{"type":"integer"}},"as":{"type":"array","items":{"type":"string"}},"oa":{"type":"array","items":{"type":"object","properties":{"i":{"type":"integer"}}}},
		"in":{"type":["integer","null"]},"any":{"anyOf":[{"type":"integer"},{"type":"array"}]},"ref":{"$ref":"#/$defs/count"}},"$defs":{"count":{"type":"integer"}}}`
	const loose = `{"type":"object"}`
	var tools []string
	for _, tool := range [][3]string{
		{"echo", loose}, {"typed", typed}, {"hidden", typed}, {"text", loose}, {"fail", loose}, {"shaky", loose}, {"slow", `{"type":"object","properties":{"ms":{"type":"integer"}}}`},
		{"look", loose, `{"readOnlyHint":true,"openWorldHint":false}`},
		{"put", loose, `{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`},
	} {
		hints := tool[2]
		if hints == "" {
			hints = "{}"
		}
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":%s,"annotations":%s}`, tool[0], tool[1], hints))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}()

func newExactBackend(t *testing.T) *exactBackend {
	b := &exactBackend{tries: map[string]int{}}
	web := httptest.NewServer(b)
	b.url = web.URL + "/mcp"
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return b
}

// take gives the calls since it was last asked.
func (b *exactBackend) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

// ServeHTTP speaks the era of sessions without sessions.
func (b *exactBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := `"result":{}`
	switch request.Method {
	case "initialize":
		answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"exact","version":"1"}}`
	case "ping":
	case "tools/list":
		answer = `"result":` + exactTools
	case "tools/call":
		answer = `"result":` + b.call(r.Context(), request.Params.Name, request.Params.Arguments)
	default:
		answer = `"error":{"code":-32601,"message":"there is no such method"}`
	}
	if request.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, answer)
}

// note keeps a call as it comes, and says the how manieth with its key it is. A
// call that is given up is not seen among those of the next rule.
func (b *exactBackend) note(tool, arguments, key string) (tries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, tool+" "+arguments)
	b.tries[key]++
	return b.tries[key]
}

// call executes a tool: text answers with its argument text, fail always fails,
// shaky fails as often as its argument times says, slow takes its argument ms,
// and all others answer with their arguments.
func (b *exactBackend) call(ctx context.Context, tool string, arguments json.RawMessage) string {
	var given struct {
		Text, Key string
		Times, MS int
	}
	_ = json.Unmarshal(arguments, &given) // of other types: an echo
	tries := b.note(tool, string(arguments), given.Key)
	select {
	case <-time.After(time.Duration(given.MS) * time.Millisecond):
	case <-ctx.Done():
	}
	switch {
	case tool == "text":
		encoded, _ := json.Marshal(given.Text)
		return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, encoded)
	case tool == "fail", tool == "shaky" && tries <= given.Times:
		return `{"isError":true,"content":[{"type":"text","text":"planned failure"}]}`
	}
	return fmt.Sprintf(`{"content":[],"structuredContent":%s}`, arguments)
}
