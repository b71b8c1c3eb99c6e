package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// tools are those of the backend, with their effect classes.
var tools = map[string]string{
	"look":    "read",
	"write":   "unsafe",
	"hold":    "unsafe",
	"undo":    "unsafe",
	"order":   "keyed",
	"reserve": "keyed",
	"release": "keyed",
	"mend":    "unsafe",
	"amend":   "keyed",
	"pad":     "idempotent",
}

// truth is the tool, of class read, that says what is in effect.
const truth = "truth"

// undoers are the tools that undo what another one has done.
var undoers = map[string]bool{"undo": true, "release": true}

// menders are the tools that undo what a called run has done.
var menders = map[string]bool{"mend": true, "amend": true}

// What became of a call at the backend.
const (
	came     = "came"
	executed = "executed"
	again    = "again" // its key is known, so nothing was done
	refused  = "refused"
)

// An event is what happened to a call at the backend.
type event struct {
	At                                       time.Time
	What, About, Run, Step, Tool, Class, Key string `json:",omitempty"`
	Fate                                     string `json:",omitempty"`
}

// changes reports whether the call has an effect that must happen once.
func (e event) changes() bool { return e.Class != "read" && e.Class != "idempotent" }

// A place is what a run does once.
type place struct{ Run, Step string }

// A backend is an MCP server that writes down what it does, and whose answers are late or
// lost at times.
type backend struct {
	seed    uint64
	address string
	server  *http.Server

	mu      sync.Mutex
	calm    map[string]bool // by call: nothing of it fails any more
	events  []event
	keys    map[string]bool
	done    map[place]bool // what is in effect
	under   map[place]int  // calls under way
	last    map[place]time.Time
	counted map[string]int
}

func newBackend(seed uint64) (*backend, error) {
	b := &backend{seed: seed, calm: map[string]bool{}, keys: map[string]bool{}, done: map[place]bool{}, under: map[place]int{}, last: map[place]time.Time{}, counted: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b.address = l.Addr().String()
	server := mcpserver.NewMCPServer("be", "1", mcpserver.WithToolCapabilities(false))
	server.AddTool(mcp.NewToolWithRawSchema(truth, "read", json.RawMessage(`{"type":"object"}`)), b.tellTruth)
	for tool, class := range tools {
		server.AddTool(mcp.NewToolWithRawSchema(tool, class, json.RawMessage(`{"type":"object"}`)), b.tool(tool, class))
	}
	handler := mcpserver.NewStreamableHTTPServer(server, mcpserver.WithStreamableHTTPLogger(quietLogger))
	b.server = &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drop := func() {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
		}
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), dropped{}, drop)))
	})}
	go func() { _ = b.server.Serve(l) }() // until it is closed
	return b, nil
}

// dropped is a context's value: what breaks the connection of a request.
type dropped struct{}

func (b *backend) tool(tool, class string) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text := func(name string) string { s, _ := request.GetArguments()[name].(string); return s }
		e := event{About: text("about"), Run: text("run"), Step: text("step"), Tool: tool, Class: class}
		if request.Params.Meta != nil {
			e.Key, _ = request.Params.Meta.AdditionalFields["perdure/idempotency-key"].(string)
		}
		f, leave := b.enter(e)
		defer leave()
		e.Fate = f.name
		time.Sleep(f.before)
		var n int
		switch {
		case f.name == "fails":
			b.note(e, refused)
			return mcp.NewToolResultError("busy"), nil
		case f.name != "lost before":
			n = b.execute(e)
		}
		time.Sleep(f.after)
		if f.name == "lost before" || f.name == "lost" {
			if drop, ok := ctx.Value(dropped{}).(func()); ok {
				drop()
			}
		}
		raw, _ := json.Marshal(map[string]any{"n": n}) // of a number
		return mcp.NewToolResultStructured(map[string]any{"n": n}, string(raw)), nil
	}
}

// tellTruth reports whether the effect of a step stands, and whether no call under way can
// change that.
func (b *backend) tellTruth(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args := request.GetArguments()
	done, quiet := b.truth(place{fmt.Sprint(args["run"]), fmt.Sprint(args["step"])})
	out := map[string]any{"done": done, "quiet": quiet}
	raw, _ := json.Marshal(out) // of booleans
	return mcp.NewToolResultStructured(out, string(raw)), nil
}

// A fate is what becomes of a call.
type fate struct {
	name          string // "" = nothing happens to it
	before, after time.Duration
}

func (b *backend) enter(e event) (f fate, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := place{e.Run, e.Step}
	b.under[p]++
	id := e.About + " " + e.Step + " " + e.Tool
	b.counted[id]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", id, b.counted[id])
	f = b.fate(rand.New(rand.NewPCG(b.seed, h.Sum64())), e)
	e.At, e.What, e.Fate = time.Now(), came, f.name
	b.events = append(b.events, e)
	return f, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.under[p]--
		b.last[p] = time.Now()
	}
}

func (b *backend) fate(rng *rand.Rand, e event) fate {
	ms := func(n int) time.Duration { return time.Duration(rng.IntN(n)) * time.Millisecond }
	f := fate{before: ms(20), after: ms(80)}
	roll := rng.IntN(100)
	switch {
	case b.calm[e.About], !e.changes() && roll < 90:
	case roll < 10:
		f.name = "fails"
	case roll < 17:
		f.name = "lost"
	case roll < 21:
		f.name = "lost before"
	case roll < 25:
		f.name, f.after = "late", ms(2500)
	case roll < 29:
		f.name, f.before = "slow", ms(1500)
	}
	return f
}

func (b *backend) note(e event, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.At, e.What = time.Now(), what
	b.events = append(b.events, e)
}

// execute does what a call asks for; a key of a keyed tool is known again.
func (b *backend) execute(e event) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.At, e.What = time.Now(), executed
	if e.Class == "keyed" && b.keys[e.Key] {
		e.What = again
	}
	b.keys[e.Key] = true
	if e.What == executed && e.changes() {
		b.done[place{e.Run, e.Step}] = !undoers[e.Tool] && !menders[e.Tool]
	}
	b.events = append(b.events, e)
	return len(b.events) % 10 // of two reads, the second gives something else
}

// truth is whether what a step does is in effect; ok = nothing is on its way that could
// change it.
func (b *backend) truth(p place) (done, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done[p], b.under[p] == 0 && time.Since(b.last[p]) > time.Second
}

// calmDown lets nothing happen any more to what a call does.
func (b *backend) calmDown(about string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm[about] = true
}

// only is the place of a step that one run of a call has executed, and no other.
func (b *backend) only(about, step string) (p place, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.About != about || e.Step != step || step == "" {
			continue
		}
		if ok && p.Run != e.Run {
			return place{}, false
		}
		p, ok = place{e.Run, e.Step}, true
	}
	return p, ok
}

// latest is when something of a call has come last.
func (b *backend) latest(about string) (at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.About == about {
			at = e.At
		}
	}
	return at
}
