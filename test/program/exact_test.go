package program_test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/perdure/perdure/internal/backends"
)

// An exactClient gives results as they came over the wire: mcp-go's client turns
// them into values in which large numbers lose digits.
type exactClient struct {
	client    *client.Client
	transport *backends.ExactTransport
}

// A remoteTool is an entry of tools/list, its schemas as they were sent.
type remoteTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
}

func (c *exactClient) tools(ctx context.Context) ([]remoteTool, error) {
	if _, err := c.client.ListTools(ctx, mcp.ListToolsRequest{}); err != nil {
		return nil, err
	}
	var tools []remoteTool
	for _, page := range c.transport.Take(string(mcp.MethodToolsList)) {
		var list struct {
			Tools []remoteTool `json:"tools"`
		}
		if err := json.Unmarshal(page, &list); err != nil {
			return nil, err
		}
		tools = append(tools, list.Tools...)
	}
	return tools, nil
}

// An exactResult is the result of tools/call as it was sent.
type exactResult struct {
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Meta struct {
		Run struct {
			ID string `json:"id"`
		} `json:"perdure/run"`
	} `json:"_meta"`
	raw json.RawMessage
}

func (r exactResult) text() string {
	var parts []string
	for _, c := range r.Content {
		if c.Type == "text" {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func (c *exactClient) call(ctx context.Context, name string, arguments json.RawMessage) (exactResult, error) {
	var request mcp.CallToolRequest
	request.Params.Name = name
	request.Params.Arguments = arguments
	if _, err := c.client.CallTool(ctx, request); err != nil {
		return exactResult{}, err
	}
	sent := c.transport.Take(string(mcp.MethodToolsCall))
	result := exactResult{raw: sent[len(sent)-1]}
	return result, json.Unmarshal(result.raw, &result)
}
