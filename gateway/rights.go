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
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
)

// Rights decide who may call what, and do what with which run.
type rights struct {
	policy   *auth.Policy
	runs     Runs
	tools    *toolset
	maxDepth int
}

// allow reports whether the identity may do an action.
func (r *rights) allow(who auth.Identity, action auth.Action, on auth.Object) bool {
	return r.policy.May(who, action, on)
}

// ruled reports whether there are rules at all.
func (r *rights) ruled() bool { return r.policy.Ruled() }

// mayCall reports whether the identity may call a composite tool directly.
func (r *rights) mayCall(who auth.Identity, d *definitions.Definition) bool {
	return MayCall(r.policy, who, d)
}

// offered reports whether a tool exists that the identity may call.
func (r *rights) offered(who auth.Identity, name string) bool {
	l := r.tools.now()
	_, ofBackend := l.tools[name]
	switch {
	case isScriptTool(name):
		return r.tools.isBuiltIn(name) && r.mayScript(who)
	case r.tools.isBuiltIn(name):
		return true
	case ofBackend || l.composites[name] != nil:
		return r.policy.May(who, auth.Call, l.callable(name))
	}
	return false
}

// visible are the tools that the identity may call: for it, the others do not exist.
func (r *rights) visible(who auth.Identity, tools []mcp.Tool) []mcp.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t mcp.Tool) bool { return !r.offered(who, t.Name) })
}

// may reports whether the identity may act on a run.
func (r *rights) may(who auth.Identity, action auth.Action, run *runs.Run) bool {
	return r.policy.May(who, action, auth.Object{Tool: run.Tool, Owner: run.Caller})
}

// permitted gets a run that the identity may act on; for others the error is
// runs.ErrNotFound, as if it did not exist.
func (r *rights) permitted(ctx context.Context, who auth.Identity, action auth.Action, id runs.RunID) (*runs.Run, error) {
	return r.permittedOn(ctx, who, action, id, nil)
}

// permittedOn does so with the run as it was read a moment ago; nil = it is read.
func (r *rights) permittedOn(ctx context.Context, who auth.Identity, action auth.Action, id runs.RunID, run *runs.Run) (_ *runs.Run, err error) {
	if run == nil {
		run, err = r.runs.Get(ctx, id)
	}
	if err == nil && !r.may(who, action, run) {
		return nil, runs.ErrNotFound
	}
	return run, err
}

// mayAnswer reports whether a client may answer a question of a run for which it has a
// token. Owner is the run's caller, "" = the client's own.
func (r *rights) mayAnswer(c *client, id runs.RunID, owner string, e runs.Elicitation) bool {
	return r.policy.May(c.who, auth.Answer, auth.Object{Tool: toolOf(id), Owner: cmp.Or(owner, c.caller.Subject), Approvers: e.Approvers})
}

// toolOf is the tool of a run, which its ID begins with.
func toolOf(id runs.RunID) string {
	tool, _, _ := strings.Cut(string(id), "/")
	return tool
}

// allSteps reports which call that the run would surely make would be denied: there is
// no point in asking a person first. The others are looked at when it is their turn, no
// matter who makes them.
func (r *rights) allSteps(who auth.Identity, d *definitions.Definition, tools map[string]definitions.Tool) error {
	denied := (&denials{rights: r, ofCalled: r.tools.steps(), permitted: map[looked]bool{}}).find(who, d, definitions.ToolsByName(tools), "", "you", 0)
	if denied == nil {
		return nil
	}
	return denied
}

// denials look for such a call, once in each definition at each depth: definitions that call
// each other may make millions of calls together.
type denials struct {
	*rights
	ofCalled  definitions.Tools // of definitions that are called
	permitted map[looked]bool
}

type looked struct {
	at    *definitions.Definition
	whose string
	depth int
}

// find is the first such call of a definition, which is called at a step path
// below, if another one calls it. Whose right it is, as messages call them, is the
// composite tool's where that calls in its own.
func (r *denials) find(who auth.Identity, d *definitions.Definition, tools definitions.Tools, below runs.StepPath, whose string, depth int) *runs.Error {
	if d.RunAs == definitions.AsComposite {
		who, whose = auth.Composite(d.Name), "this composite tool"
		if depth > 0 {
			whose = "the composite tool " + d.Name
		}
	}
	here := looked{d, whose, depth}
	if r.permitted[here] {
		return nil
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
		called, isCalled := r.tools.calledBy(s)
		if isCalled {
			on = callableBy(d.Name, called)
		}
		if on.Tool != "" && !r.policy.May(who, auth.Call, on) {
			return &runs.Error{Code: codes.PermissionDenied, Category: codes.CategoryPermission, StepID: at.Top(), StepPath: at, Tool: on.Tool,
				Message: fmt.Sprintf("step %s needs the tool %s, and %s may not call it; nothing was started", at, on.Tool, whose)}
		}
		if isCalled && depth < cmp.Or(r.maxDepth, definitions.MaxWorkflowDepth) {
			if e := r.find(who, called, r.ofCalled, at, whose, depth+1); e != nil {
				return e
			}
		}
	}
	r.permitted[here] = true
	return nil
}

// mayUse reports why a definition may not make a call for its publisher; "" = it may.
// By the rights of its callers it may make the calls that its publisher may make: no
// publisher can have callers do what the publisher may not.
func (r *rights) mayUse(publisher auth.Identity, u definitions.Use) string {
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
	if r.policy.May(who, action, on) {
		return ""
	}
	if on.Hidden {
		whose = u.By.Name + " is not among its callers (expose.callers)"
	}
	return what + " is called, and " + whose
}

// mayRead reports whether the identity may read a published composite tool: a caller
// learns as much from a dry run.
func (r *rights) mayRead(who auth.Identity, on auth.Object) bool {
	return r.policy.May(who, auth.Call, on) || r.policy.May(who, auth.Publish, on)
}

// mayKnow reports whether the identity may know that a composite tool exists.
func (r *rights) mayKnow(who auth.Identity, d *definitions.Definition) bool {
	return r.mayRead(who, callable(d)) || r.policy.May(who, auth.See, auth.Object{Tool: d.Name})
}

// mayReadVersion reports whether the identity may read one version: its expose may
// exclude callers of another version. Hidden versions are for their publishers.
func (r *rights) mayReadVersion(who auth.Identity, e registry.Entry) bool {
	switch {
	case e.Definition == nil:
		return r.mayRead(who, auth.Object{Tool: e.Published.Name})
	case e.Definition.Expose.Hidden:
		return r.policy.May(who, auth.Publish, auth.Object{Tool: e.Definition.Name})
	}
	return r.mayRead(who, callable(e.Definition))
}

// mayScript reports whether the identity may send scripts.
func (r *rights) mayScript(who auth.Identity) bool {
	return r.policy.May(who, auth.Call, auth.Object{Tool: scriptTool})
}

// maySend reports whether the identity may send a script that calls a tool. Hidden
// tools are for the steps of composite tools.
func (r *rights) maySend(who auth.Identity, tool string) bool {
	t, ok := r.tools.ofBackend(tool)
	return ok && !t.Hidden && r.policy.May(who, auth.Call, auth.Object{Tool: tool})
}

// maySendTo finds the composite tools that a script of the identity may call. For
// others they do not exist.
func (r *rights) maySendTo(who auth.Identity) definitions.Definitions {
	find := r.tools.now().find
	return func(ref definitions.Reference) (*definitions.Definition, bool) {
		d, ok := find(ref)
		if !ok || !r.mayCall(who, d) {
			return nil, false
		}
		return d, true
	}
}
