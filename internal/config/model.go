package config

import (
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// A configuration is the content of a file: the standalone YAML of ToolHive's vMCP as it is, and
// keys of our own beside it. The tags are all there is to know of a key; the
// parser, the checks, the schema and the reference page are made of them:
//
//	yaml         its name
//	help         what it is for
//	meant        what else people call it, for suggestions
//	enum         the values that it takes
//	unsupported  values that ToolHive takes besides
//	required     it must be given; the value says what is missing
//	default      what holds where it is not given
//	min, max     between which numbers or durations it is
//	ignored      it has no effect here; the value says what to do instead
type configuration struct {
	Name              string        `yaml:"name" help:"Name of the server, as clients see it."`
	GroupRef          string        `yaml:"groupRef" help:"Group of workloads in ToolHive. Its workloads are not discovered; list them under backends."`
	IncomingAuth      *incomingAuth `yaml:"incomingAuth" meant:"auth,authentication,oidc" help:"How callers show who they are. Without it, everybody is anonymous."`
	OutgoingAuth      *outgoingAuth `yaml:"outgoingAuth" help:"Which credentials backends get."`
	Backends          []*backend    `yaml:"backends" meant:"mcpServers,servers,mcp_servers,context_servers,mcp,upstreams" help:"The MCP servers whose tools are served, and called by composite tools."`
	Aggregation       *aggregation  `yaml:"aggregation" help:"Which tools clients see, and under which names."`
	CompositeTools    []yaml.Node   `yaml:"compositeTools" meant:"composites,definitions,workflows,composite_tools" help:"Definitions of composite tools; see language.md."` // definitions.ParseNode reads each
	CompositeToolRefs []*reference  `yaml:"compositeToolRefs" help:"Names of definitions, or of their resources, that are offered besides compositeTools. Default: all of the file and of --definitions."`
	Operational       *operational  `yaml:"operational" help:"Log level and timeouts."`

	PassthroughHeaders []string `yaml:"passthroughHeaders" help:"Headers of the caller's request that every backend with HTTP gets, of its direct calls and of the runs that it starts. What a run needs of them is sealed, and kept until it has ended."`
	PassthroughMeta    []string `yaml:"passthroughMeta" meant:"passthrough_meta,forwardMeta,meta" help:"Keys of _meta of the caller's request that every backend gets, in the same way, such as acme.example/tenant; acme.example/* is all that begin so."`

	Telemetry *telemetryRules `yaml:"telemetry" meant:"tracing,metrics,otel" help:"Where traces and metrics are sent."`

	// Ours.
	Authorization *authorization `yaml:"authorization" meant:"authz,permissions,access,rules" help:"Who may call, operate, approve and publish which tools. Without it, every caller may call everything."`
	Approvals     *approvals     `yaml:"approvals" help:"How people sign in to the approvals page, where that does not follow from incomingAuth.oidc.clientId."`
	Publishing    *publishing    `yaml:"publishing" help:"Which published composite tools are offered, and when."`
	Scripts       *scripts       `yaml:"scripts" help:"What scripts may do."`
	Quotas        *quotas        `yaml:"quotas" meant:"rateLimits,limits" help:"How much one caller may have at a time."`

	MaxWorkflowDepth *int `yaml:"maxWorkflowDepth" min:"1" max:"14" default:"10" help:"How deep composite tools may call each other."`

	OnDisconnect definitions.OnDisconnect `yaml:"onDisconnect" enum:"cancel,continue" default:"cancel" help:"What becomes of a run when its client cancels the call or is gone, unless its definition says otherwise."`

	Metadata       map[string]any `yaml:"metadata" help:"Anything; it is not read."`
	Audit          map[string]any `yaml:"audit" ignored:"" help:"Audit of ToolHive."`
	Optimizer      map[string]any `yaml:"optimizer" ignored:"" help:"Tool optimizer of ToolHive."`
	CodeMode       map[string]any `yaml:"codeMode" ignored:"set scripts.agents: true to let clients send scripts" help:"Scripts of clients in ToolHive."`
	SessionStorage map[string]any `yaml:"sessionStorage" ignored:"" help:"Session store of ToolHive; sessions need none here."`
	Group          any            `yaml:"group" ignored:"list its workloads under backends" help:"Group of workloads in ToolHive, as groupRef."`
	Sessions       any            `yaml:"sessionManagementV2" ignored:"" help:"Sessions of ToolHive; clients need none here."`
	RateLimiting   map[string]any `yaml:"rateLimiting" ignored:"use quotas for callers and limits for backends" help:"Rate limits of ToolHive."`
}

// A reference names a resource.
type reference struct {
	Name string `yaml:"name" required:"" help:"Name of the resource."`
}

// A backend is an MCP server that perdure calls.
type backend struct {
	Name         string         `yaml:"name" required:"" help:"Name of the backend, by which definitions and this file know it."`
	URL          string         `yaml:"url" meant:"uri,endpoint,serverUrl,address,baseUrl,host" help:"URL of the server, for streamable-http and sse."`
	Transport    string         `yaml:"transport" enum:"streamable-http,sse,stdio" help:"How the server is reached. With command, the default is stdio."`
	Type         string         `yaml:"type" help:"Type of the workload in ToolHive; it is not read."`
	CABundlePath string         `yaml:"caBundlePath" meant:"ca,caCert,cacert" help:"File with certificates in PEM that are trusted besides those of the system."`
	Metadata     map[string]any `yaml:"metadata" help:"Anything; it is not read."`

	// Ours. In command, args, dir, the values of env and headers, and in url,
	// ${env:NAME} is a variable of perdure's own environment.
	Headers          map[string]string    `yaml:"headers" meant:"header,auth,token,bearer,authentication,http_headers" help:"Headers that every request has, besides those of outgoingAuth; ${env:NAME} is a variable of perdure's own environment."`
	Command          string               `yaml:"command" meant:"cmd,exec,program,run,image" help:"Program to start, for stdio. Here, in args, env, dir and url, ${env:NAME} is a variable of perdure's own environment, and ${env:NAME:-TEXT} says what holds without it. ~/ at the start of it and of dir is the home directory."`
	Args             []string             `yaml:"args" meant:"arguments,argv" help:"Arguments of the program."`
	Env              map[string]string    `yaml:"env" meant:"environment,envs,envVars,env_vars" help:"Environment variables of the program."`
	PassEnv          []string             `yaml:"passEnv" meant:"pass_env,envFrom,secrets" help:"Variables of perdure's own environment that the program gets, too."`
	Dir              string               `yaml:"dir" meant:"cwd,workdir,workingDir,working_directory" help:"Directory in which the program runs."`
	User             string               `yaml:"user" help:"User as which the program runs, by name or number."`
	Group            string               `yaml:"group" help:"Group of the program, by name or number. Default: that of user."`
	Effects          []*effectRule        `yaml:"effects" meant:"effect,tools,classes" help:"What calls of tools do in the world. The first rule that matches counts; a tool without one is unsafe."`
	TrustAnnotations bool                 `yaml:"trustAnnotations" default:"false" help:"Take the effect class of tools without a rule from the server's own annotations."`
	Timeout          definitions.Duration `yaml:"timeout" meant:"timeoutSeconds,callTimeout" min:"0s" help:"Timeout of a call. Default: that of operational.timeouts."`
	Limits           *callLimits          `yaml:"limits" help:"Limits of calls, of all processes together."`
}

// callLimits bound the calls of a backend.
type callLimits struct {
	Concurrency int           `yaml:"concurrency" meant:"maxConcurrent,maxConcurrency,maxParallel,parallel,max_concurrent" min:"0" help:"Calls under way at a time."`
	Rate        string        `yaml:"rate" meant:"rps,qps,rateLimit,requestsPerSecond" help:"Calls that may begin, such as 10/s, 600/m or 100/h."`
	Burst       int           `yaml:"burst" min:"0" default:"1" help:"Calls that may begin at once after a pause; needs rate."`
	Breaker     *breakerRules `yaml:"breaker" help:"When a failing backend is left alone."`
}

// breakerRules say when a backend is left alone, and for how long.
type breakerRules struct {
	Failures int                  `yaml:"failures" min:"1" required:"after how many failures calls are held back, at least 1" help:"Failures in a row after which calls are held back; with window, within that time."`
	Window   definitions.Duration `yaml:"window" min:"0s" help:"Time within which failures count."`
	Open     definitions.Duration `yaml:"open" min:"0s" default:"30s" help:"How long calls are held back."`
}

// An effectRule gives tools an effect class.
type effectRule struct {
	Tool        string `yaml:"tool" meant:"name,tools,pattern" required:"the name of a tool, or a pattern such as get_*" help:"Name of the tool at the backend, or a pattern such as get_*."`
	Class       string `yaml:"class" meant:"effect" enum:"read,idempotent,keyed,unsafe" required:"" help:"Effect class."`
	KeyArgument string `yaml:"keyArgument" help:"Argument in which the backend takes the idempotency key; for class keyed."`
	OnUnknown   string `yaml:"onUnknown" enum:"fail,ask" default:"fail" help:"What follows when the outcome of a call is unknown; for class unsafe."`

	Probe *definitions.Probe `yaml:"probe" help:"How to find out whether a call was executed; for class unsafe. Its tool is one of the same backend, by the backend's name for it."`
}

// An aggregation says how tools are offered.
type aggregation struct {
	ConflictResolution       string              `yaml:"conflictResolution" enum:"prefix,priority,manual" default:"prefix" help:"What happens to tools of the same name."`
	ConflictResolutionConfig *conflictResolution `yaml:"conflictResolutionConfig" help:"Details of conflictResolution."`
	Tools                    []*workloadTools    `yaml:"tools" help:"Which tools of a backend are shown, and how."`
	ExcludeAllTools          bool                `yaml:"excludeAllTools" default:"false" help:"Show no tool of a backend; composite tools call them all the same."`
	DefaultToolVisibility    string              `yaml:"defaultToolVisibility" enum:"allow,deny" default:"allow" help:"Whether tools of backends without an entry under tools are shown."`

	// Ours.
	CompositeToolPrefix string `yaml:"compositeToolPrefix" help:"Prefix of the names of composite tools: up to 32 letters, digits, _, ., -, : and /, with a letter or digit first."`
}

// A conflictResolution has the details of one.
type conflictResolution struct {
	PrefixFormat  string   `yaml:"prefixFormat" default:"{workload}_" help:"What goes before the name of a tool; {workload} is the backend."`
	PriorityOrder []string `yaml:"priorityOrder" help:"Backends, the one whose tools keep their names first; for priority. Tools of others with such a name are dropped."`
}

// workloadTools are what is shown of one backend.
type workloadTools struct {
	Workload      string                   `yaml:"workload" required:"the name of a backend" help:"Name of the backend."`
	ToolConfigRef *reference               `yaml:"toolConfigRef" help:"Name of an MCPToolConfig of ToolHive, a document of the same file. Its toolsFilter counts without filter, its toolsOverride for tools without an entry in overrides."`
	Filter        []string                 `yaml:"filter" help:"Tools that are shown. Default: all."`
	Overrides     map[string]*toolOverride `yaml:"overrides" help:"Other names, descriptions and hints, by the backend's name of the tool."`
	ExcludeAll    bool                     `yaml:"excludeAll" default:"false" help:"Show no tool of the backend."`
}

// A toolOverride shows a tool as something else.
type toolOverride struct {
	Name        string                   `yaml:"name" help:"Name that clients see."`
	Description string                   `yaml:"description" help:"Description that clients see."`
	Annotations *definitions.Annotations `yaml:"annotations" help:"Hints in place of those of the backend; they count wherever hints do."`
}

// An operational is how the processes run.
type operational struct {
	LogLevel        string         `yaml:"logLevel" enum:"debug,info,warn,error" default:"info" help:"What to log; --log-level goes first."`
	Timeouts        *timeouts      `yaml:"timeouts" help:"Timeouts of calls."`
	FailureHandling map[string]any `yaml:"failureHandling" ignored:"" help:"Health checks of ToolHive."`
}

// timeouts are those of calls, by backend.
type timeouts struct {
	Default     definitions.Duration            `yaml:"default" min:"0s" help:"Timeout of a call."`
	PerWorkload map[string]definitions.Duration `yaml:"perWorkload" help:"The same for single backends, by name."`
}

// telemetryRules say where traces and metrics are sent.
type telemetryRules struct {
	Endpoint         string            `yaml:"endpoint" help:"OTLP over HTTP: host:port, or a URL."`
	ServiceName      string            `yaml:"serviceName" help:"Name of the service. Default: OTEL_SERVICE_NAME, else perdure."`
	TracingEnabled   bool              `yaml:"tracingEnabled" default:"false" help:"Send traces to endpoint."`
	MetricsEnabled   bool              `yaml:"metricsEnabled" default:"false" help:"Send metrics to endpoint."`
	SamplingRate     string            `yaml:"samplingRate" default:"1" help:"Share of traces that are sent, from 0 to 1, of those that the client has not decided about."`
	Headers          map[string]string `yaml:"headers" help:"Headers that are sent with them."`
	Insecure         bool              `yaml:"insecure" default:"false" help:"Plain HTTP, where endpoint is no URL."`
	CustomAttributes map[string]string `yaml:"customAttributes" help:"Resource attributes."`

	EnablePrometheusMetricsPath bool `yaml:"enablePrometheusMetricsPath" default:"false" help:"Serve GET /metrics beside /readyz."`

	ServiceVersion       string   `yaml:"serviceVersion" ignored:"" help:"Version of the service."`
	EnvironmentVariables []string `yaml:"environmentVariables" ignored:"" help:"Variables that become attributes."`
	CACertPath           string   `yaml:"caCertPath" ignored:"set OTEL_EXPORTER_OTLP_CERTIFICATE in the environment" help:"Certificate to trust."`
	UseLegacyAttributes  *bool    `yaml:"useLegacyAttributes" ignored:"" help:"Older names of attributes."`
}

// A publishing says what of published composite tools is offered.
type publishing struct {
	Drift    string         `yaml:"drift" enum:"allow,warn,fail" default:"warn" help:"What happens when a tool has changed since a composite tool that uses it was published."`
	Versions []*versionTool `yaml:"versions" help:"Versions that are tools of their own."`
}

// A versionTool is a version that is a tool of its own.
type versionTool struct {
	Tool    string `yaml:"tool" required:"the name of a composite tool" help:"Name of the composite tool."`
	Version string `yaml:"version" required:"a version, or a constraint of versions such as ^1.2" help:"Version, or a constraint of versions such as 1 or ^1.2."`
	As      string `yaml:"as" required:"the name under which the version is offered" help:"Name under which it is offered."`
}

// A scripts says what scripts may do.
type scripts struct {
	Agents bool          `yaml:"agents" default:"false" help:"Callers may send scripts, by execute_tool_script, as far as rules let them."`
	Limits *scriptLimits `yaml:"limits" help:"Limits of every script, also of definitions. They can only be lowered."`
}

// scriptLimits are lower limits than the defaults of runs.ScriptLimits; 0 = the
// default.
type scriptLimits struct {
	Steps    int `yaml:"steps" min:"0" max:"5000000" default:"5000000" help:"Steps of the interpreter."`
	Memory   int `yaml:"memory" min:"0" max:"134217728" default:"134217728" help:"Bytes that the script may make."`
	Calls    int `yaml:"calls" min:"0" max:"1000" default:"1000" help:"Calls of tools, elicitations and waits."`
	Width    int `yaml:"width" min:"0" max:"50" default:"50" help:"Branches that run at once."`
	Branches int `yaml:"branches" min:"0" max:"1000" default:"1000" help:"Branches of one parallel."`
	Value    int `yaml:"value" min:"0" max:"1945600" default:"1945600" help:"Bytes of one value that goes in or out."`
	Depth    int `yaml:"depth" min:"0" max:"200" default:"200" help:"Functions that call each other."`

	Time definitions.Duration `yaml:"time" min:"0s" max:"168h" help:"From start to end, waiting for people included. Default: the timeout of the definition or the step."`
}

// quotas are what one caller may have; nil = the default.
type quotas struct {
	OpenRuns      *int `yaml:"openRuns" min:"1" default:"1000" help:"Runs that have not ended."`
	RunsPerMinute *int `yaml:"runsPerMinute" min:"1" default:"6000" help:"Runs that are started; so many may come at once, and each process counts its own."`
	WaitingRuns   *int `yaml:"waitingRuns" min:"1" default:"50" help:"Runs that wait for a person, or for credentials of their caller."`
	Requests      *int `yaml:"requests" min:"1" default:"1000" help:"Requests that a process has under way: calls that wait, and streams."`
}
