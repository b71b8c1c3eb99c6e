package backends

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The strategies of an Aggregation.
const (
	StrategyPrefix   = "prefix"
	StrategyPriority = "priority"
	StrategyManual   = "manual"
)

const (
	workloadVar         = "{workload}"
	defaultPrefixFormat = workloadVar + "_"
)

// An Aggregation sets how the tools of all backends become one catalogue. The zero
// value prefixes every tool with the name of its backend and "_".
type Aggregation struct {
	// Strategy resolves tools of the same name: prefix (default) puts a prefix before all
	// tools; priority gives the name to the backend that is first in Priority and drops
	// the others, or prefixes all if none of their backends is in Priority; manual leaves
	// clashing tools out unless overrides resolve the clash.
	Strategy        string
	PrefixFormat    string   // default "{workload}_"; {workload} is the backend's name
	Priority        []string // names, the first wins; unknown names have no effect
	Tools           []WorkloadTools
	ExcludeAllTools bool // hide all tools of all backends from clients
}

// WorkloadTools are the settings for the tools of one backend.
type WorkloadTools struct {
	Workload string
	// Filter names the tools that clients see, by their original or
	// overridden name; the others are hidden. Empty = all.
	Filter     []string
	Overrides  map[string]Override // by original name
	ExcludeAll bool                // hide all tools of this backend
}

// An Override replaces properties of a tool. "" and nil = unchanged.
type Override struct {
	Name, Description string
	Annotations       Annotations // one by one; they count like the backend's
}

func (a Aggregation) check() error {
	switch a.Strategy {
	case "", StrategyPrefix, StrategyPriority, StrategyManual:
	default:
		return fmt.Errorf("aggregation: conflict resolution %q: use prefix, priority or manual", a.Strategy)
	}
	return nil
}

// A catalogue is an immutable view of all tools.
type catalogue struct {
	tools    []Tool // exposed and hidden, sorted by name; one without a name of its own is backend.original
	byName   map[string]Tool
	byOrigin map[string]Tool // backend.original; also those that lost their name to another
	unseen   []string        // backends that have not answered yet
}

func (c *catalogue) find(name string) (Tool, bool) {
	if t, ok := c.byName[name]; ok {
		return t, true
	}
	t, ok := c.byOrigin[name]
	return t, ok
}

// resolve makes the catalogue of the tools that the backends list, in the order of the
// configuration, and gives unresolved clashes. Tools without a name of their own stay
// reachable as backend.original.
func resolve(agg Aggregation, backends []string, listed []Tool) (*catalogue, []string) {
	var tools []Tool
	for _, t := range listed {
		tools = append(tools, agg.override(t))
	}
	tools, lost := agg.settle(tools)
	tools, strays, straying := agg.splitStrays(backends, tools)
	tools, clashing, clashes := splitClashes(tools)
	clashes = append(straying, clashes...)

	c := &catalogue{byName: map[string]Tool{}, byOrigin: map[string]Tool{}}
	for _, t := range tools {
		c.byName[t.Name] = t
		c.addOrigin(t)
	}
	nameless := slices.Concat(lost, strays, clashing)
	for i := range nameless {
		t := &nameless[i]
		t.Name, t.Hidden = t.origin(), true
		c.addOrigin(*t)
	}
	for _, t := range nameless {
		if found, _ := c.find(t.Name); found.Backend == t.Backend {
			tools = append(tools, t)
		}
	}
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	c.tools = tools
	return c, clashes
}

// addOrigin makes a tool findable as backend.original. If two have the same text, the one
// whose backend has the longer name wins: the other backend chose the name of its tool.
func (c *catalogue) addOrigin(t Tool) {
	if other, ok := c.byOrigin[t.origin()]; !ok || len(other.Backend) < len(t.Backend) {
		c.byOrigin[t.origin()] = t
	}
}

// splitStrays removes the tools whose names are in the name space of another backend: they
// begin with its prefix, or with its name and a dot. Backends choose the names of their
// tools, and could take calls that are for another one. Names by the operator stay.
func (a Aggregation) splitStrays(backends []string, tools []Tool) (kept, strays []Tool, reasons []string) {
	for _, t := range tools {
		owner := ""
		if !a.renames(t) {
			owner = a.ownerOf(t, backends)
		}
		if owner == "" {
			kept = append(kept, t)
			continue
		}
		strays = append(strays, t)
		reasons = append(reasons, fmt.Sprintf("%s (%s, whose name begins as those of backend %s)", t.Name, t.origin(), owner))
	}
	slices.Sort(reasons)
	return kept, strays, reasons
}

// renames reports whether the operator named a tool.
func (a Aggregation) renames(t Tool) bool {
	return slices.ContainsFunc(a.Tools, func(w WorkloadTools) bool { return w.Workload == t.Backend && w.Overrides[t.Original].Name != "" })
}

// ownerOf is the other backend in whose name space the name of a tool is; "" =
// none.
func (a Aggregation) ownerOf(t Tool, backends []string) (owner string) {
	best := a.longestPrefix(t.Name, t.Backend)
	for _, b := range backends {
		if n := a.longestPrefix(t.Name, b); b != t.Backend && n > best {
			owner, best = b, n
		}
	}
	return owner
}

// longestPrefix is the length of the longest prefix of a name that means a backend, in
// bytes.
func (a Aggregation) longestPrefix(name, backend string) (longest int) {
	prefixes := []string{backend + "."}
	if a.Strategy != StrategyManual && strings.Contains(cmp.Or(a.PrefixFormat, defaultPrefixFormat), workloadVar) {
		prefixes = append(prefixes, a.prefixed(Tool{Backend: backend}))
	}
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			longest = max(longest, len(p))
		}
	}
	return longest
}

// mayName reports whether a tool of a backend may have a name, as steps or clients
// write it; scripts write underscores for letters that no identifier has.
func (a Aggregation) mayName(backend, name string) bool {
	if a.longestPrefix(name, backend) > 0 || strings.HasPrefix(name, strings.ReplaceAll(backend, "-", "_")+".") {
		return true
	}
	for _, w := range a.Tools {
		for _, o := range w.Overrides {
			if w.Workload == backend && o.Name == name {
				return true
			}
		}
	}
	if a.Strategy == StrategyManual || a.Strategy == StrategyPriority { // names are the backends' own
		return true
	}
	return !strings.Contains(cmp.Or(a.PrefixFormat, defaultPrefixFormat), workloadVar)
}

func (t Tool) origin() string { return t.Backend + "." + t.Original }

// override applies the aggregation's overrides to a tool.
func (a Aggregation) override(t Tool) Tool {
	t.Name = t.Original
	t.Hidden = a.ExcludeAllTools
	i := slices.IndexFunc(a.Tools, func(w WorkloadTools) bool { return w.Workload == t.Backend })
	if i < 0 {
		return t
	}
	w := a.Tools[i]
	if o, ok := w.Overrides[t.Original]; ok {
		if o.Name != "" {
			t.Name = o.Name
		}
		if o.Description != "" {
			t.Description = o.Description
		}
		t.Annotations = t.Annotations.overridden(o.Annotations)
		if t.byHints {
			t.Effect = t.Annotations.class()
		}
	}
	if len(w.Filter) > 0 && !slices.Contains(w.Filter, t.Name) && !slices.Contains(w.Filter, t.Original) {
		t.Hidden = true
	}
	t.Hidden = t.Hidden || w.ExcludeAll
	return t
}

// settle names the tools by the strategy. lost are those whose name went to a backend of
// higher priority.
func (a Aggregation) settle(tools []Tool) (kept, lost []Tool) {
	switch a.Strategy {
	case StrategyManual:
		return tools, nil
	case StrategyPriority:
		return a.prioritise(tools)
	}
	for _, t := range tools {
		t.Name = a.prefixed(t)
		kept = append(kept, t)
	}
	return kept, nil
}

func (a Aggregation) prefixed(t Tool) string {
	return strings.ReplaceAll(cmp.Or(a.PrefixFormat, defaultPrefixFormat), workloadVar, t.Backend) + t.Name
}

func (a Aggregation) prioritise(tools []Tool) (kept, lost []Tool) {
	rank := func(t Tool) int { return slices.Index(a.Priority, t.Backend) }
	owners := map[string]int{} // name → best rank among the backends in order
	count := map[string]int{}
	for _, t := range tools {
		count[t.Name]++
		if best, ok := owners[t.Name]; rank(t) >= 0 && (!ok || rank(t) < best) {
			owners[t.Name] = rank(t)
		}
	}
	for _, t := range tools {
		owner, listed := owners[t.Name]
		switch {
		case count[t.Name] == 1, listed && rank(t) == owner:
			kept = append(kept, t)
		case !listed:
			t.Name = a.prefixed(t)
			kept = append(kept, t)
		default:
			lost = append(lost, t)
		}
	}
	return kept, lost
}

// splitClashes removes all tools whose name another tool has as well: otherwise a call
// would reach a backend by chance.
func splitClashes(tools []Tool) (single, clashing []Tool, clashes []string) {
	byName := map[string][]string{}
	for _, t := range tools {
		byName[t.Name] = append(byName[t.Name], t.origin())
	}
	for _, t := range tools {
		if len(byName[t.Name]) == 1 {
			single = append(single, t)
			continue
		}
		clashing = append(clashing, t)
	}
	for name, origins := range byName {
		if len(origins) > 1 {
			slices.Sort(origins)
			clashes = append(clashes, fmt.Sprintf("%s (%s)", name, strings.Join(origins, ", ")))
		}
	}
	slices.Sort(clashes)
	return single, clashing, clashes
}

// listedTool is a tool in tools/list, with the members that perdure reads.
type listedTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  struct {
		Title           string `json:"title"`
		ReadOnlyHint    *bool  `json:"readOnlyHint"`
		DestructiveHint *bool  `json:"destructiveHint"`
		IdempotentHint  *bool  `json:"idempotentHint"`
		OpenWorldHint   *bool  `json:"openWorldHint"`
	} `json:"annotations"`
}

// size is about the size of the tool, in bytes.
func (l listedTool) size() int {
	return len(l.Name) + len(l.Title) + len(l.Description) + len(l.InputSchema) + len(l.OutputSchema)
}

// toolsOf makes Tools of what the backend lists, and says why it leaves tools out, by name.
func (c Config) toolsOf(listed []listedTool) (tools []Tool, leftOut map[string]string) {
	tools = make([]Tool, 0, len(listed))
	seen := map[string]bool{}
	leftOut = map[string]string{}
	for _, l := range listed {
		switch why := l.unfit(); {
		case why != "":
			leftOut[clipped(strconv.QuoteToASCII(l.Name), maxName)] = why
		case seen[l.Name]:
			leftOut[l.Name] = "another tool of the backend has its name"
		default:
			seen[l.Name] = true
			tools = append(tools, c.tool(l))
		}
	}
	return tools, leftOut
}

// tool makes a Tool of what the backend lists; its name is given by resolve.
func (c Config) tool(l listedTool) Tool {
	t := Tool{
		Backend: c.Name, Original: l.Name, Title: clipped(l.Title, maxName), Description: clipped(l.Description, maxDescription),
		InputSchema: l.InputSchema, OutputSchema: l.OutputSchema, Annotations: Annotations(l.Annotations),
		Limited: c.Limited,
	}
	if len(t.InputSchema) == 0 || string(t.InputSchema) == "null" {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	if string(t.OutputSchema) == "null" {
		t.OutputSchema = nil
	}
	return t
}
