package deftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// matchKey is the only key of a mapping that means any text that matches a regular
// expression.
const matchKey = "$match"

// equal reports whether two values are the same, numbers by their value.
func equal(want, got any) bool { return string(encoded(want)) == string(encoded(got)) }

// includes reports whether got has all that want has: objects may have more members,
// arrays must not have more elements.
func includes(want, got json.RawMessage) bool {
	w, err := template.DecodeValue(want)
	if err != nil {
		return false
	}
	g, err := template.DecodeValue(got)
	if err != nil {
		return false
	}
	return equal(w, part(w, g))
}

// part is got without the members that want does not have, so that it equals want
// exactly if got includes want.
func part(want, got any) any {
	if re, ok := matcher(want); ok {
		if re != nil && re.MatchString(text(got)) {
			return want
		}
		return got
	}
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return got
		}
		kept := map[string]any{}
		for key, w := range want {
			if g, has := members[key]; has {
				kept[key] = part(w, g)
			}
		}
		return kept
	case []any:
		elements, ok := got.([]any)
		if !ok {
			return got
		}
		kept := make([]any, len(elements))
		for i, g := range elements {
			kept[i] = g
			if i < len(want) {
				kept[i] = part(want[i], g)
			}
		}
		return kept
	default:
		return got
	}
}

// matcher gives the regular expression of a value with matchKey, and whether it has
// one; nil if that does not compile.
func matcher(v any) (*regexp.Regexp, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return nil, false
	}
	source, ok := m[matchKey].(string)
	if !ok {
		return nil, false
	}
	re, _ := template.CompilePattern(source) // one that does not compile matches nothing
	return re, true
}

// text is a string's value, or any other value as JSON.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(encoded(v))
}

// encoded is a value as JSON; one that JSON cannot represent equals no other.
func encoded(v any) json.RawMessage {
	raw, err := template.EncodeValue(v)
	if err != nil {
		return json.RawMessage(fmt.Sprintf("%q", err))
	}
	return raw
}

// difference compares an expected value with one that was got, as JSON: "" if they are
// the same, else lines: "- " only expected, "+ " only got. If partial, got may have
// more members.
func difference(want, got json.RawMessage, partial bool) string {
	w, err := template.DecodeValue(want)
	if err != nil {
		return fmt.Sprintf("- not JSON: %v", err)
	}
	g, err := template.DecodeValue(got)
	if err != nil {
		return fmt.Sprintf("+ not JSON: %v", err)
	}
	if partial {
		g = part(w, g)
	}
	if equal(w, g) {
		return ""
	}
	return diff(lines(w), lines(g))
}

// lines is a value as indented JSON, line by line.
func lines(v any) []string {
	var b bytes.Buffer
	if err := json.Indent(&b, encoded(v), "", "  "); err != nil {
		return []string{err.Error()}
	}
	return strings.Split(b.String(), "\n")
}

const (
	diffContext = 2       // lines that are the same around those that are not
	diffCells   = 4 << 20 // bound of the table of common lines
)

// diff gives the lines of both, marked. Where a comparison would be costly, with
// thousands of lines, both are shown one after the other.
func diff(want, got []string) string {
	var out []string
	start, end := 0, 0 // of what is the same in the beginning and at the end
	for start < min(len(want), len(got)) && want[start] == got[start] {
		start++
	}
	for end < min(len(want), len(got))-start && want[len(want)-1-end] == got[len(got)-1-end] {
		end++
	}
	mark := func(sign string, lines []string) {
		for _, l := range lines {
			out = append(out, sign+l)
		}
	}
	mark("  ", want[:start])
	middleWant, middleGot := want[start:len(want)-end], got[start:len(got)-end]
	if len(middleWant)*len(middleGot) > diffCells {
		mark("- ", middleWant)
		mark("+ ", middleGot)
	} else {
		out = append(out, align(middleWant, middleGot)...)
	}
	mark("  ", want[len(want)-end:])
	return strings.Join(abridge(out), "\n")
}

// align marks lines by a longest common subsequence.
func align(want, got []string) []string {
	common := make([][]int, len(want)+1) // length of it for want[i:], got[j:]
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			out = append(out, "  "+want[i])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+want[i])
			i++
		default:
			out = append(out, "+ "+got[j])
			j++
		}
	}
	return out
}

// abridge leaves out equal lines that are far from a difference.
func abridge(marked []string) []string {
	keep := make([]bool, len(marked))
	for i, l := range marked {
		if !strings.HasPrefix(l, "  ") {
			for k := max(i-diffContext, 0); k <= min(i+diffContext, len(marked)-1); k++ {
				keep[k] = true
			}
		}
	}
	var out []string
	for i, l := range marked {
		switch {
		case keep[i]:
			out = append(out, l)
		case i == 0 || keep[i-1]:
			out = append(out, "  …")
		}
	}
	return out
}
