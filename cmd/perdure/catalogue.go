package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// catalogue gives the tools that definitions are checked against: those of a
// running MCP server, by its URL, or those of a file that `perdure tools -o
// json` has written.
func catalogue(ctx context.Context, from string) (definitions.Tools, error) {
	listed, err := listedTools(ctx, from)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]definitions.Tool, len(listed))
	for _, t := range listed {
		tool := definitions.Tool{Name: t.Name, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, Effect: definitions.Effect(t.Effect)}
		if len(t.Annotations) > 0 {
			tool.Annotations = new(definitions.Annotations)
			if err := json.Unmarshal(t.Annotations, tool.Annotations); err != nil {
				return nil, fmt.Errorf("reading the annotations of tool %s: %w", t.Name, err)
			}
		}
		byName[t.Name] = tool
	}
	return func(name string) (definitions.Tool, bool) {
		tool, ok := byName[name]
		return tool, ok
	}, nil
}

func listedTools(ctx context.Context, from string) ([]remoteTool, error) {
	if strings.Contains(from, "://") {
		s, err := connect(ctx, from)
		if err != nil {
			return nil, err
		}
		defer s.close()
		return s.tools(ctx)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	var tools []remoteTool
	if err := json.Unmarshal(data, &tools); err != nil {
		return nil, fmt.Errorf("%s is not a list of tools as perdure tools -o json writes it: %w", from, err)
	}
	return tools, nil
}
