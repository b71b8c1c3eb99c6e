package main

import (
	"context"

	"github.com/perdure/perdure/internal/backends/repo"
)

type backendCommand struct {
	Repo repoCommand `cmd:"" help:"Serve a git repository over MCP on standard input and output: reading tools, and one that writes a review file."`
}

type repoCommand struct {
	Root string `help:"Directory of the repository." default:"." type:"existingdir"`
}

func (repoCommand) Help() string {
	return `It is started by an MCP client, as perdure dev does when it is given no
configuration. In a configuration:

    backends:
      - {name: repo, transport: stdio, command: perdure, args: [backend, repo, --root, .]}`
}

func (r repoCommand) Run(ctx context.Context, c *console) error {
	return repo.Serve(ctx, r.Root, c.in, c.exact)
}
