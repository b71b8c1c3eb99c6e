package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/scaffold"
	"github.com/perdure/perdure/internal/store"
)

type backendAddCommand struct {
	takeOverFlags `embed:""`

	Name    string            `arg:"" help:"Name of the backend, with which its tools begin."`
	Target  []string          `arg:"" help:"URL of the server, or -- and the command that starts it." name:"target"`
	Config  string            `help:"Configuration file to extend, created if it does not exist. Default: perdure.yaml." default:"perdure.yaml" placeholder:"FILE"`
	Env     map[string]string `help:"Environment variable for the program, NAME=VALUE. A value that may be secret becomes a variable of perdure's environment. Repeatable." placeholder:"NAME=VALUE"`
	PassEnv []string          `help:"Variable of perdure's environment that the program gets. Repeatable." placeholder:"NAME" sep:"none"`
	Header  headersFlag       `help:"Header for each request, such as 'Authorization=Bearer ${env:TOKEN}'. Repeatable." placeholder:"NAME=VALUE"`
	Away    bool              `help:"Add the server even if it does not answer, without effect classes."`
	Dir     string            `help:"Directory in which the program runs." placeholder:"DIR"`
}

// headersFlag are headers, each NAME=VALUE or, as curl has it, NAME: VALUE.
type headersFlag map[string]string

// Decode reads one. Its value may be a secret, so it is not in the error.
func (h *headersFlag) Decode(ctx *kong.DecodeContext) error {
	var header string
	if err := ctx.Scan.PopValueInto("header", &header); err != nil {
		return err
	}
	at := strings.IndexAny(header, "=:")
	if at < 1 {
		return errors.New("write NAME=VALUE")
	}
	if *h == nil {
		*h = headersFlag{}
	}
	(*h)[strings.TrimSpace(header[:at])] = strings.TrimSpace(header[at+1:])
	return nil
}

func (backendAddCommand) Help() string {
	return `Starts the server, lists its tools, proposes an effect class for each, and adds the
backend to the configuration, whose comments and order stay. Examples:

    perdure backend add files -- npx -y @modelcontextprotocol/server-filesystem /srv/docs
    perdure backend add shop https://shop.example.com/mcp --header 'Authorization=Bearer ${env:SHOP_TOKEN}'
    perdure backend add github --pass-env GITHUB_TOKEN -- docker run -i --rm -e GITHUB_TOKEN ghcr.io/github/github-mcp-server`
}

func (b backendAddCommand) Run(ctx context.Context, c *console) error {
	text, err := os.ReadFile(b.Config)
	creates := errors.Is(err, fs.ErrNotExist)
	if err != nil && !creates {
		return err
	}
	set := scaffold.Of(b.server())
	t := newTakeOver(b.takeOverFlags, c, set)
	t.needs = !b.Away
	b.noteArguments(c)
	if creates {
		return t.begin(ctx, b.Config)
	}
	if _, err := scaffold.Extend(string(text), set.Servers[0], nil); err != nil { // before anything is started
		return b.byHand(c, set, err)
	}
	name, err := workingName()
	if err != nil {
		return err
	}
	if err := t.propose(ctx, set.Configuration(name, nil, nil)); err != nil {
		return err
	}
	if err := b.extend(set.Servers[0], t.report.Effects); err != nil {
		return b.byHand(c, set, err)
	}
	t.report.Written = append(t.report.Written, b.Config)
	return t.conclude(b.Config, nil)
}

// noteArguments says that --yes at the end of a command is not perdure's.
func (b backendAddCommand) noteArguments(c *console) {
	if last := b.Target[len(b.Target)-1]; !b.Yes && len(b.Target) > 1 && (last == "--yes" || last == "-y") {
		c.notef("%s is an argument of %s, since it is behind --; to confirm, write it before", last, b.Target[0])
	}
}

// extend adds the server to the configuration as it is now, since others may have
// changed it while the server was started and a person was asked. Of commands that add
// at once, one waits for the other.
func (b backendAddCommand) extend(s *scaffold.Server, effects []scaffold.Proposal) error {
	file, err := filepath.EvalSymlinks(b.Config)
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer dir.Close() // releases the lock
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", dir.Name(), err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	extended, err := scaffold.Extend(string(text), s, effects)
	if err != nil {
		return err
	}
	return store.WriteFile(file, []byte(extended), info.Mode().Perm())
}

// byHand prints the entry where the file cannot be extended.
func (b backendAddCommand) byHand(c *console, set *scaffold.Set, err error) error {
	if errors.Is(err, scaffold.ErrByHand) {
		c.notef("add this to %s:\n\nbackends:\n%s", b.Config, set.Servers[0].Entry("  ", nil, ""))
	}
	return fmt.Errorf("%s: %w", b.Config, err)
}

// server is the server of the command line.
func (b backendAddCommand) server() *config.Server {
	s := &config.Server{Name: b.Name, Headers: b.Header, Env: b.Env, PassEnv: b.PassEnv, Dir: b.Dir}
	if first := b.Target[0]; len(b.Target) == 1 && (strings.HasPrefix(first, "http://") || strings.HasPrefix(first, "https://")) {
		s.Transport, s.URL = "streamable-http", first
		return s
	}
	s.Transport, s.Command, s.Args = "stdio", b.Target[0], b.Target[1:]
	return s
}
