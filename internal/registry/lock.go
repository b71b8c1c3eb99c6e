package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A Locked tool describes a tool at the time when a definition that uses it was
// published: digests of each part, and what is needed to find changes.
type Locked struct {
	Tool        string `json:"tool"` // as steps call it
	Backend     string `json:"backend"`
	Original    string `json:"original"` // its name at the backend
	Input       string `json:"input"`    // digest of the input schema, sha256:…
	Output      string `json:"output"`   // of the output schema
	Description string `json:"description"`
	Computed    bool   `json:"computed,omitempty"` // only scripts call it, by a computed name

	InputSchema  json.RawMessage `json:"inputSchema,omitempty"` // as canonical JSON
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// lock gives the tools that a definition uses as they are now, by name, then those that
// its scripts may call by computed names. Unknown tools are left out.
func (p Publisher) lock(d *definitions.Definition) []Locked {
	locked := []Locked{}
	for _, name := range d.ToolNames() {
		if t, ok := p.Tools(name); ok {
			locked = append(locked, lockedAs(name, t))
		}
	}
	patterns := d.Scripts().ToolPatterns()
	if patterns == nil || p.All == nil {
		return locked
	}
	for _, t := range p.All() {
		same := func(l Locked) bool { return l.Backend == t.Backend && l.Original == t.Original }
		matches := definitions.MatchesTool(patterns, t.Name) || definitions.MatchesTool(patterns, t.Backend+"."+t.Original)
		if matches && !slices.ContainsFunc(locked, same) {
			l := lockedAs(t.Name, t)
			l.Computed = true
			locked = append(locked, l)
		}
	}
	return locked
}

func lockedAs(name string, t definitions.Tool) Locked {
	l := Locked{Tool: name, Backend: t.Backend, Original: t.Original, InputSchema: canonical(t.InputSchema), OutputSchema: canonical(t.OutputSchema)}
	l.Input, l.Output, l.Description = digest(l.InputSchema), digest(l.OutputSchema), digest([]byte(t.Description))
	return l
}

// canonical gives JSON that is the same for the same value; invalid JSON is unchanged.
func canonical(raw json.RawMessage) json.RawMessage {
	if same, err := template.Canonical(raw); err == nil {
		return same
	}
	return raw
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// A DriftState compares a tool with the locked one.
type DriftState string

// The states, the worst last.
const (
	Same       DriftState = "same"
	Compatible DriftState = "compatible" // it differs, and calls as before are right
	Breaking   DriftState = "breaking"   // calls as before, or reads of their results, may be wrong
	Gone       DriftState = "gone"       // no backend offers it
)

// A Drifted tool is one that has changed since the definition was published.
type Drifted struct {
	Tool    string     `json:"tool"`
	State   DriftState `json:"state"`
	Changes []string   `json:"changes,omitempty"` // in words
}

// Drift gives the tools of an entry that are not the Same as when it was published, by
// name. Definitions of files have no lock, and so no drift.
func (e Entry) Drift(tools definitions.Tools) []Drifted {
	var drifted []Drifted
	for _, l := range e.Lock {
		d := Drifted{l.Tool, Gone, []string{"no backend offers it"}}
		switch t, ok := tools(l.Tool); {
		case ok:
			d = e.compared.drift(l, t)
		case l.Computed: // a run may not call it
			d.State = Breaking
		}
		if d.State != Same {
			drifted = append(drifted, d)
		}
	}
	return drifted
}

// Comparisons are the drift of the tools of an entry, each as it was when it was asked for
// last: backends may make a comparison take a second. nil = each is made anew.
type comparisons struct {
	mu     sync.Mutex
	byTool map[string]comparison
}

type comparison struct {
	of     [sha256.Size]byte // the tool
	result func() Drifted
}

func (c *comparisons) drift(l Locked, t definitions.Tool) Drifted {
	if c == nil {
		return l.drift(t)
	}
	h := sha256.New()
	for _, part := range [][]byte{t.InputSchema, t.OutputSchema, []byte(t.Description), []byte(t.Backend), []byte(t.Original)} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	return c.of([sha256.Size]byte(h.Sum(nil)), l, t).result()
}

func (c *comparisons) of(tool [sha256.Size]byte, l Locked, t definitions.Tool) comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.byTool[l.Tool]
	if !ok || known.of != tool {
		known = comparison{tool, sync.OnceValue(func() Drifted { return l.drift(t) })}
		c.byTool[l.Tool] = known
	}
	return known
}

func (l Locked) drift(t definitions.Tool) Drifted {
	now := lockedAs(l.Tool, t)
	d := Drifted{Tool: l.Tool, State: Same}
	if now.Input != l.Input {
		takes := narrower{}
		takes.compare("", object(decodedAny(l.InputSchema)), object(decodedAny(now.InputSchema)))
		d.add(prefixed("argument", "arguments", takes.found), "its input schema is written otherwise")
	}
	if now.Output != l.Output {
		gives := wider{}
		gives.compare("", decoded(l.OutputSchema), decoded(now.OutputSchema))
		d.add(prefixed("result", "result", gives.found), "its output schema is written otherwise")
	}
	if now.Description != l.Description {
		d.add(nil, "its description is another one")
	}
	if now.Backend != l.Backend || now.Original != l.Original {
		d.add([]string{"it is now " + now.Original + " of backend " + now.Backend + ", and was " + l.Original + " of " + l.Backend}, "")
	}
	return d
}

// add adds differences: those that break, else one that is harmless.
func (d *Drifted) add(breaks []string, harmless string) {
	if len(breaks) > 0 {
		d.State = Breaking
		d.Changes = append(d.Changes, breaks...)
		return
	}
	if d.State == Same {
		d.State = Compatible
	}
	d.Changes = append(d.Changes, harmless)
}

func decodedAny(schema json.RawMessage) any {
	if s := decoded(schema); s != nil {
		return s
	}
	return nil
}

// A DriftPolicy says what happens at the start of a run whose tools have drifted. ""
// means WarnOfDrift.
type DriftPolicy string

// The policies.
const (
	AllowDrift  DriftPolicy = "allow" // nothing
	WarnOfDrift DriftPolicy = "warn"  // the log says so
	FailOnDrift DriftPolicy = "fail"  // it does not start if the drift is Breaking
)

// A DriftError refuses the start of a run, since tools have drifted.
type DriftError struct {
	Name, Version string // of the definition
	Drifted
}

func (e *DriftError) Error() string {
	return fmt.Sprintf("the tool %s is not any more what it was when %s %s was published: %s; a version that is made for it has to be published",
		e.Tool, e.Name, e.Version, strings.Join(e.Changes, "; "))
}

// CheckDrift checks the drift of an entry before a run of it starts. The error is a
// *DriftError; other drift is logged when it has changed, unless the policy allows it.
func (r *Registry) CheckDrift(e Entry, tools definitions.Tools) error {
	for _, d := range e.Drift(tools) {
		name, version := e.Definition.Name, e.Definition.Version
		if r.drift.Refuses(d) {
			return &DriftError{name, version, d}
		}
		changes := strings.Join(d.Changes, "; ")
		if r.drift != AllowDrift && r.isNews(e.Published.Digest+" "+d.Tool, changes) {
			r.log.Warn("a tool has changed since a composite tool was published", "composite", name, "version", version,
				"tool", d.Tool, "drift", string(d.State), "changes", changes)
		}
	}
	return nil
}

// Refuses reports whether a tool's drift prevents the start of a run. A tool that is
// gone prevents it under any policy.
func (p DriftPolicy) Refuses(d Drifted) bool {
	return d.State == Gone || p == FailOnDrift && d.State == Breaking
}
