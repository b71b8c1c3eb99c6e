package gateway

import (
	"encoding/json"
	"testing"
)

// An answer means what its members say to a reader of JSON that matches names exactly.
func TestAttackAnswerInOtherLetters(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"action": "accept"}`:                                           "accept",
		`{"action": "decline", "Action": "accept"}`:                      "decline",
		`{"ACTION": "accept", "action": "decline"}`:                      "decline",
		`{"Action": "accept"}`:                                           "",
		`{"action": null}`:                                               "",
		`{"action": "decline", "act\u0130on": "accept"}`:                 "decline",
		`{"action": "accept", "Content": {"n": 1}, "content": {"n": 2}}`: "accept",
	} {
		action, content, ok := givenAnswer(json.RawMessage(raw))
		if !ok || action != want {
			t.Errorf("%s is read as %q, %t; want %q", raw, action, ok, want)
		}
		if content != nil && string(content) != `{"n": 2}` {
			t.Errorf("%s: content %s", raw, content)
		}
		if got := actionOf(json.RawMessage(raw)); want == "" && got != cancel || want != "" && got != want {
			t.Errorf("%s: the action is %q", raw, got)
		}
	}
	for _, raw := range []string{`null`, `[]`, `"accept"`, `{"action": ["accept"]}`, `{"action": 1}`} {
		if action, _, ok := givenAnswer(json.RawMessage(raw)); ok {
			t.Errorf("%s is read as %q", raw, action)
		}
	}
}
