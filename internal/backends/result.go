package backends

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// parseResult reads a tool's result without touching its numbers.
func parseResult(raw json.RawMessage) (*Result, error) {
	raw, all, err := unambiguous(raw)
	if err != nil {
		return nil, err
	}
	result := &Result{Raw: raw}
	kind := mcp.ResultTypeComplete
	for _, m := range all {
		switch m.name {
		case "resultType":
			err = json.Unmarshal(m.value, &kind)
		case "isError":
			err = json.Unmarshal(m.value, &result.IsError)
		case "structuredContent":
			if string(m.value) != "null" {
				result.Structured = m.value
			}
		case "content":
			result.Content, err = parseContent(m.value)
		}
		if err != nil {
			return nil, fmt.Errorf("decoding the result: %s: %w", m.name, err)
		}
	}
	switch result.Asks = kind == mcp.ResultTypeInputRequired; {
	case !result.Asks && !kind.IsComplete(): // a task, or a result type of a later revision: no end of the call
		return nil, fmt.Errorf("decoding the result: its type is %.40q, and no request has allowed that", kind)
	case result.Asks && len(raw) > maxQuestions:
		return nil, fmt.Errorf("the elicitations of the tool have %d bytes: %w", len(raw), tooLarge(maxQuestions))
	}
	return result, nil
}

// parseContent reads content block by block: many small ones take a multiple of
// their bytes.
func parseContent(raw json.RawMessage) (content []Content, err error) {
	err = eachElement(raw, maxBlocks, "content blocks", func(block json.RawMessage) error {
		var b struct {
			Content
			MimeType string `json:"mimeType"`
			Resource struct {
				URI, MimeType, Text, Blob string
			} `json:"resource"`
		}
		if err := json.Unmarshal(block, &b); err != nil {
			return err
		}
		c := b.Content
		c.MIMEType = b.MimeType
		if c.Type == "resource" {
			c.Text, c.Data, c.URI, c.MIMEType = b.Resource.Text, b.Resource.Blob, b.Resource.URI, b.Resource.MimeType
		}
		content = append(content, c)
		return nil
	})
	return content, err
}

// eachElement hands on the elements of an array, up to a limit; none for null.
func eachElement(array json.RawMessage, most int, what string, f func(json.RawMessage) error) error {
	if len(array) == 0 || string(array) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(array))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("%s must be an array", what)
	}
	for n := 0; d.More(); n++ {
		var element json.RawMessage
		if err := d.Decode(&element); err != nil {
			return err
		}
		if n == most {
			return fmt.Errorf("%w: more than %d %s", ErrTooLarge, most, what)
		}
		if err := f(element); err != nil {
			return err
		}
	}
	return nil
}
