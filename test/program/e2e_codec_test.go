package program_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
)

// TestCodecInTheWebUI looks at a sealed run in Temporal's Web UI, which is told
// of perdure codec: arguments and a large result are shown to the caller who has
// signed in at the approvals page, and to nobody else.
func TestCodecInTheWebUI(t *testing.T) {
	t.Parallel()
	browser := newScriptedBrowser(t)
	const argument, result = "argument-71c0de", "result-2ab9f4"
	large := result + strings.Repeat(" and so on", 20<<10)
	fakes := serveFakes(t, map[string]fakeTool{"be_read": textAnswer(large)})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "payload.keys"), "first:"+strings.Repeat("0a", 32)+"\n")
	write(t, filepath.Join(dir, "tokens.yaml"), "tokens: [{subject: alice, env: ALICE}, {subject: bob, env: BOB}]\n")
	write(t, filepath.Join(dir, "approvers.yaml"), "tokens: [{subject: alice, env: ALICES_PAGE}, {subject: bob, env: BOBS_PAGE}]\n")
	write(t, filepath.Join(dir, "token"), "alice-token-of-the-test")
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[]")+`incomingAuth: {type: token, tokenFile: tokens.yaml}
approvals: {tokenFile: approvers.yaml}
compositeTools:
  - name: look
    description: Gives much.
    parameters: {type: object, properties: {what: {type: string}}}
    steps: [{id: read, tool: be_read, arguments: {what: "{{.params.what}}"}}]
`)
	ui, codec := freeAddress(t), freeAddress(t)
	d := newDev(t, dir, "--config", "perdure.yaml", "--payload-key-file", "payload.keys", "--large-values",
		"--ui-listen", ui, "--ui-codec", "http://"+codec)
	d.env = append(d.env, "ALICE=alice-token-of-the-test", "BOB=bob-token-of-the-test", "ALICES_PAGE=alice-approves-by-this", "BOBS_PAGE=bob-approves-by-this")
	d.start()
	server := &process{t: t, dir: dir, address: codec, env: d.env,
		args: []string{"codec", "--config", "perdure.yaml", "--listen", codec, "--payload-key-file", "payload.keys", "--ui-origin", "http://" + ui}}
	server.launch()
	until(t, "the codec endpoint to answer", func() bool {
		response, err := http.Get("http://" + codec + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	d.run(t, "call", "look", "what="+argument, "--token-file", "token")
	var id string
	until(t, "the run to be listed", func() bool {
		id = runIn(d.run(t, "runs", "list", "--payload-key-file", "payload.keys"), "look/")
		return id != ""
	})

	signIn := func(token string) {
		t.Helper()
		if _, err := chromedp.Call(browser, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
		err := chromedp.Do(browser,
			chromedp.Navigate("http://"+d.address+"/approvals"),
			chromedp.SendKeys(chromedp.CSS("#access"), token),
			chromedp.Click(chromedp.CSS(`form button`)),
			chromedp.WaitNotPresent(chromedp.CSS("#access")))
		if err != nil {
			t.Fatal(err)
		}
	}
	// page is what the Web UI says of the run once it says a thing. Now and then it
	// does not load all that it shows; then the page is loaded again, as a person
	// does it.
	page := func(name, awaited string) string {
		t.Helper()
		var text string
		var loaded time.Time
		until(t, name+": "+awaited, func() bool {
			if time.Since(loaded) > 20*time.Second {
				if err := chromedp.Do(browser, chromedp.Navigate("http://"+ui+"/namespaces/default/workflows/"+url.PathEscape(id))); err != nil {
					t.Fatal(err)
				}
				loaded = time.Now()
			}
			var err error
			text, err = chromedp.Run(browser, chromedp.Evaluate[string]("document.body.innerText"))
			return err == nil && strings.Contains(text, awaited)
		})
		picture, err := chromedp.Run(browser, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), picture, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
		return text
	}
	// download asks for the result as the Web UI does for a value that is large.
	reference := d.payloadsOf(t, id, func(e *historypb.HistoryEvent) *commonpb.Payloads {
		return e.GetWorkflowExecutionCompletedEventAttributes().GetResult()
	})
	download := func() string {
		t.Helper()
		got, err := chromedp.Run(browser, chromedp.Evaluate[string](fmt.Sprintf(`fetch(%q, {
			method: "POST", credentials: "include", body: %q, headers: {"Content-Type": "application/json", "X-Namespace": "default"},
		}).then(answer => answer.text()).then(text => text.replace(/"data": *"([^"]*)"/, (_, data) => atob(data)))`, "http://"+codec+"/codec/download", reference), chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, visitor := range []struct {
		name, token, shown, downloaded string
	}{
		{"nobody", "", "encryption-key-id", "sign in at the approvals page"},
		{"bob", "bob-approves-by-this", "encryption-key-id", "driverName"},
		{"alice", "alice-approves-by-this", argument, result},
	} {
		if visitor.token != "" {
			signIn(visitor.token)
		}
		text, got := page(visitor.name, visitor.shown), download()
		if opens := visitor.name == "alice"; strings.Contains(text, argument) != opens || strings.Contains(got, result) != opens || !strings.Contains(got, visitor.downloaded) {
			t.Errorf("%s is shown %s\nand downloads %s", visitor.name, text, clipped(got))
		}
	}
	for what, r := range map[string]struct{ path, namespace, want string }{
		"sealing":           {"/encode", "default", "perdure runs answer"},
		"another namespace": {"/decode", "others", "of the namespace default"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+codec+r.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer alice-token-of-the-test")
		request.Header.Set("X-Namespace", r.namespace)
		response := perduretest.Must(http.DefaultClient.Do(request))(t)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusForbidden || !strings.Contains(string(body), r.want) {
			t.Errorf("%s is answered %s %s, %v", what, response.Status, body, err)
		}
	}
	planted := plantedSecrets{}
	planted.plant("an argument", argument)
	planted.plant("a result", result)
	planted.absent(t, "the log of the codec", []byte(server.stop(os.Interrupt, patience)))
}

// payloadsOf are payloads of a run as its history has them, in JSON: those of the
// first event that has some.
func (d *devProcess) payloadsOf(t *testing.T, id string, of func(*historypb.HistoryEvent) *commonpb.Payloads) string {
	t.Helper()
	events := d.temporal(t).GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event := perduretest.Must(events.Next())(t)
		if found := of(event); found != nil {
			text := perduretest.Must(protojson.Marshal(found))(t)
			return string(text)
		}
	}
	t.Fatalf("the history of %s has no such payloads", id)
	return ""
}

// temporal is a client of dev's Temporal that opens nothing.
func (d *devProcess) temporal(t *testing.T) client.Client {
	t.Helper()
	dev, err := readDevFile(filepath.Join(d.dir, ".perdure"))
	if err != nil || dev == nil {
		t.Fatalf("no dev: %v", err)
	}
	pair := perduretest.Must(web.LoadPair(temporalKey(filepath.Join(d.dir, ".perdure"))))(t)
	c, err := client.Dial(client.Options{HostPort: dev.Temporal, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{TLS: pair.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address := perduretest.Must(pgtest.FreeAddress())(t)
	return address
}
