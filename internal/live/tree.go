// Package live lays out the steps of a run as lines that change in place: a tree of
// what runs, waits, has ended and failed.
//
// It knows no terminal. Lines are spans of plain text with a style; whoever prints
// them decides what a style looks like.
package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
)

// A Status is how a step is. What a server sends beyond these is shown as it is.
type Status string

// The statuses that are drawn in a way of their own.
const (
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	TimedOut  Status = "timed_out"
	Says      Status = "says" // a line of a script's log; the step goes on as it was
)

func (s Status) ended() bool  { return s != Running && s != Waiting && s != Says && s != "" }
func (s Status) failed() bool { return s == Failed || s == TimedOut }

// A Step is what is known of one step.
type Step struct {
	Path     definitions.StepPath `json:"path"`
	Status   Status               `json:"status"`
	What     string               `json:"what"`     // the tool, what is asked, or what the step says of its work
	Error    string               `json:"error"`    // why it failed or, while it runs, why its last attempt did
	Attempt  int                  `json:"attempt"`  // from 2: the number of the attempt under way
	Progress float64              `json:"progress"` // as its backend or script counts
	Total    float64              `json:"total"`    // 0 = unknown
	Started  time.Time            `json:"started"`
	Ended    time.Time            `json:"ended"`
}

// A node is a step of the graph, or something that is executed within one.
type node struct {
	Step
	tool  string
	asks  bool      // it is an elicitation
	says  string    // what it said of its work last
	seen  time.Time // when it began, by the clock here
	below []*node   // in the order of starting
}

// A Tree is the steps of a run, in the order in which they started.
type Tree struct {
	roots []*node
	count Step // how far a script says it is
}

// Update takes over what is known of a step at a time.
func (t *Tree) Update(s Step, now time.Time) {
	top := definitions.StepPath(s.Path.Top())
	if s.Status == Says {
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

func (t *Tree) node(among *[]*node, path definitions.StepPath, now time.Time) *node {
	for _, n := range *among {
		if n.Path == path {
			return n
		}
	}
	n := &node{Step: Step{Path: path}, seen: now}
	at := len(*among)
	if strings.HasSuffix(string(path), "]") { // an item of a loop: by its number
		at, _ = slices.BinarySearchFunc(*among, n, func(a, b *node) int {
			return cmp.Or(len(a.Path)-len(b.Path), cmp.Compare(a.Path, b.Path))
		})
	}
	*among = slices.Insert(*among, at, n)
	return n
}

// update ignores what is told again of a call that has ended.
func (n *node) update(s Step, now time.Time) {
	again := s.Status == Running && n.Status.ended() && !s.Started.After(n.Ended)
	if again {
		return
	}
	if !n.Status.ended() && n.Status != "" {
		if s.Started.IsZero() {
			s.Started = n.Started
		}
		s.Attempt, s.Progress, s.Total = max(s.Attempt, n.Attempt), max(s.Progress, n.Progress), max(s.Total, n.Total)
	} else if s.Status == Running || s.Status == Waiting {
		n.seen, n.says = now, ""
	}
	if s.Status == Running && n.tool != "" && s.What != n.tool {
		n.says, s.What = s.What, n.tool
	}
	n.asks = n.asks || s.Status == Waiting
	if n.tool == "" && !n.asks {
		n.tool = s.What
	}
	n.Step = s
}

// status of a node of which only what is below it is known is that of what is below.
func (n *node) status() Status {
	if n.Status != "" && (n.Status != Completed || !n.anyBelow(Running, Waiting)) {
		return n.Status
	}
	switch {
	case n.anyBelow(Waiting):
		return Waiting
	case n.anyBelow(Running) || len(n.below) == 0:
		return Running
	case n.anyBelow(Failed, TimedOut):
		return Failed
	}
	return Completed
}

func (n *node) anyBelow(is ...Status) bool {
	return slices.ContainsFunc(n.below, func(b *node) bool { return slices.Contains(is, b.Status) })
}

// took is how long a node has taken so far.
func (n *node) took(now time.Time) time.Duration {
	started, ended := n.Started, n.Ended
	for _, b := range n.below {
		if !b.Started.IsZero() && (started.IsZero() || b.Started.Before(started)) {
			started = b.Started
		}
		if b.Ended.After(ended) {
			ended = b.Ended
		}
	}
	if n.status().ended() {
		if started.IsZero() || ended.IsZero() {
			return 0
		}
		return ended.Sub(started)
	}
	return now.Sub(n.seen) // the clock here: that of the server may differ
}

// duration is took for people; "" = it is not known.
func (n *node) duration(now time.Time) string {
	d := n.took(now)
	if d == 0 && n.status().ended() {
		return ""
	}
	return Duration(d)
}

// Scroll takes steps that have ended out of the tree, the first one first, until it has
// at most the given number of lines, and returns theirs.
func (t *Tree) Scroll(width, most int, now time.Time) (gone []Line) {
	l := t.layout(width)
	over := len(t.Lines(width, 0, now)) - most
	t.roots = slices.DeleteFunc(t.roots, func(n *node) bool {
		if over <= 0 || !n.status().ended() {
			return false
		}
		lines := l.node(n, now, 0)
		gone, over = append(gone, lines...), over-len(lines)
		return true
	})
	return gone
}

// Waits reports whether a step waits for a person.
func (t *Tree) Waits() bool {
	return slices.ContainsFunc(t.roots, func(n *node) bool { return n.status() == Waiting })
}

// Stop gives steps that have not ended the status with which their run has ended.
func (t *Tree) Stop(status Status) {
	for _, n := range t.roots {
		for _, b := range append(slices.Clone(n.below), n) {
			if b.Status != "" && !b.Status.ended() {
				b.Status = status
			}
		}
	}
}

// label is how a node is called beside those around it.
func (n *node) label() string {
	top := n.Path.Top()
	if string(n.Path) == top {
		return top
	}
	return strings.TrimPrefix(strings.TrimPrefix(string(n.Path), top), "/")
}
