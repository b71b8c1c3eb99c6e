package definitions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// documents gives the root of each document that is not empty, up to the first
// syntax error.
func (p *parser) documents(data []byte) []*yaml.Node {
	if !utf8.Valid(data) {
		p.errorf(Position{p.file, 1, 1}, "syntax", "the file is not UTF-8 text")
		return nil
	}
	roots, err := Documents(data)
	switch {
	case errors.Is(err, errDense):
		p.errorf(Position{p.file, 1, 1}, "limit", "%v", err)
	case err != nil:
		p.syntaxError(err)
	}
	return roots
}

// maxValues bounds the keys, values and lines of a file: decoding one takes about
// 0.5 KB of memory.
const maxValues = 500_000

var errDense = fmt.Errorf("the file has more than %d keys, values and lines; split it", maxValues)

// CountValues counts the keys, values and lines that YAML may have at most.
func CountValues(text []byte) (n int) {
	for _, c := range text {
		switch c {
		case '\n', ',', ':', '[', '{':
			n++
		}
	}
	return n
}

// Documents gives the root of each YAML document that is not empty, up to the
// first syntax error. The type [string]? of a parameter is allowed. A file with more than
// 500,000 keys, values and lines is an error.
func Documents(data []byte) ([]*yaml.Node, error) {
	if CountValues(data) > maxValues {
		return nil, errDense
	}
	roots, err := documents(data)
	if quoted := quoteArrays(data); err != nil && quoted != nil {
		if again, other := documents(quoted); other == nil {
			return again, nil
		}
	}
	return roots, err
}

func documents(data []byte) (roots []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return roots, err
		case len(document.Content) == 1 && !isNull(document.Content[0]):
			roots = append(roots, resourcesIn(document.Content[0])...)
		}
	}
}

// resourcesIn are the documents in a document: the items of a list of resources, as kubectl
// prints them; otherwise itself.
func resourcesIn(root *yaml.Node) []*yaml.Node {
	if items := Child(root, "items"); items != nil && items.Kind == yaml.SequenceNode && strings.HasSuffix(kindOf(root), "List") {
		return items.Content
	}
	return []*yaml.Node{root}
}

func (p *parser) syntaxError(err error) {
	pos, message := Position{p.file, 1, 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	var load *yaml.LoadError
	if errors.As(err, &load) {
		message = load.Message
		if load.Mark.Line > 0 {
			pos = Position{p.file, load.Mark.Line, max(1, load.Mark.Column)}
		}
	}
	if at, found := p.splitTemplate(); found {
		p.errorf(at, "syntax", "this is not YAML: the text ends at this quote, within its template; write single quotes around a template and double ones in it, as in '{{eq .params.x \"y\"}}'")
		return
	}
	if at, found := p.openQuote(); found && strings.Contains(message, "unexpected end of stream") {
		p.errorf(at, "syntax", "this is not YAML: the quote that begins here does not end")
		return
	}
	p.errorf(pos, "syntax", "this is not YAML: %s%s", message, p.syntaxRemedy(pos, message))
}

// splitText is a text in quotes that ends within a template.
var splitText = regexp.MustCompile(`(?:^\s*|[-:,\[{]\s*)(?:"(?:[^"\\]|\\.)*\{\{(?:[^}"\\]|\\.)*"|'(?:[^']|'')*\{\{(?:[^}']|'')*')`)

// splitTemplate is the quote at which the first such text ends.
func (p *parser) splitTemplate() (at Position, found bool) {
	for i, line := range p.lines {
		if m := splitText.FindStringIndex(line); m != nil {
			return Position{p.file, i + 1, utf8.RuneCountInString(line[:m[1]])}, true
		}
	}
	return at, false
}

// quotedValue is a value that begins with a quote.
var quotedValue = regexp.MustCompile(`(?:^\s*|[-:,\[{]\s*)(["'])`)

// openQuote is the last quote with which a value begins, and that does not end in its line.
func (p *parser) openQuote() (at Position, found bool) {
	for i, line := range slices.Backward(p.lines) {
		for _, m := range slices.Backward(quotedValue.FindAllStringSubmatchIndex(line, -1)) {
			if !strings.Contains(line[m[3]:], line[m[2]:m[3]]) {
				return Position{p.file, i + 1, utf8.RuneCountInString(line[:m[2]]) + 1}, true
			}
		}
	}
	return at, false
}

// bareTemplate is a value that begins with a template, which YAML reads as a mapping.
var bareTemplate = regexp.MustCompile(`(?::|^\s*-)\s+\{\{`)

// syntaxRemedy says how to mend a mistake in YAML, as the end of a message; "" =
// unknown.
func (p *parser) syntaxRemedy(pos Position, message string) string {
	line := ""
	if pos.Line <= len(p.lines) {
		line = p.lines[pos.Line-1]
	}
	switch {
	case strings.Contains(message, "cannot start any token") && strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		return "; YAML is indented by spaces, not by tabs"
	case bareTemplate.MatchString(line):
		return "; put quotes around a text that begins with a template, as in '{{.params.x}} and more'"
	case strings.Contains(message, "mapping values are not allowed"):
		return "; put quotes around a text that has \": \" in it"
	case strings.Contains(message, "did not find expected '-' indicator"), strings.Contains(message, "did not find expected key"):
		return "; it is indented otherwise than what it belongs to, or a quote or bracket does not end"
	}
	return ""
}
