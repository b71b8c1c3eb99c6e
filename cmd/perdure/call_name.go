package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/service"
)

// A calledTool is what the name in a call means.
type calledTool struct {
	remoteTool
	definition string // name of the definition; "" = not known to be a composite tool
	version    string // wanted version; "" = the latest
	runs       bool   // a call starts a run: it takes an idempotency key and has a dry run
}

// find resolves a name: first as the name that clients see, then as the name of a
// definition. Either may be followed by @VERSION.
func find(ctx context.Context, to target, s *server, name string) (calledTool, error) {
	tools, err := s.tools(ctx)
	if err != nil {
		return calledTool{}, err
	}
	all, missing := callable(ctx, to, tools)
	if tool, ok := all.named(name); ok {
		return tool, nil
	}
	plain, version, versioned := strings.Cut(name, "@")
	tool, ok := all.named(plain)
	switch {
	case !ok && missing[plain] != "":
		return calledTool{}, fmt.Errorf("%s is not available at %s: %s", plain, s.url, missing[plain])
	case !ok:
		return calledTool{}, s.unknownTool(plain, tools)
	case !versioned:
		return tool, nil
	}
	tool.version = strings.TrimSpace(version)
	switch {
	case tool.definition == "":
		return calledTool{}, fmt.Errorf("%s is not a composite tool and has no versions; nothing was called", tool.Name)
	case tool.version == "":
		return calledTool{}, usagef("%q lacks a version after the @; leave the @ out for the latest version", name)
	}
	if err := tool.reference().Check(); err != nil {
		return calledTool{}, usagef("%v", err)
	}
	return tool, nil
}

// calledTools are the tools that can be called. If several share the name of a
// definition, the first one is meant.
type calledTools []calledTool

// callable returns the tools that can be called, and why composite tools are not
// available, by either name.
func callable(ctx context.Context, to target, tools []remoteTool) (all calledTools, missing map[string]string) {
	status, err := fetchStatus(ctx, to)
	if err != nil {
		status = &service.ServerStatus{} // not a perdure server, or its status is not readable
	}
	composite, missing := map[string]bool{}, map[string]string{}
	for _, c := range status.Composites {
		if c.Reason != "" {
			missing[c.Name], missing[c.Of()] = c.Reason, c.Reason
		}
		i := slices.IndexFunc(tools, func(t remoteTool) bool { return t.Name == c.Name })
		if i >= 0 && !composite[c.Name] && c.Offered() {
			composite[c.Name] = true
			all = append(all, calledTool{remoteTool: tools[i], definition: c.Of(), runs: true})
		}
	}
	for _, t := range tools {
		if !composite[t.Name] {
			all = append(all, calledTool{remoteTool: t, runs: err == nil && t.Name == scriptTool})
		}
	}
	return all, missing
}

// named returns the tool that clients see under a name, or else the first one whose
// definition has that name.
func (all calledTools) named(name string) (calledTool, bool) {
	i := slices.IndexFunc(all, func(t calledTool) bool { return t.Name == name })
	if i < 0 {
		i = slices.IndexFunc(all, func(t calledTool) bool { return t.definition == name })
	}
	if i < 0 || name == "" {
		return calledTool{}, false
	}
	return all[i], true
}

// reference is the reference of the wanted version in the registry.
func (t calledTool) reference() definitions.Reference {
	return definitions.Reference{Name: cmp.Or(t.definition, t.Name), Version: t.version}
}

// meta is the _meta of a call, nil if empty.
func (t calledTool) meta(more map[string]any) map[string]any {
	if t.version == "" {
		return more
	}
	meta := map[string]any{versionMeta: t.version}
	maps.Copy(meta, more)
	return meta
}
