package main

import (
	"context"

	"github.com/perdure/perdure/internal/backends/repo"
)

type backendCommand struct {
	Add  backendAddCommand `cmd:"" help:"Add an MCP server to the configuration, with an effect class for each tool."`
	Repo repoCommand       `cmd:"" help:"Serve a git repository over MCP on standard input and output: tools that read it, and one that writes a review file."`
}

type repoCommand struct {
	Root string `help:"Directory of the repository." default:"." type:"existingdir"`
}

func (repoCommand) Help() string {
	return `An MCP client starts this server; perdure dev does so when it has no
configuration. In a configuration:

    backends:
      - {name: repo, transport: stdio, command: perdure, args: [backend, repo, --root, .]}`
}

func (r repoCommand) Run(ctx context.Context, c *console) error {
	return repo.Serve(ctx, r.Root, c.in, c.exact)
}
