package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/service"
)

// stateOf describes whether and by whom a composite tool can be called.
func stateOf(s service.CompositeStatus) string {
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

// limitsOf describes the current use of the limits of a backend.
func limitsOf(b service.BackendStatus) string {
	s := b.Limited
	if s == nil {
		return "no worker enforces them, so calls wait"
	}
	state := fmt.Sprintf("%d under way, %d waiting", s.UnderWay, s.Waiting)
	switch s.Breaker {
	case "":
	case "open":
		state += ", breaker open until " + s.Until.Local().Format(time.TimeOnly)
	default:
		state += ", breaker " + s.Breaker
	}
	return state + "; enforced by " + s.Host
}

// noteDown says which backends of a perdure server are down, and why.
func (c *console) noteDown(ctx context.Context, of target) {
	status, err := fetchStatus(ctx, of)
	if err != nil {
		return // it is no perdure server, or shows nothing to this caller
	}
	for _, b := range status.Backends {
		if !b.Connected {
			c.notef("backend %s is down: %s", b.Name, cmp.Or(b.Error, "it has not answered yet"))
		}
	}
}

// fetchStatus asks the server whose MCP endpoint is given.
func fetchStatus(ctx context.Context, of target) (*service.ServerStatus, error) {
	response, text, err := of.ask(ctx, 10*time.Second, http.MethodGet, "/readyz?verbose", nil)
	if err != nil {
		return nil, err
	}
	var status service.ServerStatus
	if err := json.Unmarshal(text, &status); err != nil {
		return nil, fmt.Errorf("%s is not the status of a perdure server: %w", response.Request.URL, err)
	}
	return &status, nil
}
