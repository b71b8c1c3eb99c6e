//go:build !nodev

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/service"
)

type approvalsCommand struct {
	Open approvalsOpenCommand `cmd:"" default:"withargs" help:"Open the approvals page of the running dev in the browser, signed in."`
}

type approvalsOpenCommand struct {
	ID    string  `arg:"" optional:"" name:"run" help:"Run whose page to open, e.g. prepare_review/k3v9a2m4qx. Default: the list of open elicitations."`
	Data  dataDir `help:"Data directory of the dev. Default: .perdure." placeholder:"DIR"`
	Print bool    `help:"Print the link instead of opening it. The first browser that opens the link is signed in."`
}

func (approvalsOpenCommand) Help() string {
	return `The approvals page of dev is for the person at this machine: a program that can
only fetch URLs, such as a backend tool or an MCP client, cannot sign in. This
command creates a link that signs in one browser, once, within ten minutes; it
reads the key in the data directory. The browser stays signed in for 8 hours,
also after dev restarts. Examples:

    perdure approvals open
    perdure approvals open prepare_review/k3v9a2m4qx
    perdure approvals open --print      # for a browser elsewhere, through a forwarded port

With gateway and serve, people sign in as the configuration says: they open
PUBLIC-URL/approvals.`
}

func (a approvalsOpenCommand) Run(ctx context.Context, c *console) error {
	dev, err := a.Data.running()
	if err != nil {
		return err
	}
	if dev == nil {
		return fmt.Errorf("no perdure dev is running with data in %s; start it, or name its data directory with --data", a.Data)
	}
	if dev.ApprovalsClosed {
		return fmt.Errorf("the approvals page is %s", service.PageClosed)
	}
	path := approvals.Prefix
	if a.ID != "" {
		path = approvals.Path(runs.RunID(a.ID))
	}
	page := strings.TrimSuffix(dev.MCP, service.Endpoint) + path
	link := page
	if dev.SignInByLink {
		if link, err = signInLink(a.Data.String(), dev.MCP, path); err != nil {
			return err
		}
	}
	if a.Print {
		_, err := fmt.Fprintln(c.out, link)
		return err
	}
	if err := openBrowser(ctx, link); err != nil {
		if c.outTerminal {
			c.notef("cannot open a browser (%v); open this link within %s:", err, auth.LinkLife)
			_, err = fmt.Fprintln(c.out, link)
			return err
		}
		return fmt.Errorf("cannot open a browser: %w; print the link with perdure approvals open --print", err)
	}
	_, err = fmt.Fprintln(c.out, "opened "+page)
	return err
}

// signInLink makes a one-time link to a path of the approvals page.
func signInLink(data, mcp, path string) (string, error) {
	keys, err := keptKeys(keyOf(data))
	if err != nil {
		return "", err
	}
	return linkOf(keys, mcp, path), nil
}

func linkOf(k service.Keys, mcp, path string) string {
	q := url.Values{"code": {auth.NewLinkCode(k.Signing)}}
	if path != approvals.Prefix {
		q.Set("to", path)
	}
	return strings.TrimSuffix(mcp, service.Endpoint) + approvals.Prefix + "/login?" + q.Encode()
}

// browserGrace is how long to wait for the browser program to fail.
const browserGrace = 2 * time.Second

// openBrowser opens a URL with the program that BROWSER names, else with that of
// the desktop.
func openBrowser(ctx context.Context, link string) error {
	program := []string{"xdg-open"}
	switch {
	case os.Getenv("BROWSER") != "":
		program = []string{os.Getenv("BROWSER")}
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case runtime.GOOS == "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	command := exec.Command(program[0], append(program[1:], link)...) // it outlives this program
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", program[0], err)
		}
	case <-time.After(browserGrace):
	case <-ctx.Done():
	}
	return nil
}
