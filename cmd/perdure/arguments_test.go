package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const argumentsSchema = `{
  "type": "object",
  "properties": {
    "text": {"type": "string"},
    "count": {"type": "integer", "minimum": 1},
    "ratio": {"type": "number"},
    "flag": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "object": {"type": "object"},
    "maybe": {"type": ["integer", "null"]},
    "either": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
    "level": {"enum": ["1", "2"]},
    "ref": {"$ref": "#/$defs/number"},
    "free": {}
  },
  "required": ["text"],
  "$defs": {"number": {"type": "integer"}}
}`

func TestCallArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		base  string
		pairs []string
		want  string // JSON; or the error, after "error: "
	}{
		{name: "text stays text", pairs: []string{"text=007"}, want: `{"text":"007"}`},
		{name: "text may hold =", pairs: []string{"text=a=b"}, want: `{"text":"a=b"}`},
		{name: "text may be empty", pairs: []string{"text="}, want: `{"text":""}`},
		{name: "integers are exact", pairs: []string{"text=x", "count=12345678901234567890123"}, want: `{"count":12345678901234567890123,"text":"x"}`},
		{name: "decimals are exact", pairs: []string{"text=x", "ratio=0.10000000000000000001"}, want: `{"ratio":0.10000000000000000001,"text":"x"}`},
		{name: "boolean", pairs: []string{"text=x", "flag=true"}, want: `{"flag":true,"text":"x"}`},
		{name: "list", pairs: []string{"text=x", "list=[1, 2]"}, want: `{"list":[1,2],"text":"x"}`},
		{name: "object", pairs: []string{"text=x", `object={"a":1e2}`}, want: `{"object":{"a":1e2},"text":"x"}`},
		{name: "null where it is allowed", pairs: []string{"text=x", "maybe=null"}, want: `{"maybe":null,"text":"x"}`},
		{name: "first type that fits", pairs: []string{"text=x", "either=true"}, want: `{"either":true,"text":"x"}`},
		{name: "next type that fits", pairs: []string{"text=x", "either=perhaps"}, want: `{"either":"perhaps","text":"x"}`},
		{name: "choices of text", pairs: []string{"text=x", "level=1"}, want: `{"level":"1","text":"x"}`},
		{name: "reference", pairs: []string{"text=x", "ref=5"}, want: `{"ref":5,"text":"x"}`},
		{name: "no type: JSON", pairs: []string{"text=x", "free=[true]"}, want: `{"free":[true],"text":"x"}`},
		{name: "no type: text", pairs: []string{"text=x", "free=it is"}, want: `{"free":"it is","text":"x"}`},
		{name: "pairs go over --args", base: `{"text":"a","count":2}`, pairs: []string{"text=b"}, want: `{"count":2,"text":"b"}`},

		{name: "not an integer", pairs: []string{"text=x", "count=1.5"}, want: `error: parameter count: "1.5" is not a whole number`},
		{name: "not a boolean", pairs: []string{"text=x", "flag=yes"}, want: `error: parameter flag: "yes" is not true or false`},
		{name: "not a list", pairs: []string{"text=x", "list=1,2"}, want: `error: parameter list: "1,2" is not a JSON array; write it in quotes, as in list='["a", "b"]'`},
		{name: "unknown", pairs: []string{"txt=x"}, want: `error: unknown parameter "txt"; known parameters: count`},
		{name: "twice", pairs: []string{"text=x", "text=y"}, want: `error: parameter text is given twice`},
		{name: "no value", pairs: []string{"text"}, want: `error: "text" is not of the form key=value`},
		{name: "missing", pairs: nil, want: `error: text`},
		{name: "against the schema", pairs: []string{"text=x", "count=0"}, want: `error: count`},
		{name: "--args is no object", base: `[1]`, want: `error: --args is not a JSON object`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var base json.RawMessage
			if test.base != "" {
				base = json.RawMessage(test.base)
			}
			got, err := callArguments(json.RawMessage(argumentsSchema), base, test.pairs)
			if wrong, ok := strings.CutPrefix(test.want, "error: "); ok {
				if err == nil || !strings.Contains(err.Error(), wrong) {
					t.Errorf("got %s, error %v; want an error with %q", got, err, wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func FuzzCallArguments(f *testing.F) {
	for _, seed := range []string{"text=x", "count=-0", "list=[", `object={"a":`, "free=1e999", "ref=", "=", "maybe=null "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pair string) {
		got, err := callArguments(json.RawMessage(argumentsSchema), json.RawMessage(`{"text":"x"}`), []string{pair})
		if err == nil && !json.Valid(got) {
			t.Errorf("%q gave invalid JSON: %s", pair, got)
		}
	})
}
