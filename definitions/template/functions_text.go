package template

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/sprig/v3"
)

// The functions on text have the names and the order of arguments of sprig. None
// depends on the time, on chance, on the environment, the network or the order of a
// Go map.

var textFunctions = mergeTables(
	fromSprig("upper", "lower", "title", "untitle", "trim", "trimPrefix", "trimSuffix", "nospace", "snakecase", "camelcase", "kebabcase",
		"hasPrefix", "hasSuffix", "contains", "b64enc", "base", "dir", "ext", "clean"),
	map[string]function{
		"quote":  {1, -1, func(c *call) any { return c.quote(strconv.Quote) }},
		"squote": {1, -1, func(c *call) any { return c.quote(func(s string) string { return "'" + s + "'" }) }},
		"b64dec": {1, 1, func(c *call) any {
			out, err := base64.StdEncoding.DecodeString(c.str(0))
			c.ok(err)
			return c.built(string(out))
		}},
		"trimAll":   {2, 2, trimAll},
		"cat":       {0, -1, func(c *call) any { return c.joined(" ", c.elementsOf(c.args)) }},
		"replace":   {3, 3, replace},
		"repeat":    {2, 2, repeat},
		"trunc":     {2, 2, truncate},
		"substr":    {3, 3, substring},
		"indent":    {2, 2, func(c *call) any { return c.built(c.indent()) }},
		"nindent":   {2, 2, func(c *call) any { return c.built("\n" + c.indent()) }},
		"splitList": {2, 2, func(c *call) any { return anyList(c.split()) }},
		"split": {2, 2, func(c *call) any {
			object := map[string]any{}
			for i, part := range c.split() {
				object["_"+strconv.Itoa(i)] = part
			}
			c.spend(len(object) * sortPrice)
			return object
		}},
		"join": {2, 2, join},
		"sortAlpha": {1, 1, func(c *call) any {
			texts := c.elements(0)
			if !c.mayList(len(texts)) || !c.spend(len(texts)*sortPrice) {
				return nil
			}
			slices.Sort(texts)
			return anyList(texts)
		}},
		"semverCompare": {2, 2, func(c *call) any {
			constraint, version := c.str(0), c.str(1)
			if !c.spend((len(constraint) + len(version)) * versionPrice) {
				return nil
			}
			ok, err := satisfies(constraint, version)
			if err != nil {
				return c.failf("%s, %s: %w", Excerpt(constraint), Excerpt(version), err)
			}
			return ok
		}},
	})

var (
	sprigFunctions = sprig.GenericFuncMap()
	satisfies      = sprigFunctions["semverCompare"].(func(string, string) (bool, error))
)

// versionPrice is the price of reading a byte of a version or a constraint.
const versionPrice = 64

// fromSprig gives functions of sprig whose results are not much longer than the
// texts that they take.
func fromSprig(names ...string) map[string]function {
	table := map[string]function{}
	for _, name := range names {
		switch f := sprigFunctions[name].(type) {
		case func(string) string:
			table[name] = function{1, 1, func(c *call) any { return c.built(f(c.str(0))) }}
		case func(string, string) string:
			table[name] = function{2, 2, func(c *call) any { return c.built(f(c.str(0), c.str(1))) }}
		case func(string, string) bool:
			table[name] = function{2, 2, func(c *call) any {
				a, b := c.str(0), c.str(1)
				c.spend(len(b))
				return f(a, b)
			}}
		default:
			panic("template: sprig has no function " + name + " on texts") // of a table of this package
		}
	}
	return table
}

// quote quotes each argument that is not missing.
func (c *call) quote(how func(string) string) any {
	var quoted []string
	for _, arg := range c.args {
		if arg != nil || len(c.args) == 1 {
			quoted = append(quoted, how(c.printed(arg)))
		}
	}
	return c.built(strings.Join(quoted, " "))
}

// trimAll removes letters at both ends. It reads a long list of letters only once.
func trimAll(c *call) any {
	cutset, s := c.str(0), c.str(1)
	if !c.spend(len(cutset)*elementPrice + len(s)) {
		return nil
	}
	letters := map[rune]bool{}
	for _, letter := range cutset {
		letters[letter] = true
	}
	return strings.TrimFunc(s, func(letter rune) bool { return letters[letter] })
}

// product gives a*b of sizes, or more than any limit.
func product(a, b int) int {
	if a > 0 && b > 2*MaxExpansion/a {
		return 2 * MaxExpansion
	}
	return a * b
}

func replace(c *call) any {
	from, to, s := c.str(0), c.str(1), c.str(2)
	found := strings.Count(s, from)
	if !c.fits(len(s)+product(found, len(to))) || !c.spend(found*elementPrice) {
		return nil
	}
	return c.built(strings.ReplaceAll(s, from, to))
}

func repeat(c *call) any {
	n, s := c.int(0), c.str(1)
	switch {
	case n < 0:
		return c.failf("cannot repeat %d times", n)
	case !c.fits(product(len(s), n)):
		return nil
	}
	return c.built(strings.Repeat(s, n))
}

// letters are those of an argument.
func (c *call) letters(i int) []rune {
	s := c.str(i)
	if !c.spend(len(s)) {
		return nil
	}
	return []rune(s)
}

// truncate keeps the first n letters, or with a negative n the last ones.
func truncate(c *call) any {
	n, letters := c.int(0), c.letters(1)
	switch {
	case n >= 0 && n < len(letters):
		letters = letters[:n]
	case n < 0 && n > -len(letters):
		letters = letters[len(letters)+n:]
	}
	return c.built(string(letters))
}

func substring(c *call) any {
	start, end, letters := c.int(0), c.int(1), c.letters(2)
	if end < 0 || end > len(letters) {
		end = len(letters)
	}
	return c.built(string(letters[min(max(start, 0), end):end]))
}

func (c *call) indent() string {
	n, s := c.int(0), c.str(1)
	if n < 0 {
		c.failf("cannot indent by %d", n)
	}
	if !c.fits(len(s)+product(strings.Count(s, "\n")+1, n)) || !c.spend(len(s)) {
		return ""
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
}

// split gives the parts of a text, no more than an array may have.
func (c *call) split() []string {
	separator, s := c.str(0), c.str(1)
	if !c.mayList(strings.Count(s, separator) + 1) {
		return nil
	}
	return strings.Split(s, separator)
}

func anyList(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// join leaves missing elements out.
func join(c *call) any { return c.joined(c.str(0), c.elements(1)) }

func (c *call) joined(separator string, texts []string) any {
	size := product(len(separator), len(texts))
	for _, text := range texts {
		size += len(text)
	}
	if !c.fits(size) {
		return nil
	}
	return c.built(strings.Join(texts, separator))
}

// elements gives the elements of an array as texts, without missing ones; any other
// value counts as the only element.
func (c *call) elements(i int) []string {
	list, ok := c.args[i].([]any)
	if !ok {
		list = []any{c.args[i]}
	}
	return c.elementsOf(list)
}

func (c *call) elementsOf(list []any) []string {
	var texts []string
	for _, element := range list {
		if element != nil && c.err == nil {
			texts = append(texts, c.printed(element))
		}
	}
	return texts
}
