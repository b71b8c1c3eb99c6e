package config

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
)

func (r *reader) backends(c *configuration) []backends.Config {
	if len(c.Backends) == 0 {
		r.warnf(keyPath{"backends"}, "backends", "no server is listed, so no tool can be called; the workloads of a ToolHive group are not discovered")
	}
	limits := r.timeouts(c)
	var configs []backends.Config
	seen := map[string]bool{}
	prefixes := c.Aggregation == nil || slices.Contains([]string{"", "prefix"}, c.Aggregation.ConflictResolution)
	for i, b := range c.Backends {
		p := keyPath{"backends", i}
		if b.Name != "" && seen[b.Name] {
			r.errorf(p.to("name"), "backends", "%q is the name of another backend, too", b.Name)
		}
		seen[b.Name] = true
		if prefixes && b.Name != "" && !definitions.IsToolName(b.Name) {
			r.warnf(p.to("name"), "backends", "%q is no part of the name of a tool: no step, and few clients, can call tools with it as a prefix; write letters, digits, _ and - only, with a letter or digit first", b.Name)
		}
		config := r.backend(p, b)
		if config.Timeout == 0 {
			config.Timeout = limits[b.Name]
		}
		configs = append(configs, config)
	}
	return configs
}

func (r *reader) backend(p keyPath, b *backend) backends.Config {
	config := backends.Config{
		Name:             b.Name,
		Transport:        backends.Transport(b.Transport),
		URL:              r.expanded(p.to("url"), b.URL),
		Secrets:          r.referred(append([]string{b.URL, b.Command, b.Dir}, b.Args...)),
		Headers:          r.headers(p.to("headers"), b),
		CACertificates:   r.certificates(p.to("caBundlePath"), b.CABundlePath),
		Command:          r.expanded(p.to("command"), atHome(b.Command)),
		Args:             r.arguments(p.to("args"), b.Args),
		Env:              r.environment(p, b),
		Dir:              r.expanded(p.to("dir"), atHome(b.Dir)),
		User:             b.User,
		Group:            b.Group,
		Effects:          r.effects(p.to("effects"), b),
		TrustAnnotations: b.TrustAnnotations,
		Timeout:          time.Duration(b.Timeout),
		Limited:          b.Limits != nil && *b.Limits != callLimits{},
	}
	if b.Transport == "" && b.Command != "" {
		config.Transport = backends.Stdio
	}
	r.reached(p, b, config)
	return config
}

// reached checks what says how a backend is reached.
func (r *reader) reached(p keyPath, b *backend, config backends.Config) {
	switch config.Transport {
	case backends.StreamableHTTP, backends.SSE:
		r.reachedByURL(p, b, config.URL)
	case backends.Stdio:
		r.reachedAsProgram(p, b, config.Command)
	case "":
		r.errorf(p.to("transport"), "missing", "is missing: write %s", transportOf(b.URL))
	}
}

func (r *reader) reachedByURL(p keyPath, b *backend, address string) {
	for _, key := range []struct{ name, value string }{{"command", b.Command}, {"user", b.User}, {"group", b.Group}} {
		if key.value != "" {
			r.errorf(p.to(key.name), "backends", "belongs to transport stdio, not to %s", b.Transport)
		}
	}
	if b.URL == "" {
		r.errorf(p.to("url"), "missing", "is missing: the URL of the server, or command for a program")
	} else if !isWebAddress(address) {
		r.errorf(p.to("url"), "backends", "is not an http or https URL, such as http://127.0.0.1:8080/mcp") // it may have a password
	}
}

func (r *reader) reachedAsProgram(p keyPath, b *backend, command string) {
	if b.URL != "" {
		r.errorf(p.to("url"), "backends", "belongs to transport streamable-http or sse, not to stdio")
	}
	if b.Command == "" {
		r.errorf(p.to("command"), "backends", "is missing: the program to start")
	}
	if words := strings.Fields(b.Command); len(words) > 1 && len(b.Args) == 0 && !exists(command) {
		r.errorf(p.to("command"), "backends", "is a program and its arguments in one text; write command: %s, and each other word under args", words[0]) // which may be secret
	}
	if err := backends.CheckAccount(b.User, b.Group); err != nil {
		r.errorf(p.to("user"), "backends", "%s", err)
	}
}

// transportOf is what to write for a backend with a URL, or with neither a URL nor a program.
func transportOf(address string) string {
	switch {
	case strings.HasSuffix(strings.TrimSuffix(address, "/"), "/sse"):
		return "transport: sse, as the URL says"
	case address != "":
		return "transport: streamable-http, or sse for a server of before 2025"
	}
	return "url and transport: streamable-http for a server, or command for a program"
}

func (r *reader) effects(p keyPath, b *backend) []backends.EffectRule {
	var out []backends.EffectRule
	for i, rule := range b.Effects {
		p := p.to(i)
		if _, err := path.Match(rule.Tool, ""); err != nil {
			r.errorf(p.to("tool"), "effects", "%q is not a tool name or pattern, such as get_*", rule.Tool)
		}
		r.names(p.to("tool"), b.Name, rule.Tool)
		if rule.KeyArgument != "" && rule.Class != string(definitions.Keyed) {
			r.errorf(p.to("keyArgument"), "effects", "belongs to class keyed, not to %s", rule.Class)
		}
		if rule.OnUnknown == string(definitions.Ask) && rule.Class != string(definitions.Unsafe) {
			r.errorf(p.to("onUnknown"), "effects", "belongs to class unsafe; a call of class %s is made again", rule.Class)
		}
		out = append(out, backends.EffectRule{Tool: rule.Tool, Class: rule.Class, KeyArgument: rule.KeyArgument,
			OnUnknown: rule.OnUnknown, Probe: r.probe(p.to("probe"), rule)})
	}
	return out
}

// probe is what finds out whether a call was executed, as definitions.Probe has
// it in JSON; nil = nothing does.
func (r *reader) probe(p keyPath, rule *effectRule) json.RawMessage {
	if rule.Probe == nil {
		return nil
	}
	if rule.Class != string(definitions.Unsafe) {
		r.errorf(p, "effects", "belongs to class unsafe; a call of class %s is made again", rule.Class)
	}
	if err := rule.Probe.CheckAlone(); err != nil {
		r.errorf(p, "effects", "%v", err)
	}
	encoded, err := json.Marshal(rule.Probe)
	if err != nil {
		r.errorf(p, "effects", "%v", err)
	}
	return encoded
}

// timeouts are those of operational, by backend.
func (r *reader) timeouts(c *configuration) map[string]time.Duration {
	limits := map[string]time.Duration{}
	if c.Operational == nil || c.Operational.Timeouts == nil {
		return limits
	}
	t := c.Operational.Timeouts
	for _, b := range c.Backends {
		limits[b.Name] = time.Duration(t.Default)
	}
	for name, limit := range t.PerWorkload {
		at := keyPath{"operational", "timeouts", "perWorkload", name}
		if limit <= 0 {
			r.errorf(at, "operational", "is not a positive duration")
		}
		r.known(c, at, name)
		limits[name] = time.Duration(limit)
	}
	return limits
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
