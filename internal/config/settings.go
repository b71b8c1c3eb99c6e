// Package config reads the configuration file of a process, and the definitions
// that are served with it.
//
// The types of the model (configuration and what it refers to) are all there is to know of
// a key: their tags give the parser, the checks, the JSON Schema and the reference
// page. Load turns what was read into Settings, in the types of the packages that
// act on them.
package config

import (
	"maps"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/telemetry"
)

// LogLevels are what operational.logLevel takes.
var LogLevels = []string{"debug", "info", "warn", "error"}

// Settings are what a configuration says, its definitions aside.
type Settings struct {
	Name        string
	Backends    []backends.Config
	Aggregation backends.Aggregation
	Prefix      string // of the names of composite tools; "" = none
	LogLevel    string // "" = not given
	Auth        Auth
	Scripts     Scripts
	Quotas      Quotas
	MaxDepth    int                             // of composite tools that call each other; 0 = the default
	Outgoing    map[string]credentials.Strategy // by backend; none = unauthenticated
	Limits      map[string]backends.Limits      // by backend; none = nothing is limited
	Forwarding  backends.Forwarding             // of requests of callers to backends
	Telemetry   telemetry.Options
	Publishing  Publishing

	OnDisconnect definitions.OnDisconnect // "" = the default
}

// Delegating gives the backends whose credentials come from callers, sorted.
func (s *Settings) Delegating() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Outgoing)) {
		if s.Outgoing[name].PerCaller() {
			names = append(names, name)
		}
	}
	return names
}

// KeepsForCallers gives the keys of the configuration for which something of callers is
// kept, sealed, until their runs have it, sorted.
func (s *Settings) KeepsForCallers() []string {
	names := s.Delegating()
	for i, name := range names {
		names[i] = "outgoingAuth of " + name
	}
	if len(s.Forwarding.Headers) > 0 {
		names = append(names, "passthroughHeaders")
	}
	if len(s.Forwarding.Meta) > 0 {
		names = append(names, "passthroughMeta")
	}
	return names
}

// An Auth is who may call, and how they show who they are.
type Auth struct {
	TokenFile string // "" = no tokens of our own
	OIDC      *OIDC  // nil = no identity provider
	Approvals Approvals
	Policy    auth.Policy
	Ruled     bool // something is said of who may what
}

// An OIDC is an identity provider, for tokens and for signing in.
type OIDC struct {
	auth.OIDCOptions                    // Resource and Audience may be empty: then they follow from the public URL
	ClientID         string             // with which people sign in; "" = they cannot
	ClientSecret     credentials.Source // of that client; empty = it has none
}

// An Approvals is how people sign in to the approvals page.
type Approvals struct {
	TokenFile    string // with tokens of people, that no program calls with; "" = none
	CallerTokens bool   // the tokens with which programs call open the page as well
}

// A Scripts is what scripts may do.
type Scripts struct {
	Agents bool
	Limits *runs.ScriptLimits // nil = the defaults
}

// Quotas are what one caller may have; 0 = the default.
type Quotas struct {
	OpenRuns      int
	RunsPerMinute int
	WaitingRuns   int
	Requests      int
}

// A Publishing is what of published composite tools is offered, and when.
type Publishing struct {
	Drift    registry.DriftPolicy
	Versions []VersionOffer
}

// A VersionOffer is a version that is offered under a name of its own.
type VersionOffer struct {
	Reference definitions.Reference
	As        string
}
