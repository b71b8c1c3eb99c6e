package auth

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
)

// An Action is what an identity wants to do.
type Action string

// The actions.
const (
	Call   Action = "call"   // a tool, or see that it exists
	See    Action = "see"    // a run, with its questions and its result
	Answer Action = "answer" // a question of a run
	Cancel Action = "cancel" // a run
	// Operate is to answer what a run asks its operators: what is to become of
	// a step that could not be undone.
	Operate Action = "operate"
	// Publish is to publish versions of a composite tool, or to deprecate them.
	Publish Action = "publish"
	// Use is to publish a composite tool that calls another tool by the right of
	// its caller.
	Use Action = "use"
	// Measure is to read the metrics of the installation, which name every tool and
	// backend.
	Measure Action = "measure"
)

// An Object is what is acted on.
type Object struct {
	Tool  string // name under which clients see it: of a backend's tool, or the composite tool of a run
	Owner string // of a run: Identity.Caller of its caller; unused for Call and Publish
	Only  *Grant // for Call and Use: who sees the tool, of those who may call it; its Tools do not matter; nil = all of them

	// Hidden, for Call and Use: only composite tools that are Admitted call the tool.
	Hidden bool
	// Admitted, for Call and Use: the composite tool that calls is one that the
	// tool names as its caller. By whose right it runs does not matter then.
	Admitted bool
	// Publishes, for Use, is the name of the composite tool that is published.
	Publishes string

	// Approvers are, for Answer, who answers the question, of those who may answer
	// questions of the run: subjects, and groups as group:NAME. nil = all of them.
	Approvers []string
}

// A Policy decides who may do what. In its zero value everybody may call everything,
// and sees, answers, resumes and cancels their own runs; no one publishes. A nil Policy
// is the zero one. In use, only Exchange changes it.
type Policy struct {
	// Issuer is whose subjects the grants name, "" = this installation. A
	// subject of any other is named in full, ISSUER#SUBJECT.
	Issuer string
	// Rules set who may call which tools. nil = everybody all of them; with rules, what
	// none allows is denied.
	Rules []Rule
	// Operators see, cancel and resume runs of others. Without operators everybody
	// resumes their own runs; otherwise only operators do.
	Operators []Grant
	// Approvers see and answer runs of others.
	Approvers []Grant
	// Publishers publish composite tools, for those who may call them.
	Publishers []Publisher
	// Metrics may read the metrics: subjects, and groups as group:NAME. nil = no one;
	// without authentication, rules and operators, everybody.
	Metrics []string

	// Current is what holds in place of all above. nil = what is above; see Exchange.
	Current *atomic.Pointer[Policy]
}

// Exchange has a policy hold in place of this one, also where this one is in use,
// provided that Exchangeable was called before it was.
func (p *Policy) Exchange(by Policy) {
	by.Current = nil
	p.Current.Store(&by)
}

// Exchangeable lets Exchange replace the policy later.
func (p *Policy) Exchangeable() {
	own := *p
	own.Current = nil
	p.Current = new(atomic.Pointer[Policy])
	p.Current.Store(&own)
}

// now is the policy that holds.
func (p *Policy) now() *Policy {
	switch {
	case p == nil:
		return &Policy{}
	case p.Current != nil:
		return p.Current.Load()
	}
	return p
}

// A Publisher is a grant to publish composite tools. What these call by the right
// of their callers is what the publisher may call, and Uses.
type Publisher struct {
	Grant
	Uses []string // names of tools, or patterns
}

// A Rule lets some call some tools.
type Rule struct {
	Grant
	Composites []string // composite tools with runAs: composite, for the tools of their steps; patterns
}

// A Grant is for tools, and for those who are named in it or are in one of its
// groups.
type Grant struct {
	Tools    []string // names as clients see them, or patterns: *, ? and [a-z] as in path.Match
	Groups   []string // "*" = everybody
	Subjects []string
}

// May reports whether an identity may do something. It is the only place that checks
// permission.
func (p *Policy) May(who Identity, action Action, on Object) bool {
	p = p.now()
	own := on.Owner != "" && on.Owner == who.Caller()
	switch action {
	case Call:
		return on.Admitted || !on.Hidden && (on.Only == nil || on.Only.names(p, who)) && p.mayCall(who, on.Tool)
	case See:
		return own || p.granted(p.Operators, who, on) || p.granted(p.Approvers, who, on)
	case Answer:
		return (own || p.granted(p.Approvers, who, on)) && (on.Approvers == nil || named(on.Approvers).names(p, who))
	case Cancel:
		return own || p.granted(p.Operators, who, on)
	case Operate:
		return own && len(p.Operators) == 0 || p.granted(p.Operators, who, on)
	case Publish:
		return p.publishes(who, on.Tool, func(Publisher) bool { return true })
	case Measure:
		open := who.Known() == "" && p.Rules == nil && len(p.Operators) == 0
		return p.Metrics == nil && open || named(p.Metrics).names(p, who)
	case Use:
		uses := func(g Publisher) bool { return matchesAny(g.Uses, on.Tool) }
		return p.May(who, Call, on) || !on.Hidden && p.publishes(who, on.Publishes, uses)
	}
	return false
}

func (p *Policy) publishes(who Identity, tool string, as func(Publisher) bool) bool {
	return slices.ContainsFunc(p.Publishers, func(g Publisher) bool { return g.covers(tool) && g.names(p, who) && as(g) })
}

// Oversees reports whether an identity sees the status of the whole installation:
// operators and publishers do; without rules and operators, everybody does.
func (p *Policy) Oversees(who Identity) bool {
	p = p.now()
	if p.Rules == nil && len(p.Operators) == 0 {
		return true
	}
	return slices.ContainsFunc(p.Operators, func(g Grant) bool { return g.names(p, who) }) ||
		slices.ContainsFunc(p.Publishers, func(g Publisher) bool { return g.names(p, who) })
}

// Ruled reports whether there are rules about who may call what.
func (p *Policy) Ruled() bool { return p.now().Rules != nil }

func (p *Policy) mayCall(who Identity, tool string) bool {
	return p.Rules == nil || slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.allows(p, who, tool) })
}

func (p *Policy) granted(grants []Grant, who Identity, on Object) bool {
	return slices.ContainsFunc(grants, func(g Grant) bool { return g.covers(on.Tool) && g.names(p, who) })
}

func (r Rule) allows(p *Policy, who Identity, tool string) bool {
	if !r.covers(tool) {
		return false
	}
	if who.Issuer == compositeIssuer {
		return matchesAny(r.Composites, who.Subject)
	}
	return r.names(p, who)
}

// named makes a grant of subjects, and groups as group:NAME.
func named(names []string) (g Grant) {
	for _, name := range names {
		if group, ok := strings.CutPrefix(name, "group:"); ok {
			g.Groups = append(g.Groups, group)
		} else {
			g.Subjects = append(g.Subjects, name)
		}
	}
	return g
}

func (g Grant) covers(tool string) bool { return matchesAny(g.Tools, tool) }

func (g Grant) names(p *Policy, who Identity) bool {
	for _, group := range g.Groups {
		if group == "*" || slices.Contains(who.Groups, group) {
			return true
		}
	}
	known := who.Issuer == p.Issuer && slices.Contains(g.Subjects, who.Subject)
	return known || slices.Contains(g.Subjects, who.Caller())
}

// matchesAny reports whether one of the patterns matches a name. The name may itself be
// a pattern: then one of them must match all names that it matches. A pattern with more
// than * then only matches itself, since no one can tell what it leaves out.
func matchesAny(patterns []string, name string) bool {
	many := strings.ContainsAny(name, `*?[\`)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if many && pattern != name && strings.ContainsAny(pattern, `?[\`) {
			return false
		}
		ok, err := path.Match(noPath.Replace(pattern), noPath.Replace(name))
		return ok && err == nil || pattern == name
	})
}

// noPath makes of names that have a slash ones that have none: a * is for all
// that a name may have.
var noPath = strings.NewReplacer("/", "\x00")

// CheckPattern reports what is wrong with a pattern of names.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("%q is not a name or pattern, such as get_*", pattern)
	}
	return nil
}

// SeesOthers reports whether an identity may see runs of others at all, of any tool: if
// not, they need not be looked up.
func (p *Policy) SeesOthers(who Identity) bool {
	p = p.now()
	names := func(g Grant) bool { return g.names(p, who) }
	return slices.ContainsFunc(p.Operators, names) || slices.ContainsFunc(p.Approvers, names)
}
