package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// keyArgument is the argument of book that takes the key, as chaos.yaml says.
const keyArgument = "reference"

// tools are the tools of each backend, with the classes that chaos.yaml gives
// them.
var tools = map[string]string{
	"look": "read", "found": "read",
	"set":   "idempotent",
	"order": "keyed", "book": "keyed", "hold": "keyed", "undo": "keyed",
	"pay": "unsafe", "write": "unsafe",
	"fail": "unsafe", // it always does
}

// A backend is an MCP server in a process of its own. What it does it writes to
// a log, synced before it says so, which processes of the same name share. It
// is slow at times, answers with errors, and loses answers.
type backend struct {
	name string
	dir  string // of the log
	seed uint64
	// loses is of how many answers one is lost.
	loses uint64
}

// backendMain serves a backend until it is killed.
func backendMain(args []string) error {
	flags := flag.NewFlagSet("backend", flag.ExitOnError)
	b := &backend{}
	flags.StringVar(&b.name, "name", "", "of the backend")
	flags.StringVar(&b.dir, "dir", "", "where what it does is written")
	flags.Uint64Var(&b.seed, "seed", 1, "of its misfortunes")
	flags.Uint64Var(&b.loses, "loses", 30, "of how many answers one is lost")
	listen := flags.String("listen", "", "address for HTTP; empty: standard input and output")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := mcpserver.NewMCPServer(b.name, "1", mcpserver.WithToolCapabilities(false))
	for tool, class := range tools {
		server.AddTool(mcp.NewToolWithRawSchema(tool, class, json.RawMessage(`{"type":"object"}`)), b.tool(tool, class))
	}
	if *listen != "" {
		return http.ListenAndServe(*listen, droppable(mcpserver.NewStreamableHTTPServer(server)))
	}
	pid := filepath.Join(b.dir, fmt.Sprintf("%s-%d.pid", b.name, os.Getpid()))
	if err := os.WriteFile(pid, nil, 0o644); err != nil {
		return err
	}
	defer os.Remove(pid)
	return mcpserver.NewStdioServer(server).Listen(context.Background(), os.Stdin, os.Stdout)
}

// dropped is a context's value: what breaks the connection of a request.
type dropped struct{}

// droppable lets a tool break the connection that it is called by.
func droppable(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drop := func() {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), dropped{}, drop)))
	})
}

func (b *backend) tool(tool, class string) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text := func(name string) string { s, _ := request.GetArguments()[name].(string); return s }
		e := Effect{Tool: b.name + "_" + tool, Class: class, Run: text("run"), Step: text("step"), About: text("about")}
		if answer := text("answer"); answer != "" {
			e.Carry = digest(answer)
		}
		if tool == "book" {
			e.Key = text(keyArgument)
		} else if request.Params.Meta != nil {
			e.Key, _ = request.Params.Meta.AdditionalFields["perdure/idempotency-key"].(string)
		}
		fate := b.fate(tool, text("about"), e.Step, e.Key)
		e.Fault = tool == "fail" || fate.fails && class != "read"
		time.Sleep(fate.before)
		if err := b.do(&e); err != nil {
			return nil, err
		}
		time.Sleep(fate.after)
		switch {
		case e.Fault:
			return mcp.NewToolResultError("busy"), nil
		case fate.loses:
			b.lose(ctx)
		case tool == "found":
			happened, err := b.happened(text("key"))
			return result(map[string]any{"found": happened}), err
		}
		return result(map[string]any{"did": tool + " " + e.Step}), nil
	}
}

func result(content map[string]any) *mcp.CallToolResult {
	text, _ := json.Marshal(content) // of strings and truth values
	return mcp.NewToolResultStructured(content, string(text))
}

// A fate is what becomes of a call.
type fate struct {
	before, after time.Duration // what was done is done between
	fails, loses  bool
}

// fate depends on the seed, what the call is about, and how often it was made
// before: another attempt has another one.
func (b *backend) fate(tool, about, step, key string) fate {
	log, _ := os.ReadFile(b.log()) // there may be none yet
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %s %s %d", b.seed, tool, about, step, bytes.Count(log, []byte(key)))
	roll := h.Sum64() >> 7
	part := func(of uint64) uint64 { p := roll % of; roll /= of; return p }
	f := fate{before: time.Duration(part(40)) * time.Millisecond, after: time.Duration(part(150)) * time.Millisecond}
	if part(10) == 0 {
		f.after += time.Duration(part(3000)) * time.Millisecond
	}
	f.fails, f.loses = part(25) == 0, part(b.loses) == 0
	return f
}

// lose breaks the connection by which the answer would go.
func (b *backend) lose(ctx context.Context) {
	if drop, ok := ctx.Value(dropped{}).(func()); ok {
		drop()
		return
	}
	os.Exit(1) // a process has no other way
}

// do does what a call asks for: it writes it down. Keyed calls are known again
// by all processes that share the log.
func (b *backend) do(e *Effect) error {
	log, err := os.OpenFile(b.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if e.Class == "keyed" && !e.Fault {
		if err := syscall.Flock(int(log.Fd()), syscall.LOCK_EX); err != nil { // until the file is closed
			return err
		}
		if e.Again, err = b.happened(e.Key); err != nil {
			return err
		}
	}
	e.At = time.Now().UnixNano()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := log.Write(append(line, '\n')); err != nil {
		return err
	}
	return log.Sync()
}

func (b *backend) log() string { return filepath.Join(b.dir, b.name+".effects") }

// happened says whether a call with a key has done something.
func (b *backend) happened(key string) (bool, error) {
	effects, err := readEffects(b.log())
	for _, e := range effects {
		if e.Key == key && e.done() {
			return true, nil
		}
	}
	return false, err
}

// readEffects reads a log, of which the last line may be under way.
func readEffects(file string) ([]Effect, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Effect
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		var e Effect
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w in %s", file, err, line)
		}
		all = append(all, e)
	}
}
