package script

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
)

// A toolset has the tools that a script may call, by the names it may use.
type toolset struct {
	byName     map[string]string     // all names that call_tool takes → names for clients
	effects    map[string]bool       // tools that have effects, by their names for clients
	functions  map[string]string     // identifiers → names for clients
	namespaces map[string]*namespace // by backend, and by its name as an identifier
}

func newToolset(tools []Tool) *toolset {
	s := &toolset{byName: map[string]string{}, effects: map[string]bool{}, functions: map[string]string{}, namespaces: map[string]*namespace{}}
	tools = slices.SortedFunc(slices.Values(tools), func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range tools {
		s.byName[t.Name], s.effects[t.Name] = t.Name, t.Effects
		if _, taken := s.functions[bounded.Identifier(t.Name)]; !taken {
			s.functions[bounded.Identifier(t.Name)] = t.Name
		}
		if t.Backend == "" {
			continue
		}
		ns := s.namespaces[t.Backend]
		if ns == nil {
			ns = &namespace{name: t.Backend, tools: map[string]string{}}
			s.namespaces[t.Backend] = ns
			if _, taken := s.namespaces[bounded.Identifier(t.Backend)]; !taken {
				s.namespaces[bounded.Identifier(t.Backend)] = ns
			}
		}
		ns.tools[t.Original] = t.Name
		if _, taken := ns.tools[bounded.Identifier(t.Original)]; !taken {
			ns.tools[bounded.Identifier(t.Original)] = t.Name
		}
	}
	s.alsoNamed(tools)
	return s
}

// alsoNamed lets call_tool take a tool by the names of functions too, and by
// backend.tool. The name for clients comes first.
func (s *toolset) alsoNamed(tools []Tool) {
	for _, t := range tools {
		also := []string{bounded.Identifier(t.Name)}
		if t.Backend != "" {
			also = append(also, t.Backend+"."+t.Original, bounded.Identifier(t.Backend)+"."+bounded.Identifier(t.Original))
		}
		for _, name := range also {
			if s.byName[name] == "" {
				s.byName[name] = t.Name
			}
		}
	}
}

// value is the meaning of a free name in a script; nil = none.
func (s *toolset) value(name string) starlark.Value {
	if ns := s.namespaces[name]; ns != nil {
		return ns
	}
	if tool := s.functions[name]; tool != "" {
		return toolFunction(tool)
	}
	return nil
}

// define adds the meanings of a script's free names.
func (s *toolset) define(names starlark.StringDict, globals []bounded.Name) {
	for _, n := range globals {
		if v := s.value(n.Name); v != nil {
			names[n.Name] = v
		}
	}
}

// undefined is the error of a script that uses undefined names; nil = all are defined.
func (s *toolset) undefined(program *bounded.Program) *Error {
	var lines, known []string
	var at Site
	for _, n := range program.Globals() {
		if s.value(n.Name) != nil {
			continue
		}
		if lines == nil {
			at.Position = bounded.Position{File: n.File, Line: n.Line, Column: n.Column}
			known = s.known(program.Names()...)
		}
		if len(lines) == maxUndefined {
			lines = append(lines, "there is more that is undefined; correct this first")
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d:%d: undefined: %s is neither defined nor a tool%s [script-name]", n.File, n.Line, n.Column, n.Name, template.DidYouMean(n.Name, known)))
	}
	if lines == nil {
		return nil
	}
	return &Error{Code: codes.UnknownTool, Category: codes.CategoryTool, Message: strings.Join(lines, "\n"), Retryable: true, Site: at}
}

// maxUndefined bounds the names in the error of undefined.
const maxUndefined = 100

// known are the names of the tools and others, sorted.
func (s *toolset) known(others ...string) []string {
	known := slices.Clone(others)
	//workflowcheck:ignore they are sorted below
	for _, tool := range s.functions {
		known = append(known, tool)
	}
	//workflowcheck:ignore they are sorted below
	for backend, ns := range s.namespaces {
		known = append(known, backend)
		//workflowcheck:ignore they are sorted below
		for tool := range ns.tools {
			known = append(known, backend+"."+tool)
		}
	}
	slices.Sort(known)
	return known
}

// A namespace gives the tools of a backend as functions: github.get_issue.
type namespace struct {
	name  string
	tools map[string]string
}

func (n *namespace) String() string        { return "<tools of " + n.name + ">" }
func (n *namespace) Type() string          { return "tools" }
func (n *namespace) Freeze()               {}
func (n *namespace) Truth() starlark.Bool  { return true }
func (n *namespace) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: tools") }

func (n *namespace) Attr(name string) (starlark.Value, error) {
	if tool := n.tools[name]; tool != "" {
		return toolFunction(tool), nil
	}
	return nil, nil
}

func (n *namespace) AttrNames() []string {
	names := make([]string, 0, len(n.tools))
	//workflowcheck:ignore sorted
	for name := range n.tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// toolFunction is a tool as a function: arguments by name.
func toolFunction(tool string) *starlark.Builtin {
	return starlark.NewBuiltin(tool, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) > 0 {
			return nil, fmt.Errorf("%s: give its arguments by name", tool)
		}
		b := branchOf(thread)
		out, err := b.callTool(thread, tool, nil, kwargs, ToolCall{})
		if err != nil {
			return nil, err
		}
		return b.parsed(out)
	})
}

// arguments makes an object of a dict and arguments by name.
func (b *branch) arguments(given starlark.Value, kwargs []starlark.Tuple) (Arguments, error) {
	args := bounded.NewDict(b.run.Account)
	switch given := given.(type) {
	case nil, starlark.NoneType:
	case *bounded.Dict:
		if err := args.Update(given); err != nil {
			return Arguments{}, err
		}
	default:
		return Arguments{}, fmt.Errorf("arguments must be a dict, not %s", given.Type())
	}
	for _, kv := range kwargs {
		if p, ok := kv[1].(*policy); ok {
			return Arguments{}, p.misplaced(kv[0])
		}
		if err := args.SetKey(kv[0], kv[1]); err != nil {
			return Arguments{}, err
		}
	}
	data, typed, err := bounded.EncodeMarked(b.run.Account, args)
	return Arguments{JSON: data, Typed: typed}, err
}

// begin counts a call to the host and gives its site.
func (b *branch) begin(thread *starlark.Thread) (Site, error) {
	a := b.run.Account
	if bounded.Loading(thread) {
		return Site{}, fmt.Errorf("a file that is loaded can define functions that call tools, and must not call any itself")
	}
	if b.inPolicy {
		return Site{}, errInPolicy
	}
	if b.run.calls++; b.run.calls > b.run.limits.Calls {
		return Site{}, a.Fail("calls", "the script has made %d calls, which is its limit", b.run.limits.Calls)
	}
	if err := a.Spend(20, 1<<10); err != nil {
		return Site{}, err
	}
	return b.site(thread), nil
}

// callTool calls a tool and gives its output as it came.
func (b *branch) callTool(thread *starlark.Thread, tool string, given starlark.Value, kwargs []starlark.Tuple, call ToolCall) (json.RawMessage, error) {
	args, err := b.arguments(given, kwargs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	site, err := b.begin(thread)
	if err != nil {
		return nil, err
	}
	name := b.run.tools.byName[tool]
	if name == "" {
		return nil, &Error{Code: codes.UnknownTool, Category: codes.CategoryTool, Tool: clip(tool), Path: site.Path, Final: true,
			Message: fmt.Sprintf("tool %s not found%s", bounded.Show(starlark.String(tool)), template.DidYouMean(tool, b.run.tools.known()))}
	}
	call.Tool, call.Args, call.Typed = name, args.JSON, args.Typed
	out, err := b.run.host.Call(b.ctx, site, call)
	if err == nil && b.run.tools.effects[name] {
		b.noteEffect()
	}
	return out, b.answered(site, err)
}

// answered notes the end of a call to the host. An error that is no *Error ends the
// script.
func (b *branch) answered(site Site, err error) error {
	b.run.blocked = b.run.Account.Steps()
	if err == nil || temporal.IsCanceledError(err) {
		return err
	}
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Code: codes.Internal, Category: codes.CategoryInternal, Message: err.Error(), Fatal: true}
	}
	e := *known
	e.Path = cmp.Or(e.Path, site.Path)
	if e.Unknown {
		b.noteUnknown(&e)
	}
	return &e
}

// parsed gives the output of a tool as values. An object with nothing but a text
// that is a JSON object or array gives that object or array.
func (b *branch) parsed(out json.RawMessage) (starlark.Value, error) {
	v, err := bounded.Receive(b.run.Account, out)
	if err != nil {
		return nil, fmt.Errorf("reading the output: %w", err)
	}
	d, ok := v.(*bounded.Dict)
	if !ok || d.Len() != 1 {
		return v, nil
	}
	only, err := d.Lookup(starlark.String("text"))
	text, ok := only.(starlark.String)
	if !ok || err != nil {
		return v, err
	}
	if t := strings.TrimSpace(string(text)); t == "" || t[0] != '{' && t[0] != '[' {
		return v, nil
	}
	inner, err := bounded.Decode(b.run.Account, []byte(text))
	switch {
	case err == nil:
		inner.Freeze()
		return inner, nil
	case b.run.Account.Failed() != nil:
		return nil, err
	}
	return v, nil
}
