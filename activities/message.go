package activities

import (
	"bytes"
	"encoding/json"

	"github.com/perdure/perdure/internal/backends"
)

// maxMessage bounds the text of an error, in bytes.
const maxMessage = 8 << 10

// Message is that of a result with isError: its first text that is not empty, or the
// member error, message or text of its structured content; "" = none.
func Message(res *backends.Result) string {
	for _, c := range res.Content {
		if c.Type == "text" && c.Text != "" {
			return shorten(c.Text, maxMessage)
		}
	}
	var s struct{ Error, Message, Text json.RawMessage }
	if json.Unmarshal(res.Structured, &s) == nil {
		for _, raw := range []json.RawMessage{s.Error, s.Message, s.Text} {
			if text := plain(raw); text != "" {
				return shorten(text, maxMessage)
			}
		}
	}
	return ""
}

// plain is a string's value, or any other JSON as it is.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// shorten cuts text off after a number of bytes.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:most]), nil)) + "…"
}
