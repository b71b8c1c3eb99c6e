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
	definition string // of a composite tool of a perdure server; "" = it is none, as far as the server tells
	version    string // that is wanted of it; "" = the latest
	runs       bool   // a call of it is a run of a perdure server: it can be repeated by its key, and has a dry run
}

// find finds the tool that a name means: the one that is offered under it, or
// the one whose definition has it, whatever that is offered as. Either may be
// followed by @VERSION.
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
		return calledTool{}, fmt.Errorf("%s is not a composite tool of a perdure server: it has no versions; nothing was called", tool.Name)
	case tool.version == "":
		return calledTool{}, usagef("%q lacks the version after the @; without an @ it is the latest one", name)
	}
	if err := tool.reference().Check(); err != nil {
		return calledTool{}, usagef("%v", err)
	}
	return tool, nil
}

// calledTools are those that can be called, composite ones in the order in which
// a definition's own name means them.
type calledTools []calledTool

// callable gives the tools that can be called, and of composite tools that cannot
// be the reason, by both names.
func callable(ctx context.Context, to target, tools []remoteTool) (all calledTools, missing map[string]string) {
	status, err := fetchStatus(ctx, to)
	if err != nil {
		status = &service.ServerStatus{} // of another server is known what its tools are called
	}
	composite, missing := map[string]bool{}, map[string]string{}
	for _, c := range status.Composites {
		if c.Reason != "" {
			missing[c.Name], missing[cmp.Or(c.Definition, c.Name)] = c.Reason, c.Reason
		}
		i := slices.IndexFunc(tools, func(t remoteTool) bool { return t.Name == c.Name })
		if i >= 0 && !composite[c.Name] && c.Offered() {
			composite[c.Name] = true
			all = append(all, calledTool{remoteTool: tools[i], definition: cmp.Or(c.Definition, c.Name), runs: true})
		}
	}
	for _, t := range tools {
		if !composite[t.Name] {
			all = append(all, calledTool{remoteTool: t, runs: err == nil && t.Name == scriptTool})
		}
	}
	return all, missing
}

// named gives the tool that is offered under a name, or else the first one whose
// definition has it.
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

// reference is what the registry has the wanted version under.
func (t calledTool) reference() definitions.Reference {
	return definitions.Reference{Name: cmp.Or(t.definition, t.Name), Version: t.version}
}

// meta is what a call says besides, of which there may be nothing.
func (t calledTool) meta(more map[string]any) map[string]any {
	if t.version == "" {
		return more
	}
	meta := map[string]any{versionMeta: t.version}
	maps.Copy(meta, more)
	return meta
}
