//go:build !nodev

package main

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/service"
)

// TestClosedPage: no page is advertised that nobody can sign in to.
func TestClosedPage(t *testing.T) {
	t.Parallel()
	line := approvalsLine(devFile{MCP: "http://127.0.0.1:1/mcp", ApprovalsClosed: true}, service.Keys{}, true)
	if !strings.HasPrefix(line, "closed") || strings.Contains(line, "http") {
		t.Error(line)
	}
}
