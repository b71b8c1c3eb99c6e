package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

// A toolSource is the tools that definitions and configurations are checked against.
type toolSource struct {
	listed []remoteTool // nil = they are not known
	byName toolsByName
	served []service.CompositeStatus // composite tools of a perdure server
	of     string                    // which server or file lists them, for people
	auto   bool                      // it was found, not named: it may be of another configuration
	lacks  string                    // configured backends that have no tools there; "" = none
	part   bool                      // rules of the server hide others from this caller
	note   string                    // that the tools were not checked, and why; "" = they were
}

// knownTools lists the tools of --against, else of the dev that runs here.
func (v validateCommand) knownTools(ctx context.Context) (*toolSource, error) {
	source := &toolSource{of: v.Against}
	if v.Against == "" {
		dev, err := dataDir("").running()
		if err != nil || dev == nil || dev.MCP == "" {
			source.note = "tools were not checked: no perdure dev runs with data in " + defaultData + "; start it, or name a server with --against URL"
			return source, nil
		}
		source.auto, source.of = true, dev.MCP
	}
	from := againstFlags{Against: source.of, tokenFlags: v.tokenFlags}
	listed, err := from.listedTools(ctx)
	if err == nil {
		source.byName, err = toolsOf(listed.tools)
	}
	switch {
	case err != nil && source.auto:
		source.note = fmt.Sprintf("tools were not checked: the dev at %s: %v", source.of, err)
		return source, nil
	case err != nil:
		return nil, err
	}
	if source.listed = listed.tools; listed.status != nil {
		source.part, source.served = listed.status.Partial, listed.status.Composites
	}
	return source, nil
}

// check checks what was loaded against the tools, and adds to what was found without them.
func (s *toolSource) check(found *config.Loaded, without definitions.Diagnostics) definitions.Diagnostics {
	diags := s.against(found)
	if diags == nil {
		return without
	}
	return append(slices.DeleteFunc(without, func(d definitions.Diagnostic) bool { return d.Check == "unknown-workflow" }), diags...)
}

// against is what is wrong beside the tools; nil = they were not checked.
func (s *toolSource) against(found *config.Loaded) definitions.Diagnostics {
	if s.listed == nil {
		return nil
	}
	without := s.without(found.Backends)
	s.lacks = strings.Join(without, ", ")
	if s.auto && !s.part && len(without) > 0 && len(without) == len(found.Backends) {
		s.note = fmt.Sprintf("tools were not checked: the dev at %s has none of the backends of the configuration (%s); see perdure doctor, or name a server with --against URL", s.of, s.lacks)
		return nil
	}
	tools, offered := s.ofBackends(), s.composites()
	diags := append(definitions.Diagnostics{}, definitions.Check(found.Definitions, definitions.CheckOptions{Tools: s.byName.find, AllTools: s.byName.list, Offered: offered, MaxDepth: found.MaxDepth})...)
	if s.part { // a tool that is not listed may be there
		return slices.DeleteFunc(diags, func(d definitions.Diagnostic) bool { return d.Check == "unknown-tool" })
	}
	return append(diags, found.Unmatched(tools, s.definitions(offered))...)
}

// without names the configured backends that have no tools at the server.
func (s *toolSource) without(configured []backends.Config) (names []string) {
	for _, b := range configured {
		if !slices.ContainsFunc(s.listed, func(t remoteTool) bool { return t.Backend == b.Name }) {
			names = append(names, b.Name)
		}
	}
	return names
}

func (s *toolSource) ofBackends() (tools []backends.Tool) {
	for _, t := range s.listed {
		if t.Backend != "" {
			tools = append(tools, backends.Tool{Name: t.Name, Backend: t.Backend, Original: t.Original})
		}
	}
	return tools
}

// definitions are the names by which rules mean composite tools, available or not.
func (s *toolSource) definitions(available map[string]json.RawMessage) []string {
	names := append([]string{}, template.SortedKeys(available)...)
	for _, c := range s.served {
		names = append(names, c.Of())
	}
	return names
}

// composites are the composite tools that are available, by the names of their
// definitions, by which steps call them, with the schemas of their arguments where these
// are known: not where clients see several versions.
func (s *toolSource) composites() map[string]json.RawMessage {
	parameters, of := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, t := range s.listed {
		if t.Backend == "" {
			parameters[t.Name] = t.InputSchema
		}
	}
	if len(s.served) == 0 { // a list in a file
		return parameters
	}
	for _, c := range s.served {
		name := c.Of()
		if c.Available != nil && !*c.Available {
			continue
		}
		if _, several := of[name]; several {
			of[name] = nil
			continue
		}
		of[name] = parameters[c.Name]
	}
	return of
}

// said is what people read of the tools.
func (s *toolSource) said() string {
	switch {
	case s.note != "":
		return s.note
	case s.part:
		return "tools are those of " + s.of + " that its rules let this caller know, and others were not checked; to check them, set PERDURE_TOKEN to the token of somebody who may know them"
	case s.lacks != "":
		return "tools are those of " + s.of + ", which has none of " + s.lacks + ": down there, or not in its configuration; see perdure doctor"
	}
	return "tools are those of " + s.of
}
