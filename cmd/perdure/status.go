package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// A serverStatus is what /readyz?verbose answers.
type serverStatus struct {
	Ready      bool              `json:"ready"`
	Reasons    []string          `json:"reasons,omitempty"` // why it is not ready
	Backends   []backendStatus   `json:"backends"`
	Composites []compositeStatus `json:"composites"`
	Tools      []toolStatus      `json:"tools"`
	// DefinitionsError is what is wrong with changed definitions, of which those
	// of before are still served. "" = nothing.
	DefinitionsError string `json:"definitionsError,omitempty"`
}

type backendStatus struct {
	Name      string `json:"name"`
	Connected bool   `json:"connected"`
	Tools     int    `json:"tools"`
	Error     string `json:"error,omitempty"`

	Limits  string             `json:"limits,omitempty"`  // for people; "" = none
	Limited *runs.BackendState `json:"limited,omitempty"` // how the limits stand; nil = there are none, or nobody keeps them
}

type compositeStatus struct {
	Name       string            `json:"name"`                 // that clients see
	Definition string            `json:"definition,omitempty"` // "" = it has the same name
	Version    string            `json:"version,omitempty"`
	RunAs      definitions.RunAs `json:"runAs,omitempty"`     // "" = caller
	Available  *bool             `json:"available,omitempty"` // nil = only a server knows
	Reason     string            `json:"reason,omitempty"`
	Hidden     bool              `json:"hidden,omitempty"` // from clients; Callers call it
	Callers    []string          `json:"callers,omitempty"`
	Place      string            `json:"place,omitempty"` // where it is defined
	// Contradicts says that its file has other content than what was published
	// under its version. "" = it has not.
	Contradicts string `json:"contradicts,omitempty"`
}

// offered says whether clients can call it, if they may.
func (s compositeStatus) offered() bool { return !s.Hidden && (s.Available == nil || *s.Available) }

type toolStatus struct {
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

func (s compositeStatus) state() string {
	state := "not available: " + s.Reason
	switch {
	case s.Available == nil:
		state = s.Place
	case *s.Available:
		state = "available"
	}
	if s.Definition != "" {
		state += "; defined as " + s.Definition
	}
	if s.Hidden {
		state += "; called by " + strings.Join(s.Callers, ", ") + " only"
	}
	if s.RunAs == definitions.AsComposite {
		state += "; calls tools in its own right"
	}
	if s.Contradicts != "" {
		state += "; " + s.Contradicts
	}
	return state
}

// limited says how the limits of a backend stand.
func (b backendStatus) limited() string {
	s := b.Limited
	if s == nil {
		return "no worker keeps them: calls wait"
	}
	told := fmt.Sprintf("%d under way, %d waiting", s.UnderWay, s.Waiting)
	switch s.Breaker {
	case "":
	case "open":
		told += ", breaker open until " + s.Until.Local().Format(time.TimeOnly)
	default:
		told += ", breaker " + s.Breaker
	}
	return told + "; kept by " + s.Host
}

// fetchStatus asks the server whose MCP endpoint is given.
func fetchStatus(ctx context.Context, of target) (*serverStatus, error) {
	at, err := besideEndpoint(of.url, "/readyz")
	if err != nil {
		return nil, err
	}
	at.RawQuery = "verbose"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if of.token != "" {
		request.Header.Set("Authorization", "Bearer "+of.token)
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &nobodyThereError{at.Host, err}
	} else if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized {
		return nil, errUnauthorized(of.url)
	}
	var status serverStatus
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("%s does not tell its status as perdure does: %w", at, err)
	}
	return &status, nil
}
