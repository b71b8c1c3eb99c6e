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

// DidYouMean suggests the known word nearest to an unknown one, as the end of a
// message; "" = none is near.
func DidYouMean(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestDistance := "", (len(word)+2)/3 // the first that is too far
	if len(word) == 3 {
		bestDistance = 2
	}
	for _, k := range known {
		if len(k) > 2*len(word)+2 { // too far, and perhaps long
			continue
		}
		distance := editDistance(strings.ToLower(word), strings.ToLower(k))
		if distance < bestDistance || distance == bestDistance && best != "" && len(k) > len(best) { // a missing letter is likelier than another
			best, bestDistance = k, distance
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
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
// their neighbours.
func editDistance(a, b string) int {
	var before []int // the row before the last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
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
		before, last = last, row
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
