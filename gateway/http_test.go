package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// TestWire plays the conversations of testdata/*.txtar. Files come in pairs: NAME.in
// has headers, an empty line and a body; NAME.out what came back. $SESSION represents a
// session id, $STATE and $QUESTION the tokens that came last, so that a
// conversation can use what it was given.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, file := range perduretest.Files(t, "testdata/*.txtar") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive := perduretest.Must(txtar.ParseFile(file))(t)
			play := newConversation(t)
			var got []txtar.File
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".in") {
					out := play.send(string(f.Data))
					got = append(got, f, txtar.File{Name: strings.TrimSuffix(f.Name, ".in") + ".out", Data: []byte(out)})
				}
			}
			result := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: got})
			if *perduretest.Update {
				perduretest.NoError(t, os.WriteFile(file, result, 0o600))
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(result)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

type conversation struct {
	*wire
	values map[string]string
}

func newConversation(t *testing.T) *conversation {
	w := newWorld(t, map[string]func(*play){
		"echoed": echoed,
		"refusal": func(p *play) {
			p.step("a")
			p.fail(runs.Failure{Error: runs.Error{Code: "tool_error", Category: "tool", Message: "no room left",
				StepID: "b", StepPath: "b", Tool: "be_echo", Attempt: 2, Retryable: true},
				Partial: map[runs.StepPath]json.RawMessage{"a": json.RawMessage(`{"text":"x"}`)}})
		},
		"approval": func(p *play) {
			p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Expires: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)})
			p.complete(`{"action":"` + p.answered("gate#1").Action + `"}`)
		},
	}, func(o *gateway.Options) {
		o.MaxRequest = 4096
	})
	return &conversation{wire: &wire{T: t, url: w.url}, values: map[string]string{}}
}

// send sends a request and returns what came back, tokens named.
func (c *conversation) send(in string) string {
	c.Helper()
	for name, value := range c.values {
		in = strings.ReplaceAll(in, "$"+name, value)
	}
	head, body, _ := strings.Cut(in, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	var header []string
	for _, line := range lines[1:] {
		k, v, _ := strings.Cut(line, ":")
		header = append(header, k, strings.TrimSpace(v))
	}
	if size, ok := strings.CutPrefix(strings.TrimSpace(body), "bytes "); ok {
		body = strings.Repeat("x", len(size)*5000)
	}
	r := c.do(c.Context(), strings.TrimSpace(lines[0]), body, header...)
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s\n", r.StatusCode, r.Header.Get("Content-Type"))
	for _, k := range []string{"Mcp-Session-Id", "Allow", "Www-Authenticate", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers"} {
		if v := r.Header.Get(k); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", k, v)
		}
	}
	out.WriteString("\n")
	c.body(r, &out)
	return c.name(out.String())
}

// body writes what a response says, up to a question, which ends the turn.
func (c *conversation) body(r *response, out *strings.Builder) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		var b bytes.Buffer
		if _, err := b.ReadFrom(r.lines); err != nil {
			c.Fatal(err)
		}
		out.Write(append(bytes.TrimSpace(b.Bytes()), '\n'))
		return
	}
	for {
		f, ok := r.frame()
		switch {
		case !ok:
			out.WriteString("end\n")
			return
		case f.Comment:
			out.WriteString(":\n")
		case len(f.Data) == 0:
			fmt.Fprintf(out, "id retry=%s\n", f.Retry)
		default:
			fmt.Fprintf(out, "%s\n", f.Data)
		}
		if f.ID != "" {
			c.values["EVENT"] = f.ID
		}
		if bytes.Contains(f.Data, []byte(`"elicitation/create"`)) {
			return
		}
	}
}

var (
	tokenPattern = regexp.MustCompile(`(session|event|question|state)(\.[A-Za-z0-9_-]+){3}`)
	runPattern   = regexp.MustCompile(`(echoed|refusal|approval)/[a-z0-9]{4,16}`)
)

// name keeps tokens for what is sent next, and puts their names in their place.
func (c *conversation) name(s string) string {
	s = runPattern.ReplaceAllString(s, "$1/RUN")
	return tokenPattern.ReplaceAllStringFunc(s, func(token string) string {
		purpose, _, _ := strings.Cut(token, ".")
		name := strings.ToUpper(purpose)
		c.values[name] = token
		return "$" + name
	})
}

func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("calls", func(t *testing.T) {
		w := newWorld(t, map[string]func(*play){"gated": gated, "echoed": echoed})
		c := connect(t, w.url, "ann", "2025-11-25", canAsk)
		for i := range 20 {
			stream := c.call(fmt.Sprint(i), "gated", `{}`, "")
			id, _, _ := stream.asked()
			if i%2 == 0 {
				stream.Body.Close() // the client disconnects
				continue
			}
			c.reply(id, `{"action":"decline"}`)
			stream.result(false)
		}
		for i := range 20 {
			c.call(fmt.Sprint(100+i), "echoed", `{}`, "").result(false)
		}
	})
	http.DefaultClient.CloseIdleConnections()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before+2 {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
