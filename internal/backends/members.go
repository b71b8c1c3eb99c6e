package backends

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A member is a name and a value of a JSON object, without a copy.
type member struct {
	name  string
	value json.RawMessage
}

// known are the members of a result that perdure or its clients read.
var known = []string{"resultType", "isError", "content", "structuredContent", "inputRequests", "requestState", "_meta"}

// unambiguous gives the members of a result, and the result with only these: the last of
// each name, and none whose name differs from a known one only in case. Programs disagree
// about which of these counts, so perdure could check another one than its client reads.
func unambiguous(raw json.RawMessage) (json.RawMessage, []member, error) {
	all, err := members(raw)
	if err != nil {
		return nil, nil, err
	}
	last := make(map[string]int, len(all))
	for i, m := range all {
		last[m.name] = i
	}
	kept := make([]member, 0, len(all))
	for i, m := range all {
		if last[m.name] == i && !resembles(m.name) {
			kept = append(kept, m)
		}
	}
	if len(kept) < len(all) {
		raw = object(kept)
	}
	return raw, kept, nil
}

func resembles(name string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return k != name && strings.EqualFold(k, name) })
}

// members are those of a JSON object, in their order; none of null. raw is JSON.
func members(raw json.RawMessage) (all []member, err error) {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("decoding the result: it must be an object")
	}
	for rest := bytes.TrimSpace(raw[1:]); len(rest) > 0 && rest[0] != '}'; {
		var m member
		end := valueEnd(rest)
		if err := json.Unmarshal(rest[:end], &m.name); err != nil {
			return nil, fmt.Errorf("decoding the result: %w", err)
		}
		rest = bytes.TrimLeft(rest[end:], ": \t\r\n")
		end = valueEnd(rest)
		m.value = bytes.TrimSpace(rest[:end:end])
		all = append(all, m)
		rest = bytes.TrimLeft(rest[end:], ", \t\r\n")
	}
	return all, nil
}

// valueEnd is the end of the value at the beginning of a piece of JSON.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			switch depth--; {
			case depth == 0:
				return i + 1
			case depth < 0:
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// object writes members as an object.
func object(all []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string is always JSON
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
