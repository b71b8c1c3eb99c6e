package template

import (
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/Masterminds/semver/v3"
	"github.com/Masterminds/sprig/v3"
)

// The functions on text have the names and the order of arguments of sprig.
// Only the harmless ones are here: nothing that depends on the time, on
// chance, on the environment, the network or the order of a Go map.

// sprigFunctions are the functions of one string that sprig itself provides.
var sprigFunctions = sprig.GenericFuncMap()

func fromSprig(name string) function {
	return onText(sprigFunctions[name].(func(string) string))
}

var textFunctions = map[string]function{
	"upper":     onText(strings.ToUpper),
	"lower":     onText(strings.ToLower),
	"title":     onText(titled),
	"untitle":   fromSprig("untitle"),
	"trim":      onText(strings.TrimSpace),
	"nospace":   fromSprig("nospace"),
	"swapcase":  fromSprig("swapcase"),
	"snakecase": fromSprig("snakecase"),
	"camelcase": fromSprig("camelcase"),
	"kebabcase": fromSprig("kebabcase"),
	"initials":  fromSprig("initials"),
	"base":      onText(path.Base),
	"dir":       onText(path.Dir),
	"ext":       onText(path.Ext),
	"clean":     onText(path.Clean),
	"toString":  {1, 1, func(x *expansion, args []any) (any, error) { return x.text(args[0]) }},
	"quote":     {1, -1, quotedWith(strconv.Quote)},
	"squote":    {1, -1, quotedWith(func(s string) string { return "'" + s + "'" })},
	"b64enc":    onText(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
	"b64dec":    decoded(base64.StdEncoding.DecodeString),
	"b32enc":    onText(func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) }),
	"b32dec":    decoded(base32.StdEncoding.DecodeString),

	"trimAll":    {2, 2, trimAll},
	"trimPrefix": onTexts(func(prefix, s string) any { return strings.TrimPrefix(s, prefix) }),
	"trimSuffix": onTexts(func(suffix, s string) any { return strings.TrimSuffix(s, suffix) }),
	"hasPrefix":  onTexts(func(prefix, s string) any { return strings.HasPrefix(s, prefix) }),
	"hasSuffix":  onTexts(func(suffix, s string) any { return strings.HasSuffix(s, suffix) }),
	"contains":   onTexts(func(part, s string) any { return strings.Contains(s, part) }),

	"replace":   {3, 3, replaced},
	"repeat":    {2, 2, repeated},
	"trunc":     {2, 2, truncate},
	"abbrev":    {2, 2, abbreviate},
	"substr":    {3, 3, subtext},
	"indent":    {2, 2, indented},
	"nindent":   {2, 2, indentedBelow},
	"cat":       {0, -1, catenated},
	"split":     {2, 2, splitObject},
	"splitList": {2, 2, splitList},
	"join":      {2, 2, joined},
	"sortAlpha": {1, 1, sortAlpha},
	"fail": {1, 1, func(x *expansion, args []any) (any, error) {
		message, err := x.textArg(args[0])
		if err != nil {
			return nil, err
		}
		if message == "" {
			message = "called without a reason"
		}
		return nil, errors.New(message)
	}},
	"semver":        {1, 1, semanticVersion},
	"semverCompare": {2, 2, semverCompare},
}

// onText makes a function of one string.
func onText(how func(string) string) function {
	return function{1, 1, func(x *expansion, args []any) (any, error) {
		s, err := x.textArg(args[0])
		if err != nil {
			return nil, err
		}
		return x.built(how(s))
	}}
}

// onTexts makes a function of two strings whose result is no longer than they.
func onTexts(how func(a, b string) any) function {
	return function{2, 2, func(x *expansion, args []any) (any, error) {
		texts, err := x.textArgs(args)
		if err != nil {
			return nil, err
		}
		return how(texts[0], texts[1]), x.charge(len(texts[1]))
	}}
}

func (x *expansion) textArgs(args []any) ([]string, error) {
	texts := make([]string, len(args))
	for i, arg := range args {
		var err error
		if texts[i], err = x.textArg(arg); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// quotedWith quotes each argument that is not missing, as sprig's quote does.
func quotedWith(how func(string) string) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		var quoted []string
		for _, arg := range args {
			if arg == nil && len(args) > 1 {
				continue
			}
			s, err := x.text(arg)
			if err != nil {
				return nil, err
			}
			quoted = append(quoted, how(s))
		}
		return x.built(strings.Join(quoted, " "))
	}
}

func decoded(how func(string) ([]byte, error)) function {
	return function{1, 1, func(x *expansion, args []any) (any, error) {
		s, err := x.textArg(args[0])
		if err != nil {
			return nil, err
		}
		out, err := how(s)
		if err != nil {
			return nil, err
		}
		return x.built(string(out))
	}}
}

// trimAll takes letters away at both ends. A long list of them is looked through
// once, and not for each letter.
func trimAll(x *expansion, args []any) (any, error) {
	texts, err := x.textArgs(args)
	if err != nil {
		return nil, err
	}
	cutset, s := texts[0], texts[1]
	if err := x.charge(len(cutset)*elementPrice + len(s)); err != nil {
		return nil, err
	}
	letters := map[rune]bool{}
	for _, letter := range cutset {
		letters[letter] = true
	}
	return strings.TrimFunc(s, func(letter rune) bool { return letters[letter] }), nil
}

// titled gives each word a capital.
func titled(s string) string {
	words := strings.SplitAfter(s, " ")
	for i, word := range words {
		words[i] = capitalized(word, unicode.ToTitle)
	}
	return strings.Join(words, "")
}

// fits says whether a result of n bytes may be built.
func fits(n int) error {
	if n < 0 || n > MaxExpansion {
		return errTooLarge
	}
	return nil
}

// product gives a*b of sizes, or more than any limit.
func product(a, b int) int {
	if a > 0 && b > 2*MaxExpansion/a {
		return 2 * MaxExpansion
	}
	return a * b
}

func replaced(x *expansion, args []any) (any, error) {
	texts, err := x.textArgs(args)
	if err != nil {
		return nil, err
	}
	from, to, s := texts[0], texts[1], texts[2]
	found := strings.Count(s, from)
	if err := fits(len(s) + product(found, len(to))); err != nil {
		return nil, err
	}
	if err := x.charge(found * elementPrice); err != nil {
		return nil, err
	}
	return x.built(strings.ReplaceAll(s, from, to))
}

func repeated(x *expansion, args []any) (any, error) {
	n, s, err := x.countAndText(args)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("cannot repeat %d times", n)
	}
	if err := fits(product(len(s), n)); err != nil {
		return nil, err
	}
	return x.built(strings.Repeat(s, n))
}

func (x *expansion) countAndText(args []any) (int, string, error) {
	n, err := x.intArg(args[0])
	if err != nil {
		return 0, "", err
	}
	s, err := x.textArg(args[1])
	if err != nil {
		return 0, "", err
	}
	return n, s, x.charge(len(s)) // most count its letters
}

// trunc keeps the first n letters, or with a negative n the last ones.
func truncate(x *expansion, args []any) (any, error) {
	n, s, err := x.countAndText(args)
	if err != nil {
		return nil, err
	}
	runes := []rune(s)
	switch {
	case n >= 0 && n < len(runes):
		s = string(runes[:n])
	case n < 0 && n > -len(runes):
		s = string(runes[len(runes)+n:])
	}
	return x.built(s)
}

// abbrev shortens to n letters, the last three of them dots.
func abbreviate(x *expansion, args []any) (any, error) {
	n, s, err := x.countAndText(args)
	if err != nil {
		return nil, err
	}
	if runes := []rune(s); n >= 4 && len(runes) > n {
		s = string(runes[:n-3]) + "..."
	}
	return x.built(s)
}

func subtext(x *expansion, args []any) (any, error) {
	start, err := x.intArg(args[0])
	if err != nil {
		return nil, err
	}
	end, s, err := x.countAndText(args[1:])
	if err != nil {
		return nil, err
	}
	runes := []rune(s)
	if end < 0 || end > len(runes) {
		end = len(runes)
	}
	start = min(max(start, 0), end)
	return x.built(string(runes[start:end]))
}

func indented(x *expansion, args []any) (any, error) {
	n, s, err := x.countAndText(args)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("cannot indent by %d", n)
	}
	if err := fits(len(s) + product(strings.Count(s, "\n")+1, n)); err != nil {
		return nil, err
	}
	pad := strings.Repeat(" ", n)
	return x.built(pad + strings.ReplaceAll(s, "\n", "\n"+pad))
}

func indentedBelow(x *expansion, args []any) (any, error) {
	indented, err := indented(x, args)
	if err != nil {
		return nil, err
	}
	return x.built("\n" + indented.(string))
}

func catenated(x *expansion, args []any) (any, error) {
	var parts []string
	for _, arg := range args {
		if arg == nil {
			continue
		}
		s, err := x.text(arg)
		if err != nil {
			return nil, err
		}
		parts = append(parts, s)
	}
	return x.built(strings.Join(parts, " "))
}

// pieces splits s, into no more than an array may hold.
func (x *expansion) pieces(separator, s string) ([]string, error) {
	if err := x.list(strings.Count(s, separator) + 1); err != nil {
		return nil, err
	}
	return strings.Split(s, separator), nil
}

func splitList(x *expansion, args []any) (any, error) {
	texts, err := x.textArgs(args)
	if err != nil {
		return nil, err
	}
	parts, err := x.pieces(texts[0], texts[1])
	return anyList(parts), err
}

// split gives an object with the members _0, _1 and so on.
func splitObject(x *expansion, args []any) (any, error) {
	texts, err := x.textArgs(args)
	if err != nil {
		return nil, err
	}
	parts, err := x.pieces(texts[0], texts[1])
	if err == nil {
		err = x.charge(len(parts) * sortPrice)
	}
	if err != nil {
		return nil, err
	}
	object := make(map[string]any, len(parts))
	for i, part := range parts {
		object["_"+strconv.Itoa(i)] = part
	}
	return object, nil
}

func anyList(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// join leaves missing elements out, as sprig's does.
func joined(x *expansion, args []any) (any, error) {
	separator, err := x.textArg(args[0])
	if err != nil {
		return nil, err
	}
	texts, err := x.elements(args[1])
	if err != nil {
		return nil, err
	}
	size := product(len(separator), len(texts))
	for _, text := range texts {
		size += len(text)
	}
	if err := fits(size); err != nil {
		return nil, err
	}
	return x.built(strings.Join(texts, separator))
}

// elements gives the elements of an array as text; of any other value, the
// value.
func (x *expansion) elements(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var texts []string
	for _, element := range list {
		if element == nil {
			continue
		}
		text, err := x.text(element)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func sortAlpha(x *expansion, args []any) (any, error) {
	texts, err := x.elements(args[0])
	if err != nil {
		return nil, err
	}
	if err := x.charge(len(texts) * sortPrice); err != nil {
		return nil, err
	}
	slices.Sort(texts)
	return anyList(texts), x.list(len(texts))
}

// versionPrice is that of reading a byte of a version or of a constraint.
const versionPrice = 64

// semanticVersion gives the parts of a version as an object.
func semanticVersion(x *expansion, args []any) (any, error) {
	s, err := x.textArg(args[0])
	if err != nil {
		return nil, err
	}
	if err := x.charge(len(s) * versionPrice); err != nil {
		return nil, err
	}
	v, err := semver.NewVersion(s)
	if err != nil {
		return nil, fmt.Errorf("%s is no version: %w", Excerpt(s), err)
	}
	return map[string]any{
		"Major": int64(v.Major()), "Minor": int64(v.Minor()), "Patch": int64(v.Patch()),
		"Prerelease": v.Prerelease(), "Metadata": v.Metadata(), "Original": v.Original(),
	}, nil
}

func semverCompare(x *expansion, args []any) (any, error) {
	texts, err := x.textArgs(args)
	if err != nil {
		return nil, err
	}
	if err := x.charge((len(texts[0]) + len(texts[1])) * versionPrice); err != nil {
		return nil, err
	}
	constraint, err := semver.NewConstraint(texts[0])
	if err != nil {
		return nil, fmt.Errorf("%s is no version constraint: %w", Excerpt(texts[0]), err)
	}
	version, err := semver.NewVersion(texts[1])
	if err != nil {
		return nil, fmt.Errorf("%s is no version: %w", Excerpt(texts[1]), err)
	}
	return constraint.Check(version), nil
}
