package gateway

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
)

// RegistryPrefix is below which paths publishing is. Requests and answers are
// JSON; what is wrong with a request is answered as a RegistryError:
//
//	POST publish     a registry.Request, answered by a Published
//	POST deprecate   a Deprecation, answered by []RegistryVersion: those that were not so before
//	GET versions     ?name=, answered by []RegistryVersion
//	GET definition   ?reference= or ?digest=, answered by a RegistryVersion with Source and Tools
//	GET history      ?name=&limit=, answered by []registry.Event
//	GET drift        answered by []DriftedVersion
const RegistryPrefix = "/registry/"

// A Published is a registry.Report as it is sent.
type Published struct {
	// Published reports that all of it is: false of a dry run, and where a problem is
	// an error.
	Published    bool                   `json:"published"`
	Publications []registry.Publication `json:"publications"`
	Problems     []Problem              `json:"problems"`
}

// A Problem is a diagnostic as it is sent.
type Problem struct {
	File     string               `json:"file,omitempty"`
	Line     int                  `json:"line,omitempty"`
	Column   int                  `json:"column,omitempty"`
	Severity definitions.Severity `json:"severity"`
	Message  string               `json:"message"`
	Check    string               `json:"check"`
}

// A Deprecation asks for versions to be deprecated for a reason; "" = not any
// more.
type Deprecation struct {
	Reference string `json:"reference"`
	Reason    string `json:"reason"`
	// Keep leaves versions that are deprecated already the reason that they have.
	Keep bool `json:"keep,omitempty"`
}

// A RegistryVersion is one version of a composite tool, or of a module, whose
// name ends in .star.
type RegistryVersion struct {
	Name       string            `json:"name"`
	Version    string            `json:"version,omitempty"`
	Digest     string            `json:"digest"`
	By         string            `json:"by,omitempty"`
	At         *time.Time        `json:"at,omitempty"` // nil = from a file
	Deprecated string            `json:"deprecated,omitempty"`
	File       string            `json:"file,omitempty"`   // path of the file, if it is not published
	Latest     bool              `json:"latest,omitempty"` // it is what the name means
	Source     json.RawMessage   `json:"source,omitempty"`
	Tools      []registry.Locked `json:"tools,omitempty"` // as they were when it was published
	// Modules are what its scripts load of what is published.
	Modules []definitions.PinnedModule `json:"modules,omitempty"`
	// Prefix is what the server puts before names that expose.as does not set; sent
	// with Source.
	Prefix string `json:"prefix,omitempty"`
}

// A DriftedVersion is a published version with changed tools, or with modules that have
// later versions or are deprecated.
type DriftedVersion struct {
	Name    string                 `json:"name"`
	Version string                 `json:"version"`
	Latest  bool                   `json:"latest,omitempty"`
	Tools   []registry.Drifted     `json:"tools"`
	Modules []registry.ModuleDrift `json:"modules,omitempty"`
}

// A RegistryError reports why a request was not answered.
type RegistryError struct {
	Message string `json:"error"`
}

func publishedVersion(v registry.Version) RegistryVersion {
	return RegistryVersion{Name: v.Name, Version: v.Version, Digest: v.Digest, By: v.By, At: &v.At, Deprecated: v.Deprecated}
}
