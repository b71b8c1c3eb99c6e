package main

import (
	"os"
	"slices"
	"strconv"

	"github.com/alecthomas/kong"
)

// helpCommand is "perdure help COMMAND", for which run reads "perdure COMMAND --help".
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, such as: runs show."`
}

func (helpCommand) Help() string { return "Example:\n\n    perdure help runs show" }

// asHelp turns "help COMMAND" into "COMMAND --help", and the flag --version into the command.
func asHelp(args []string) []string {
	if len(args) == 0 {
		return []string{"--help"}
	}
	if len(args) == 1 && slices.Contains([]string{"--version", "-V", "-v"}, args[0]) {
		return []string{"version"}
	}
	if args[0] != "help" || slices.Contains(args, "--help") {
		return args
	}
	return append(slices.Clone(args[1:]), "--help")
}

// printHelp prints the help of a command as wide as the terminal. kong finds its width
// only in a variable, since the console is no file.
func (c *console) printHelp(options kong.HelpOptions, k *kong.Context) error {
	if c.outTerminal && os.Getenv("COLUMNS") == "" {
		width, _ := c.size()
		if err := os.Setenv("COLUMNS", strconv.Itoa(width)); err != nil {
			return err
		}
	}
	return kong.DefaultHelpPrinter(options, k)
}
