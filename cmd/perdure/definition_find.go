package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/scaffold"
)

// definitionFlags name the definition of a command.
type definitionFlags struct {
	Definition  string   `arg:"" optional:"" name:"name|file" help:"Name of a composite tool, file of its definition, or NAME@VERSION of a version that is published at the server of --against."`
	Config      string   `help:"Configuration file in which to look for the name." placeholder:"FILE"`
	Definitions []string `help:"File or directory of definitions in which to look for the name. Repeatable." placeholder:"DIR" sep:"none"`
}

// find returns the definition: the only one of the file, or the one with that name
// in what the flags name, else in the library. It prints diagnostics first. modules
// finds published modules that the definition loads; nil = only files are loaded.
func (f definitionFlags) find(c *console, modules definitions.Modules) (*definitions.Definition, error) {
	if data, err := config.ReadFile(f.Definition); err == nil {
		src := config.Sources{Definitions: []string{f.Definition}, Modules: modules}
		if config.IsConfiguration(f.Definition, data) {
			src = config.Sources{Config: f.Definition, Modules: modules}
		}
		found, err := loadChecked(c, src)
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
		found, err := loadChecked(c, src)
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
	others := "name others with --config or --definitions"
	if _, err := os.Stat(scaffold.ToolsDir); err == nil && len(f.Definitions) == 0 {
		others += ", as in --definitions " + scaffold.ToolsDir
	}
	return nil, usagef("no file or composite tool %q%s; known composite tools: %s; %s",
		f.Definition, template.DidYouMean(f.Definition, known), strings.Join(slices.Compact(known), ", "), others)
}

// load loads a configuration and definitions, and prints their mistakes.
func load(c *console, src config.Sources) (*config.Loaded, error) {
	found, diags := config.Load(src)
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return nil, errReported
	}
	return found, nil
}

// loadChecked loads definitions, and notes what of them was not checked.
func loadChecked(c *console, src config.Sources) ([]*definitions.Definition, error) {
	found, err := load(c, src)
	if err != nil {
		return nil, err
	}
	for _, d := range found.Definitions {
		for _, module := range d.Scripts().Pending() {
			c.notef("%s is a published module and was not checked; name its server with --against URL", module)
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
	if data, err := config.ReadFile(file); err == nil && config.IsConfiguration(file, data) {
		flag = "--config"
	}
	return nil, usagef("%s", fmt.Sprintf("%s has %d definitions (%s); choose one with NAME %s %s", file, len(found), strings.Join(names, ", "), flag, file))
}
