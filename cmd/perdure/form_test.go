package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

const formSchema = `{
  "type": "object",
  "properties": {
    "verdict": {"type": "string", "enum": ["approve", "comment"], "description": "What to say"},
    "count": {"type": "integer", "default": 3, "maximum": 10},
    "sure": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
  },
  "required": ["verdict"]
}`

func asking(schema string) mcp.ElicitationRequest {
	var request mcp.ElicitationRequest
	request.Params.Message = "Write the review?"
	request.Params.RequestedSchema = json.RawMessage(schema)
	return request
}

func TestForm(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, typed string
		action      mcp.ElicitationResponseAction
		content     string
		shows       string // something that is in what is printed
	}{
		{name: "choice by name, default, nothing", typed: "a\napprove\n\n\n\n", action: "accept", content: `{"verdict":"approve","count":3}`, shows: "Write the review?"},
		{name: "choice by number, values", typed: "accept\n2\n7\ny\na, b\n", action: "accept", content: `{"verdict":"comment","count":7,"sure":true,"tags":["a","b"]}`, shows: "verdict* – What to say"},
		{name: "boxes", typed: "a\n1\n\n\n2 1 2\n", action: "accept", content: `{"verdict":"approve","count":3,"tags":["a","b"]}`, shows: "[ ] 1. a"},
		{name: "no box", typed: "a\n1\n\n\n0\n", action: "accept", content: `{"verdict":"approve","count":3,"tags":[]}`, shows: "0 for none"},
		{name: "asks again", typed: "what\na\n\nx\n1\nmany\n4\nmaybe\nno\nc\n1\n", action: "accept", content: `{"verdict":"approve","count":4,"sure":false,"tags":["a"]}`, shows: "verdict is required"},
		{name: "says what is wrong", typed: "a\n1\nmany\n1\n\n\n", action: "accept", content: `{"verdict":"approve","count":1}`, shows: "count must be a number"},
		{name: "asks for the one field again", typed: "a\n1\n1.5\n99\n9\n\n\n", action: "accept", content: `{"verdict":"approve","count":9}`, shows: "count must be at most 10"},
		{name: "decline", typed: "d\n", action: "decline"},
		{name: "cancel", typed: "cancel\n", action: "cancel"},
		{name: "goes away", typed: "a\n1\n", action: "cancel"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var shown strings.Builder
			f := newTerminalForm(strings.NewReader(test.typed), &shown, func(_ style, text string) string { return text })
			got := perduretest.Must(f.Elicit(t.Context(), asking(formSchema)))(t)
			content, _ := got.Content.(json.RawMessage)
			if diff := cmp.Diff(string(test.action)+" "+test.content, string(got.Action)+" "+string(content)); diff != "" {
				t.Errorf("(-want +got)\n%s\nshown:\n%s", diff, shown.String())
			}
			if !strings.Contains(shown.String(), test.shows) {
				t.Errorf("%q is not shown:\n%s", test.shows, shown.String())
			}
		})
	}
}

// uncheckedQuestion is a question whose answer need not fit its schema.
func uncheckedQuestion(schema string) mcp.ElicitationRequest {
	request := asking(schema)
	request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{uncheckedMeta: true}}
	return request
}

func TestFormOfUncheckedQuestion(t *testing.T) {
	t.Parallel()
	f := newTerminalForm(strings.NewReader("a\n\n\n\n\n"), io.Discard, func(_ style, text string) string { return text })
	got := perduretest.Must(f.Elicit(t.Context(), uncheckedQuestion(formSchema)))(t)
	if content, _ := got.Content.(json.RawMessage); got.Action != "accept" || string(content) != `{"count":3}` {
		t.Errorf("the answer is %s %s", got.Action, content)
	}
}

// TestAttackWhatTheTerminalAsks: what somebody reads before they answer is what they
// answer. Characters that are not seen, or that steer the terminal, are marks in the
// question and in each part of the form; a line that is entered is never taken for
// another choice than the one that was read.
func TestAttackWhatTheTerminalAsks(t *testing.T) {
	t.Parallel()
	request := asking(`{"type":"object","properties":{
		"z\u202e": {"type":"string","title":"To\u200b","description":"one\n\u001b[2Jtwo","pattern":"^[^A-Z]+$","patternDescription":"small letters\u2066","default":"x\u202ey"},
		"a": {"type":"string","enum":["p","q","r"],"enumNames":["2","yes\u001b[8m","same"]},
		"b": {"type":"array","items":{"anyOf":[{"const":"x","title":"same"},{"const":"y","title":"same"},{"const":"w","title":"d, e\r3. f"}]}},
		"n": {"type":"number","default":12345678901234567890}
	}}`)
	request.Params.Message = "Pay \u202e54321-\u202c?\x1b[2J\r"
	var shown strings.Builder
	typed := []string{"a", "UPPER", "", "2", "#1", "same", "#3, #2", "0x10", ""}
	f := newTerminalForm(strings.NewReader(strings.Join(typed, "\n")+"\n"), &shown, func(_ style, text string) string { return text })
	got := perduretest.Must(f.Elicit(t.Context(), request))(t)
	if strings.ContainsFunc(shown.String(), view.Hidden) {
		t.Errorf("hidden characters are shown: %q", shown.String())
	}
	if content, _ := got.Content.(json.RawMessage); string(view.Exact(content)) != string(view.Exact([]byte(`{"z\u202e":"x\u202ey","a":"p","b":["y","w"],"n":12345678901234567890}`))) {
		t.Errorf("the answer is %s", content)
	}
	for _, want := range []string{
		"Pay [U+202E]54321-[U+202C]?[U+001B][2J[U+000D]\n",
		"  z[U+202E] – To[U+200B] – one\n      [U+001B][2Jtwo – small letters[U+2066]\n",
		"z[U+202E] [x[U+202E]y]: ",
		"z[U+202E] must have the form: small letters[U+2066]",
		`a has several choices that could be "2"; write #1 or #2`,
		`b has several choices that could be "same"; write #1 or #2`,
		"n must be a number",
		"n [12345678901234567890]: ",
	} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not shown", want)
		}
	}
	if t.Failed() {
		t.Log(shown.String())
	}
}

func TestFixedAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answer  fixedAnswer
		content string
		asked   func(schema string) mcp.ElicitationRequest // nil = asking
		wrong   string
	}{
		{name: "accept", answer: fixedAnswer{action: "accept", content: json.RawMessage(`{"verdict":"comment"}`)}, content: `{"verdict":"comment"}`},
		{name: "accept without content", answer: fixedAnswer{action: "accept"}, wrong: "verdict"},
		{name: "content that does not fit", answer: fixedAnswer{action: "accept", content: json.RawMessage(`{"verdict":"maybe"}`)}, wrong: "verdict"},
		{name: "decline", answer: fixedAnswer{action: "decline"}},
		{name: "whatever content", asked: uncheckedQuestion, answer: fixedAnswer{action: "accept", content: json.RawMessage(`{"free":1}`)}, content: `{"free":1}`},
		{name: "no content", asked: uncheckedQuestion, answer: fixedAnswer{action: "accept"}, content: `{}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			asked := asking
			if test.asked != nil {
				asked = test.asked
			}
			got, err := test.answer.Elicit(t.Context(), asked(formSchema))
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("got error %v, want one with %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			content, _ := got.Content.(json.RawMessage)
			if got.Action != test.answer.action || string(content) != test.content {
				t.Errorf("got %s %s", got.Action, content)
			}
		})
	}
}
