// Package standalone answers "where does a Temporal come from that is no part
// of perdure?": it has the programs of other people that production needs
// beside perdure, built from their Go modules: Temporal's server on PostgreSQL,
// with the settings of the official image, and its Web UI.
package standalone

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/perdure/perdure/devserver"
	"github.com/perdure/perdure/topology"
)

// Programs are the programs by name. They serve until they are killed, read
// their arguments from os.Args[1:], and end the process when something fails.
func Programs() map[string]func() {
	return map[string]func(){
		topology.TemporalProgram: func() { end(temporalServer()) },
		topology.UIProgram:       func() { end(webUI(os.Args[1:])) },
	}
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// webUI serves the Web UI: LISTEN FRONTEND NAMESPACE.
func webUI(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: %s LISTEN FRONTEND NAMESPACE", topology.UIProgram)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return devserver.ServeUI(ctx, args[0], args[1], args[2])
}
