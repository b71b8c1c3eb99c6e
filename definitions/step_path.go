package definitions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A StepPath says where in a run something is executed:
//
//	deploy               a step of the graph
//	check[17]            an item of a forEach
//	each[2]/inner[0]     an item of a forEach within one
//	script/main:12       a call of a script, by function and line
//	script/main:12#2     the same, when it came there for the second time
//	called/deploy        a step of the run that a step has called
//	save/compensate      what undoes a step; save/compensate#2 is its second attempt
//	save/probe#1         what finds out whether the call of a step was executed
//	save/reconciliation  what a person is asked about a call
//	@deploy              what a reference to a composite tool means to the run
//
// Only the methods of StepPath know how one is written.
type StepPath string

const (
	compensationPart = "/compensate"
	probePart        = "/probe#"
	referenceMark    = "@"
)

// ReferencePath is where a run keeps what a reference to a composite tool means to it.
func ReferencePath(ref string) StepPath { return StepPath(referenceMark + ref) }

// Top is the ID of the step of the graph in which p lies.
func (p StepPath) Top() string {
	top, _ := p.split()
	return top
}

// split gives the ID of the step of the graph, and what comes after it.
func (p StepPath) split() (top, rest string) {
	if i := strings.IndexAny(string(p), "[/"); i >= 0 {
		return string(p[:i]), string(p[i:])
	}
	return string(p), ""
}

// Item is the path of an item of the forEach at p, from 0.
func (p StepPath) Item(i int) StepPath { return StepPath(fmt.Sprintf("%s[%d]", p, i)) }

// Items begins the paths of the items of what is executed at p.
func (p StepPath) Items() Prefix { return Prefix(p + "[") }

// Below is the path of what is executed within p: a step of a called run, the inner
// step of an item, a call of a script. An empty path is the run itself.
func (p StepPath) Below(rest StepPath) StepPath {
	if p == "" || rest == "" {
		return p + rest
	}
	return p + "/" + rest
}

// Before is what comes before a part of p: before "probe", the step that is probed.
func (p StepPath) Before(part StepPath) StepPath {
	before, _, _ := strings.Cut(string(p), "/"+string(part))
	return StepPath(before)
}

// From is p as it is seen from within above; false if it does not lie there.
func (p StepPath) From(above StepPath) (StepPath, bool) {
	rest, ok := strings.CutPrefix(string(p), string(above)+"/")
	return StepPath(rest), ok
}

// Around begins the paths of all that is executed beside p.
func (p StepPath) Around() Prefix { return Prefix(p[:strings.LastIndexByte(string(p), '/')+1]) }

// Covers reports whether other is p, or is executed within it.
func (p StepPath) Covers(other StepPath) bool {
	_, below := other.From(p)
	return below || other == p
}

// Has reports whether other is p, one of its items or calls, or is executed within it,
// but for what undoes it.
func (p StepPath) Has(other StepPath) bool {
	rest, ok := strings.CutPrefix(string(other), string(p))
	return ok && (rest == "" || strings.ContainsAny(rest[:1], "[/#") && !strings.HasPrefix(rest, compensationPart))
}

// last is the part of p that begins after the last slash.
func (p StepPath) last() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// IsScriptCall reports whether p is that of a call of a script.
func (p StepPath) IsScriptCall() bool { return strings.Contains(p.last(), ":") }

// Site is the path of a call of a script, however often it came there.
func (p StepPath) Site() StepPath {
	last := p.last()
	site, _, _ := strings.Cut(last, "#")
	return p[:len(p)-len(last)] + StepPath(site)
}

// Compensation is the path of what undoes the step at p.
func (p StepPath) Compensation() StepPath { return p + compensationPart }

// Undoes is the path of the step that an attempt at p undoes; "" = none.
func (p StepPath) Undoes() StepPath {
	step, _, ok := strings.Cut(string(p), compensationPart+"#")
	if !ok {
		return ""
	}
	return StepPath(step)
}

// Probe is the path of what finds out for the given time, from 1, whether the call at p
// was executed.
func (p StepPath) Probe(time int) StepPath {
	return StepPath(fmt.Sprintf("%s%s%d", p, probePart, time))
}

// IsProbe reports whether p is that of a probe.
func (p StepPath) IsProbe() bool { return strings.Contains(string(p), probePart) }

// Asks is the ID of the elicitation with which p asks for the given time, from 1. With
// Attempt, it is unique in a run.
func (p StepPath) Asks(time int) string { return string(p.Attempt(time)) }

// Attempt is the path of one attempt of what is executed at p, from 1.
func (p StepPath) Attempt(n int) StepPath { return StepPath(fmt.Sprintf("%s#%d", p, n)) }

// Redone is what stands for p in the keys of calls that are made again after what they
// did was undone for the given number of times.
func (p StepPath) Redone(times int) StepPath { return StepPath(fmt.Sprintf("%s~%d", p, times)) }

// Time is the number with which Asks has made an ID; 0 if p has not asked with it.
func (p StepPath) Time(id string) int {
	number, ok := strings.CutPrefix(id, string(p)+"#")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(number)
	return n
}

// Tells gives an elicitation of a called run the ID that it has in the run that has
// called it at p.
func (p StepPath) Tells(id string) string { return string(p.Below(StepPath(id))) }

// Told takes that back; false if the called run has not asked with the ID.
func (p StepPath) Told(id string) (string, bool) {
	own, ok := StepPath(id).From(p)
	return string(own), ok
}

// A Prefix begins the paths of what is executed somewhere.
type Prefix string

// Of reports whether a path begins so.
func (f Prefix) Of(p StepPath) bool { return strings.HasPrefix(string(p), string(f)) }

// At gives the node that is executed at a path, and its forEach if it is an item of
// one. A call of a script is executed at the script's node. Both are nil where no step
// is.
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
