package backends

import (
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// Limits of a server's answers, besides Config.MaxResultBytes for a result. All answers
// are decoded, kept and passed on to clients.
const (
	maxPage        = 4 << 20 // bytes of a page of tools
	maxListing     = 16 << 20
	maxTools       = 5000
	maxPages       = 1000
	maxControl     = 1 << 20 // bytes of the answer to any other request
	maxBlocks      = 10_000  // content blocks of a result
	maxQuestions   = 1 << 20 // bytes of a result that asks
	maxErrorText   = 8 << 10
	maxName        = 256 // bytes of a tool's name
	maxDescription = 64 << 10
	maxSchema      = 1 << 20
	maxSchemaDepth = 200
)

// checkSize checks an answer before mcp-go's client decodes it.
func checkSize(method string, result json.RawMessage) error {
	switch mcp.MCPMethod(method) {
	case mcp.MethodToolsCall: // is not decoded there
		return nil
	case mcp.MethodToolsList:
		if len(result) > maxPage {
			return fmt.Errorf("a page of tools has %d bytes: %w", len(result), tooLarge(maxPage))
		}
		var page struct {
			Tools json.RawMessage `json:"tools"`
		}
		if json.Unmarshal(result, &page) != nil {
			return nil // mcp-go gives the error
		}
		return eachElement(page.Tools, maxTools, "tools", func(json.RawMessage) error { return nil })
	}
	if len(result) > maxControl {
		return fmt.Errorf("the answer to %s has %d bytes: %w", method, len(result), tooLarge(maxControl))
	}
	return nil
}

// unfit reports why a tool is omitted; "" = it is not.
func (l listedTool) unfit() string {
	switch {
	case l.Name == "":
		return "it has no name"
	case len(l.Name) > maxName:
		return fmt.Sprintf("its name has %d bytes; the limit is %d", len(l.Name), maxName)
	case !utf8.ValidString(l.Name):
		return "its name is no text"
	}
	for _, r := range l.Name {
		if unicode.IsSpace(r) {
			return "its name has white space in it"
		}
		if !unicode.IsGraphic(r) {
			return fmt.Sprintf("its name has %U in it, which cannot be seen", r)
		}
	}
	for what, schema := range map[string]json.RawMessage{"input": l.InputSchema, "output": l.OutputSchema} {
		switch depth := depthOf(schema); {
		case len(schema) > maxSchema:
			return fmt.Sprintf("its %s schema has %d bytes; the limit is %d", what, len(schema), maxSchema)
		case depth > maxSchemaDepth:
			return fmt.Sprintf("its %s schema is nested %d deep; the limit is %d", what, depth, maxSchemaDepth)
		}
	}
	return ""
}

// depthOf is the nesting of valid JSON.
func depthOf(raw json.RawMessage) (deepest int) {
	depth, text, escaped := 0, false, false
	for _, c := range raw {
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// clipped shortens text of a server for errors, logs and histories.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
