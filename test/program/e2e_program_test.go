package program_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
	"github.com/perdure/perdure/test/topology/clients"
)

// The tests in e2e_*_test.go start the whole program as processes of its own
// and speak to it as clients do. What they share is here.

// The eras of the protocol that clients speak.
const (
	legacy = clients.Legacy
	modern = clients.Modern
)

// A process is perdure with a command that serves until it is ended.
type process struct {
	t       *testing.T
	dir     string
	address string // of /readyz, the same after a restart
	build   string // the program; "" = perdure, as TestMain built it
	args    []string
	env     []string // besides that of the test

	serving *topology.Process
	output  *topology.Transcript // since the last start
	ended   <-chan struct{}      // closed when the process has ended
}

// start starts the process, again if it has ended, and waits until it is ready.
func (p *process) start() {
	p.t.Helper()
	p.launch()
	p.awaitReady()
}

// launch starts the process, which may not be ready when it returns.
func (p *process) launch() {
	p.t.Helper()
	if p.serving == nil {
		p.serving = topology.Service(p.address, append([]string{cmp.Or(p.build, "perdure")}, p.args...)...)
		p.serving.Name, p.serving.Dir, p.serving.Env = p.args[0], p.dir, slices.Concat(testEnvironment, p.env)
	}
	p.output = &topology.Transcript{}
	p.serving.Log = p.output
	serve(p.t, p.serving)
	p.ended = p.serving.Ended()
}

// serve starts a process that ends with the test, whose output is shown if that
// fails.
func serve(t *testing.T, p *topology.Process) {
	t.Helper()
	output := p.Log
	perduretest.NoError(t, p.Start())
	t.Cleanup(func() {
		p.End()
		if t.Failed() {
			t.Logf("%s\n%s", strings.Join(p.Command, " "), output)
		}
	})
}

// awaitReady waits until /readyz says so.
func (p *process) awaitReady() {
	p.t.Helper()
	if err := p.serving.AwaitReady(p.t.Context()); err != nil {
		p.t.Fatalf("%v\n%s", err, p.output)
	}
}

// ready says whether a server says that it takes calls.
func ready(address string) bool {
	return topology.Answers("http://" + address + "/readyz")(context.Background())
}

// kill is kill -9, of the process and of nothing that it has started.
func (p *process) kill() {
	p.t.Helper()
	if err := p.serving.Kill(); err != nil {
		p.t.Fatal(err)
	}
}

// interrupt is Ctrl-C. It gives what the process printed, and fails the test
// if that does not end well and soon.
func (p *process) interrupt(within time.Duration) string {
	p.t.Helper()
	return p.stop(os.Interrupt, within)
}

// stop sends a signal upon which the process must end well and soon.
func (p *process) stop(signal os.Signal, within time.Duration) string {
	p.t.Helper()
	if err := p.serving.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("%s has not ended %s after %s: %s", p.args[0], within, signal, p.output)
	}
	if code := p.serving.State().ExitCode(); code != 0 {
		p.t.Errorf("%s ended with status %d after %s", p.args[0], code, signal)
	}
	return p.output.String()
}

// A devProcess is perdure dev in a directory of its own, with its data there
// in .perdure.
type devProcess struct{ process }

// newDev prepares dev in a directory; --listen and --ui-listen are given to it.
func newDev(t *testing.T, dir string, args ...string) *devProcess {
	t.Helper()
	address := perduretest.Must(pgtest.FreeAddress())(t)
	args = append([]string{"dev", "--listen", address, "--ui-listen", "", "--temporal-listen", "127.0.0.1:0"}, args...)
	return &devProcess{process{t: t, dir: dir, address: address, args: args}}
}

// startDev starts dev and waits until it is ready.
func startDev(t *testing.T, dir string, args ...string) *devProcess {
	t.Helper()
	d := newDev(t, dir, args...)
	d.start()
	return d
}

// startSealedDev starts one that seals what runs hold, as do the commands beside
// it: so everything that reads runs is shown to open them.
func startSealedDev(t *testing.T, dir string, args ...string) *devProcess {
	t.Helper()
	d := newDev(t, dir, args...)
	d.env = append(d.env, payloadKeysVar+"=first:"+strings.Repeat("0a", 32))
	d.start()
	return d
}

func (d *devProcess) url() string { return "http://" + d.address + endpoint }

// run runs a command of perdure beside dev and gives what it prints; the test
// fails if it does not end with status 0.
func (d *devProcess) run(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, err := d.try(t, args...)
	if err != nil {
		t.Fatalf("perdure %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return out
}

// try runs a command of perdure beside dev, whatever its end.
func (d *devProcess) try(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := d.program(args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	watchdog := time.AfterFunc(patience, func() { killGroup(cmd) })
	defer watchdog.Stop()
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// program is a command of perdure beside dev.
func (d *devProcess) program(args ...string) *exec.Cmd {
	cmd := program(d.t, d.dir, args...)
	cmd.Env = append(cmd.Env, d.env...)
	return cmd
}

// runs lists the runs of a tool, the newest first.
func (d *devProcess) runs(t *testing.T, tool string) []struct{ ID, Status string } {
	t.Helper()
	var list []struct{ ID, Status string }
	perduretest.NoError(t, json.Unmarshal([]byte(d.run(t, "runs", "list", "--tool", tool, "-o", "json")), &list))
	return list
}

// onlyRun gives the ID of the only run of a tool, once it is in a state.
func (d *devProcess) onlyRun(t *testing.T, tool, status string) string {
	t.Helper()
	var id string
	until(t, "the run of "+tool+" to be "+status, func() bool {
		list := d.runs(t, tool)
		if len(list) > 1 {
			t.Fatalf("%s has run %d times: %v", tool, len(list), list)
		}
		if len(list) == 1 && list[0].Status == status {
			id = list[0].ID
		}
		return id != ""
	})
	return id
}

// dial opens a client of an era; ask answers what it is asked, nil = it cannot
// be asked.
func (d *devProcess) dial(t *testing.T, version string, ask client.ElicitationHandler) *client.Client {
	t.Helper()
	return dial(t, d.url(), version, ask)
}

func dial(t *testing.T, url, version string, ask client.ElicitationHandler) *client.Client {
	t.Helper()
	http, err := transport.NewStreamableHTTP(url, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	var options []client.ClientOption
	if ask != nil {
		options = append(options, client.WithElicitationHandler(ask))
	}
	return initialize(t, client.NewClient(http, options...), version)
}

func initialize(t *testing.T, c *client.Client, version string) *client.Client {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	perduretest.NoError(t, c.Start(t.Context()))
	var request mcp.InitializeRequest
	request.Params.ProtocolVersion = version
	request.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	if _, err := c.Initialize(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if c.ProtocolVersion() != version {
		t.Fatalf("the client speaks %s, want %s", c.ProtocolVersion(), version)
	}
	return c
}

// A toolCall is one tools/call of a client.
type toolCall struct {
	name      string
	arguments map[string]any
	key       string // idempotency key; "" = none
	progress  bool   // ask for progress
	version   string // of a composite tool; "" = the latest
}

func (k toolCall) by(ctx context.Context, c *client.Client) (*mcp.CallToolResult, error) {
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = k.name, k.arguments
	request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{}}
	if k.key != "" {
		request.Params.Meta.AdditionalFields["perdure/idempotency-key"] = k.key
	}
	if k.version != "" {
		request.Params.Meta.AdditionalFields["perdure/version"] = k.version
	}
	if k.progress {
		request.Params.Meta.ProgressToken = "e2e"
	}
	return c.CallTool(ctx, request)
}

// must makes the call, which must come to a result that is no error, and gives
// its structured content as it was sent.
func (k toolCall) must(t *testing.T, c *client.Client) string {
	t.Helper()
	result, err := k.by(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	if result.IsError {
		t.Fatalf("%s: %s", k.name, asJSON(t, result.Content))
	}
	return sent(t, result)
}

// sent is the structured content of a result, from the text that says the same:
// in the structured content itself the client loses digits.
func sent(t *testing.T, result *mcp.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 {
		t.Fatalf("a result with %d content blocks", len(result.Content))
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok {
		t.Fatalf("a result without text: %v", result.Content[0])
	}
	sameJSON(t, "structured content, to the digits that the client keeps,", asJSON(t, result.StructuredContent), asFloats(t, text.Text))
	return text.Text
}

func asFloats(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return asJSON(t, v)
}

// An answerer answers what a client is asked.
type answerer func(ctx context.Context, question string) (action string, content any, err error)

// Elicit is the client's elicitation handler.
func (a answerer) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	action, content, err := a(ctx, request.Params.Message)
	result := &mcp.ElicitationResult{}
	result.Action, result.Content = mcp.ElicitationResponseAction(action), content
	return result, err
}

// says answers every question alike.
func says(action string, content any) answerer {
	return func(context.Context, string) (string, any, error) { return action, content, nil }
}

// silent never answers, and tells when it is asked.
func silent(asked chan<- string) answerer {
	return func(ctx context.Context, question string) (string, any, error) {
		asked <- question
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
}

// program is perdure with arguments, in a process group of its own that dies
// with the test.
func program(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return group(dir, exec.Command("perdure", args...))
}

// testEnvironment is what programs under test have besides the environment of
// the test.
var testEnvironment = []string{"NO_COLOR=1", "PERDURE_URL=", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=Ada Tester", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
	"GIT_COMMITTER_NAME=Ada Tester", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z"}

func group(dir string, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), testEnvironment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ended already
	}
}

// until waits for something to happen in another process.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !eventually(done) {
		t.Fatalf("waited %s for %s", patience, what)
	}
}

// eventually asks until something is done, which it says, or patience ends: another
// process has nothing to wait on. It does not take the machine from that process:
// it rests for longer than it takes to ask.
func eventually(done func() bool) bool {
	for deadline := time.Now().Add(patience); ; {
		asked := time.Now()
		if done() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(max(50*time.Millisecond, 2*time.Since(asked)))
	}
}

// receive waits for a value from a channel.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
		panic("not reached")
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw := perduretest.Must(json.Marshal(v))(t)
	return string(raw)
}

// sameJSON compares JSON by what it says.
func sameJSON(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w bytes.Buffer
	if err := errors.Join(canonical(&g, got), canonical(&w, want)); err != nil {
		t.Fatalf("%s: %v in %s", what, err, got)
	}
	if g.String() != w.String() {
		t.Errorf("%s is\n%s\nwant\n%s", what, &g, &w)
	}
}

func canonical(to *bytes.Buffer, text string) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(v)
}

func putFile(t *testing.T, file, text string) {
	t.Helper()
	perduretest.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// newRepository makes a git repository with three commits.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if out, err := group(dir, exec.Command("git", args...)).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	git("init", "--quiet", "--initial-branch", "main")
	for i, file := range []string{"README.md", "main.go", "docs/guide.md"} {
		putFile(t, filepath.Join(dir, file), fmt.Sprintf("file %d\n", i))
		git("add", ".")
		git("commit", "--quiet", "-m", "Add "+file)
	}
	return dir
}

// names gives the tools that a client sees.
func names(t *testing.T, c *client.Client) []string {
	t.Helper()
	list := perduretest.Must(c.ListTools(t.Context(), mcp.ListToolsRequest{}))(t)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// approver is the person at the terminal of dev, signed in to the approvals page.
func (d *devProcess) approver(t *testing.T) *clients.Approver {
	t.Helper()
	a := perduretest.Must(clients.SignInByLink(t.Context(), d.signInLink(t)))(t)
	return a
}

// signInLink signs one browser in to the approvals page of dev.
func (d *devProcess) signInLink(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(d.run(t, "approvals", "open", "--print"))
}
