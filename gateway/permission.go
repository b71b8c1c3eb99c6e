package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
)

type identityKey struct{}

func withIdentity(ctx context.Context, who auth.Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

func identityFrom(ctx context.Context) auth.Identity {
	who, _ := ctx.Value(identityKey{}).(auth.Identity)
	return who
}

// callerOf is an identity as a run keeps it. The client is what the program
// says of itself, if the identity's credentials say nothing of it.
func callerOf(who auth.Identity, client string) runs.Caller {
	return runs.Caller{Subject: who.Principal(), Groups: who.Groups, Client: cmp.Or(who.Client, client)}
}

// may reports whether somebody may do something with a run.
func (g *Gateway) may(who auth.Identity, action auth.Action, run *runs.Run) bool {
	return g.opts.Policy.May(who, action, auth.Object{Tool: run.Tool, Owner: run.Caller})
}

// permitted gets a run with which somebody may do something; to others it is
// runs.ErrNotFound, as if it did not exist.
func (g *Gateway) permitted(ctx context.Context, who auth.Identity, action auth.Action, id runs.RunID) (*runs.Run, error) {
	run, err := g.opts.Runs.Get(ctx, id)
	if err == nil && !g.may(who, action, run) {
		return nil, runs.ErrNotFound
	}
	return run, err
}

// mayAnswer reports whether a client may answer a question of a run, of
// which it has a token. Owner is the run's caller, "" = the client's own.
func (g *Gateway) mayAnswer(c *client, id runs.RunID, owner string, e runs.Elicitation) bool {
	tool, _, _ := strings.Cut(string(id), "/")
	return g.opts.Policy.May(c.who, auth.Answer, auth.Object{Tool: tool, Owner: cmp.Or(owner, c.caller.Subject), Approvers: e.Approvers})
}

// allSteps says which call that the run would surely make would be denied:
// there is no point in asking a person first. The others are looked at when it
// is their turn, by whoever makes them.
func (g *Gateway) allSteps(who auth.Identity, d *definitions.Definition, tools map[string]definitions.Tool) error {
	find := func(name string) (definitions.Tool, bool) {
		t, ok := tools[name]
		return t, ok
	}
	denied := g.denied(who, d, find, "", "you", 0)
	if denied == nil {
		return nil
	}
	return denied
}

// denied is the first such call of a definition, which is called at a step path
// below, if another one calls it. Whose right it is, as messages call them, is the
// composite tool's where that calls in its own.
func (g *Gateway) denied(who auth.Identity, d *definitions.Definition, tools definitions.Tools, below runs.StepPath, whose string, depth int) *runs.Error {
	if d.RunAs == definitions.AsComposite {
		who, whose = auth.Composite(d.Name), "this composite tool"
		if depth > 0 {
			whose = "the composite tool " + d.Name
		}
	}
	for _, s := range d.Steps {
		if s.Condition != "" {
			continue
		}
		at := below.Below(runs.StepPath(s.ID))
		var on auth.Object
		if t, isCall := tools(s.Tool); isCall && s.Tool != "" {
			on = auth.Object{Tool: t.Name}
		}
		called, isCalled := g.calledBy(s)
		if isCalled {
			on = callableBy(d.Name, called)
		}
		if on.Tool != "" && !g.opts.Policy.May(who, auth.Call, on) {
			return &runs.Error{Code: codes.PermissionDenied, Category: codes.CategoryPermission, StepID: at.Top(), StepPath: at, Tool: on.Tool,
				Message: fmt.Sprintf("step %s needs the tool %s, and %s may not call it; nothing was started", at, on.Tool, whose)}
		}
		if isCalled && depth < cmp.Or(g.opts.MaxDepth, definitions.MaxWorkflowDepth) {
			if e := g.denied(who, called, g.findTool, at, whose, depth+1); e != nil {
				return e
			}
		}
	}
	return nil
}

// mayUse says why a definition that somebody publishes may not make a call; "" = it
// may. By the right of its callers it may make those that its publisher may make,
// so that nobody has others do what they may not do themselves.
func (g *Gateway) mayUse(publisher auth.Identity, u definitions.Use) string {
	who, action, whose := publisher, auth.Use, "you may not call it, so what you publish may not either (authorization.publishers can allow it: uses)"
	if u.As != "" {
		who, action, whose = auth.Composite(u.As), auth.Call, "the composite tool "+u.As+" may not call it (authorization.rules name it under composites)"
	}
	what, on := "the tool "+u.Tool, auth.Object{Tool: u.Tool}
	if strings.ContainsAny(u.Tool, `*?[\`) {
		what = "whatever comes to match " + u.Tool
	}
	if u.Called != nil {
		what, on = "the composite tool "+u.Called.Name, callableBy(u.By.Name, u.Called)
	}
	on.Publishes = u.In.Name
	if g.opts.Policy.May(who, action, on) {
		return ""
	}
	if on.Hidden {
		whose = u.By.Name + " is not among its callers (expose.callers)"
	}
	return what + " is called, and " + whose
}

// calledBy is the composite tool that a step calls.
func (g *Gateway) calledBy(s *definitions.Step) (*definitions.Definition, bool) {
	ref, err := definitions.ParseReference(s.Workflow)
	if err != nil {
		return nil, false
	}
	return g.listing.Load().find(ref)
}

// offered reports whether there is a tool that somebody may call.
func (g *Gateway) offered(who auth.Identity, name string) bool {
	l := g.listing.Load()
	_, ofBackend := l.tools[name]
	switch {
	case isScriptTool(name):
		return g.opts.Scripts && g.mayScript(who)
	case g.runTools[name].call != nil:
		return true
	case ofBackend || l.composites[name] != nil:
		return g.opts.Policy.May(who, auth.Call, l.callable(name))
	}
	return false
}

// visible are the tools that the sender of a request may call. mcp-go asks it
// for tools/list and before every call, so that the others do not exist.
func (g *Gateway) visible(ctx context.Context, tools []mcp.Tool) []mcp.Tool {
	who := identityFrom(ctx)
	l := g.listing.Load()
	tools = slices.Clone(tools)
	for i := range tools {
		if tools[i].Name == scriptTool && g.mayScript(who) {
			tools[i].Description = g.listTools(tools[i].Description, who)
		}
	}
	return slices.DeleteFunc(tools, func(t mcp.Tool) bool {
		if isScriptTool(t.Name) {
			return !g.mayScript(who)
		}
		_, builtIn := g.runTools[t.Name]
		return !builtIn && !g.opts.Policy.May(who, auth.Call, l.callable(t.Name))
	})
}
