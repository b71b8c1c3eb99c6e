package definitions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A StepPath is the place in a run where something is executed:
//
//	deploy               a step of the graph
//	check[17]            an item of a forEach
//	each[2]/inner[0]     an item of a forEach within one
//	script/main:12       a call of a script, by function and line
//	script/main:12#2     the same, made for the second time
//	called/deploy        a step of the run that a step has called
//	save/compensate      the compensation of a step; save/compensate#2 is its second attempt
//	save/probe#1         the probe of a step's call
//	save/reconciliation  the reconciliation of a call by a person
//	@deploy              the meaning of a reference to a composite tool
//
// Only the methods of StepPath know its syntax.
type StepPath string

const (
	compensationPart = "/compensate"
	probePart        = "/probe#"
	referenceMark    = "@"
)

// ReferencePath is where a run records the meaning of a reference to a composite tool.
func ReferencePath(ref string) StepPath { return StepPath(referenceMark + ref) }

// Top is the ID of the step of the graph that p is in.
func (p StepPath) Top() string {
	top, _ := p.split()
	return top
}

// split gives the ID of the step of the graph, and the rest.
func (p StepPath) split() (top, rest string) {
	if i := strings.IndexAny(string(p), "[/"); i >= 0 {
		return string(p[:i]), string(p[i:])
	}
	return string(p), ""
}

// Item is the path of an item of the forEach at p, from 0.
func (p StepPath) Item(i int) StepPath { return StepPath(fmt.Sprintf("%s[%d]", p, i)) }

// Items begins the paths of the items of the forEach at p.
func (p StepPath) Items() Prefix { return Prefix(p + "[") }

// Below is the path of something within p: a step of a called run, the inner step of an
// item, a call of a script. An empty path is the run itself.
func (p StepPath) Below(rest StepPath) StepPath {
	if p == "" || rest == "" {
		return p + rest
	}
	return p + "/" + rest
}

// Before is p up to a part of it: up to "probe", the step that is probed.
func (p StepPath) Before(part StepPath) StepPath {
	before, _, _ := strings.Cut(string(p), "/"+string(part))
	return StepPath(before)
}

// From is p relative to above; false if it is not within above.
func (p StepPath) From(above StepPath) (StepPath, bool) {
	rest, ok := strings.CutPrefix(string(p), string(above)+"/")
	return StepPath(rest), ok
}

// Around begins the paths of the siblings of p.
func (p StepPath) Around() Prefix { return Prefix(p[:strings.LastIndexByte(string(p), '/')+1]) }

// Covers reports whether other is p or within it.
func (p StepPath) Covers(other StepPath) bool {
	_, below := other.From(p)
	return below || other == p
}

// Has reports whether other is p, one of its items or calls, or within it, except its
// compensation.
func (p StepPath) Has(other StepPath) bool {
	rest, ok := strings.CutPrefix(string(other), string(p))
	return ok && (rest == "" || strings.ContainsAny(rest[:1], "[/#") && !strings.HasPrefix(rest, compensationPart))
}

// last is the part of p after the last slash.
func (p StepPath) last() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// IsScriptCall reports whether p is that of a call of a script.
func (p StepPath) IsScriptCall() bool { return strings.Contains(p.last(), ":") }

// Site is the path of a call of a script without the count.
func (p StepPath) Site() StepPath {
	last := p.last()
	site, _, _ := strings.Cut(last, "#")
	return p[:len(p)-len(last)] + StepPath(site)
}

// Compensation is the path of the compensation of the step at p.
func (p StepPath) Compensation() StepPath { return p + compensationPart }

// Undoes is the path of the step that a compensation at p undoes; "" = none.
func (p StepPath) Undoes() StepPath {
	step, _, ok := strings.Cut(string(p), compensationPart+"#")
	if !ok {
		return ""
	}
	return StepPath(step)
}

// Probe is the path of a probe of the call at p; nth counts from 1.
func (p StepPath) Probe(nth int) StepPath {
	return StepPath(fmt.Sprintf("%s%s%d", p, probePart, nth))
}

// IsProbe reports whether p is that of a probe.
func (p StepPath) IsProbe() bool { return strings.Contains(string(p), probePart) }

// Asks is the ID of an elicitation at p; nth counts from 1. It is unique in a run.
func (p StepPath) Asks(nth int) string { return string(p.Attempt(nth)) }

// Attempt is the path of one attempt at p; n counts from 1.
func (p StepPath) Attempt(n int) StepPath { return StepPath(fmt.Sprintf("%s#%d", p, n)) }

// Redone replaces p in the keys of calls that are made again after they were undone;
// times is how often.
func (p StepPath) Redone(times int) StepPath { return StepPath(fmt.Sprintf("%s~%d", p, times)) }

// Occurrence is the nth of an ID that Asks made for p; 0 if it did not.
func (p StepPath) Occurrence(id string) int {
	number, ok := strings.CutPrefix(id, string(p)+"#")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(number)
	return n
}

// RelayedID is the ID, in a run, of an elicitation of the run called at p.
func (p StepPath) RelayedID(id string) string { return string(p.Below(StepPath(id))) }

// CalledID is the inverse of RelayedID; false if the ID is not of the called run.
func (p StepPath) CalledID(id string) (string, bool) {
	own, ok := StepPath(id).From(p)
	return string(own), ok
}

// A Prefix begins the paths of what is executed somewhere.
type Prefix string

// Of reports whether a path begins with f.
func (f Prefix) Of(p StepPath) bool { return strings.HasPrefix(string(p), string(f)) }

// At gives the node at a path, and its forEach if it is an item of one. A call of a
// script is at the script's node. Both are nil if there is no step.
func (p *Program) At(path StepPath) (n, loop *Node) {
	top, rest := path.split()
	i := slices.IndexFunc(p.Steps, func(n *Node) bool { return n.ID == top })
	if i < 0 {
		return nil, nil
	}
	n = p.Steps[i]
	for rest != "" {
		switch {
		case n.Script != nil && isSite(rest):
			return n, loop
		case n.Inner == nil:
			return nil, nil
		}
		_, after, closed := strings.Cut(rest, "]")
		if rest[0] != '[' || !closed {
			return nil, nil
		}
		n, loop, rest = n.Inner, n, after
		if n.Inner != nil {
			if rest, closed = strings.CutPrefix(rest, "/"+cmp.Or(n.ID, "step")); !closed {
				return nil, nil
			}
		}
	}
	return n, loop
}

// isSite reports whether the rest of a step path, after that of a script, is a
// place in the script: each part of it names a line.
func isSite(rest string) bool {
	parts, ok := strings.CutPrefix(rest, "/")
	if !ok {
		return false
	}
	for _, part := range strings.Split(parts, "/") {
		if !strings.Contains(part, ":") {
			return false
		}
	}
	return true
}
