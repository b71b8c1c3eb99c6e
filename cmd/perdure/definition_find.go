package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
)

// definitionFlags say which definition a command is about.
type definitionFlags struct {
	Definition  string   `arg:"" name:"name|file" help:"Name of a composite tool, or the file of its definition, or NAME@VERSION of one that is published at the server of --against."`
	Config      string   `help:"Configuration file in which to look for the name." placeholder:"FILE"`
	Definitions []string `help:"File or directory of definitions in which to look for the name. Repeatable." placeholder:"DIR" sep:"none"`
}

// find gives the definition: the only one of the file, or that of the name in
// what the flags say, and otherwise in the library. What is wrong with it is
// told first. Modules finds what it loads of what is published; without it, only
// files that stand in for that.
func (f definitionFlags) find(c *console, modules definitions.Modules) (*definitions.Definition, error) {
	if data, err := config.ReadFile(f.Definition); err == nil {
		src := config.Sources{Definitions: []string{f.Definition}, Modules: modules}
		if config.IsConfiguration(data) {
			src = config.Sources{Config: f.Definition, Modules: modules}
		}
		found, err := loadOrTell(c, src)
		if err != nil {
			return nil, err
		}
		return onlyOne(f.Definition, found)
	}
	library := config.Sources{Library: true}
	places := []config.Sources{library}
	if f.Config != "" || len(f.Definitions) > 0 {
		places = []config.Sources{{Config: f.Config, Definitions: f.Definitions, Modules: modules}, library}
	}
	var known []string
	for _, src := range places {
		found, err := loadOrTell(c, src)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			if d.Name == f.Definition {
				return d, nil
			}
			known = append(known, d.Name)
		}
	}
	slices.Sort(known)
	return nil, usagef("no file and no composite tool is named %q; known composite tools: %s, and what --config or --definitions name", f.Definition, strings.Join(slices.Compact(known), ", "))
}

// loadOrTell loads definitions, or tells why not.
func loadOrTell(c *console, src config.Sources) ([]*definitions.Definition, error) {
	found, diags := config.Load(src)
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return nil, errReported
	}
	for _, d := range found.Definitions {
		for _, module := range d.Pending() {
			c.notef("%s is published and not looked at: say --against URL", module)
		}
	}
	return found.Definitions, nil
}

func onlyOne(file string, found []*definitions.Definition) (*definitions.Definition, error) {
	if len(found) == 1 {
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, d := range found {
		names[i] = d.Name
	}
	flag := "--definitions"
	if data, err := config.ReadFile(file); err == nil && config.IsConfiguration(data) {
		flag = "--config"
	}
	return nil, usagef("%s", fmt.Sprintf("%s has %d definitions (%s); name one: NAME %s %s", file, len(found), strings.Join(names, ", "), flag, file))
}
