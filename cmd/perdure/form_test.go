package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
)

const formSchema = `{
  "type": "object",
  "properties": {
    "verdict": {"type": "string", "enum": ["approve", "comment"], "description": "What to say"},
    "count": {"type": "integer", "default": 3},
    "sure": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
  },
  "required": ["verdict"]
}`

func question(schema string) mcp.ElicitationRequest {
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
		shows       string // something that stands in what is printed
	}{
		{name: "choice by name, default, nothing", typed: "a\napprove\n\n\n\n", action: "accept", content: `{"count":3,"verdict":"approve"}`, shows: "Write the review?"},
		{name: "choice by number, values", typed: "accept\n2\n7\ny\na, b\n", action: "accept", content: `{"count":7,"sure":true,"tags":["a","b"],"verdict":"comment"}`, shows: "verdict* (text) – What to say"},
		{name: "asks again", typed: "what\na\n\nx\n1\nmany\n4\nmaybe\nno\nc\n1\n", action: "accept", content: `{"count":4,"sure":false,"tags":["a"],"verdict":"approve"}`, shows: "verdict is required"},
		{name: "says what is wrong", typed: "a\n1\nmany\n1\n\n\n", action: "accept", content: `{"count":1,"verdict":"approve"}`, shows: `"many" is not a whole number`},
		{name: "decline", typed: "d\n", action: "decline"},
		{name: "cancel", typed: "cancel\n", action: "cancel"},
		{name: "goes away", typed: "a\n1\n", action: "cancel"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var shown strings.Builder
			f := newForm(strings.NewReader(test.typed), &shown, func(_ style, text string) string { return text })
			got, err := f.Elicit(t.Context(), question(formSchema))
			if err != nil {
				t.Fatal(err)
			}
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
	request := question(schema)
	request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{uncheckedMeta: true}}
	return request
}

func TestFormOfUncheckedQuestion(t *testing.T) {
	t.Parallel()
	f := newForm(strings.NewReader("a\n\n\n\n\n"), io.Discard, func(_ style, text string) string { return text })
	got, err := f.Elicit(t.Context(), uncheckedQuestion(formSchema))
	if err != nil {
		t.Fatal(err)
	}
	if content, _ := got.Content.(json.RawMessage); got.Action != "accept" || string(content) != `{"count":3}` {
		t.Errorf("the answer is %s %s", got.Action, content)
	}
}

// A question must not be able to paint over what a person decides on.
func TestFormShowsNoEscapes(t *testing.T) {
	t.Parallel()
	request := question(formSchema)
	request.Params.Message = "Delete \x1b[2Kall?\r"
	var shown strings.Builder
	f := newForm(strings.NewReader("d\n"), &shown, func(_ style, text string) string { return text })
	if _, err := f.Elicit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(shown.String(), "\x1b\r") {
		t.Errorf("control characters are shown: %q", shown.String())
	}
}

func TestFixedAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answer  fixedAnswer
		content string
		asked   func(schema string) mcp.ElicitationRequest // nil = question
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
			asked := question
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
