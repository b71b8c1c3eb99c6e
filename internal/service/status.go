package service

import (
	"cmp"
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// A ServerStatus is what /readyz?verbose answers.
type ServerStatus struct {
	Ready      bool              `json:"ready"`
	Reasons    []string          `json:"reasons,omitempty"` // why it is not ready
	Backends   []BackendStatus   `json:"backends"`
	Composites []CompositeStatus `json:"composites"`
	Tools      []ToolStatus      `json:"tools"`
	Partial    bool              `json:"partial,omitempty"` // rules hide tools of backends from the caller
	// DefinitionsError has the mistakes in changed definitions; the earlier ones are
	// still served. "" = none.
	DefinitionsError string `json:"definitionsError,omitempty"`
}

type BackendStatus struct {
	Name      string `json:"name"`
	Connected bool   `json:"connected"`
	Tools     int    `json:"tools"`
	Error     string `json:"error,omitempty"`

	Limits  string             `json:"limits,omitempty"`  // for people; "" = none
	Limited *runs.BackendState `json:"limited,omitempty"` // state of the limits; nil = none, or no process keeps them
}

type CompositeStatus struct {
	Name       string            `json:"name"`                 // that clients see
	Definition string            `json:"definition,omitempty"` // "" = it has the same name
	Version    string            `json:"version,omitempty"`
	RunAs      definitions.RunAs `json:"runAs,omitempty"`     // "" = caller
	Available  *bool             `json:"available,omitempty"` // nil = only a server knows
	Reason     string            `json:"reason,omitempty"`
	Hidden     bool              `json:"hidden,omitempty"` // from clients; Callers call it
	Callers    []string          `json:"callers,omitempty"`
	Place      string            `json:"place,omitempty"` // where it is defined
	// Contradicts reports that its file has other content than what was published under
	// its version. "" = it has not.
	Contradicts string `json:"contradicts,omitempty"`
}

// Of is the name of its definition, which steps, rules and runs use.
func (s CompositeStatus) Of() string { return cmp.Or(s.Definition, s.Name) }

// Offered reports whether clients can call it, if they may.
func (s CompositeStatus) Offered() bool { return !s.Hidden && (s.Available == nil || *s.Available) }

type ToolStatus struct {
	Name        string `json:"name"`
	Backend     string `json:"backend"`
	Original    string `json:"original"` // the backend's own name for it
	Effect      string `json:"effect"`
	KeyArgument string `json:"keyArgument,omitempty"`
	OnUnknown   string `json:"onUnknown,omitempty"` // of an unsafe tool: what follows an unknown outcome, fail or ask; "" = fail
	// Probe finds out of such a call whether it was executed, as the
	// configuration has it.
	Probe  json.RawMessage `json:"probe,omitempty"`
	Hidden bool            `json:"hidden,omitempty"`
}
