package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

type readyCommand struct {
	serverFlags `embed:""`

	Reachable bool `help:"Ask for /reachable instead: whether it takes requests, if only to answer that they are to be made again. For health checks that end what is not healthy."`

	Wait   time.Duration `help:"Ask again until it is ready, for at most this time. Default: ask once." placeholder:"DURATION"`
	Output string        `short:"o" help:"How to print: text or json." enum:"text,json" default:"text"`
}

func (readyCommand) Help() string {
	return `Asks a process of perdure for /readyz: whether it takes calls or, of a worker, takes
up steps. The status is 0 if so and 1 if not, with the reasons on standard error.
Health checks of containers run it with --reachable, since the image has no other
program that could ask; a worker is asked at the address of its --health-listen. Examples:

    perdure ready
    perdure ready --wait 1m && perdure call prepare_review
    perdure ready --url http://127.0.0.1:4484     # a worker
    docker exec worker-1 perdure ready -o json`
}

// A readiness is what a process says of itself.
type readiness struct {
	Ready   bool     `json:"ready"`
	URL     string   `json:"url"`               // of /readyz
	Reasons []string `json:"reasons,omitempty"` // why it is not ready
}

// Asking one process for its readiness takes so long at most, and is done again
// after so long.
const (
	readyPatience = 3 * time.Second
	readyInterval = 200 * time.Millisecond
)

func (r readyCommand) Run(ctx context.Context, c *console) error {
	of, err := r.target()
	if err != nil {
		return err
	}
	page := "/readyz"
	if r.Reachable {
		page = "/reachable"
	}
	at, err := besideEndpoint(of.url, page)
	if err != nil {
		return err
	}
	found := r.ask(ctx, of, at)
	if r.Output == "json" {
		if err := c.printJSON(found); err != nil {
			return err
		}
		if !found.Ready {
			return errReported
		}
		return nil
	}
	if !found.Ready {
		return fmt.Errorf("%s is not ready: %s", at.Host, strings.Join(found.Reasons, "; "))
	}
	_, err = fmt.Fprintln(c.out, "ready")
	return err
}

// ask asks until the process is ready or has had its time.
func (r readyCommand) ask(ctx context.Context, of target, at *url.URL) readiness {
	deadline := time.Now().Add(r.Wait)
	for {
		found := askOnce(ctx, of, at)
		if found.Ready || ctx.Err() != nil || !time.Now().Before(deadline) {
			return found
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(readyInterval, time.Until(deadline))):
		}
	}
}

func askOnce(ctx context.Context, of target, at *url.URL) readiness {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	found := readiness{URL: at.String()}
	status, err := getStatus(ctx, at.String())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		found.Reasons = []string{"nothing listens there; name another address with --url"}
	case err != nil:
		found.Reasons = []string{err.Error()}
	case status == http.StatusOK:
		found.Ready = true
	default:
		found.Reasons = whyNot(ctx, of, status)
	}
	return found
}

// whyNot is what the process gives to those whom it tells more; else its
// status has to do.
func whyNot(ctx context.Context, of target, status int) []string {
	if told, err := fetchStatus(ctx, of); err == nil && len(told.Reasons) > 0 {
		return told.Reasons
	}
	return []string{fmt.Sprintf("it answers %d %s", status, http.StatusText(status))}
}

func getStatus(ctx context.Context, page string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// besideEndpoint is a page of the server whose MCP endpoint, or any other page,
// is given.
func besideEndpoint(server, page string) (*url.URL, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" {
		return nil, usagef("--url %q: %v", server, cmp.Or(err, errors.New("not a URL such as http://127.0.0.1:4483")))
	}
	return base.ResolveReference(&url.URL{Path: page}), nil
}
