package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// disguised is a text whose amount reads as another one.
const disguised = "pay\u202e54321-\u202c\u200b\x1b[2K<h1>"

// disguisedSchema has it in all that people read of a form, and in what they choose.
func disguisedSchema() json.RawMessage {
	quoted, err := json.Marshal(disguised)
	if err != nil {
		panic(err)
	}
	q := string(quoted)
	return json.RawMessage(`{"type":"object","title":` + q + `,"properties":{
		"b":{"type":"string","title":` + q + `,"description":` + q + `,"default":` + q + `,"pattern":"^x","patternDescription":` + q + `},
		` + q + `:{"type":"boolean"},"a":{"enum":["x",` + q + `]},"c":{"oneOf":[{"const":` + q + `},{"const":1,"title":` + q + `}]},
		"d":{"type":"array","items":{"anyOf":[{"const":` + q + `}]}}},"required":["a"]}`)
}

// readsPlainly fails for each text with hidden characters in what a client got.
// Values that go back as they are (enum, const), and names of fields, are not read
// where there is a title.
func readsPlainly(t *testing.T, what string, raw []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v in %s", what, err, raw)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case string:
			if strings.ContainsFunc(v, view.Hidden) {
				t.Errorf("%s: %s is %q", what, path, v)
			}
		case []any:
			for _, elem := range v {
				walk(path, elem)
			}
		case map[string]any:
			for name, member := range v {
				if titled := v["enumNames"] != nil && name == "enum" || v["title"] != nil && name == "const"; !titled {
					walk(path+"."+name, member)
				}
			}
		}
	}
	walk("", v)
}

// TestAttackWhatClientsAreAsked: in each way in which a client is asked, its user
// reads what runs: no character is hidden, and choices are those that were given.
func TestAttackWhatClientsAreAsked(t *testing.T) {
	t.Parallel()
	asks := func(mode definitions.Mode) func(*play) {
		return func(p *play) {
			p.open(runs.Elicitation{StepID: "gate", Message: disguised, Schema: disguisedSchema(), Mode: mode})
			p.answered("gate#1")
			p.complete(`{}`)
		}
	}
	w := newWorld(t, map[string]func(*play){"form": asks(""), "page": asks(definitions.URLMode)}, withPage)
	form := func(what string, params []byte) {
		t.Helper()
		readsPlainly(t, what, params)
		var asked struct {
			Message         string
			RequestedSchema json.RawMessage
		}
		perduretest.NoError(t, json.Unmarshal(params, &asked))
		if !strings.Contains(asked.Message, "pay[U+202E]54321-[U+202C][U+200B][U+001B][2K<h1>") || !strings.Contains(asked.Message, view.Advice) {
			t.Errorf("%s: the message is %q", what, asked.Message)
		}
		var schema struct {
			Properties map[string]struct {
				Description string
				Default     *string
				Enum        []any
				OneOf       []struct{ Const any }
			}
		}
		perduretest.NoError(t, json.Unmarshal(asked.RequestedSchema, &schema))
		p := schema.Properties
		if p["b"].Default != nil || !strings.Contains(p["b"].Description, "Form: pay[U+202E]") || !strings.Contains(p["b"].Description, "Default: pay[U+202E]") {
			t.Errorf("%s: the field with a default is %+v", what, p["b"])
		}
		if p["a"].Enum[1] != disguised || p["c"].OneOf[0].Const != disguised {
			t.Errorf("%s: the choices are %+v", what, p)
		}
		at := 0
		for _, name := range []string{`"b":{`, `"a":{`, `"c":{`, `"d":{`} {
			i := strings.Index(string(asked.RequestedSchema[at:]), name)
			if i < 0 {
				t.Fatalf("%s: %s is not in the author's order: %s", what, name, asked.RequestedSchema)
			}
			at += i
		}
	}
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "form", `{}`, `{"progressToken":"p"}`)
	told := stream.next()
	for ; told.Method == "notifications/progress"; told = stream.next() {
		readsPlainly(t, "progress", told.Params)
	}
	form("on the stream", told.Params)
	modern := &wire{T: t, url: w.url, caller: "bob"}
	m := modern.modernCall("form", `{}`, canAsk, "").result(false)
	if len(m.Result.InputRequests) != 1 {
		t.Fatalf("asked %+v", m.Result)
	}
	for _, r := range m.Result.InputRequests {
		raw, err := json.Marshal(map[string]any{"message": r.Params.Message, "requestedSchema": r.Params.RequestedSchema})
		if err != nil {
			t.Fatal(err)
		}
		form("in an input_required", raw)
	}
	c = connect(t, w.url, "cid", "2025-11-25", canOpen)
	readsPlainly(t, "in URL mode", c.call("1", "page", `{}`, "").next().Params)
	hasty := newWorld(t, map[string]func(*play){"form": asks("")}, func(o *gateway.Options) { o.Patience = 50 * time.Millisecond })
	handle := connect(t, hasty.url, "dan", "2025-11-25", `{}`).call("1", "form", `{}`, "").result(false)
	if !strings.Contains(handle.text(), "[U+202E]") {
		t.Errorf("the handle says %s", handle.text())
	}
	readsPlainly(t, "in a handle", handle.Result.Structured)
}

// TestAttackWhatBackendsAsk: what a backend asks of the user of a client is shown
// as it is, too.
func TestAttackWhatBackendsAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.catalogue.set(tool("ask"))
	quoted := perduretest.Must(json.Marshal(disguised))(t)
	w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) {
		return &backends.Result{Asks: true, Raw: json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":` +
			string(quoted) + `,"requestedSchema":` + string(disguisedSchema()) + `}}}}`)}, nil
	}
	ann := &wire{T: t, url: w.url, caller: "ann"}
	raw := perduretest.Must(io.ReadAll(ann.modernCall("be_ask", `{}`, canAsk, "").lines))(t)
	readsPlainly(t, "a backend", raw)
	if err := hasAll(string(raw), "pay[U+202E]54321", `"method":"elicitation/create"`); err != nil {
		t.Error(err)
	}
}
