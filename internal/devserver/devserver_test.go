package devserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
)

const queue = "devserver-test"

// greet waits for a name and greets it.
func greet(ctx workflow.Context) (string, error) {
	var name string
	workflow.GetSignalChannel(ctx, "name").Receive(ctx, &name)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var greeting string
	err := workflow.ExecuteActivity(ctx, sayHello, name).Get(ctx, &greeting)
	return greeting, err
}

func sayHello(_ context.Context, name string) (string, error) { return "hello " + name, nil }

func TestOpenWorkflowsSurviveARestart(t *testing.T) {
	needsServer(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")

	s := start(t, devserver.Options{Dir: dir})
	c := dial(t, s)
	startWorker(t, c)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "w", TaskQueue: queue}, greet)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	stopWithin(t, s, 30*time.Second)
	s.Stop() // again: must do nothing

	s = start(t, devserver.Options{Dir: dir, Durable: true})
	c = dial(t, s)
	startWorker(t, c)
	perduretest.NoError(t, c.SignalWorkflow(t.Context(), run.GetID(), "", "name", "world"))
	var got string
	perduretest.NoError(t, c.GetWorkflow(t.Context(), run.GetID(), "").Get(t.Context(), &got))
	if want := "hello world"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSearchAttributesAreAddedToAnExistingNamespace(t *testing.T) {
	needsServer(t)
	t.Parallel()
	dir := t.TempDir()
	one := map[string]string{"Color": "keyword"}
	both := map[string]string{"Color": "keyword", "Size": "int"}

	start(t, devserver.Options{Dir: dir, Namespace: "team", SearchAttributes: one}).Stop()
	s := start(t, devserver.Options{Dir: dir, Namespace: "team", SearchAttributes: both})
	c, err := client.Dial(client.Options{HostPort: s.Address(), Namespace: "team", Logger: quiet(), ConnectionOptions: client.ConnectionOptions{TLS: s.TLS()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	attributes := temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword("Color").ValueSet("red"),
		temporal.NewSearchAttributeKeyInt64("Size").ValueSet(42))
	options := client.StartWorkflowOptions{ID: "w", TaskQueue: queue, TypedSearchAttributes: attributes}
	if _, err := c.ExecuteWorkflow(t.Context(), options, greet); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for { // visibility follows the start a moment later
		list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `Color = "red" AND Size = 42`})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Executions) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the workflow was not found by its search attributes")
		}
	}
}

func TestWebUI(t *testing.T) {
	needsServer(t)
	t.Parallel()
	s := start(t, devserver.Options{Dir: t.TempDir(), UIListen: "127.0.0.1:0"})
	tests := []struct {
		name, path, host string
		status           int
		contentType      string
	}{
		{"page", "/", "", 200, "text/html"},
		{"deep link", "/namespaces/default/workflows", "", 200, "text/html"},
		{"API", "/api/v1/namespaces/default/workflows", "", 200, "application/json"},
		{"settings", "/api/v1/settings", "localhost:1", 200, "application/json"},
		{"another host's name", "/", "evil.example", 403, "text/plain"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.UIAddress()+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			resp := perduretest.Must(http.DefaultClient.Do(req))(t)
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), tt.contentType) {
				t.Errorf("got %d %s, want %d %s: %.200s", resp.StatusCode, resp.Header.Get("Content-Type"), tt.status, tt.contentType, body)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	taken := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { taken.Close() })
	address := taken.Addr().String()
	tests := []struct {
		name    string
		options devserver.Options
		want    []string // parts of the error
	}{
		{"frontend's port is taken", devserver.Options{Dir: t.TempDir(), Listen: address}, []string{address, "Temporal", "in use"}},
		{"Web UI's port is taken", devserver.Options{Dir: t.TempDir(), UIListen: address}, []string{address, "Web UI", "in use"}},
		{"no directory", devserver.Options{}, []string{"directory"}},
		{"unknown type", devserver.Options{Dir: t.TempDir(), SearchAttributes: map[string]string{"A": "colour"}}, []string{"A", "colour"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := devserver.Start(t.Context(), tt.options)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	needsServer(t)
	t.Parallel()
	dir := t.TempDir()
	s := start(t, devserver.Options{Dir: dir})
	_, err := devserver.Start(t.Context(), devserver.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v, want an error about the directory", err)
	}
	s.Stop()
	start(t, devserver.Options{Dir: dir})
}

func TestHalfMadeDatabaseIsReplaced(t *testing.T) {
	needsServer(t)
	t.Parallel()
	dir := t.TempDir()
	for _, leftover := range []string{"temporal.db.new", "temporal.db-wal", "visibility.db.new"} {
		perduretest.NoError(t, os.WriteFile(filepath.Join(dir, leftover), []byte("half made"), 0o600))
	}
	start(t, devserver.Options{Dir: dir})
}

// A file that is no database any more ends the start with its name, and the process
// goes on.
func TestAttackDamagedDatabases(t *testing.T) {
	needsServer(t)
	t.Parallel()
	whole := t.TempDir()
	start(t, devserver.Options{Dir: whole}).Stop()
	damages := map[string]func(string) error{
		"empty":   func(file string) error { return os.Truncate(file, 0) },
		"half":    func(file string) error { return os.Truncate(file, 300<<10) },
		"garbage": func(file string) error { return os.WriteFile(file, bytes.Repeat([]byte("?!"), 10_000), 0o600) },
	}
	for _, name := range []string{"temporal.db", "visibility.db"} {
		for kind, damage := range damages {
			dir := t.TempDir()
			perduretest.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			perduretest.NoError(t, damage(filepath.Join(dir, name)))
			s, err := devserver.Start(t.Context(), devserver.Options{Dir: dir, Logger: quiet()})
			if err == nil {
				s.Stop()
				t.Errorf("%s, %s: no error", name, kind)
			} else if !strings.Contains(err.Error(), name+" is damaged") {
				t.Errorf("%s, %s: %v does not name the file", name, kind, err)
			}
		}
	}
}

func TestAttackReadingTheDatabases(t *testing.T) {
	needsServer(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shared")
	perduretest.NoError(t, os.Mkdir(dir, 0o755))
	start(t, devserver.Options{Dir: dir})
	for _, pattern := range []string{"temporal.db*", "visibility.db*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) < 2 { // the database and its log
			t.Fatalf("%s are %v, %v", pattern, files, err)
		}
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v; others may not read it", file, info.Mode(), err)
			}
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for _, bench := range []struct {
		name  string
		fresh bool
	}{{"empty directory", true}, {"existing directory", false}} {
		b.Run(bench.name, func(b *testing.B) {
			dir := b.TempDir()
			if !bench.fresh {
				start(b, devserver.Options{Dir: dir}).Stop()
			}
			for i := 0; b.Loop(); i++ {
				if bench.fresh {
					dir = b.TempDir()
				}
				s := start(b, devserver.Options{Dir: dir, UIListen: "127.0.0.1:0"})
				b.StopTimer()
				s.Stop()
				b.StartTimer()
			}
		})
	}
}

func needsServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Temporal server")
	}
}

func start(t testing.TB, o devserver.Options) *devserver.Server {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	s := perduretest.Must(devserver.Start(context.Background(), o))(t)
	t.Cleanup(s.Stop)
	return s
}

func stopWithin(t *testing.T, s *devserver.Server, limit time.Duration) {
	t.Helper()
	began := time.Now()
	s.Stop()
	if took := time.Since(began); took > limit {
		t.Errorf("stopping took %s", took)
	}
}

func dial(t *testing.T, s *devserver.Server) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address(), Logger: quiet(), ConnectionOptions: client.ConnectionOptions{TLS: s.TLS()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func startWorker(t *testing.T, c client.Client) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{WorkerStopTimeout: time.Second})
	w.RegisterWorkflow(greet)
	w.RegisterActivity(sayHello)
	perduretest.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Who does not have the key pair of the data directory gets nothing from any port
// of Temporal, and the HTTP API is on none.
func TestAttackTemporal(t *testing.T) {
	needsServer(t)
	t.Parallel()
	s := start(t, devserver.Options{Dir: t.TempDir()})
	for _, address := range append(s.InternalAddresses(), s.Address()) {
		for name, with := range map[string]*tls.Config{"in clear": nil, "without a pair": {InsecureSkipVerify: true}} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quiet(), ConnectionOptions: client.ConnectionOptions{TLS: with}})
			cancel()
			if err == nil {
				c.Close()
				t.Errorf("%s takes a connection %s", address, name)
			}
		}
		for _, scheme := range []string{"http", "https"} {
			browser := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			if r, err := browser.Post(scheme+"://"+address+"/api/v1/namespaces/default/batch-operations/1", "text/plain", strings.NewReader("{}")); err == nil {
				r.Body.Close()
				t.Errorf("%s answers %s with %s", address, scheme, r.Status)
			}
		}
	}
}

// The Web UI changes no run, unless it is told that it may.
func TestWebUIOnlyShows(t *testing.T) {
	needsServer(t)
	t.Parallel()
	for write, want := range map[bool]int{false: http.StatusMethodNotAllowed, true: http.StatusOK} {
		s := start(t, devserver.Options{Dir: t.TempDir(), UIListen: "127.0.0.1:0", UIWrite: write})
		startGreet(t, s, "w")
		if status, text := postToUI(t, s, "w/terminate", `{"reason":"x"}`); status != want {
			t.Errorf("write %v: terminating is answered %d: %s", write, status, text)
		}
	}
}

// A request to the Web UI that has the path of a query in the names that it gives, or a
// method that stands for another, starts, signals and ends nothing.
func TestAttackReadOnlyWebUI(t *testing.T) {
	needsServer(t)
	t.Parallel()
	s := start(t, devserver.Options{Dir: t.TempDir(), UIListen: "127.0.0.1:0"})
	startGreet(t, s, "w/query/w")
	for _, path := range []string{
		"a%2Fquery%2Fb",
		"a/query/b/signal-with-start/c",
		"a/signal-with-start/b%2Fquery%2Fc",
		"w%2Fquery%2Fw/terminate",
		"w%2Fquery%2Fw/cancel",
		"w%2Fquery%2Fw/signal/s",
		"w%2Fquery%2Fw/query/../terminate",
		"w%2Fquery%2Fw/%71uery%2Fx/terminate",
	} {
		body := `{"workflowType":{"name":"greet"},"taskQueue":{"name":"q"},"requestId":"1"}`
		if status, text := postToUI(t, s, path, body); status != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered %d: %s", path, status, text)
		}
	}
	if status, text := postToUI(t, s, "w%2Fquery%2Fw/query/__stack_trace", `{}`); status == http.StatusMethodNotAllowed {
		t.Errorf("a query is refused: %s", text)
	}
}

// startGreet starts a workflow that no worker executes.
func startGreet(t *testing.T, s *devserver.Server, id string) {
	t.Helper()
	if _, err := dial(t, s).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, greet); err != nil {
		t.Fatal(err)
	}
}

// postToUI sends a request about a workflow to the Web UI, as its page does. A query
// waits for a worker, for a second.
func postToUI(t *testing.T, s *devserver.Server, path, body string) (status int, text string) {
	t.Helper()
	page := perduretest.Must(http.Get("http://" + s.UIAddress() + "/api/v1/settings"))(t)
	page.Body.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.UIAddress()+"/api/v1/namespaces/default/workflows/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Grpc-Timeout", "1S")
	for _, cookie := range page.Cookies() {
		r.AddCookie(cookie)
		if cookie.Name == "_csrf" {
			r.Header.Set("X-Csrf-Token", cookie.Value)
		}
	}
	answer := perduretest.Must(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	all := perduretest.Must(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(all)
}
