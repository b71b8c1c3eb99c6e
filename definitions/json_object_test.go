package definitions_test

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/definitions"
)

// TestParse: objects come back in their order, with each name once; nothing else
// is an object.
func TestParse(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`:                                   `{}`,
		` { "b" : [1, 2] , "a":{"z":1,"y":2}}`: `{"b":[1, 2],"a":{"z":1,"y":2}}`,
		`{"b":1,"a":2,"b":3}`:                  `{"b":3,"a":2}`,
		`{"<\u2028>":"<"}`:                     `{"<\u2028>":"<"}`,
	} {
		o, err := definitions.ParseJSONObject([]byte(raw))
		if err != nil || string(o.JSON()) != want || !json.Valid(o.JSON()) {
			t.Errorf("%s becomes %s, %v", raw, o.JSON(), err)
		}
	}
	for _, raw := range []string{``, `[]`, `1`, `null`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1]`, `{} {}`, `{"a":1}}`} {
		if o, err := definitions.ParseJSONObject([]byte(raw)); err == nil {
			t.Errorf("%s is the object %s", raw, o.JSON())
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	o := definitions.JSONObject{}
	o.Set("b", json.RawMessage("1"))
	o.Set("a", json.RawMessage("2"))
	o.Set("b", json.RawMessage("3"))
	if got := string(o.JSON()); got != `{"b":3,"a":2}` || o.Get("x") != nil || string(o.Get("a")) != "2" {
		t.Errorf("%s", got)
	}
	o.Delete("b")
	if got := string(o.JSON()); got != `{"a":2}` {
		t.Errorf("%s", got)
	}
}
