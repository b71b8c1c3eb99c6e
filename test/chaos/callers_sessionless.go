package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/test/topology/clients"
)

func (c *caller) sessionlessMute(ctx context.Context, call *Call) error {
	s := clients.Sessionless{URL: c.w.url()}
	params, name := c.params(call), call.Tool
	for n := 1; ; n++ {
		raw, err := s.Request(ctx, n, "tools/call", name, metaFirst(params))
		if err != nil {
			return err
		}
		if _, err = call.take(raw); !errors.Is(err, errNotFinished) {
			return err
		}
		params, name = fmt.Sprintf(`"name":%q,"arguments":{"runId":%q,"waitSeconds":5}`, awaitRun, call.Run), awaitRun
	}
}

// sessionlessAgain sends the same call again when its stream has ended without a
// result, and waits for the run of which it is told.
func (c *caller) sessionlessAgain(ctx context.Context, call *Call) error {
	s := clients.Sessionless{URL: c.w.url()}
	for n := c.w.roll(); ; n++ {
		params, name := c.params(call), call.Tool
		if call.handle {
			params, name = fmt.Sprintf(`"name":%q,"arguments":{"runId":%q,"waitSeconds":5}`, awaitRun, call.Run), awaitRun
		}
		raw, err := s.Request(ctx, n, "tools/call", name, params)
		if err != nil {
			return err
		}
		if _, err = call.take(raw); !errors.Is(err, errNotFinished) {
			return err
		}
		call.handle = true
	}
}

// metaFirst has the members of params begin with _meta, if there is one.
func metaFirst(params string) string {
	if rest, meta, ok := strings.Cut(params, `,"_meta":`); ok {
		return `"_meta":` + meta + "," + rest
	}
	return params
}

func (c *caller) sessionless(ctx context.Context, call *Call) error {
	s := clients.Sessionless{URL: c.w.url(), Capabilities: `{"elicitation":{}}`}
	more := ""
	for n := 1; ; n++ {
		raw, err := s.Request(ctx, n, "tools/call", call.Tool, metaFirst(c.params(call))+more)
		if err != nil {
			return err
		}
		t, err := call.take(raw)
		if !errors.Is(err, errNotFinished) && err != nil || err == nil && t.InputRequests == nil {
			return err
		}
		if t.InputRequests == nil {
			return err // a handle: the attempt is over
		}
		responses, err := c.responses(ctx, t)
		if err != nil {
			return err
		}
		more = fmt.Sprintf(`,"inputResponses":%s,"requestState":%q`, responses, t.RequestState)
	}
}

// responses are the answers to what a client is asked.
func (c *caller) responses(ctx context.Context, t told) (json.RawMessage, error) {
	answers := map[string]any{}
	for gate, request := range t.InputRequests {
		action, content, err := c.verdict(ctx, request.Params.Message)
		if err != nil {
			return nil, err
		}
		answers[gate] = map[string]any{"action": action, "content": content}
	}
	return json.Marshal(answers)
}

func (c *caller) sessionlessTask(ctx context.Context, call *Call) error {
	s := clients.Sessionless{URL: c.w.url(), Capabilities: `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	raw, err := s.Request(ctx, 1, "tools/call", call.Tool, metaFirst(c.params(call)))
	if err != nil {
		return err
	}
	task, err := call.take(raw)
	if !errors.Is(err, errNotFinished) {
		return err
	}
	named := fmt.Sprintf(`"taskId":%q`, task.TaskID)
	answered := false
	for n := 2; ; n++ {
		if raw, err = s.Request(ctx, n, "tasks/get", task.TaskID, named); err != nil {
			return err
		}
		now, err := call.take(raw)
		if err == nil {
			return nil
		}
		if now.Result != nil {
			_, err := call.take(now.Result)
			return err
		}
		if len(now.InputRequests) > 0 && !answered {
			responses, err := c.responses(ctx, now)
			if err != nil {
				return err
			}
			if _, err := s.Request(ctx, n, "tasks/update", task.TaskID, named+`,"inputResponses":`+string(responses)); err != nil {
				return err
			}
			answered = true
		}
		if !pause(ctx, 300*time.Millisecond) {
			return ctx.Err()
		}
	}
}
