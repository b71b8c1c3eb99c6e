package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/limits"
	"github.com/perdure/perdure/internal/telemetry"
)

// Settings are what a configuration comes to, its definitions aside.
type settings struct {
	Name        string
	Backends    []backends.Config
	Aggregation backends.Aggregation
	Prefix      string // of the names of composite tools, "" = none
	LogLevel    string // "" = not said
	Auth        authSettings
	Scripts     scriptSettings
	Quotas      gateway.Quotas
	MaxDepth    int                             // of composite tools that call each other; 0 = the default
	Outgoing    map[string]credentials.Strategy // by backend; none = unauthenticated
	Limits      map[string]limits.Config        // by backend; none = nothing is limited
	Telemetry   telemetry.Options
	Publishing  publishingSettings

	OnDisconnect definitions.OnDisconnect // "" = the default
}

// A configReader turns a configuration into settings and collects all that is
// wrong with it.
type configReader struct {
	file  string
	root  *yaml.Node
	env   func(string) (string, bool)
	diags definitions.Diagnostics
}

// A keyPath leads to a value of the configuration: keys and indexes.
type keyPath []any

// to extends the path without touching it.
func (p keyPath) to(steps ...any) keyPath { return append(slices.Clone(p), steps...) }

func (p keyPath) String() string {
	var b strings.Builder
	for _, step := range p {
		if i, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, step)
	}
	return b.String()
}

func (r *configReader) errorf(p keyPath, check, format string, args ...any) {
	r.report(definitions.SeverityError, p, check, format, args...)
}

func (r *configReader) warnf(p keyPath, check, format string, args ...any) {
	r.report(definitions.SeverityWarning, p, check, format, args...)
}

func (r *configReader) report(severity definitions.Severity, p keyPath, check, format string, args ...any) {
	node, _ := lookup(r.root, p)
	r.diags = append(r.diags, definitions.Diagnostic{
		Pos:      definitions.Position{File: r.file, Line: node.Line, Column: node.Column},
		Severity: severity,
		Message:  p.String() + ": " + fmt.Sprintf(format, args...),
		Check:    check,
	})
}

// lookup follows a path; where it ends early it gives the last node that
// exists and false.
func lookup(node *yaml.Node, p keyPath) (*yaml.Node, bool) {
	for _, step := range p {
		next := child(node, step)
		if next == nil {
			return node, false
		}
		node = next
	}
	return node, true
}

func child(node *yaml.Node, step any) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch step := step.(type) {
	case int:
		if node.Kind == yaml.SequenceNode && step < len(node.Content) {
			return node.Content[step]
		}
	case string:
		if node.Kind != yaml.MappingNode {
			return nil
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1]
			}
		}
	}
	return nil
}

// read checks a decoded configuration as a whole.
func (r *configReader) read(c *configFile) settings {
	r.ignored(c)
	s := settings{Name: c.Name, LogLevel: r.logLevel(c.Operational), Auth: r.auth(c)}
	s.Backends = r.backends(c)
	s.Limits = r.limits(c)
	s.Outgoing = r.outgoingAuth(c)
	s.Publishing = r.publishing(c.Publishing)
	s.Aggregation = r.aggregation(c)
	s.Prefix = r.prefix(c)
	s.Telemetry = r.telemetry(c.Telemetry)
	s.Scripts = r.scripts(c.Scripts)
	s.Quotas = r.quotas(c.Quotas)
	s.MaxDepth = r.maxDepth(c.MaxWorkflowDepth)
	s.OnDisconnect = r.onDisconnect(c.OnDisconnect)
	return s
}

// mostDepth bounds maxWorkflowDepth: each level is a run of its own, which waits
// for the one below it.
const mostDepth = 100

func (r *configReader) maxDepth(written *int) int {
	if written == nil {
		return 0
	}
	depth := *written
	if depth < 1 || depth > mostDepth {
		r.errorf(keyPath{"maxWorkflowDepth"}, "limit", "is %d; 1 to %d are allowed, and %d is the default", depth, mostDepth, definitions.MaxWorkflowDepth)
	}
	return depth
}

func (r *configReader) onDisconnect(written definitions.OnDisconnect) definitions.OnDisconnect {
	if !slices.Contains([]definitions.OnDisconnect{"", definitions.CancelRun, definitions.ContinueRun}, written) {
		r.errorf(keyPath{"onDisconnect"}, "on-disconnect", "%q is not known; known are cancel and continue", written)
	}
	return written
}

// ignored warns about what is accepted for the sake of the shared format but
// changes nothing here.
func (r *configReader) ignored(c *configFile) {
	for key, set := range map[string]bool{
		"audit": c.Audit != nil, "optimizer": c.Optimizer != nil,
		"sessionStorage": c.SessionStorage != nil,
		"rateLimiting":   c.RateLimiting != nil, "passthroughHeaders": c.PassthroughHeaders != nil,
	} {
		if set {
			r.noEffect(keyPath{key})
		}
	}
	if c.CodeMode != nil {
		r.warnf(keyPath{"codeMode"}, "no-effect", "has no effect here: scripts: {agents: true} lets clients send scripts")
	}
	if c.Operational != nil && c.Operational.FailureHandling != nil {
		r.noEffect(keyPath{"operational", "failureHandling"})
	}
}

func (r *configReader) noEffect(p keyPath) {
	r.warnf(p, "no-effect", "has no effect here")
}

func (r *configReader) logLevel(o *operational) string {
	if o == nil || o.LogLevel == "" {
		return ""
	}
	if !slices.Contains(logLevels, o.LogLevel) {
		r.errorf(keyPath{"operational", "logLevel"}, "operational", "%q is not one of %s", o.LogLevel, strings.Join(logLevels, ", "))
	}
	return o.LogLevel
}

func (r *configReader) backends(c *configFile) []backends.Config {
	if len(c.Backends) == 0 {
		r.warnf(keyPath{"backends"}, "backends", "no server is listed, so no tool can be called; the workloads of a ToolHive group are not discovered")
	}
	limits := r.timeouts(c)
	var configs []backends.Config
	seen := map[string]bool{}
	for i, b := range c.Backends {
		p := keyPath{"backends", i}
		if seen[b.Name] {
			r.errorf(p.to("name"), "backends", "%q is the name of another backend, too", b.Name)
		}
		seen[b.Name] = true
		config := r.backend(p, b)
		if config.Timeout == 0 {
			config.Timeout = limits[b.Name]
		}
		configs = append(configs, config)
	}
	return configs
}

func (r *configReader) backend(p keyPath, b *backend) backends.Config {
	if b.Name == "" {
		r.errorf(p.to("name"), "backends", "is missing")
	}
	if b.CABundlePath != "" {
		r.warnf(p.to("caBundlePath"), "no-effect", "has no effect here; set SSL_CERT_FILE in the environment")
	}
	if b.Timeout < 0 {
		r.errorf(p.to("timeout"), "backends", "is negative")
	}
	config := backends.Config{
		Name:             b.Name,
		Transport:        backends.Transport(b.Transport),
		URL:              b.URL,
		Command:          b.Command,
		Args:             b.Args,
		Env:              r.environment(p.to("passEnv"), b),
		Dir:              b.Dir,
		User:             b.User,
		Group:            b.Group,
		Effects:          r.effects(p.to("effects"), b.Effects),
		TrustAnnotations: b.TrustAnnotations,
		Timeout:          time.Duration(b.Timeout),
		Limited:          b.Limits != nil && *b.Limits != callLimits{},
	}
	if b.Transport == "" && b.Command != "" {
		config.Transport = backends.Stdio
	}
	switch config.Transport {
	case backends.StreamableHTTP, backends.SSE:
		if b.Command != "" {
			r.errorf(p.to("command"), "backends", "belongs to transport stdio, not to %s", b.Transport)
		}
		for key, value := range map[string]string{"user": b.User, "group": b.Group} {
			if value != "" {
				r.errorf(p.to(key), "backends", "belongs to transport stdio, not to %s", b.Transport)
			}
		}
		if u, err := url.Parse(b.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			r.errorf(p.to("url"), "backends", "%q is not an http or https URL", b.URL)
		}
	case backends.Stdio:
		if b.URL != "" {
			r.errorf(p.to("url"), "backends", "belongs to transport streamable-http or sse, not to stdio")
		}
		if b.Command == "" {
			r.errorf(p.to("command"), "backends", "is missing: the program to start")
		}
		if err := backends.CheckAccount(b.User, b.Group); err != nil {
			r.errorf(p.to("user"), "backends", "%s", err)
		}
	case "":
		r.errorf(p.to("transport"), "backends", "is missing; use streamable-http, sse or stdio")
	default:
		r.errorf(p.to("transport"), "backends", "%q is not a transport; use streamable-http, sse or stdio", b.Transport)
	}
	return config
}

func (r *configReader) environment(p keyPath, b *backend) map[string]string {
	env := map[string]string{}
	for i, name := range b.PassEnv {
		value, ok := r.env(name)
		if !ok {
			r.errorf(p.to(i), "environment", "environment variable %s is not set", name)
		}
		env[name] = value
	}
	for name, value := range b.Env {
		env[name] = value
	}
	return env
}

func (r *configReader) effects(p keyPath, rules []*effectRule) []backends.EffectRule {
	var out []backends.EffectRule
	for i, rule := range rules {
		p := p.to(i)
		if _, err := path.Match(rule.Tool, ""); err != nil || rule.Tool == "" {
			r.errorf(p.to("tool"), "effects", "%q is not a tool name or pattern, such as get_*", rule.Tool)
		}
		switch class := definitions.Effect(rule.Class); class {
		case definitions.Read, definitions.Idempotent, definitions.Keyed, definitions.Unsafe:
			if rule.KeyArgument != "" && class != definitions.Keyed {
				r.errorf(p.to("keyArgument"), "effects", "belongs to class keyed, not to %s", class)
			}
		default:
			r.errorf(p.to("class"), "effects", "%q is not a class; use read, idempotent, keyed or unsafe", rule.Class)
		}
		switch definitions.OnUnknown(rule.OnUnknown) {
		case "", definitions.FailUnknown:
		case definitions.Ask:
			if rule.Class != string(definitions.Unsafe) {
				r.errorf(p.to("onUnknown"), "effects", "belongs to class unsafe; what is %s is called again", rule.Class)
			}
		default:
			r.errorf(p.to("onUnknown"), "effects", "%q is not known; use fail or ask", rule.OnUnknown)
		}
		out = append(out, backends.EffectRule{Tool: rule.Tool, Class: rule.Class, KeyArgument: rule.KeyArgument,
			OnUnknown: rule.OnUnknown, Probe: r.probe(p.to("probe"), rule)})
	}
	return out
}

// probe is what finds out whether a call was executed, as definitions.Probe has
// it in JSON; nil = nothing does.
func (r *configReader) probe(p keyPath, rule *effectRule) json.RawMessage {
	if rule.Probe == nil {
		return nil
	}
	if rule.Class != string(definitions.Unsafe) {
		r.errorf(p, "effects", "belongs to class unsafe; what is %s is called again", rule.Class)
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
func (r *configReader) timeouts(c *configFile) map[string]time.Duration {
	limits := map[string]time.Duration{}
	if c.Operational == nil || c.Operational.Timeouts == nil {
		return limits
	}
	t, p := c.Operational.Timeouts, keyPath{"operational", "timeouts"}
	if t.Default < 0 {
		r.errorf(p.to("default"), "operational", "is negative")
	}
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

// toolPrefix is what may stand before the name of a composite tool. Clients take
// letters, digits, _, . and -; the colon is for those that want workflow:NAME.
var toolPrefix = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.:/-]{0,31}$`)

func (r *configReader) prefix(c *configFile) string {
	if c.Aggregation == nil || c.Aggregation.CompositeToolPrefix == "" {
		return ""
	}
	prefix := c.Aggregation.CompositeToolPrefix
	if !toolPrefix.MatchString(prefix) {
		r.errorf(keyPath{"aggregation", "compositeToolPrefix"}, "aggregation", "%q is no prefix of names; it is up to 32 letters, digits, _, ., -, : and /, with a letter or digit first", prefix)
	}
	return prefix
}

func (r *configReader) aggregation(c *configFile) backends.Aggregation {
	a := c.Aggregation
	if a == nil {
		a = &aggregation{}
	}
	out := backends.Aggregation{ExcludeAllTools: a.ExcludeAllTools}
	if rules := a.ConflictResolutionConfig; rules != nil {
		out.PrefixFormat, out.Priority = rules.PrefixFormat, rules.PriorityOrder
	}
	r.strategyOfConflicts(c, a, &out)
	for i, tools := range a.Tools {
		out.Tools = append(out.Tools, r.workload(c, keyPath{"aggregation", "tools", i}, tools))
	}
	r.visibility(c, a, &out)
	return out
}

func (r *configReader) strategyOfConflicts(c *configFile, a *aggregation, out *backends.Aggregation) {
	out.Strategy = a.ConflictResolution
	switch a.ConflictResolution {
	case "", "prefix":
		out.Strategy = backends.StrategyPrefix
	case "priority":
		if len(out.Priority) == 0 {
			r.errorf(keyPath{"aggregation", "conflictResolutionConfig", "priorityOrder"}, "aggregation", "is missing; the strategy priority needs it")
		}
	case "manual":
	default:
		r.errorf(keyPath{"aggregation", "conflictResolution"}, "aggregation", "%q is not a strategy; use prefix, priority or manual", a.ConflictResolution)
	}
	for i, name := range out.Priority {
		r.known(c, keyPath{"aggregation", "conflictResolutionConfig", "priorityOrder", i}, name)
	}
}

func (r *configReader) workload(c *configFile, p keyPath, w *workloadTools) backends.WorkloadTools {
	r.known(c, p.to("workload"), w.Workload)
	if w.ToolConfigRef != nil {
		r.errorf(p.to("toolConfigRef"), "aggregation", "names a Kubernetes resource, which is not read here; use filter and overrides")
	}
	out := backends.WorkloadTools{Workload: w.Workload, Filter: w.Filter, ExcludeAll: w.ExcludeAll, Overrides: map[string]backends.Override{}}
	for name, o := range w.Overrides {
		if o.Annotations != nil {
			r.noEffect(p.to("overrides", name, "annotations"))
		}
		out.Overrides[name] = backends.Override{Name: o.Name, Description: o.Description}
	}
	return out
}

// visibility applies defaultToolVisibility: under deny, a backend without an
// entry of its own in aggregation.tools shows no tools.
func (r *configReader) visibility(c *configFile, a *aggregation, out *backends.Aggregation) {
	switch a.DefaultToolVisibility {
	case "", "allow":
		return
	case "deny":
	default:
		r.errorf(keyPath{"aggregation", "defaultToolVisibility"}, "aggregation", "%q is not one of allow, deny", a.DefaultToolVisibility)
	}
	for _, b := range c.Backends {
		if !slices.ContainsFunc(a.Tools, func(w *workloadTools) bool { return w.Workload == b.Name }) {
			out.Tools = append(out.Tools, backends.WorkloadTools{Workload: b.Name, ExcludeAll: true})
		}
	}
}

// known checks that a name is that of a backend.
func (r *configReader) known(c *configFile, p keyPath, name string) {
	var names []string
	for _, b := range c.Backends {
		names = append(names, b.Name)
	}
	if !slices.Contains(names, name) {
		r.errorf(p, "backends", "there is no backend %q; known are %s", name, cmp.Or(strings.Join(names, ", "), "none"))
	}
}
