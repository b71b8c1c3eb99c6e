package backends

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// A listing is what a server says of its tools.
type listing struct {
	tools []listedTool
	ttl   time.Duration // how long it holds; 0 = not said
}

// list asks for all tools.
func (s *session) list(ctx context.Context) (*listing, error) {
	all := &listing{}
	seen := map[mcp.Cursor]bool{}
	var req mcp.ListToolsRequest
	for {
		page, next, ttl, err := s.listPage(ctx, req)
		if err != nil {
			return nil, err
		}
		all.tools = append(all.tools, page...)
		all.ttl = max(all.ttl, ttl)
		if next == "" {
			return all, nil
		}
		if seen[next] {
			return nil, fmt.Errorf("listing tools: page %q comes after itself", next)
		}
		seen[next] = true
		req.Params.Cursor = next
	}
}

// listPage reads one page from the raw answer, so that schemas stay as the
// server wrote them. mcp-go's client keeps the tools, too: it puts parameters
// into headers where a tool asks for it, and leaves out those that ask wrongly.
func (s *session) listPage(ctx context.Context, req mcp.ListToolsRequest) ([]listedTool, mcp.Cursor, time.Duration, error) {
	ctx, x := newExchange(ctx)
	decoded, err := s.client.ListToolsByPage(ctx, req)
	raw, callErr := x.result(err)
	if callErr != nil {
		return nil, "", 0, fmt.Errorf("listing tools: %w", callErr)
	}
	var page struct {
		Tools      []listedTool `json:"tools"`
		NextCursor mcp.Cursor   `json:"nextCursor"`
		TTLMs      int64        `json:"ttlMs"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, "", 0, fmt.Errorf("listing tools: %w", err)
	}
	if decoded != nil && len(decoded.Tools) < len(page.Tools) {
		page.Tools = intersect(page.Tools, decoded.Tools)
	}
	return page.Tools, page.NextCursor, time.Duration(page.TTLMs) * time.Millisecond, nil
}

func intersect(tools []listedTool, accepted []mcp.Tool) []listedTool {
	names := map[string]bool{}
	for _, t := range accepted {
		names[t.Name] = true
	}
	var kept []listedTool
	for _, t := range tools {
		if names[t.Name] {
			kept = append(kept, t)
		}
	}
	return kept
}
