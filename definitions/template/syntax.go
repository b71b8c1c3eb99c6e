package template

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A SyntaxError says why a text is not a template.
type SyntaxError struct {
	Offset  int    // in bytes from the start of the text; -1 = not known
	Message string // what is wrong, without a position
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
	quotation  = regexp.MustCompile(`"(\\.|[^"\\])+"|<[^>]+>`)
)

// syntaxError turns an error of the parser, which has the line, into one with the
// offset, as near as possible.
func syntaxError(text string, err error) *SyntaxError {
	message := goNoise.ReplaceAllString(err.Error(), "")
	match := parserLine.FindStringSubmatch(err.Error())
	if match == nil {
		return &SyntaxError{-1, message}
	}
	line, _ := strconv.Atoi(match[1])
	start := lineStart(text, line)
	offset := start
	if i := strings.Index(text[start:], "{{"); i >= 0 {
		offset += i
	}
	if quoted := quotation.FindString(message); quoted != "" {
		word, err := strconv.Unquote(quoted)
		if err != nil {
			word = strings.Trim(quoted, "<>")
		}
		if i := strings.Index(text[offset:], word); i >= 0 && word != "" {
			offset += i
		}
	}
	if number, tooLarge := strings.CutPrefix(message, "integer overflow: "); tooLarge {
		message = fmt.Sprintf("%s is too large for a number in a template; read it from text: (int %[1]s)", number)
	}
	return &SyntaxError{offset, message + remedy(text, offset, message)}
}

// hyphenated is a path with a hyphen in one of its names.
var hyphenated = regexp.MustCompile(`\.steps\.([A-Za-z0-9_]*-[A-Za-z0-9_-]*)((\.[A-Za-z0-9_]+)*)`)

// remedy says what to write instead, as the end of a message; "" = unknown.
func remedy(text string, offset int, message string) string {
	switch {
	case message == `unexpected "=" in operand`:
		return `; values are compared by functions, as in {{eq .params.env "test"}}`
	case message == "bad character U+007D '}'", message == "unclosed action":
		return "; an action ends with }}"
	case message == "bad character U+002D '-'":
		if m := hyphenated.FindStringSubmatch(text); m != nil {
			return fmt.Sprintf(`; a name with a hyphen is read by index: {{(index .steps %q)%s}}`, m[1], m[2])
		}
		return "; a name with a hyphen is read by index: {{index .params \"a-b\"}}"
	}
	return ""
}

// Roots are the names that templates of a definition read, after a dot.
var Roots = []string{"params", "steps", "forEach", "workflow", "vars"}

// otherNames are names of functions in other template languages.
var otherNames = map[string]string{
	"length": "len", "size": "len", "count": "len", "equals": "eq", "equal": "eq", "toJSON": "json", "to_json": "json", "tojson": "json", "stringify": "json",
	"from_json": "fromJson", "fromJSON": "fromJson", "parseJson": "fromJson", "concat": "print", "lowercase": "lower", "uppercase": "upper",
}

// unknownFunction is the message for an unknown function, with what to write instead.
func unknownFunction(name string) string {
	functions := SortedKeys(Functions())
	switch other := otherNames[name]; {
	case slices.Contains(Roots, name):
		return fmt.Sprintf("function %q not found: write .%s, with a dot before it", name, name)
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
