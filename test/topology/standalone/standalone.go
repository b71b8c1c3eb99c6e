// Package standalone has the programs that production needs beside perdure.
// Temporal's server on PostgreSQL, with the settings of the official image, and
// its Web UI are built from their Go modules; the proxy is package topology's.
package standalone

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/test/topology"
)

// Programs are the programs by name. They serve until they are killed, read
// their arguments from os.Args[1:], and end the process when something fails.
func Programs() map[string]func() {
	return map[string]func(){
		topology.TemporalProgram: func() { end(temporalServer()) },
		topology.UIProgram:       func() { end(webUI(os.Args[1:])) },
		topology.ProxyProgram:    func() { end(proxy(os.Args[1:])) },
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
	ctx, stop := untilSignal()
	defer stop()
	return devserver.ServeUI(ctx, args[0], args[1], args[2])
}

// proxy gives each request to the next replica: LISTEN REPLICA…
func proxy(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: %s LISTEN REPLICA…", topology.ProxyProgram)
	}
	ctx, stop := untilSignal()
	defer stop()
	return topology.NewBalancer(args[1:]...).Serve(ctx, args[0])
}

func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
