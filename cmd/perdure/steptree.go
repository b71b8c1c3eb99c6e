package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
)

// stepEnded and stepFailed are about the status of a step. What a server sends beyond those
// that are known has ended, and is shown as it is.
func stepEnded(status string) bool {
	return status != gateway.StepRunning && status != gateway.StepWaiting && status != gateway.StepSays && status != ""
}
func stepFailed(status string) bool { return status == "failed" || status == "timed_out" }

// A stepNode is a step of the graph, or something that is executed within one.
type stepNode struct {
	gateway.StepState
	tool  string
	asks  bool        // it is an elicitation
	says  string      // what it said of its work last
	seen  time.Time   // when it began, by the clock here
	below []*stepNode // in the order of starting
}

// A stepTree lays out the steps of a run as lines that change in place: what runs,
// waits, has ended and failed, in the order of starting.
type stepTree struct {
	roots []*stepNode
	count gateway.StepState // how far a script says it is
}

// update takes over what is known of a step at a time.
func (t *stepTree) update(s gateway.StepState, now time.Time) {
	top := definitions.StepPath(s.Path.Top())
	if s.Status == gateway.StepSays {
		if s.Total > 0 {
			t.count = s
		}
		t.node(&t.roots, top, now).says = s.What
		return
	}
	n := t.node(&t.roots, top, now)
	if s.Path != top {
		n = t.node(&n.below, s.Path, now)
	}
	n.update(s, now)
}

func (t *stepTree) node(among *[]*stepNode, path definitions.StepPath, now time.Time) *stepNode {
	for _, n := range *among {
		if n.Path == path {
			return n
		}
	}
	n := &stepNode{StepState: gateway.StepState{Path: path}, seen: now}
	at := len(*among)
	if strings.HasSuffix(string(path), "]") { // an item of a loop: by its number
		at, _ = slices.BinarySearchFunc(*among, n, func(a, b *stepNode) int {
			return cmp.Or(len(a.Path)-len(b.Path), cmp.Compare(a.Path, b.Path))
		})
	}
	*among = slices.Insert(*among, at, n)
	return n
}

// update ignores further reports of a call that has ended.
func (n *stepNode) update(s gateway.StepState, now time.Time) {
	again := s.Status == gateway.StepRunning && stepEnded(n.Status) && !s.Started.After(n.Ended)
	if again {
		return
	}
	if !stepEnded(n.Status) && n.Status != "" {
		if s.Started.IsZero() {
			s.Started = n.Started
		}
		s.Attempt, s.Progress, s.Total = max(s.Attempt, n.Attempt), max(s.Progress, n.Progress), max(s.Total, n.Total)
	} else if s.Status == gateway.StepRunning || s.Status == gateway.StepWaiting {
		n.seen, n.says = now, ""
	}
	if s.Status == gateway.StepRunning && n.tool != "" && s.What != n.tool {
		n.says, s.What = s.What, n.tool
	}
	n.asks = n.asks || s.Status == gateway.StepWaiting
	if n.tool == "" && !n.asks {
		n.tool = s.What
	}
	n.StepState = s
}

// status gives the status of a node; if only nodes below it are known, theirs.
func (n *stepNode) status() string {
	if n.Status != "" && (n.Status != "completed" || !n.anyBelow(gateway.StepRunning, gateway.StepWaiting)) {
		return n.Status
	}
	switch {
	case n.anyBelow(gateway.StepWaiting):
		return gateway.StepWaiting
	case n.anyBelow(gateway.StepRunning) || len(n.below) == 0:
		return gateway.StepRunning
	case n.anyBelow("failed", "timed_out"):
		return "failed"
	case n.anyBelow("cancelled"):
		return "cancelled"
	}
	return "completed"
}

func (n *stepNode) anyBelow(is ...string) bool {
	return slices.ContainsFunc(n.below, func(b *stepNode) bool { return slices.Contains(is, b.Status) })
}

// took is how long a node has taken so far.
func (n *stepNode) took(now time.Time) time.Duration {
	started, end := n.Started, n.Ended
	for _, b := range n.below {
		if !b.Started.IsZero() && (started.IsZero() || b.Started.Before(started)) {
			started = b.Started
		}
		if b.Ended.After(end) {
			end = b.Ended
		}
	}
	if stepEnded(n.status()) {
		if started.IsZero() || end.IsZero() {
			return 0
		}
		return end.Sub(started)
	}
	return now.Sub(n.seen) // the clock here: that of the server may differ
}

// duration is took for people; "" = it is not known.
func (n *stepNode) duration(now time.Time) string {
	d := n.took(now)
	if d == 0 && stepEnded(n.status()) {
		return ""
	}
	return shortDuration(d)
}

// scroll takes steps that have ended out of the tree, the first one first, until it has
// at most the given number of lines, and returns theirs.
func (t *stepTree) scroll(width, most int, now time.Time) (gone []screenLine) {
	l := t.layout(width)
	over := len(t.lines(width, 0, now)) - most
	t.roots = slices.DeleteFunc(t.roots, func(n *stepNode) bool {
		if over <= 0 || !stepEnded(n.status()) {
			return false
		}
		lines := l.node(n, now, 0)
		gone, over = append(gone, lines...), over-len(lines)
		return true
	})
	return gone
}

// waits reports whether a step waits for a person.
func (t *stepTree) waits() bool {
	return slices.ContainsFunc(t.roots, func(n *stepNode) bool { return n.status() == gateway.StepWaiting })
}

// stop gives steps that have not ended the status with which their run has ended.
func (t *stepTree) stop(status string) {
	for _, n := range t.roots {
		for _, b := range append(slices.Clone(n.below), n) {
			if b.Status != "" && !stepEnded(b.Status) {
				b.Status = status
			}
		}
	}
}

// label is how a node is called beside those around it.
func (n *stepNode) label() string {
	top := n.Path.Top()
	if string(n.Path) == top {
		return top
	}
	return strings.TrimPrefix(strings.TrimPrefix(string(n.Path), top), "/")
}
