package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"
	"time"
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
}

type compositeStatus struct {
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Available *bool  `json:"available,omitempty"` // nil = only a server knows
	Reason    string `json:"reason,omitempty"`
	Place     string `json:"place,omitempty"` // where it is defined
}

type toolStatus struct {
	Name        string `json:"name"`
	Backend     string `json:"backend"`
	Original    string `json:"original"` // the backend's own name for it
	Effect      string `json:"effect"`
	KeyArgument string `json:"keyArgument,omitempty"`
	Hidden      bool   `json:"hidden,omitempty"`
}

func (s compositeStatus) state() string {
	switch {
	case s.Available == nil:
		return s.Place
	case *s.Available:
		return "available"
	default:
		return "not available: " + s.Reason
	}
}

// fetchStatus asks the server whose MCP endpoint is given.
func fetchStatus(ctx context.Context, mcpURL string) (*serverStatus, error) {
	base, err := url.Parse(mcpURL)
	if err != nil {
		return nil, usagef("--url %q: %v", mcpURL, err)
	}
	at := base.ResolveReference(&url.URL{Path: "/readyz", RawQuery: "verbose"})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &nobodyThereError{base.Host, err}
	} else if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var status serverStatus
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("%s does not tell its status as perdure does: %w", at, err)
	}
	return &status, nil
}
