package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/test/topology/clients"
)

// kinds are the kinds of clients. Each makes one attempt at a call and gives
// what it was told in the end.
var kinds = map[string]func(*caller, context.Context, *Call) error{
	"blocking, not asked":     (*caller).blocking,
	"blocking, asked":         (*caller).blockingAsked,
	"session that comes back": (*caller).session,
	"session with tasks":      (*caller).sessionTask,
	"sessionless":             (*caller).sessionless,
	"sessionless with tasks":  (*caller).sessionlessTask,
	"sessionless, not asked":  (*caller).sessionlessMute,
	"sessionless, no key":     (*caller).sessionlessAgain,
}

// composites are the tools that are called, as often as they stand here.
var composites = []string{"pay", "pay", "pay", "once", "gate", "gate", "gate", "saga", "fan", "settle", "settle", "probed", "stop", "stop", "scripted", "scripted", "parent", "parent"}

const (
	callPatience    = 25 * time.Second // of a client with one attempt
	attemptPause    = 500 * time.Millisecond
	attempts        = 6
	awaitRun        = "perdure_run_await"
	idempotencyMeta = "perdure/idempotency-key"
)

// A caller makes one call.
type caller struct {
	w      *world
	number int
	kind   string
	rng    *rand.Rand
}

func (c *caller) call(ctx context.Context) {
	call := Call{ID: strconv.Itoa(c.number), Client: c.kind, Tool: composites[c.rng.IntN(len(composites))]}
	call.Same = "call " + call.ID
	if call.Tool == "once" { // others call the same
		call.Same = fmt.Sprintf("once %d", c.w.pairs.Add(1)/2)
	}
	begun := time.Now()
	c.attempt(ctx, &call)
	call.Took = time.Since(begun)
	c.w.note(func(r *Record) { r.Calls = append(r.Calls, call) })
}

// attempt makes a call, again with its key if it comes to nothing. Some clients
// go away at some time, with or without coming back.
func (c *caller) attempt(ctx context.Context, call *Call) {
	for range attempts {
		patience := callPatience
		if c.rng.IntN(8) == 0 {
			patience = time.Duration(c.rng.IntN(3000)) * time.Millisecond
		}
		try, done := context.WithTimeout(ctx, patience)
		begun := time.Now()
		err := kinds[c.kind](c, try, call)
		done()
		if call.Error = ""; err != nil {
			call.Error = err.Error()
		}
		call.Attempts = append(call.Attempts, Attempt{begun.UnixNano(), time.Now().UnixNano(), call.Run, call.Error})
		if err == nil || c.rng.IntN(6) == 0 || !pause(ctx, attemptPause) {
			return
		}
	}
}

// params are those of a call, with a key where it is not the tool that knows
// the same again.
func (c *caller) params(call *Call) string {
	about, meta := call.Same, ""
	if call.Tool != "once" && c.kind != "sessionless, no key" {
		meta = fmt.Sprintf(`,"_meta":{%q:%q}`, idempotencyMeta, c.w.name+" "+call.Same)
	}
	return fmt.Sprintf(`"name":%q,"arguments":{"about":%q}%s`, call.Tool, about, meta)
}

// A told is what a client is told, in whatever way.
type told struct {
	Meta struct {
		Run struct{ ID, Status string } `json:"perdure/run"`
	} `json:"_meta"`
	StructuredContent json.RawMessage
	IsError           bool

	// Of a sessionless client that is asked.
	InputRequests map[string]struct{ Params struct{ Message string } }
	RequestState  string

	// Of tasks.
	Task                       struct{ TaskID string }
	ResultType, TaskID, Status string
	Result                     json.RawMessage
}

// errNotFinished says that a run goes on.
var errNotFinished = errors.New("the run goes on")

// take notes what a call was told; nil = that was its result.
func (call *Call) take(raw json.RawMessage) (told, error) {
	var t told
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, fmt.Errorf("%w in %s", err, raw)
	}
	if id := t.Meta.Run.ID; id != "" && call.Run != "" && call.Run != id {
		call.Error = "was told of " + id + " as well"
	}
	if t.Meta.Run.ID == "" && t.InputRequests == nil && t.ResultType != "task" && t.Task.TaskID == "" && t.TaskID == "" {
		return t, fmt.Errorf("no run: %s", raw) // Temporal is away, for example
	}
	if t.Meta.Run.ID != "" {
		call.Run = t.Meta.Run.ID
	}
	switch t.Meta.Run.Status {
	case "completed":
		var b bytes.Buffer
		if err := json.Compact(&b, t.StructuredContent); err != nil {
			return t, err
		}
		call.Status, call.Output = t.Meta.Run.Status, b.String()
		return t, nil
	case "failed", "cancelled", "terminated", "timed_out":
		call.Status = t.Meta.Run.Status
		return t, nil
	}
	return t, errNotFinished
}

// verdict is what a client answers, after a while; most let others answer now
// and then.
func (c *caller) verdict(ctx context.Context, question string) (string, any, error) {
	run, _, ok := strings.Cut(question, ": ")
	roll := c.w.roll()
	if !ok || roll%3 == 0 || !pause(ctx, time.Duration(roll%1500)*time.Millisecond) {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	text := c.w.verdict()
	c.w.note(func(r *Record) {
		r.Answers = append(r.Answers, Answer{Run: run, Question: gateID, Channel: c.kind, Content: digest(text)})
	})
	return "accept", map[string]any{"verdict": text}, nil
}

// gateID is the ID of the question in chaos.yaml.
const gateID = "ask#1"

// library opens a client of mcp-go's.
func (c *caller) library(ctx context.Context, options ...client.ClientOption) (*client.Client, error) {
	http, err := transport.NewStreamableHTTP(c.w.url(), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	lib := client.NewClient(http, options...)
	if err := lib.Start(ctx); err != nil {
		return nil, err
	}
	var request mcp.InitializeRequest
	request.Params.ProtocolVersion = "2025-06-18"
	request.Params.ClientInfo = mcp.Implementation{Name: "chaos", Version: "1"}
	_, err = lib.Initialize(ctx, request)
	return lib, err
}

// throughLibrary calls with mcp-go's client, and waits for the run if it is
// given a handle.
func (c *caller) throughLibrary(ctx context.Context, call *Call, options ...client.ClientOption) error {
	lib, err := c.library(ctx, options...)
	if lib != nil {
		defer lib.Close()
	}
	if err != nil {
		return err
	}
	var request mcp.CallToolRequest
	if err := json.Unmarshal([]byte("{"+c.params(call)+"}"), &request.Params); err != nil {
		return err
	}
	for {
		result, err := lib.CallTool(ctx, request)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(result)
		if err != nil {
			return err
		}
		if _, err = call.take(raw); !errors.Is(err, errNotFinished) {
			return err
		}
		request = mcp.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = awaitRun, map[string]any{"runId": call.Run, "waitSeconds": 5}
	}
}

func (c *caller) blocking(ctx context.Context, call *Call) error { return c.throughLibrary(ctx, call) }

func (c *caller) blockingAsked(ctx context.Context, call *Call) error {
	return c.throughLibrary(ctx, call, client.WithElicitationHandler(elicited(c.verdict)))
}

// elicited is an elicitation handler of mcp-go's.
type elicited clients.Asked

func (e elicited) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	action, content, err := e(ctx, request.Params.Message)
	result := &mcp.ElicitationResult{}
	result.Action, result.Content = mcp.ElicitationResponseAction(action), content
	return result, err
}

func (c *caller) open(ctx context.Context) (*clients.Session, error) {
	s := &clients.Session{URL: c.w.url(), Asked: c.verdict}
	return s, s.Open(ctx)
}

func (c *caller) session(ctx context.Context, call *Call) error {
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	raw, err := s.Request(ctx, 1, "tools/call", "{"+c.params(call)+"}")
	if err != nil {
		return err
	}
	_, err = call.take(raw)
	return err
}

func (c *caller) sessionTask(ctx context.Context, call *Call) error {
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	raw, err := s.Request(ctx, 1, "tools/call", "{"+c.params(call)+`,"task":{}}`)
	if err != nil {
		return err
	}
	task, err := call.take(raw)
	if !errors.Is(err, errNotFinished) {
		return err
	}
	named := fmt.Sprintf(`{"taskId":%q}`, task.Task.TaskID)
	if c.w.roll()%2 == 0 { // looks before it waits
		if _, err := s.Request(ctx, 2, "tasks/get", named); err != nil {
			return err
		}
	}
	if raw, err = s.Request(ctx, 3, "tasks/result", named); err != nil {
		return err
	}
	_, err = call.take(raw)
	return err
}

// pause waits; false = the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
