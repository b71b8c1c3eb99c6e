package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/perdure/perdure/definitions"
)

const referenceHead = `<!-- Generated from internal/config; do not edit. To update: go test ./internal/config -run TestReferencePage -update -->
# Configuration

Every key of the file that ` + "`--config`" + ` names. [Operations](operations.md) explains them with examples; ` + "`perdure validate FILE`" + ` checks a file, and ` + "`perdure schema config`" + ` prints a JSON Schema of it for editors. The file is that of ToolHive's standalone vMCP; keys that do nothing here are accepted, and validate warns of them.

Two other files are configurations as they are: one with a ` + "`VirtualMCPServer`" + ` resource of ToolHive, whose ` + "`spec.config`" + ` counts (definitions and each ` + "`MCPToolConfig`" + ` that a ` + "`toolConfigRef`" + ` names are read, other resources skipped), and one in which an MCP client lists its servers, such as ` + "`.mcp.json`" + ` (` + "`mcpServers`" + ` of Claude, Cursor, Windsurf, Gemini and Continue, ` + "`servers`" + ` of VS Code, ` + "`context_servers`" + ` of Zed, ` + "`mcp`" + ` of opencode, ` + "`mcp_servers`" + ` of Codex in TOML; ` + "`${NAME}`" + `, ` + "`${NAME:-otherwise}`" + `, ` + "`${env:NAME}`" + `, ` + "`${{ secrets.NAME }}`" + `, and ` + "`${input:name}`" + ` as ` + "`NAME`" + `, are read from the environment, ` + "`${workspaceFolder}`" + ` is the working directory and ` + "`${userHome}`" + ` that of the user; comments and trailing commas are allowed): ` + "`perdure dev --config .mcp.json`" + `. Every tool of such servers has effect class ` + "`unsafe`" + ` until a configuration says otherwise.
`

// Reference gives the reference page: every key of a configuration, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	paths := pathsOf()
	for _, t := range mappings() {
		fmt.Fprintf(&b, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", cmp.Or(paths[t], "The file"))
		for _, key := range definitions.Keys(t) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key.Name, valueText(t.FieldByIndex(key.Index).Type, key, paths), defaultText(key), meaning(key))
		}
	}
	return b.String()
}

// pathsOf says where each mapping stands: the first path that leads to it.
func pathsOf() map[reflect.Type]string {
	paths := map[reflect.Type]string{}
	for _, t := range mappings() {
		for _, key := range definitions.Keys(t) {
			at, of := strings.TrimPrefix(paths[t]+"."+key.Name, "."), t.FieldByIndex(key.Index).Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
				at += map[reflect.Kind]string{reflect.Slice: "[]", reflect.Map: ".NAME"}[of.Kind()]
				of = of.Elem()
			}
			if _, known := paths[of]; !known && isMapping(of) {
				paths[of] = at
			}
		}
	}
	return paths
}

func valueText(t reflect.Type, key definitions.Key, paths map[reflect.Type]string) string {
	if words := key.Tag.Get("enum"); words != "" {
		return "`" + strings.ReplaceAll(words, ",", "`, `") + "`"
	}
	least, most := key.Tag.Get("min"), key.Tag.Get("max")
	kind := kindText(t, paths)
	switch {
	case most != "":
		return kind + " from " + least + " to " + most
	case least != "" && strings.TrimSuffix(least, "s") != "0":
		return kind + " from " + least
	}
	return kind
}

func kindText(t reflect.Type, paths map[reflect.Type]string) string {
	switch {
	case t == durationType:
		return "duration"
	case isMapping(t):
		return fmt.Sprintf("[mapping](#%s)", anchor(paths[t]))
	case t == reflect.TypeFor[definitions.Probe]():
		return "[probe](language.md#finding-out)"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindText(t.Elem(), paths)
	case reflect.Slice:
		return "list of " + kindText(t.Elem(), paths)
	case reflect.Map:
		return "mapping of " + kindText(t.Elem(), paths)
	case reflect.Struct:
		return "mapping"
	case reflect.Interface:
		return "anything"
	case reflect.Int:
		return "number"
	case reflect.Bool:
		return "boolean"
	}
	return "text"
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "[", "", "]", "").Replace(heading))
}

func defaultText(key definitions.Key) string {
	if _, required := key.Tag.Lookup("required"); required {
		return "required"
	}
	if standard := key.Tag.Get("default"); standard != "" {
		return "`" + standard + "`"
	}
	return ""
}

func meaning(key definitions.Key) string {
	help := key.Tag.Get("help")
	if instead, ignored := key.Tag.Lookup("ignored"); ignored {
		help = noEffectText(help, instead)
	}
	return strings.ReplaceAll(help, "|", `\|`)
}
