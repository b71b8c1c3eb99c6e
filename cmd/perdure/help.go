package main

import "slices"

// helpCommand is "perdure help COMMAND", for which run reads "perdure COMMAND --help".
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, such as: runs show."`
}

func (helpCommand) Help() string { return "Example:\n\n    perdure help runs show" }

// asHelp turns "help COMMAND" into "COMMAND --help".
func asHelp(args []string) []string {
	if len(args) == 0 {
		return []string{"--help"}
	}
	if args[0] != "help" || slices.Contains(args, "--help") {
		return args
	}
	return append(slices.Clone(args[1:]), "--help")
}
