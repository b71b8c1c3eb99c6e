package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/service"
)

// againstFlags name the tools to check definitions against.
type againstFlags struct {
	Against string `help:"Tools to check against: URL of an MCP server, or a file written by perdure tools --all -o json. From a perdure server, published modules are loaded as well." placeholder:"URL|FILE" xor:"schema"`

	tokenFlags `embed:""`
}

// catalogue returns the tools of --against, from a running MCP server or from a
// file. Tools that a perdure server hides from clients have no schema here.
func (f againstFlags) catalogue(ctx context.Context) (definitions.Tools, error) {
	listed, err := f.listedTools(ctx)
	if err != nil {
		return nil, err
	}
	known, err := toolsOf(listed.tools)
	return known.find, err
}

// toolsOf finds listed tools that a step can call, by their names and by those at their
// backends. Where some are of backends, the others are those of a perdure server.
func toolsOf(listed []remoteTool) (toolsByName, error) {
	byName := make(toolsByName, len(listed))
	ofBackends := slices.ContainsFunc(listed, func(t remoteTool) bool { return t.Backend != "" })
	for _, t := range listed {
		if ofBackends && t.Backend == "" {
			continue
		}
		tool, err := t.known()
		if err != nil {
			return nil, err
		}
		byName[t.Name] = tool
	}
	for _, tool := range byName {
		name := tool.Backend + "." + tool.Original
		if _, exposed := byName[name]; !exposed && tool.Original != "" {
			byName[name] = tool
		}
	}
	return byName, nil
}

// toolsByName are tools by the names that steps use.
type toolsByName map[string]definitions.Tool

func (t toolsByName) find(name string) (definitions.Tool, bool) {
	if tool, ok := t[name]; ok {
		return tool, true
	}
	spelled := slices.DeleteFunc(t.list(), func(tool definitions.Tool) bool {
		return !slices.Contains(definitions.Spellings(tool.Name, tool.Backend, tool.Original), name)
	})
	if len(spelled) != 1 { // none, or ambiguous
		return definitions.Tool{}, false
	}
	return spelled[0], true
}

// list lists each tool once.
func (t toolsByName) list() (all []definitions.Tool) {
	for name, tool := range t {
		if name == tool.Name {
			all = append(all, tool)
		}
	}
	return all
}

// modules finds published modules at the server of --against; nil if that is a
// file.
func (f againstFlags) modules(ctx context.Context) definitions.Modules {
	if !f.isServer() {
		return nil
	}
	return serverFlags{URL: f.Against, tokenFlags: f.tokenFlags}.modules(ctx)
}

// definition returns the definition that a command names, which may be published
// at the server of --against.
func (f againstFlags) definition(ctx context.Context, c *console, of definitionFlags) (*definitions.Definition, error) {
	if of.Definition == "" {
		return nil, usagef("missing argument <name|file>: name of a composite tool, or file of its definition")
	}
	if _, missing := os.Stat(of.Definition); missing == nil || !strings.Contains(of.Definition, "@") {
		return of.find(c, f.modules(ctx))
	}
	if !f.isServer() {
		return nil, usagef("%s is a published version; name its server with --against URL", of.Definition)
	}
	return serverFlags{URL: f.Against, tokenFlags: f.tokenFlags}.definition(ctx, c, of.Definition)
}

func (f againstFlags) isServer() bool { return strings.Contains(f.Against, "://") }

// known converts a tool to what definitions are checked against.
func (t remoteTool) known() (definitions.Tool, error) {
	tool := definitions.Tool{
		Name: t.Name, Backend: t.Backend, Original: t.Original, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
		Effect: definitions.Effect(t.Effect), KeyArgument: t.KeyArgument,
		OnUnknown: definitions.OnUnknown(t.OnUnknown),
	}
	if len(t.Annotations) > 0 {
		tool.Annotations = new(definitions.Annotations)
		if err := json.Unmarshal(t.Annotations, tool.Annotations); err != nil {
			return tool, fmt.Errorf("reading the annotations of tool %s: %w", t.Name, err)
		}
	}
	return tool, nil
}

func (f againstFlags) listedTools(ctx context.Context) (toolListing, error) {
	if f.isServer() {
		token, err := f.token()
		if err != nil {
			return toolListing{}, err
		}
		listed, err := allTools(ctx, target{url: f.Against, token: token})
		if e, ok := errors.AsType[*unreachedError](err); ok {
			e.flags = "--against"
		}
		return listed, err
	}
	data, err := os.ReadFile(f.Against)
	if err != nil {
		return toolListing{}, err
	}
	var tools []remoteTool
	if err := json.Unmarshal(data, &tools); err != nil {
		return toolListing{}, fmt.Errorf("%s is not a list of tools; write one with perdure tools --all -o json: %w", f.Against, err)
	}
	return toolListing{tools: tools}, nil
}

// shownTools returns the tools that an MCP server lists.
func shownTools(ctx context.Context, of target) ([]remoteTool, error) {
	s, err := connect(ctx, of)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.tools(ctx)
}

// A toolListing is the tools of a server or a file.
type toolListing struct {
	tools  []remoteTool
	status *service.ServerStatus // nil = they are not those of a perdure server
}

// allTools returns the tools that an MCP server lists. A perdure server adds what it
// knows of backend tools, including hidden ones.
func allTools(ctx context.Context, of target) (toolListing, error) {
	tools, err := shownTools(ctx, of)
	if err != nil {
		return toolListing{}, err
	}
	status, err := fetchStatus(ctx, of)
	if err != nil {
		return toolListing{tools: tools}, nil
	}
	for _, more := range status.Tools {
		i := slices.IndexFunc(tools, func(t remoteTool) bool { return t.Name == more.Name })
		if i < 0 {
			tools = append(tools, remoteTool{Name: more.Name})
			i = len(tools) - 1
		}
		t := &tools[i]
		t.Backend, t.Original, t.Effect, t.KeyArgument, t.Hidden = more.Backend, more.Original, more.Effect, more.KeyArgument, more.Hidden
		t.OnUnknown, t.Probe = more.OnUnknown, more.Probe
	}
	return toolListing{tools, status}, nil
}
