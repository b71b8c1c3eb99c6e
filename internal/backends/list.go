package backends

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// A listing is a server's list of tools.
type listing struct {
	tools []listedTool
	ttl   time.Duration // how long it is valid; 0 = not stated
}

// knownNames are the names of all tools that a session has listed. mcp-go's client keeps
// every tool of a session, so a session whose names keep changing is ended.
type knownNames struct {
	names map[string]bool
	size  int // of the tools when they came, in bytes
}

func (k *knownNames) note(page []listedTool) error {
	if k.names == nil {
		k.names = map[string]bool{}
	}
	for _, t := range page {
		if !k.names[t.Name] {
			k.names[t.Name] = true
			k.size += t.size()
		}
	}
	if k.size > 4*maxListing || len(k.names) > 4*maxTools {
		return fmt.Errorf("listing tools: %w: %d tools by ever new names", errFlood, len(k.names))
	}
	return nil
}

// list lists all tools. It is not safe for concurrent use.
func (s *session) list(ctx context.Context) (*listing, error) {
	all := &listing{}
	mirrored := map[string]*mcp.Tool{}
	seen := map[mcp.Cursor]bool{}
	size := 0
	var req mcp.ListToolsRequest
	for {
		page, next, ttl, err := s.listPage(ctx, req, mirrored)
		if err != nil {
			return nil, err
		}
		all.tools = append(all.tools, page...)
		all.ttl = max(all.ttl, ttl)
		for _, t := range page {
			size += t.size()
		}
		if err := s.known.note(page); err != nil {
			return nil, err
		}
		switch {
		case size > maxListing:
			return nil, fmt.Errorf("listing tools: %w", tooLarge(maxListing))
		case len(all.tools) > maxTools:
			return nil, fmt.Errorf("listing tools: %w: more than %d tools", ErrTooLarge, maxTools)
		case len(seen) >= maxPages:
			return nil, fmt.Errorf("listing tools: %w: more than %d pages", ErrTooLarge, maxPages)
		}
		if next == "" {
			s.mirrored.Store(&mirrored)
			return all, nil
		}
		if seen[next] {
			return nil, fmt.Errorf("listing tools: page %q comes after itself", next)
		}
		seen[next] = true
		req.Params.Cursor = next
	}
}

// listPage reads one page from the raw answer, so that schemas stay as the server wrote
// them. Tools that want arguments in headers go into mirrored; mcp-go's client omits
// those that want them wrongly.
func (s *session) listPage(ctx context.Context, req mcp.ListToolsRequest, mirrored map[string]*mcp.Tool) ([]listedTool, mcp.Cursor, time.Duration, error) {
	ctx, x := newExchange(ctx)
	defer x.held.end()
	decoded, err := s.client.ListToolsByPage(ctx, req)
	raw, callErr := x.result(err)
	if callErr != nil {
		return nil, "", 0, fmt.Errorf("listing tools: %w", s.hide(callErr))
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
	if decoded != nil && mcp.RequiresStandardHeaders(s.version) {
		for i := range decoded.Tools {
			if t := &decoded.Tools[i]; len(mcp.ExtractParamHeaderBindings(t)) > 0 {
				mirrored[t.Name] = t
			}
		}
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
