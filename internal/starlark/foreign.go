package starlark

import (
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

// A foreign construct is one that Starlark does not have, and that people write who
// know Python or JavaScript.
type foreign struct {
	form    *regexp.Regexp // in a line without the texts in it
	advice  string         // "" = another line has reported it
	instead string         // reads past it, as a template of form; "" = nothing does
	certain bool           // it is a mistake wherever it is, and not only where the parser stops
}

func construct(form *regexp.Regexp, advice, instead string) foreign {
	return foreign{form: form, advice: advice, instead: instead, certain: true}
}

func perhapsConstruct(form *regexp.Regexp, advice, instead string) foreign {
	return foreign{form: form, advice: advice, instead: instead}
}

// How many constructs are explained, about, and how many of a kind in a line: each copies
// its line.
const (
	mostForeign = 50
	mostAlike   = 10
)

const annotations = "there are no types of variables and functions: leave them out"

// foreignStatements are whole lines: the first that fits counts.
var foreignStatements = []foreign{
	construct(regexp.MustCompile(`^(\s*)try\s*:$`), "there is no try: r = attempt(fn), or r = try_call_tool(\"name\", {…}), and look at r.ok, r.value and r.error", "${1}if 1:"),
	construct(regexp.MustCompile(`^(\s*)except\b.*\bas\s+(\w+)\s*:$`), "", "${1}for $2 in []:"),
	construct(regexp.MustCompile(`^(\s*)(except\b.*|finally\s*):$`), "", "${1}if 1:"),
	construct(regexp.MustCompile(`^(\s*)import\s+(?:[\w.]+\s+as\s+)?(\w+)\s*$`), "there is no import: json, math and time are there; load(\"lib.star\", \"name\") takes functions of a file beside the definition", "$1$2 = 0"),
	construct(regexp.MustCompile(`^(\s*)from\s+\S+\s+import\s+([\w, ]+)$`), "there is no import: load(\"lib.star\", \"name\") takes functions of a file beside the definition", "$1$2 = 0"),
	construct(regexp.MustCompile(`^\s*(from|import)\b.*$`), "there is no import: load(\"lib.star\", \"name\") takes functions of a file beside the definition", ""),
	construct(regexp.MustCompile(`^(\s*)class\s+(\w+)[^:]*:$`), "there are no classes: use functions, and a dict or struct(name = value) for what belongs together", "${1}def $2():"),
	construct(regexp.MustCompile(`^(\s*)raise\b.*$`), "there is no raise: fail(\"message\") ends the script with an error", "${1}pass"),
	construct(regexp.MustCompile(`^(\s*)(global|nonlocal)\b.*$`), "functions do not assign to variables outside of them: let them return the value, or change a dict or a list", "${1}pass"),
	construct(regexp.MustCompile(`^(\s*)with\b.*\bas\s+(\w+)\s*:$`), "there is no with: a script has no files or connections; call a tool, and within(timeout, fn) for a time limit", "${1}for $2 in []:"),
	construct(regexp.MustCompile(`^(\s*)async\s+(def|for)\b`), "there is no async: every call waits for its result; parallel([fn, …]) and map_parallel(fn, items) call side by side", "$1$2"),
	construct(regexp.MustCompile(`^(\s*)yield\b.*$`), "there is no yield: return a list", "${1}pass"),
	construct(regexp.MustCompile(`^(\s*)del\b.*$`), "there is no del: d.pop(key) removes a key of a dict, l.pop(i) an element of a list", "${1}pass"),
	construct(regexp.MustCompile(`^(\s*)assert\s+[^=\s].*$`), "there is no assert: if not …: fail(\"message\")", "${1}pass"),
	perhapsConstruct(regexp.MustCompile(`^(\s*)(?:const|let|var)\s+(\w+\s*=)`), "variables are not declared: write name = value", "$1$2"),
	perhapsConstruct(regexp.MustCompile(`^(\s*)(?:else\s*if|elseif|elsif)\b`), "write elif", "${1}elif"),
	perhapsConstruct(regexp.MustCompile(`^(\s*)(?:switch|match)\b.*:$`), "there is no match: write if, elif and else", ""),
	perhapsConstruct(regexp.MustCompile(`^\s*(?:function|func)\b.*$`), "a function is def name(…):", ""),
	perhapsConstruct(regexp.MustCompile(`^(\s*)print\s+[^(=.].*$`), "print is a function: print(…)", "${1}pass"),
	perhapsConstruct(regexp.MustCompile(`^\s*@\w.*$`), "there are no decorators: call the function with the other one", ""),
	perhapsConstruct(regexp.MustCompile(`^(\s*\w+)\s*:\s*[\w\[\]|., ]+(=[^=])`), annotations, "$1 $2"),
	perhapsConstruct(regexp.MustCompile(`^\s*def\s+\w+\(.*\)\s*->.*$`), annotations, ""),
	perhapsConstruct(regexp.MustCompile(`^\s*def\s+\w+\([^)]*\w\s*:.*$`), annotations, ""),
}

// foreignParts are parts of lines: each counts. What reads past them has their length.
var foreignParts = []foreign{
	construct(regexp.MustCompile(`\b[fF](["'])`), "there are no f-strings: \"… %s\" % value, or \"… {}\".format(value)", " $1"),
	construct(regexp.MustCompile(`\bis not\b`), "there is no is: write !=, such as x != None", "!=    "),
	construct(regexp.MustCompile(`\bis\b`), "there is no is: write ==, such as x == None", "=="),
	construct(regexp.MustCompile(`\bawait\b`), "there is no await: every call waits for its result; leave it out", "0 or "),
	construct(regexp.MustCompile(`=>`), "a function without a name is lambda x: value", ""),
	construct(regexp.MustCompile("`"), "a text stands in quotes: \"… {}\".format(value)", ""),
	construct(regexp.MustCompile(`\{\s*\*\*`), "dicts are joined with |: d | {\"key\": value}", ""),
	construct(regexp.MustCompile(`:=`), "there is no :=: assign on a line of its own", ""),
	construct(regexp.MustCompile(` && `), "there is no &&: write and", " or "),
	construct(regexp.MustCompile(` \|\| `), "there is no ||: write or", " or "),
	construct(regexp.MustCompile(`!(\w|\()`), "there is no !: write not", "-$1"),
	construct(regexp.MustCompile(`\?`), "there is no ?: write value if condition else other", ""),
	construct(regexp.MustCompile(`(\+\+|--)\s*$`), "there is no ++ or --: write x += 1 or x -= 1", ""),
	construct(regexp.MustCompile(`[=!]==`), "there is no ===: write == or !=", ""),
	perhapsConstruct(regexp.MustCompile(`[\w)\]]\s*\*\*\s*[\w(]`), "there is no **: math.pow(x, y)", ""),
}

// readPast explains a syntax error by constructs of other languages in the text,
// and parses the text without them. Without a tree, it cannot be read; ok = it is explained.
func readPast(file, text string, stopped int) (tree *syntax.File, ds Diagnostics, ok bool) {
	lines, masked := strings.Split(text, "\n"), strings.Split(withoutTexts(text), "\n")
	readable := true
	for i := range lines {
		isHere := i+1 == stopped
		if len(ds) >= mostForeign && !isHere {
			readable = false
			continue
		}
		for _, found := range foreignIn(masked[i], isHere) {
			ok = ok || isHere
			if found.advice != "" {
				at := syntax.Position{Line: int32(i + 1), Col: int32(found.column)}
				ds = append(ds, diagnosticAt(file, at, CheckSyntax, "%s", found.advice))
			}
			readable = readable && found.instead != "" && balanced(masked[i])
			lines[i] = lines[i][:found.from] + found.instead + lines[i][found.to:]
		}
	}
	if !ok || !readable {
		return nil, ds, ok
	}
	options := fileOptions
	tree, err := options.Parse(file, strings.Join(lines, "\n"), 0)
	if err != nil {
		return nil, append(ds, diagnose(file, err)...), true
	}
	return tree, ds, true
}

// A foundPart is a foreign construct in a line.
type foundPart struct {
	column   int // from 1
	advice   string
	from, to int // what instead replaces
	instead  string
}

// foreignIn finds what is foreign in a line without its texts; parts are found last to
// first.
func foreignIn(line string, isHere bool) []foundPart {
	for _, f := range foreignStatements {
		if found := f.in(line, isHere); found != nil {
			return found
		}
	}
	var all []foundPart
	for _, f := range foreignParts {
		for _, found := range f.in(line, isHere) {
			all = append(all, found)
			line = line[:found.from] + strings.Repeat(" ", found.to-found.from) + line[found.to:]
		}
	}
	slices.SortFunc(all, func(a, b foundPart) int { return b.from - a.from })
	return all
}

func (f foreign) in(line string, isHere bool) []foundPart {
	if !f.certain && !isHere {
		return nil
	}
	var all []foundPart
	for _, at := range f.form.FindAllStringSubmatchIndex(line, mostAlike) {
		column := at[0] + len(line[at[0]:at[1]]) - len(strings.TrimLeft(line[at[0]:at[1]], " ")) + 1
		all = append(all, foundPart{column, f.advice, at[0], at[1], string(f.form.ExpandString(nil, f.instead, line, at))})
	}
	return all
}

// balanced reports whether a line closes the brackets that it opens.
func balanced(line string) bool {
	depth := 0
	for _, c := range line {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
	}
	return depth == 0
}

// withoutTexts is a program of the same length whose texts and comments are blank
// except for their quotes and line ends.
func withoutTexts(text string) string {
	b := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	for i := 0; i < len(text); i++ {
		end := i + 1
		switch text[i] {
		case '#':
			for end < len(text) && text[end] != '\n' {
				end++
			}
			blank(i, end)
		case '"', '\'':
			end = min(endOfString(text, i), len(text))
			blank(i+1, end-1)
		}
		i = end - 1
	}
	return string(b)
}
