package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"
)

type readyCommand struct {
	serverFlags `embed:""`

	Reachable bool `help:"Check /reachable instead: whether the process takes requests, if only to answer that they must be repeated. For health checks that end an unhealthy process."`

	Wait   time.Duration `help:"Wait until the process is ready, at most this long. Default: check once." placeholder:"DURATION"`
	Output string        `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

func (readyCommand) Help() string {
	return `Reads /readyz of a gateway or worker: whether it accepts calls or executes steps. The
status is 0 if it is ready; otherwise it is 1, with the reasons on standard error.
Health checks in the container image, which has no curl, use it with --reachable. For
a worker, name the address of its --health-listen. Examples:

    perdure ready
    perdure ready --wait 1m && perdure call prepare_review
    perdure ready --url http://127.0.0.1:4484     # a worker
    docker exec worker-1 perdure ready -o json`
}

// A readiness is the answer of /readyz.
type readiness struct {
	Ready   bool     `json:"ready"`
	URL     string   `json:"url"`               // of /readyz
	Reasons []string `json:"reasons,omitempty"` // why it is not ready

	host string // and port, of the URL
}

// Bounds of one request for /readyz, and the pause between two.
const (
	readyPatience = 3 * time.Second
	readyInterval = 200 * time.Millisecond
)

func (r readyCommand) Run(ctx context.Context, c *console) error {
	found, err := r.ask(ctx)
	if err != nil {
		return err
	}
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
		return fmt.Errorf("%s is not ready: %s", found.host, strings.Join(found.Reasons, "; "))
	}
	_, err = fmt.Fprintln(c.out, "ready")
	return err
}

// ask asks until the process is ready or the time is over. It looks each time where the
// dev listens, which starts meanwhile.
func (r readyCommand) ask(ctx context.Context) (readiness, error) {
	deadline := time.Now().Add(r.Wait)
	for {
		found, err := r.askOnce(ctx)
		starts := err == nil || r.Data != ""
		if found.Ready || !starts || ctx.Err() != nil || !time.Now().Before(deadline) {
			return found, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(readyInterval, time.Until(deadline))):
		}
	}
}

func (r readyCommand) askOnce(ctx context.Context) (readiness, error) {
	of, err := r.target()
	if err != nil {
		return readiness{}, err
	}
	page := "/readyz"
	if r.Reachable {
		page = "/reachable"
	}
	at, err := besideEndpoint(of.url, page)
	if err != nil {
		return readiness{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	found := readiness{URL: at.String(), host: at.Host}
	status, err := getStatus(ctx, at.String())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		found.Reasons = []string{"nothing listens there; set --url to another address"}
	case err != nil:
		found.Reasons = []string{err.Error()}
	case status == http.StatusOK:
		found.Ready = true
	default:
		found.Reasons = whyNot(ctx, of, status)
	}
	return found, nil
}

// whyNot is the list of reasons, for callers who may read it; for others it is the
// HTTP status.
func whyNot(ctx context.Context, of target, status int) []string {
	if status, err := fetchStatus(ctx, of); err == nil && len(status.Reasons) > 0 {
		return status.Reasons
	}
	return []string{fmt.Sprintf("HTTP status %d %s", status, http.StatusText(status))}
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
