package template

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SortedKeys gives the keys of m in order, so that nothing ever depends on
// the order in which Go walks a map.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	//workflowcheck:ignore sorted below
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// Describe says what kind of value v is, for messages: "an object".
func Describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "no value"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		if _, ok := numberOf(v); ok {
			return "a number"
		}
		return fmt.Sprintf("a %T", v)
	}
}

// Excerpt quotes the start of s, for messages.
func Excerpt(s string) string {
	const most = 40
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

// maxDescribed is how many values a description has.
const maxDescribed = 3

// DescribeReads says what the template reads of data, as in `.params.env is "test"`;
// "" = nothing.
func (t *Template) DescribeReads(data any) string {
	var reads []string
	for _, path := range t.Reads() {
		if read := fmt.Sprintf(".%s is %s", strings.Join(path, "."), brief(valueAt(data, path))); len(path) > 0 && !slices.Contains(reads, read) {
			reads = append(reads, read)
		}
	}
	return strings.Join(reads[:min(len(reads), maxDescribed)], ", ")
}

// valueAt is what is at a path in data; nil = nothing.
func valueAt(data any, path []string) any {
	for _, name := range path {
		members, _ := data.(map[string]any)
		data = members[name]
	}
	return data
}

// brief is a text, a number or a boolean, or says what else a value is.
func brief(v any) string {
	if text, isText := v.(string); isText {
		return Excerpt(text)
	}
	if text, err := printed(v); err == nil && v != nil && !IsKind(v, "array") && !IsKind(v, "object") {
		return strings.Trim(Excerpt(text), `"`)
	}
	return Describe(v)
}

// Limits of suggestions: the author of a definition may choose both words.
const (
	maxWord  = 64   // bytes of an unknown word
	maxKnown = 1000 // known words that are looked at
)

// DidYouMean suggests the known word nearest to an unknown one, as the end of a
// message; "" = none is near.
func DidYouMean(word string, known []string) string {
	best := Nearest(word, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// Nearest gives the known word nearest to an unknown one; "" = none is near. Of many known
// words it looks at the first ones.
func Nearest(word string, known []string) string {
	if len(word) > maxWord {
		return ""
	}
	best, bestDistance := "", (len(word)+2)/3 // the first that is too far
	if len(word) == 3 {
		bestDistance = 2
	}
	lower := strings.ToLower(word)
	for _, k := range known[:min(len(known), maxKnown)] {
		if apart := len(word) - len(k); apart > bestDistance || -apart > bestDistance {
			continue // as many letters are missing at least
		}
		near := strings.ToLower(k)
		if len(near) >= 2*maxWord {
			continue
		}
		distance := editDistance(lower, near)
		if distance < bestDistance || distance == bestDistance && best != "" && len(k) > len(best) { // a missing letter is likelier than another
			best, bestDistance = k, distance
		}
	}
	return best
}

// ByNearness sorts known words: first those that are, or begin, nearly like a word, ties
// by alphabet.
func ByNearness(word string, known []string) []string {
	word = strings.ToLower(word[:min(len(word), 64)])
	distance := map[string]int{}
	for _, k := range known {
		begins := strings.ToLower(k[:min(len(k), len(word))])
		distance[k] = min(editDistance(word, begins), editDistance(word, strings.ToLower(k[:min(len(k), 2*len(word))])))
	}
	return slices.SortedFunc(slices.Values(known), func(a, b string) int {
		return cmp.Or(cmp.Compare(distance[a], distance[b]), strings.Compare(a, b))
	})
}

// editDistance counts the letters to insert, delete, replace, or swap with
// their neighbours. b has less than twice maxWord bytes.
func editDistance(a, b string) int {
	var rows [3][2 * maxWord]int
	before, last, row := rows[0][:], rows[1][:], rows[2][:] // before is the one before the last
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// AtMember is the path of a member, such as arguments.title.
func AtMember(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// AtElement is the path of an element, such as ids[2].
func AtElement(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
