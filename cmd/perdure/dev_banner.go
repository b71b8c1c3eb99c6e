//go:build !nodev

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

// banner prints where everything is and what to try.
func banner(c *console, dev devFile, data string, found *config.Loaded, withheld []string, keys service.Keys, stdio bool) {
	out, mark, terminal := c.out, c.outStyle, c.outTerminal
	if stdio {
		out, mark, terminal = c.err, c.errStyle, c.errTerminal
	}
	fmt.Fprintf(out, `%s is ready: %s of %s%s

  MCP endpoint  %s
  Approvals     %s
  Web UI        %s
  Temporal      %s  (internally also %s; key pair in %s)
  try           perdure %s

  for an MCP client:
  {"mcpServers": {"perdure": {"type": "http", "url": %q}}}

`, mark(bold, "perdure"), service.Plural(len(found.Definitions), "composite tool"), service.Plural(len(found.Backends), "backend"), withheldNote(withheld),
		mark(green, dev.MCP), approvalsLine(dev, keys, terminal), cmp.Or(dev.UI, "off"),
		dev.Temporal, strings.Join(dev.TemporalInternal, ", "), temporalKey(data), suggestedCall(found, withheld), dev.MCP)
}

// withheldNote says which of the composite tools are not offered; "" = all are.
func withheldNote(withheld []string) string {
	if len(withheld) == 0 {
		return ""
	}
	return fmt.Sprintf("; not offered at present: %s (perdure definitions says why)", strings.Join(withheld, ", "))
}

// approvalsLine is how to reach the approvals page. Only a terminal shows the link
// that signs in: other output may be a log, or go to the program that started dev.
func approvalsLine(dev devFile, keys service.Keys, terminal bool) string {
	page := strings.TrimSuffix(dev.MCP, service.Endpoint) + approvals.Prefix
	switch {
	case dev.ApprovalsClosed:
		return service.PageClosed
	case !dev.SignInByLink:
		return page
	case terminal:
		return linkOf(keys, dev.MCP, approvals.Prefix) + "  (signs you in, once)"
	}
	return page + "  (sign in: perdure approvals open)"
}

// suggestedCall is a command to try: a call of prepare_review, or else of the first
// composite tool that is offered.
func suggestedCall(found *config.Loaded, withheld []string) string {
	var first *definitions.Definition
	for _, d := range found.Definitions {
		isOffered := !slices.Contains(withheld, d.Name)
		if isOffered && (first == nil || d.Name == "prepare_review") {
			first = d
		}
	}
	if first == nil {
		return "tools"
	}
	command := "call " + first.Name
	required, _ := first.Parameters["required"].([]any)
	for _, name := range required {
		command += fmt.Sprintf(" %v=…", name)
	}
	return command
}
