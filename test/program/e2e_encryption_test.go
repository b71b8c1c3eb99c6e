package program_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure/internal/perduretest"
)

const encryptedTools = `incomingAuth: {type: token, tokenFile: tokens.yaml}
compositeTools:
  - name: both
    description: Reads, asks and writes.
    parameters: {type: object, properties: {what: {type: string}}}
    steps:
      - {id: look, tool: be_read}
      - {id: gate, type: elicitation, message: "Really {{.params.what}}?", schema: {type: object}, timeout: 1h, dependsOn: [look]}
      - {id: write, tool: be_write, arguments: {what: "{{.params.what}}"}, dependsOn: [gate]}
  - name: flaky
    description: Fails at first.
    parameters: {type: object, properties: {what: {type: string}}}
    steps:
      - {id: write, tool: be_write, arguments: {what: "{{.params.what}}"}}
      - {id: flaky, tool: be_flaky, arguments: {what: "{{.params.what}}"}, dependsOn: [write]}
`

// TestEncryption plants a value in arguments, questions, results and errors of
// runs that are sealed. Everything works as without: to call, follow, answer,
// list, show, resume; across a restart with new keys. And the value is in nothing
// that is kept. The codec endpoint opens it for its caller and nobody else.
func TestEncryption(t *testing.T) {
	t.Parallel()
	const argument, result, words = "argument-5f2c9a", "result-08d1e7", "words-c4b3d2"
	planted := plantedSecrets{}
	for _, value := range []string{argument, result, words} {
		planted.plant(value, value)
	}
	var mended atomic.Bool
	fakes := serveFakes(t, map[string]fakeTool{
		"be_read": structuredAnswer(`{"text":"` + result + `"}`), "be_write": structuredAnswer(`{"text":"` + result + `"}`),
		"be_flaky": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
			if mended.Load() {
				return mcp.NewToolResultStructured(map[string]any{"text": result}, result), nil
			}
			return mcp.NewToolResultError(words), nil
		},
	})
	dir, elsewhere := t.TempDir(), t.TempDir()
	planted.plant("a payload key", strings.Repeat("0a", 32))
	planted.plant("another payload key", strings.Repeat("0b", 32))
	first, second := "first:"+strings.Repeat("0a", 32)+"\n", "second:"+strings.Repeat("0b", 32)+"\n"
	keys := filepath.Join(elsewhere, "payload.keys")
	write(t, keys, first)
	write(t, filepath.Join(dir, "tokens.yaml"), "tokens: [{subject: alice, env: ALICE}, {subject: bob, env: BOB}]\n")
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[{tool: read, class: read}]")+encryptedTools)
	d := newDev(t, dir, "--config", "perdure.yaml", "--payload-key-file", keys)
	d.env = append(d.env, "ALICE=alice-token-of-the-test", "BOB=bob-token-of-the-test")
	d.start()
	token := filepath.Join(elsewhere, "token")
	write(t, token, "alice-token-of-the-test")
	sealed := []string{"--payload-key-file", keys}

	if got := d.run(t, "call", "both", "what="+argument, "--answer", "accept", "--content", "{}", "--token-file", token); !strings.Contains(got, result) {
		t.Errorf("the call says %s", got)
	}
	var list string
	if _, _, err := d.try(t, "call", "flaky", "what="+argument, "--token-file", token); err == nil {
		t.Error("the call of what is broken succeeds")
	}
	until(t, "both runs to be listed", func() bool {
		list = d.run(t, append([]string{"runs", "list"}, sealed...)...)
		return strings.Contains(list, "both/") && strings.Contains(list, "failed")
	})
	id, flaky := runIn(list, "both/"), runIn(list, "flaky/")
	if shown := d.run(t, append([]string{"runs", "show", flaky}, sealed...)...); !strings.Contains(shown, words) || !strings.Contains(shown, argument) {
		t.Errorf("show says %s", shown)
	}
	mended.Store(true)
	d.run(t, append([]string{"runs", "resume", flaky}, sealed...)...)
	until(t, "the run that was resumed to end", func() bool {
		out, _, err := d.try(t, append([]string{"runs", "result", flaky}, sealed...)...)
		return err == nil && strings.Contains(out, result)
	})
	if n := fakes.count("be_write", argument); n != 2 {
		t.Errorf("the completed steps of two runs were executed %d times", n)
	}
	_, _, _ = d.try(t, "call", "both", "what="+argument, "--timeout", "1s", "--token-file", token)
	var waiting string
	until(t, "a run to wait", func() bool {
		waiting = runIn(d.run(t, append([]string{"runs", "list", "--waiting"}, sealed...)...), "both/")
		return waiting != ""
	})
	if shown := d.run(t, append([]string{"runs", "show", waiting}, sealed...)...); !strings.Contains(shown, "Really "+argument) {
		t.Errorf("show of what waits says %s", shown)
	}

	d.interrupt(patience)
	planted.absentFromFiles(t, filepath.Join(dir, ".perdure"))
	write(t, keys, second+first)
	d.start()
	d.run(t, append([]string{"runs", "answer", waiting, "--accept", "--content", "{}"}, sealed...)...)
	until(t, "the run that waited to end", func() bool {
		out, _, err := d.try(t, append([]string{"runs", "result", waiting}, sealed...)...)
		return err == nil && strings.Contains(out, result)
	})
	if got := d.run(t, append([]string{"runs", "result", id}, sealed...)...); !strings.Contains(got, result) {
		t.Errorf("after the rotation the result is %s", got)
	}
	d.checkCodec(t, keys, waiting, argument)
	write(t, keys, second)
	if out, said, err := d.try(t, append([]string{"runs", "show", id}, sealed...)...); err == nil && strings.Contains(out, result) || !strings.Contains(out+said, `key "first"`) {
		t.Errorf("without the key of the run, show says %s%s, %v", out, said, err)
	}
	if out, said, err := d.try(t, append([]string{"doctor"}, sealed...)...); err == nil || !strings.Contains(out, `key "first"`) {
		t.Errorf("without the key of a run, doctor says %s%s, %v", out, said, err)
	} else {
		planted.absent(t, "what doctor prints", []byte(out+said))
	}
	planted.absent(t, "the log", []byte(d.interrupt(patience)))
	planted.absentFromFiles(t, filepath.Join(dir, ".perdure"))
}

// runIn is the first run of a tool in a list; "" = there is none.
func runIn(list, tool string) string {
	for _, field := range strings.Fields(list) {
		if strings.HasPrefix(field, tool) {
			return field
		}
	}
	return ""
}

// checkCodec asks perdure codec for the arguments of a run of alice's, as the
// Web UI does.
func (d *devProcess) checkCodec(t *testing.T, keys, id, argument string) {
	t.Helper()
	request := d.payloadsOf(t, id, func(e *historypb.HistoryEvent) *commonpb.Payloads {
		return e.GetWorkflowExecutionStartedEventAttributes().GetInput()
	})
	address := freeAddress(t)
	server := &process{t: t, dir: d.dir, address: address, env: []string{"ALICE=alice-token-of-the-test", "BOB=bob-token-of-the-test"},
		args: []string{"codec", "--config", "perdure.yaml", "--listen", address, "--payload-key-file", keys, "--ui-origin", "http://127.0.0.1:8233"}}
	server.launch()
	until(t, "the codec endpoint to answer", func() bool {
		response, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	for _, tc := range []struct {
		name, origin, token string
		status              int
		opens               bool
	}{
		{"alice", "http://127.0.0.1:8233", "alice-token-of-the-test", http.StatusOK, true},
		{"bob", "http://127.0.0.1:8233", "bob-token-of-the-test", http.StatusOK, false},
		{"nobody", "http://127.0.0.1:8233", "", http.StatusUnauthorized, false},
		{"another page", "http://evil.example.com", "alice-token-of-the-test", http.StatusForbidden, false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/decode", strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", tc.origin)
		if tc.token != "" {
			r.Header.Set("Authorization", "Bearer "+tc.token)
		}
		response := perduretest.Must(http.DefaultClient.Do(r))(t)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		var opened commonpb.Payloads
		if response.StatusCode == http.StatusOK && err == nil {
			err = protojson.Unmarshal(body, &opened)
		}
		opens := len(opened.Payloads) > 0 && bytes.Contains(opened.Payloads[0].Data, []byte(argument))
		if err != nil || response.StatusCode != tc.status || opens != tc.opens {
			t.Errorf("%s is answered %s, %v, and opens it: %t", tc.name, response.Status, err, opens)
		}
	}
	server.stop(os.Interrupt, patience)
}
