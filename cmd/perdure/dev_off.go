//go:build nodev

package main

// hasDev says whether this build has the embedded Temporal.
const hasDev = false

// devCommands explain that this build has no dev: it is built without the embedded
// Temporal, as the container image is.
type devCommands struct {
	Dev noDev `cmd:"" hidden:"" passthrough:""`
}

type noDev struct {
	Arguments []string `arg:"" optional:""`
}

func (noDev) Run() error {
	return usagef("this build of perdure has no embedded Temporal; use perdure serve --address HOST:PORT with a running Temporal, or build perdure with make build for perdure dev")
}

const beginning = `Start with "perdure serve", which needs a running Temporal; "perdure dev", which has
one embedded, is not in this build. For help on a command: perdure COMMAND --help.`
