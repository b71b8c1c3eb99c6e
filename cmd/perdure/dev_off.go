//go:build nodev

package main

// devCommands say where dev is: not in what is built without the embedded
// Temporal, as the image is.
type devCommands struct {
	Dev noDev `cmd:"" hidden:"" passthrough:""`
}

type noDev struct {
	Arguments []string `arg:"" optional:""`
}

func (noDev) Run() error {
	return usagef("this perdure was built without the embedded Temporal, as for the image: name one that runs, perdure serve --address HOST:PORT …, or build it with everything for perdure dev (make build)")
}

const beginning = `Start with "perdure serve", beside a Temporal; "perdure dev", which brings one, is
not in this build. Every command explains itself: perdure COMMAND --help.`
