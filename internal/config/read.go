package config

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// A reader turns a configuration into Settings and collects all that is
// wrong with it.
type reader struct {
	file    string
	root    *yaml.Node
	env     func(string) (string, bool)
	configs map[string]*toolConfig // by name
	diags   definitions.Diagnostics
	rules   []toolRule
}

func (r *reader) errorf(p keyPath, check, format string, args ...any) {
	r.report(definitions.SeverityError, p, check, format, args...)
}

func (r *reader) warnf(p keyPath, check, format string, args ...any) {
	r.report(definitions.SeverityWarning, p, check, format, args...)
}

func (r *reader) report(severity definitions.Severity, p keyPath, check, format string, args ...any) {
	node, _ := lookup(r.root, p)
	r.diags = append(r.diags, definitions.Diagnostic{
		Pos:      definitions.Position{File: r.file, Line: node.Line, Column: node.Column},
		Severity: severity,
		Message:  p.String() + ": " + fmt.Sprintf(format, args...),
		Check:    check,
	})
}

// read checks a decoded configuration as a whole.
func (r *reader) read(c *configuration) Settings {
	r.check(nil, reflect.ValueOf(c))
	s := Settings{Name: c.Name, LogLevel: logLevel(c.Operational), Auth: r.auth(c)}
	s.Backends = r.backends(c)
	s.Limits = r.limits(c)
	s.Outgoing = r.outgoingAuth(c)
	s.Forwarding = r.forwarding(c)
	s.Publishing = r.publishing(c.Publishing)
	s.Aggregation = r.aggregation(c)
	s.Prefix = r.prefix(c)
	s.Telemetry = r.telemetry(c.Telemetry)
	s.Scripts = r.scripts(c.Scripts)
	s.Quotas = r.quotas(c.Quotas)
	s.MaxDepth = given(c.MaxWorkflowDepth)
	s.OnDisconnect = c.OnDisconnect
	return s
}

// callers reads only who callers are and what they may do.
func (r *reader) callers(c *configuration) Settings {
	only := &configuration{IncomingAuth: c.IncomingAuth, Authorization: c.Authorization, Approvals: c.Approvals, Operational: c.Operational}
	r.check(nil, reflect.ValueOf(only))
	return Settings{LogLevel: logLevel(c.Operational), Auth: r.auth(c)}
}

func logLevel(o *operational) string {
	if o == nil {
		return ""
	}
	return o.LogLevel
}

// given is a number; 0 = it is not there.
func given(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
