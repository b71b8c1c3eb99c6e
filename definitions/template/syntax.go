package template

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// A SyntaxError says why a text is not a template.
type SyntaxError struct {
	Offset  int    // in bytes from the start of the text; -1 = not known
	Message string // what is wrong, without a position
	Word    string // that is read as a function, and is none or lacks arguments; "" = another mistake
}

func (e *SyntaxError) Error() string { return e.Message }

// goNoise is what text/template and its parser put before a message.
var goNoise = regexp.MustCompile(`^template: [^:]*:\d+(:\d+)?: (executing "(\\.|[^"\\])*" at <.*?>: )?|^template: `)

// plainError gives the cause of a failed execution.
func plainError(err error) error {
	if errors.Is(err, ErrNotKnown) {
		return ErrNotKnown
	}
	message := goNoise.ReplaceAllString(err.Error(), "")
	message = strings.TrimPrefix(message, "error calling "+fieldFunc+": ")
	message = strings.TrimPrefix(message, "error calling "+printFunc+": ")
	message = strings.TrimPrefix(message, "error calling "+rangeFunc+": ")
	message = strings.TrimPrefix(message, "error calling ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return errors.New(message)
}

var (
	parserLine = regexp.MustCompile(`^template: [^:]*:(\d+): `)
	quotation  = regexp.MustCompile(`"(\\.|[^"\\])+"|<[^>]+>|'[^']+'`)
)

// syntaxError turns an error of the parser, which has the line, into one with the
// offset, as near as possible.
func syntaxError(text string, err error) *SyntaxError {
	message := goNoise.ReplaceAllString(err.Error(), "")
	match := parserLine.FindStringSubmatch(err.Error())
	if match == nil {
		return &SyntaxError{Offset: -1, Message: message}
	}
	line, _ := strconv.Atoi(match[1])
	offset := faultyAction(text, line, message)
	if quoted := quotation.FindString(message); quoted != "" {
		word, err := strconv.Unquote(quoted)
		if err != nil {
			word = strings.Trim(quoted, "<>'")
		}
		within := min(len(text), offset+len(leftDelimiter.FindString(text[offset:])))
		if i := strings.Index(text[within:], word); i >= 0 && word != "" {
			offset = within + i
		}
	}
	if number, tooLarge := strings.CutPrefix(message, "integer overflow: "); tooLarge {
		message = fmt.Sprintf("%s is too large for a number in a template; read it from text: (int %[1]s)", number)
	}
	return &SyntaxError{Offset: offset, Message: message + remedy(text, offset, message)}
}

// leftDelimiter begins an action.
var leftDelimiter = regexp.MustCompile(`^\{\{(- )?`)

// maxLocating is how many actions the search for a wrong one looks at. It parses the text
// before each.
const maxLocating = 16

// faultyAction gives where the action begins for which the parser refuses the text, with a
// message and a line: without it, what is before it has another mistake, or none.
func faultyAction(text string, line int, message string) int {
	start := len(text)
	if end := strings.IndexByte(text[lineStart(text, line):], '\n'); end >= 0 {
		start = lineStart(text, line) + end
	}
	for range maxLocating {
		before := strings.LastIndex(text[:start], "{{")
		if before < 0 {
			break
		}
		start = before
		_, _, err := parsed(text[:start])
		if err == nil || goNoise.ReplaceAllString(err.Error(), "") != message {
			break
		}
	}
	return start
}

// hyphenated is a path with a hyphen in one of its names.
var hyphenated = regexp.MustCompile(`\.steps\.([A-Za-z0-9_]*-[A-Za-z0-9_-]*)((\.[A-Za-z0-9_]+)*)`)

// remedies are what to write instead, by a message of the parser.
var remedies = map[string]string{
	`unexpected "=" in operand`:           `; values are compared by functions, as in {{eq .params.env "test"}}`,
	`unexpected ">" in operand`:           `; values are compared by functions, as in {{gt .params.count 5}}`,
	`unexpected "<" in operand`:           `; values are compared by functions, as in {{lt .params.count 5}}`,
	`unexpected "!" in operand`:           `; write {{not .params.x}}, or {{ne .params.x "y"}}`,
	`unexpected "?" in operand`:           `; write {{if .params.x}}a{{else}}b{{end}}, or {{ternary "a" "b" .params.x}}`,
	`unexpected "|" in command`:           `; write {{or .params.a .params.b}}`,
	`unexpected "&" in operand`:           `; write {{and .params.a .params.b}}`,
	`unexpected "(" in operand`:           `; functions take their arguments without parentheses and commas, as in {{join "," .params.tags}}`,
	`unexpected "!" in command`:           `; write {{not .params.x}}, or {{ne .params.x "y"}}`,
	`unexpected "," in operand`:           `; functions take their arguments without parentheses and commas, as in {{join "," .params.tags}}`,
	`illegal number syntax: "+"`:          `; write {{add .params.a .params.b}}, or two templates for texts`,
	`illegal number syntax: "-"`:          `; write {{sub .params.a .params.b}}`,
	"unterminated quoted string":          "; a text ends with the quote with which it begins",
	"unclosed left paren":                 "; a parenthesis ends with )",
	"missing value for command":           "; an action has an expression in it, as in {{.params.x}}",
	"unexpected EOF":                      "; {{if}}, {{range}} and {{with}} end with {{end}}",
	"unclosed action":                     "; an action ends with }}",
	"bad character U+007D '}'":            "; an action ends with }}",
	"bad character U+005B '['":            `; an element is read by index: {{index .steps.ID.output.items 0}}`,
	"unexpected bad character U+0026 '&'": "; write {{and .params.a .params.b}}",
}

// remedy says what to write instead, as words that follow a message; "" where that
// is not known.
func remedy(text string, offset int, message string) string {
	meant := meantExpression(text, offset)
	switch {
	case meant != "" && !strings.HasPrefix(message, "bad character U+002D"):
		return meant
	case message == "bad character U+002D '-'":
		if m := hyphenated.FindStringSubmatch(text); m != nil {
			return fmt.Sprintf(`; a name with a hyphen is read by index: {{(index .steps %q)%s}}`, m[1], m[2])
		}
		return "; a name with a hyphen is read by index: {{index .params \"a-b\"}}"
	case strings.HasPrefix(message, "malformed character constant"):
		return `; a text stands in double quotes, or in backquotes`
	case message == "unexpected EOF" && otherBranch.MatchString(text):
		return "; branches are {{if .params.a}}…{{else if .params.b}}…{{else}}…{{end}}"
	case message == "unexpected {{end}}" && loopOfOthers.MatchString(text):
		return "; a loop is {{range $item := .params.items}}{{$item}}{{end}}"
	}
	return remedies[message]
}

// otherBranch is an end or a branch as other template languages write it.
var otherBranch = regexp.MustCompile(`\{\{-?\s*(elseif|elsif|elif|endif|/if)\b`)

// loopOfOthers begins a loop as other template languages write it.
var loopOfOthers = regexp.MustCompile(`\{\{-?\s*(for|each|foreach)\s|\{%`)

// foreign is a template as other systems write it, in a text that has none.
var foreign = regexp.MustCompile(`\$\{\{?\s*(params|inputs?|steps|forEach)\.[^}]*\}|\{\.?(params|steps|forEach)\.[^}]*\}|\{%.*%\}|<%.*%>|\$\((params|inputs|steps)\.[^)]*\)`)

// jinja is a statement of Jinja, which means nothing beside templates either.
var jinja = regexp.MustCompile(`\{%[-+]?\s*(if|elif|else|endif|for|endfor|set)\b[^%]*%\}`)

// statements are what to write for statements of Jinja, by their first word.
var statements = map[string]string{
	"for": "a loop is {{range $x := .params.list}}{{$x}}{{end}}", "endfor": "a loop ends with {{end}}",
	"set": "a variable is {{$x := .params.x}}",
}

// noDollar is what to write for a template of GitHub Actions and the like.
const noDollar = "a template has no $ before it"

// besides says what else a text with a mistake has of other systems, as words that follow
// a message.
func besides(text string, offset int) string {
	if start := strings.LastIndex(text[:max(0, offset)], "{{"); start > 0 && text[start-1] == '$' {
		return "; " + noDollar
	}
	if found, write := statement(text); found != "" {
		return fmt.Sprintf("; %s is taken as text: %s", found, write)
	}
	return ""
}

// statement gives the first statement of Jinja in a text, and what to write instead.
func statement(text string) (found, write string) {
	m := jinja.FindStringSubmatch(text)
	if m == nil {
		return "", ""
	}
	return m[0], cmp.Or(statements[m[1]], "a condition is {{if .params.x}}…{{else}}…{{end}}")
}

// Foreign gives what in a text looks like a template of another system, or of one whose
// braces are not all there, and what to write instead; "" = nothing does.
func (t *Template) Foreign() (found, write string) {
	if found, write = statement(t.text); found != "" {
		return found, write
	}
	if strings.HasPrefix(t.text, "${{") {
		return "$", noDollar
	}
	if t.main != nil {
		return "", ""
	}
	const path = "a template is {{.params.x}} or {{.steps.ID.output.x}}"
	if found := foreign.FindString(t.text); found != "" {
		return found, path
	}
	if m := jsonPath.FindStringSubmatch(t.text); m != nil {
		return t.text, fmt.Sprintf("write {{%s}}", m[1])
	}
	if i := strings.Index(t.text, "}}"); i >= 0 && rootName.MatchString(t.text[:i]) {
		return t.text[:i+2], path
	}
	return "", ""
}

// jsonPath is a text that is a path as of JSONPath, and nothing else.
var jsonPath = regexp.MustCompile(`^\s*\$(\.(?:params|steps|forEach|workflow)(?:\.\w+)+)\s*$`)

// rootName is the beginning of a path as templates read it.
var rootName = regexp.MustCompile(`\.(params|steps|forEach)\.`)

// Roots are the names that templates of a definition read, after a dot.
var Roots = []string{"params", "steps", "forEach", "workflow", "vars"}

// otherNames are names of functions in other template languages.
var otherNames = map[string]string{
	"length": "len", "size": "len", "count": "len", "equals": "eq", "equal": "eq", "toJSON": "json", "to_json": "json", "toYaml": "json", "to_yaml": "json", "tojson": "json", "stringify": "json",
	"from_json": "fromJson", "fromJSON": "fromJson", "parseJson": "fromJson", "concat": "print", "lowercase": "lower", "uppercase": "upper",
	"toUpper": "upper", "upcase": "upper", "downcase": "lower", "toLower": "lower", "toUpperCase": "upper", "toLowerCase": "lower", "startswith": "hasPrefix", "startsWith": "hasPrefix", "endswith": "hasSuffix", "endsWith": "hasSuffix", "toupper": "upper", "tolower": "lower", "strip": "trim", "substring": "substr",
	"toString": "toString", "str": "toString", "toInt": "int", "ifelse": "ternary", "includes": "has", "parse_json": "fromJson",
}

// otherRoots are what data is called elsewhere, and how templates read it here.
var otherRoots = map[string]string{
	"inputs": "params", "input": "params", "args": "params", "arguments": "params", "parameters": "params", "param": "params",
	"results": "steps", "outputs": "steps", "jobs": "steps", "needs": "steps", "step": "steps", "tasks": "steps",
	"ti": "steps", "dag_run": "params", "ctx": "params", "context": "params", "data": "params", "body": "params",
	"timestamp": "workflow.start_time", "time": "workflow.start_time", "today": "workflow.start_time",
	"item": "forEach.item", "each": "forEach.item", "loop": "forEach.index",
}

// MeantRoot says what to write for the name of data as other systems have it, as words
// that follow a message; "" = not known.
func MeantRoot(name string) string {
	switch meant := otherRoots[name]; {
	case meant != "":
		return ": write ." + meant
	case slices.Contains([]string{"env", "secrets", "secret", "environment", "github", "vault"}, name):
		return ": templates do not read the environment; a backend gets its secrets from the configuration"
	}
	return ""
}

// unknownFunction is the message for an unknown function, with what to write instead.
func unknownFunction(name string) string {
	functions := SortedKeys(Functions())
	switch other := otherNames[name]; {
	case slices.Contains(Roots, name):
		return fmt.Sprintf("function %q not found: write .%s, with a dot before it", name, name)
	case otherRoots[name] != "":
		return fmt.Sprintf("function %q not found: write .%s, with a dot before it", name, otherRoots[name])
	case MeantRoot(name) != "":
		return fmt.Sprintf("function %q not found%s", name, MeantRoot(name))
	case slices.Contains([]string{"None", "null", "undefined"}, name):
		return fmt.Sprintf("function %q not found: write nil, which only a function takes, as in {{eq .params.x nil}}", name)
	case name == "True" || name == "False":
		return fmt.Sprintf("function %q not found: write %s", name, strings.ToLower(name))
	case name == "now" || name == "date" || name == "uuid" || name == "random":
		return fmt.Sprintf("function %q not found: a run has no clock and no chance; read .workflow.start_time or .workflow.id", name)
	case other != "" && slices.Contains(functions, other):
		return fmt.Sprintf("function %q not found: write %s", name, other)
	}
	return fmt.Sprintf("function %q not found%s", name, DidYouMean(name, functions))
}

// lineStart gives the offset at which a line, counted from 1, starts.
func lineStart(text string, line int) int {
	offset := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(text[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	return offset
}

// Character gives the first constant in single quotes, which is the number of a
// character and not a text, and its offset; "" = there is none.
func (t *Template) Character() (text string, offset int) {
	trees := slices.Collect(maps.Values(t.subs))
	if t.main != nil {
		trees = append(trees, t.main)
	}
	for _, tree := range trees {
		inspect(tree.Root, func(node parse.Node) bool {
			n, ok := node.(*parse.NumberNode)
			if ok && strings.HasPrefix(n.Text, "'") && (text == "" || int(n.Pos) < offset) {
				text, offset = n.Text, int(n.Pos)
			}
			return true
		})
	}
	return text, offset
}
