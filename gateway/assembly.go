package gateway

import (
	"context"
	"maps"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// An assembly puts the parts of a gateway together, those first that others need.
type assembly struct {
	Options

	tokens *sealer
	drain  *drain
	tools  *toolset
	rights *rights
	calls  *calls

	served      *served
	attendance  *attendance
	deliveries  *deliveries
	disconnects *disconnects
	questions   *questions

	results  *results
	views    *taskViews
	deposits *deposits
	streams  *streams

	unseen     *unseenBackends
	composites *composites
	builtIn    map[string]builtInTool
	scripts    *scripts
}

// begin makes what there is to call, and what all parts use.
func (a *assembly) begin() {
	a.tokens, a.drain = newSealer(a.Key, a.RetiredKeys), newDrain()
	a.tokens.lacks = lackWarnings(a.Logger)
	a.tokens.now = a.Now
	a.tools = &toolset{backends: a.Catalogue, registry: a.Registry, policy: a.Policy, prefix: a.Prefix,
		builtIn: map[string]mcp.Tool{}, reasons: map[string]string{}, log: a.Logger}
	a.rights = &rights{policy: a.Policy, runs: a.Runs, tools: a.tools, maxDepth: a.MaxDepth}
	a.calls = &calls{runs: a.Runs, tools: a.tools, onDisconnect: a.OnDisconnect, log: a.Logger}
}

// follow makes what knows which runs have a client, and what it is asked.
func (a *assembly) follow() {
	a.served = &served{}
	a.attendance = &attendance{runs: a.Runs, served: a.served, now: a.tokens.time, log: a.Logger}
	a.deliveries = &deliveries{runs: a.Runs, answers: a.Answers, window: a.ReattachWindow, now: a.tokens.time, ends: make(chan struct{}), log: a.Logger}
	a.disconnects = &disconnects{runs: a.Runs, calls: a.calls, attendance: a.attendance, served: a.served, deliveries: a.deliveries,
		drain: a.drain, grace: a.DisconnectGrace, window: a.ReattachWindow, now: a.tokens.time, log: a.Logger}
	a.questions = &questions{runs: a.Runs, rights: a.rights, tokens: a.tokens, log: a.Logger}
}

// answer makes what answers from the events of a run.
func (a *assembly) answer() {
	server := mcp.Implementation{Name: a.Name, Version: a.Version}
	a.results = &results{runs: a.Runs, rights: a.rights, tools: a.tools, server: server, linkOver: a.LinkOver,
		runURL: a.RunURL, awaits: !a.NoRunTools, log: a.Logger}
	a.views = &taskViews{tokens: a.tokens, server: server, retention: a.Retention}
	a.deposits = &deposits{credentials: a.Credentials, runs: a.Runs, log: a.Logger}
	a.streams = &streams{runs: a.Runs, rights: a.rights, tools: a.tools, results: a.results, views: a.views, questions: a.questions,
		attendance: a.attendance, deliveries: a.deliveries, deposits: a.deposits, tokens: a.tokens, timing: a.Timing, drain: a.drain, log: a.Logger}
}

// offer makes what starts runs, and the tools that are built in.
func (a *assembly) offer() {
	joins := &joins{runs: a.Runs, rights: a.rights, attendance: a.attendance, served: a.served, deliveries: a.deliveries,
		disconnects: a.disconnects, outlive: a.calls.outlive, window: a.ReattachWindow, now: a.tokens.time}
	a.unseen = &unseenBackends{backends: a.Catalogue, deposits: a.deposits}
	computes := newComputing()
	starts := &starts{rights: a.rights, computes: computes, tools: a.tools, deposits: a.deposits, unseen: a.unseen, joins: joins, limits: a.ScriptLimits, maxDepth: a.MaxDepth}
	a.composites = &composites{runs: a.Runs, starts: starts, calls: a.calls, served: a.served, attendance: a.attendance, disconnects: a.disconnects,
		streams: a.streams, views: a.views, results: a.results, questions: a.questions, tokens: a.tokens, log: a.Logger}
	a.scripts = &scripts{tools: a.tools, rights: a.rights, results: a.results, registry: a.Registry, composites: a.composites, computes: computes, maxDepth: a.MaxDepth}
	a.builtIn = map[string]builtInTool{}
	if !a.NoRunTools {
		tools := &runTools{runs: a.Runs, rights: a.rights, results: a.results, calls: a.calls, composites: a.composites, log: a.Logger}
		maps.Copy(a.builtIn, tools.all())
	}
	if a.Scripts {
		maps.Copy(a.builtIn, a.scripts.all())
	}
	for name, t := range a.builtIn {
		a.tools.reserve(t.listed(name))
	}
}

// serve makes what takes messages, and the gateway of it all.
func (a *assembly) serve(scope mcp.CacheScope) *Gateway {
	speaks := a.mcpServer(scope)
	a.tools.list(speaks)
	a.Catalogue.OnChange(a.tools.rebuild)
	tasks := &tasks{runs: a.Runs, rights: a.rights, tokens: a.tokens, views: a.views, results: a.results, calls: a.calls,
		questions: a.questions, streams: a.streams, log: a.Logger}
	proxy := &proxy{backends: a.Catalogue, results: a.results, calls: a.calls, tokens: a.tokens, drain: a.drain, keepAlive: a.KeepAlive, log: a.Logger}
	lists := &lists{tools: a.tools, rights: a.rights, scripts: a.scripts, server: a.results.server, scope: scope}
	requests := &requests{tools: a.tools, rights: a.rights, lists: lists, unseen: a.unseen, builtIn: a.builtIn, composites: a.composites, proxy: proxy,
		tasks: tasks, results: a.results, forwarding: a.Forwarding, observe: a.Observe, log: a.Logger}
	admission := &admission{authenticate: a.Authenticate, most: a.Quotas.Requests, bodies: a.Bodies, maxRequest: a.MaxRequest, log: a.Logger}
	g := &Gateway{
		tools: a.tools, rights: a.rights, metadata: a.Metadata, deliveries: a.deliveries, drain: a.drain,
		endpoint: &endpoint{admission: admission, requests: requests, questions: a.questions, calls: a.calls, streams: a.streams,
			deposits: a.deposits, tokens: a.tokens, mcp: speaks, http: a.transport(speaks), keepAlive: a.KeepAlive, drain: a.drain, log: a.Logger},
		stdio: &stdio{admission: admission, requests: requests, questions: a.questions, calls: a.calls, mcp: speaks, who: a.StdioIdentity,
			keepAlive: a.KeepAlive},
	}
	if a.Registry != nil {
		g.publishing = &publishing{registry: a.Registry, tools: a.tools, rights: a.rights, admission: admission,
			prefix: a.Prefix, maxDepth: a.MaxDepth, log: a.Logger}
	}
	return g
}

// transport has mcp-go answer requests over HTTP.
func (a *assembly) transport(s *server.MCPServer) *server.StreamableHTTPServer {
	return server.NewStreamableHTTPServer(s,
		server.WithStateLess(true),
		server.WithDisableLocalhostProtection(true), // the web.Server does it, for every method
		server.WithStreamableHTTPLogger(a.Logger))
}

// mcpServer answers what nothing here does, and tells clients that tools have changed.
func (a *assembly) mcpServer(scope mcp.CacheScope) *server.MCPServer {
	s := server.NewMCPServer(a.Name, a.Version,
		server.WithToolCapabilities(true),
		server.WithToolFilter(func(ctx context.Context, tools []mcp.Tool) []mcp.Tool {
			return a.rights.visible(identityFrom(ctx), tools)
		}),
		server.WithCacheHints(listLife.Milliseconds(), scope),
		server.WithExtensions(map[string]any{tasksExtension: struct{}{}}),
		server.WithHooks(taskHooks()),
		server.WithRecovery(),
		server.WithInstructions(a.instructions()))
	if a.LinkOver > 0 {
		s.AddResourceTemplate(mcp.NewResourceTemplate(resultTemplate, "result of a run", mcp.WithTemplateMIMEType("application/json")), a.results.readResult)
	}
	return s
}

func (a *assembly) instructions() string {
	if a.NoRunTools {
		return ""
	}
	return "Some tools start runs that take long or wait for a person's approval. " +
		"Where a result says status waiting_for_approval or running, the run goes on: " +
		"call " + awaitTool + " with its runId instead of calling the tool again."
}
