package main

import (
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// A configFile is what a configuration file may say: the standalone YAML of
// ToolHive's vMCP as it is, and keys of our own beside it. Keys that have no
// effect here are accepted, so that one file serves both programs, and warned
// about (see ignored).
type configFile struct {
	Name              string        `yaml:"name"`
	GroupRef          string        `yaml:"groupRef"`
	IncomingAuth      *incomingAuth `yaml:"incomingAuth"`
	OutgoingAuth      *outgoingAuth `yaml:"outgoingAuth"`
	Backends          []*backend    `yaml:"backends"`
	Aggregation       *aggregation  `yaml:"aggregation"`
	CompositeTools    []yaml.Node   `yaml:"compositeTools"` // each is read by definitions.ParseNode
	CompositeToolRefs []*reference  `yaml:"compositeToolRefs"`
	Operational       *operational  `yaml:"operational"`

	Telemetry *telemetryConfig `yaml:"telemetry"`

	// Ours.
	Authorization *authorization `yaml:"authorization"`
	Approvals     *approvals     `yaml:"approvals"`
	Publishing    *publishing    `yaml:"publishing"`
	Scripts       *scriptsConfig `yaml:"scripts"`
	Quotas        *quotas        `yaml:"quotas"`

	MaxWorkflowDepth *int `yaml:"maxWorkflowDepth"`

	OnDisconnect definitions.OnDisconnect `yaml:"onDisconnect"`

	Metadata           map[string]any `yaml:"metadata"`
	Audit              map[string]any `yaml:"audit"`
	Optimizer          map[string]any `yaml:"optimizer"`
	CodeMode           map[string]any `yaml:"codeMode"`
	SessionStorage     map[string]any `yaml:"sessionStorage"`
	RateLimiting       map[string]any `yaml:"rateLimiting"`
	PassthroughHeaders []string       `yaml:"passthroughHeaders"`
}

type backend struct {
	Name         string         `yaml:"name"`
	URL          string         `yaml:"url"`
	Transport    string         `yaml:"transport"`
	Type         string         `yaml:"type"`
	CABundlePath string         `yaml:"caBundlePath"`
	Metadata     map[string]any `yaml:"metadata"`

	// Ours.
	Command          string               `yaml:"command"`
	Args             []string             `yaml:"args"`
	Env              map[string]string    `yaml:"env"`
	PassEnv          []string             `yaml:"passEnv"` // variables of our own environment that the process gets, too
	Dir              string               `yaml:"dir"`
	User             string               `yaml:"user"`  // as which the process runs, by name or number
	Group            string               `yaml:"group"` // the same; "" = that of the user
	Effects          []*effectRule        `yaml:"effects"`
	TrustAnnotations bool                 `yaml:"trustAnnotations"`
	Timeout          definitions.Duration `yaml:"timeout"`
	Limits           *callLimits          `yaml:"limits"`
}

// callLimits bound the calls of a backend, of all processes together.
type callLimits struct {
	Concurrency int           `yaml:"concurrency"`
	Rate        string        `yaml:"rate"`
	Burst       int           `yaml:"burst"`
	Breaker     *breakerRules `yaml:"breaker"`
}

type breakerRules struct {
	Failures int                  `yaml:"failures"`
	Window   definitions.Duration `yaml:"window"`
	Open     definitions.Duration `yaml:"open"`
}

type effectRule struct {
	Tool        string `yaml:"tool"`
	Class       string `yaml:"class"`
	KeyArgument string `yaml:"keyArgument"`
	OnUnknown   string `yaml:"onUnknown"`

	Probe *definitions.Probe `yaml:"probe"` // its tool is one of the same backend, by the backend's name for it
}

type aggregation struct {
	ConflictResolution       string              `yaml:"conflictResolution"`
	ConflictResolutionConfig *conflictResolution `yaml:"conflictResolutionConfig"`
	Tools                    []*workloadTools    `yaml:"tools"`
	ExcludeAllTools          bool                `yaml:"excludeAllTools"`
	DefaultToolVisibility    string              `yaml:"defaultToolVisibility"`

	// Ours.
	CompositeToolPrefix string `yaml:"compositeToolPrefix"`
}

type conflictResolution struct {
	PrefixFormat  string   `yaml:"prefixFormat"`
	PriorityOrder []string `yaml:"priorityOrder"`
}

type workloadTools struct {
	Workload      string                   `yaml:"workload"`
	ToolConfigRef *reference               `yaml:"toolConfigRef"`
	Filter        []string                 `yaml:"filter"`
	Overrides     map[string]*toolOverride `yaml:"overrides"`
	ExcludeAll    bool                     `yaml:"excludeAll"`
}

type toolOverride struct {
	Name        string                   `yaml:"name"`
	Description string                   `yaml:"description"`
	Annotations *definitions.Annotations `yaml:"annotations"`
}

type reference struct {
	Name string `yaml:"name"`
}

type operational struct {
	LogLevel        string         `yaml:"logLevel"`
	Timeouts        *timeouts      `yaml:"timeouts"`
	FailureHandling map[string]any `yaml:"failureHandling"`
}

type timeouts struct {
	Default     definitions.Duration            `yaml:"default"`
	PerWorkload map[string]definitions.Duration `yaml:"perWorkload"`
}
