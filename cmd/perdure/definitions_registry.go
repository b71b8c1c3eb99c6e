package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/registry"
)

// listVersions lists all published versions, and the definitions in files.
func (d definitionsListCommand) listVersions(ctx context.Context, c *console) error {
	var versions []gateway.RegistryVersion
	if err := d.get(ctx, "versions", nil, &versions); err != nil {
		return err
	}
	if d.Output == "json" {
		return c.printJSON(versions)
	}
	w := c.table(c.out)
	for _, v := range versions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Name, cmp.Or(v.Version, "-"), shortDigest(v.Digest), view.Line(origin(v)))
	}
	return w.Flush()
}

// origin describes where a version comes from, and whether it is latest or deprecated.
func origin(v gateway.RegistryVersion) string {
	if v.At == nil {
		return "latest; of " + v.File
	}
	text := "published " + v.At.Format(time.DateTime) + " by " + v.By
	if v.Latest {
		text = "latest; " + text
	}
	if v.Deprecated != "" {
		text += "; deprecated: " + v.Deprecated
	}
	return text
}

type showCommand struct {
	registryFlags `embed:""`

	Reference string `arg:"" help:"NAME, NAME@VERSION, NAME@CONSTRAINT such as deploy@^1.2, or a digest. NAME is the name of the definition or the name that clients see; NAME.star is a module."`
}

func (showCommand) Help() string {
	return `Prints the definition that runs execute: without comments, in canonical order, with
the published modules that it loads. A module is printed as written. Examples:

    perdure definitions show deploy
    perdure definitions show deploy@1.2.0 > deploy.yaml
    perdure definitions show text.star@^1.0
    perdure definitions show sha256:4f0c1d22`
}

func (s showCommand) Run(ctx context.Context, c *console) error {
	v, err := s.version(ctx, s.Reference)
	if err != nil {
		return err
	}
	if s.Output == "json" {
		return c.printJSON(v)
	}
	text, err := asWritten(v)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.exact, "# %s %s %s\n# %s\n", v.Name, v.Version, v.Digest, view.Line(origin(v)))
	for _, m := range v.Modules {
		fmt.Fprintf(c.exact, "# loads %s: %s %s\n", m.Load, m.Version, m.Digest)
	}
	fmt.Fprint(c.exact, text)
	return nil
}

// asWritten returns a definition as YAML, or the text of a module.
func asWritten(v gateway.RegistryVersion) (string, error) {
	if !definitions.IsModuleName(v.Name) {
		return asYAML(v.Source)
	}
	m, err := definitions.ModuleFromSource(v.Source)
	if err != nil {
		return "", err
	}
	return m.Text, nil
}

// asYAML converts the JSON source of a definition to YAML.
func asYAML(source []byte) (string, error) {
	value, err := template.DecodeValue(source)
	if err != nil {
		return "", fmt.Errorf("reading the definition: %w", err)
	}
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(yamlValue(value)); err != nil {
		return "", fmt.Errorf("writing the definition: %w", err)
	}
	return text.String(), nil
}

// yamlValue converts numbers to nodes that YAML writes exactly.
func yamlValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			value[key] = yamlValue(member)
		}
	case []any:
		for i, elem := range value {
			value[i] = yamlValue(elem)
		}
	case template.Float:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: value.String()}
	case fmt.Stringer: // a large integer
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: value.String()}
	}
	return value
}

type deprecateCommand struct {
	registryFlags `embed:""`

	Reference string `arg:"" help:"NAME@VERSION, NAME@CONSTRAINT for all versions that match, or NAME for all versions."`
	Reason    string `help:"Why, and what to use instead. Default: the reason given before, or else deprecated." placeholder:"TEXT" xor:"reason"`
	Undo      bool   `help:"Undo the deprecation." xor:"reason"`
}

func (deprecateCommand) Help() string {
	return `A call uses a deprecated version only if it names it exactly, or if no other version
matches. NAME alone deprecates all versions. Runs are not affected. Examples:

    perdure definitions deprecate deploy@1.2.0 --reason "deploys twice, use 1.2.1"
    perdure definitions deprecate deploy@1.2.0 --undo`
}

func (d deprecateCommand) Run(ctx context.Context, c *console) error {
	q := gateway.Deprecation{Reference: d.Reference, Reason: strings.TrimSpace(d.Reason)}
	if q.Reason == "" && !d.Undo {
		q.Reason, q.Keep = "deprecated", true
	}
	var done []gateway.RegistryVersion
	if err := d.post(ctx, "deprecate", q, &done); err != nil {
		return err
	}
	d.noteTarget(c)
	verb := "deprecated"
	if d.Undo {
		verb = "restored"
	}
	if len(done) > 0 && !strings.Contains(d.Reference, "@") {
		d.noteAll(c, verb, done)
	}
	if d.Output == "json" {
		return c.printJSON(done)
	}
	for _, v := range done {
		fmt.Fprintf(c.out, "%s %s %s\n", verb, v.Name, v.Version)
	}
	if len(done) == 0 {
		c.notef("nothing to do: no version would change")
	}
	return nil
}

// noteAll lists the versions that a name without a version affected: all of them,
// which may not be what was meant.
func (d deprecateCommand) noteAll(c *console, verb string, done []gateway.RegistryVersion) {
	versions := make([]string, len(done))
	for i, v := range done {
		versions[i] = v.Version
	}
	undo := " --undo"
	if d.Undo {
		undo = ""
	}
	c.notef("%s without a version means all versions: %d are now %s (%s); for a single one, use perdure definitions deprecate %s@VERSION%s",
		d.Reference, len(done), verb, strings.Join(versions, ", "), d.Reference, undo)
}

type historyCommand struct {
	registryFlags `embed:""`

	Name  string `arg:"" optional:"" help:"Composite tool. Default: all."`
	Limit int    `help:"Maximum number of entries, the newest first." default:"50"`
}

func (historyCommand) Help() string {
	return `Examples:

    perdure definitions history
    perdure definitions history deploy --limit 10`
}

func (h historyCommand) Run(ctx context.Context, c *console) error {
	var events []registry.Event
	query := url.Values{"name": {h.Name}, "limit": {strconv.Itoa(h.Limit)}}
	if err := h.get(ctx, "history", query, &events); err != nil {
		return err
	}
	if h.Output == "json" {
		return c.printJSON(events)
	}
	if len(events) == 0 {
		c.notef("nothing was published")
	}
	w := c.table(c.out)
	for _, e := range events {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Format(time.DateTime), view.Line(e.By), e.Action, e.Name, e.Version, view.Line(e.Note))
	}
	return w.Flush()
}

type driftCommand struct {
	registryFlags `embed:""`
}

func (driftCommand) Help() string {
	return `A published version keeps the schemas and descriptions of the tools that it calls.
This command compares them with those of today, for all versions that are not
deprecated. The status is 1 if a tool is gone, or has changed so that calls may
fail. Whether runs of such a version still start is decided by publishing.drift of
the configuration: allow, warn (the default) or fail. Modules that are deprecated,
or that have a newer matching version, are listed as well; runs use the module that
was published. Example:

    perdure definitions drift`
}

func (d driftCommand) Run(ctx context.Context, c *console) error {
	var versions []gateway.DriftedVersion
	if err := d.get(ctx, "drift", nil, &versions); err != nil {
		return err
	}
	if d.Output == "json" {
		if err := c.printJSON(versions); err != nil {
			return err
		}
	} else if len(versions) == 0 {
		c.notef("no tool of a published version has changed")
	}
	harmful := false
	for _, v := range versions {
		for _, tool := range v.Tools {
			harmful = harmful || tool.State == registry.Breaking || tool.State == registry.Gone
			if d.Output == "text" {
				fmt.Fprintf(c.out, "%s %s: %s: %s\n", v.Name, v.Version, fmt.Sprintf(driftWords[tool.State], tool.Tool), strings.Join(tool.Changes, "; "))
			}
		}
		for _, m := range v.Modules {
			if d.Output == "text" {
				fmt.Fprintf(c.out, "%s %s: %s\n", v.Name, v.Version, moduleDrift(m))
			}
		}
	}
	if harmful {
		return errReported
	}
	return nil
}

var driftWords = map[registry.DriftState]string{
	registry.Compatible: "%s has changed; calls still fit", registry.Breaking: "calls of %s may fail", registry.Gone: "%s is gone",
}

func moduleDrift(m registry.ModuleDrift) string {
	text := "loads " + m.Name + " " + m.Version
	if m.Deprecated != "" {
		text += ", which is deprecated: " + m.Deprecated
	}
	if m.Latest != "" {
		text += "; " + m.Latest + " matches " + m.Load
	}
	return text
}
