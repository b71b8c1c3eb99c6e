package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

type doctorCommand struct {
	temporalFlags `embed:""`
	keyFlags      `embed:""`
	valueFlags    `embed:""`

	Config      string   `help:"Configuration file of the installation." placeholder:"FILE"`
	Definitions []string `help:"Directory of definitions. Repeatable." placeholder:"DIR" sep:"none"`
}

func (doctorCommand) Help() string {
	return `Checks, from this machine: the dev that runs here, configuration and definitions, keys, Temporal with its
namespace, search attributes, workers and what waits for them, the database and its
tables, large values, each backend, and the clock. It writes and reads a small test
value at Temporal and in the database, and changes nothing else. A backend that is
slow to start is waited for as long as dev does, two minutes. Use the same flags
and variables as for gateways and workers. Each part gets a line, with what to do.
The status is 1 if a check failed. Examples:

    perdure doctor
    perdure doctor --config perdure.yaml --key-file key --address temporal:7233 -o json`
}

func (d doctorCommand) Run(ctx context.Context, c *console) error {
	server, offered := d.server(ctx)
	checks := service.Examine(ctx, service.Installation{
		Config:      config.Sources{Config: d.Config, Definitions: d.Definitions},
		SigningKeys: d.signingKeys, PayloadKeys: d.payloadFlags.keys, Temporal: d.where,
		Database: d.Database, LargeValues: d.LargeValues, Data: d.Data.String(), ValuesDir: valuesIn(d.Data.String()), Offered: offered,
		Starting: c.noteStarting,
	})
	checks = append([]service.Check{server}, checks...)
	if err := d.print(c, checks); err != nil {
		return err
	}
	if slices.ContainsFunc(checks, func(k service.Check) bool { return k.Status == service.CheckFailed }) {
		return errReported
	}
	return nil
}

// noteStarting says which backends still start, and for how long.
func (c *console) noteStarting(names []string, since time.Duration) {
	c.notef("waiting for %s to start, %s so far", strings.Join(names, ", "), since.Round(time.Second))
}

// server checks the dev whose data directory this is, and lists the composite tools that
// it offers; nil = it was not asked.
func (d doctorCommand) server(ctx context.Context) (check service.Check, offered []string) {
	check = service.Check{Name: "server", Status: service.CheckSkipped, Found: "no perdure dev runs with data in " + d.Data.String()}
	dev, err := d.Data.running()
	switch {
	case err != nil:
		check.Status, check.Found = service.CheckFailed, err.Error()
		return check, nil
	case dev == nil || dev.MCP == "":
		return check, nil
	}
	check.Status, check.Found = service.CheckOK, fmt.Sprintf("%s, data in %s, process %d", dev.MCP, d.Data, dev.PID)
	status, err := fetchStatus(ctx, target{url: dev.MCP})
	if err != nil { // it may ask for a token, which doctor has none of
		check.Status, check.Found = service.CheckWarning, check.Found+": "+err.Error()
		return check, nil
	}
	check.Found += fmt.Sprintf(": %s of %s", service.Plural(len(status.Composites), "composite tool"), service.Plural(len(status.Backends), "backend"))
	var why []string
	for _, b := range status.Backends {
		if !b.Connected {
			why = append(why, fmt.Sprintf("backend %s: %s", b.Name, b.Error))
		}
	}
	offered = []string{}
	for _, t := range status.Composites {
		offered = append(offered, t.Of())
		if t.Available != nil && !*t.Available {
			why = append(why, fmt.Sprintf("composite tool %s: %s", t.Name, t.Reason))
		}
	}
	if status.DefinitionsError != "" {
		why = append(why, "changed files have mistakes, and the earlier ones are served")
	}
	if len(why) > 0 {
		check.Status, check.Found = service.CheckWarning, check.Found+"; "+strings.Join(why, "; ")
		check.Fix = "see perdure definitions, perdure validate and the output of dev"
	}
	return check, offered
}

// signingKeys are those of the flags and variables, else of the data directory of dev.
func (d doctorCommand) signingKeys() (*service.Keys, string, error) {
	flags, found := d.keyFlags.orOf(d.Data)
	switch {
	case found || flags.InsecureRandomKey:
		k, err := flags.keys()
		return &k, flags.KeyFile, err
	case d.Config == "":
		return nil, "", nil
	}
	return nil, "", errors.New(noKey) // the check says what to do
}

func (d doctorCommand) print(c *console, checks []service.Check) error {
	if d.Output == "json" {
		return c.printJSON(checks)
	}
	styles := map[service.CheckStatus]style{
		service.CheckOK: green, service.CheckWarning: yellow, service.CheckFailed: red, service.CheckSkipped: faint,
	}
	w := c.wrappingTable(c.out) // what to do comes last, and must not be cut
	for _, k := range checks {
		line := strings.Join(strings.Fields(k.Found), " ")
		if k.Fix != "" && k.Status != service.CheckSkipped {
			line += "; to fix it: " + k.Fix
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.outStyle(styles[k.Status], string(k.Status)), k.Name, line)
	}
	return w.Flush()
}
