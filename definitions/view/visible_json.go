package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON is a JSON value for reading: indented, its text with marks and otherwise as
// it is, without escapes but \" \\ \n \r and \t. Numbers keep their digits, and
// objects their order. What is no JSON is "".
func JSON(raw []byte) string { return string(rewrite(raw, "  ", mark)) }

// JSONLine is JSON on one line.
func JSONLine(raw []byte) string { return string(rewrite(raw, "", mark)) }

// Exact is the same JSON value, indented, for programs and people alike: only hidden
// characters are escaped (\u202e), and those that must be.
func Exact(raw []byte) []byte { return rewrite(raw, "  ", escape) }

// rewrite formats JSON. hidden appends a replacement for hidden characters.
func rewrite(raw []byte, indent string, hidden func(out []byte, text string) []byte) []byte {
	var laid bytes.Buffer
	var err error
	if indent == "" {
		err = json.Compact(&laid, raw)
	} else {
		err = json.Indent(&laid, bytes.TrimSpace(raw), "", indent)
	}
	if err != nil {
		return nil
	}
	rest := laid.Bytes()
	out := make([]byte, 0, len(rest))
	for {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			return append(out, rest...)
		}
		out = append(out, rest[:start]...)
		end := start + stringEnd(rest[start:])
		var text string
		_ = json.Unmarshal(rest[start:end], &text) // it was indented, so it is valid
		out = append(out, '"')
		out = hidden(out, text)
		out = append(out, '"')
		rest = rest[end:]
	}
}

// stringEnd is the end of the string at the beginning of JSON.
func stringEnd(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

func mark(out []byte, text string) []byte {
	var above accents
	last := rune(0)
	for _, r := range text {
		switch escaped, tooMany := short(r), above.exceeded(r); {
		case escaped != "":
			out = append(out, escaped...)
		case tooMany, Hidden(r) && !selectsEmoji(last, r):
			out = fmt.Appendf(out, "[U+%04X]", r)
		default:
			out = utf8.AppendRune(out, r)
		}
		last = r
	}
	return out
}

func escape(out []byte, text string) []byte {
	for _, r := range text {
		switch escaped := short(r); {
		case escaped != "":
			out = append(out, escaped...)
		case Hidden(r) && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = appendEscape(appendEscape(out, high), low)
		case Hidden(r):
			out = appendEscape(out, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// short is the escape of a character that JSON must escape.
func short(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return ""
}

const hex = "0123456789abcdef"

func appendEscape(out []byte, r rune) []byte {
	return append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
