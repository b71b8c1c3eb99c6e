package auth_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway/auth"
)

const idp = "https://idp.example.com"

// TestPolicy: what the zero policy allows, what rules deny, and whom grants
// name.
func TestPolicy(t *testing.T) {
	t.Parallel()
	var (
		alice    = auth.Identity{Issuer: idp, Subject: "alice", Groups: []string{"dev"}}
		mallory  = auth.Identity{Issuer: "https://evil.example.com", Subject: "alice"}
		operator = auth.Identity{Issuer: idp, Subject: "olga", Groups: []string{"ops"}}
		approver = auth.Identity{Issuer: idp, Subject: "anna"}
		local    = auth.Identity{Subject: "alice"}
	)
	rule := func(g auth.Grant, composites ...string) auth.Rule { return auth.Rule{Grant: g, Composites: composites} }
	zero := &auth.Policy{}
	closed := &auth.Policy{Rules: []auth.Rule{}}
	policy := &auth.Policy{
		Issuer: idp,
		Rules: []auth.Rule{
			rule(auth.Grant{Tools: []string{"deploy", "repo_*"}, Groups: []string{"dev", "release"}}),
			rule(auth.Grant{Tools: []string{"audit"}, Subjects: []string{"anna", "https://other.example.com#bob"}}),
			rule(auth.Grant{Tools: []string{"help"}, Groups: []string{"*"}}),
			rule(auth.Grant{Tools: []string{"prod_write"}}, "deploy*"),
		},
		Operators: []auth.Grant{{Tools: []string{"dep*"}, Groups: []string{"ops"}}},
		Approvers: []auth.Grant{{Tools: []string{"deploy"}, Subjects: []string{"anna"}}},
	}
	pub := auth.Identity{Issuer: idp, Subject: "paul"}
	publishing := &auth.Policy{Issuer: idp, Rules: policy.Rules, Publishers: []auth.Publisher{
		{Grant: auth.Grant{Tools: []string{"pub_*"}, Subjects: []string{"paul"}}, Uses: []string{"repo_*"}},
	}}
	tool := func(name string) auth.Object { return auth.Object{Tool: name} }
	run := auth.Object{Tool: "deploy", Owner: alice.Caller()}
	forWhom := func(names ...string) auth.Object {
		question := run
		question.Approvers = names
		return question
	}
	lead := auth.Identity{Issuer: idp, Subject: "anna", Groups: []string{"leads"}}
	for _, tc := range []struct {
		what   string
		policy *auth.Policy
		who    auth.Identity
		action auth.Action
		on     auth.Object
		may    bool
	}{
		{"no policy: everybody calls", nil, alice, auth.Call, tool("x"), true},
		{"no policy: a composite calls", nil, auth.Composite("c"), auth.Call, tool("x"), true},
		{"no policy: own run", nil, alice, auth.See, run, true},
		{"no policy: run of another", nil, operator, auth.See, run, false},
		{"zero policy: answers their own", zero, alice, auth.Answer, run, true},
		{"zero policy: operates their own", zero, alice, auth.Operate, run, true},
		{"zero policy: cancels their own", zero, alice, auth.Cancel, run, true},
		{"same subject, other issuer", zero, mallory, auth.See, run, false},
		{"same subject, no issuer", zero, local, auth.Answer, run, false},
		{"a run without an owner is nobody's", zero, auth.Identity{}, auth.See, tool("deploy"), false},
		{"no rule: nobody calls", closed, alice, auth.Call, tool("x"), false},

		{"a name with a slash", policy, alice, auth.Call, tool("repo_log/all"), true},
		{"by group", policy, alice, auth.Call, tool("deploy"), true},
		{"by group and pattern", policy, alice, auth.Call, tool("repo_log"), true},
		{"pattern is not a prefix", policy, alice, auth.Call, tool("my_repo_log"), false},
		{"other tool", policy, alice, auth.Call, tool("audit"), false},
		{"by subject", policy, approver, auth.Call, tool("audit"), true},
		{"by subject of another issuer", policy, auth.Identity{Issuer: "https://other.example.com", Subject: "bob"}, auth.Call, tool("audit"), true},
		{"subject of the wrong issuer", policy, auth.Identity{Issuer: "https://evil.example.com", Subject: "anna"}, auth.Call, tool("audit"), false},
		{"everybody", policy, mallory, auth.Call, tool("help"), true},
		{"a composite by its grant", policy, auth.Composite("deploy_all"), auth.Call, tool("prod_write"), true},
		{"a composite without a grant", policy, auth.Composite("audit"), auth.Call, tool("prod_write"), false},
		{"a composite is not everybody", policy, auth.Composite("audit"), auth.Call, tool("help"), false},
		{"a composite's grant is not its caller's", policy, alice, auth.Call, tool("prod_write"), false},
		{"a pattern that a rule covers", policy, alice, auth.Call, tool("repo_l*"), true},
		{"a pattern that is wider than a rule", policy, alice, auth.Call, tool("re*"), false},
		{"a pattern of one letter is not for a pattern of many", &auth.Policy{Rules: []auth.Rule{rule(auth.Grant{Tools: []string{"be_?", "be_[a-z*]"}, Groups: []string{"*"}})}}, alice, auth.Call, tool("be_*"), false},
		{"a pattern is for itself", &auth.Policy{Rules: []auth.Rule{rule(auth.Grant{Tools: []string{"be_[ab]"}, Groups: []string{"*"}})}}, alice, auth.Call, tool("be_[ab]"), true},
		{"a user by the name of a composite", policy, auth.Identity{Issuer: idp, Subject: "deploy"}, auth.Call, tool("prod_write"), false},

		{"operator sees", policy, operator, auth.See, run, true},
		{"operator cancels", policy, operator, auth.Cancel, run, true},
		{"operator operates", policy, operator, auth.Operate, run, true},
		{"operator does not answer", policy, operator, auth.Answer, run, false},
		{"operator of other tools", policy, operator, auth.See, auth.Object{Tool: "audit", Owner: alice.Caller()}, false},
		{"approver sees", policy, approver, auth.See, run, true},
		{"approver answers", policy, approver, auth.Answer, run, true},
		{"approver does not cancel", policy, approver, auth.Cancel, run, false},
		{"owner still answers", policy, alice, auth.Answer, run, true},
		{"a question for the approver", policy, approver, auth.Answer, forWhom("anna"), true},
		{"a question for a group of the approver", policy, lead, auth.Answer, forWhom("bob", "group:leads"), true},
		{"a question for a group whose name is a subject", policy, lead, auth.Answer, forWhom("leads"), false},
		{"a question for a group that is none of the approver's", policy, approver, auth.Answer, forWhom("group:leads"), false},
		{"a question for the approver is not the owner's", policy, alice, auth.Answer, forWhom("anna"), false},
		{"a question for the owner", zero, alice, auth.Answer, forWhom(alice.Caller()), true},
		{"who is named and may not answer", policy, mallory, auth.Answer, forWhom("group:*"), false},
		{"named by a subject of another issuer", policy, auth.Identity{Issuer: "https://evil.example.com", Subject: "anna"}, auth.Answer, forWhom("anna"), false},
		{"owner does not operate where there are operators", policy, alice, auth.Operate, run, false},
		{"unknown action", policy, alice, "delete", run, false},

		{"a hidden tool is nobody's", zero, alice, auth.Call, auth.Object{Tool: "deploy", Hidden: true}, false},
		{"whatever the rules", policy, alice, auth.Call, auth.Object{Tool: "deploy", Hidden: true}, false},
		{"but of those that it admits", closed, mallory, auth.Call, auth.Object{Tool: "deploy", Hidden: true, Admitted: true}, true},
		{"a narrowed tool", policy, alice, auth.Call, auth.Object{Tool: "deploy", Only: &auth.Grant{Groups: []string{"nobody"}}}, false},
		{"also for a composite", zero, auth.Composite("x"), auth.Call, auth.Object{Tool: "deploy", Only: &auth.Grant{Groups: []string{"nobody"}}}, false},
		{"but for one that it admits", closed, auth.Composite("x"), auth.Call, auth.Object{Tool: "deploy", Only: &auth.Grant{Groups: []string{"nobody"}}, Admitted: true}, true},

		{"a publisher uses what he may call", publishing, pub, auth.Use, auth.Object{Tool: "help", Publishes: "pub_x"}, true},
		{"and not the rest", publishing, pub, auth.Use, auth.Object{Tool: "prod_write", Publishes: "pub_x"}, false},
		{"but what is said of what he publishes", publishing, pub, auth.Use, auth.Object{Tool: "repo_log", Publishes: "pub_x"}, true},
		{"of that and of nothing else", publishing, pub, auth.Use, auth.Object{Tool: "repo_log", Publishes: "other"}, false},
		{"of others", publishing, mallory, auth.Use, auth.Object{Tool: "repo_log", Publishes: "pub_x"}, false},
		{"using is not calling", publishing, pub, auth.Call, tool("repo_log"), false},
		{"what is hidden is for nobody to use", publishing, pub, auth.Use, auth.Object{Tool: "repo_log", Publishes: "pub_x", Hidden: true}, false},
		{"but where it admits", publishing, pub, auth.Use, auth.Object{Tool: "prod_write", Publishes: "pub_x", Hidden: true, Admitted: true}, true},
		{"a publisher of nothing else", publishing, pub, auth.Publish, tool("other"), false},
		{"a publisher", publishing, pub, auth.Publish, tool("pub_x"), true},
	} {
		if got := tc.policy.May(tc.who, tc.action, tc.on); got != tc.may {
			t.Errorf("%s: May(%s, %s, %v) = %v", tc.what, tc.who.Caller(), tc.action, tc.on, got)
		}
	}
}

// TestCallerOfAnIdentity: two identities never share a name, and a policy judges
// what is left of one as it judges the whole.
func TestCallerOfAnIdentity(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	identities := []auth.Identity{
		{Subject: "alice"},
		{Issuer: idp, Subject: "alice"},
		{Issuer: "https://idp.example.org", Subject: "alice"},
		{Issuer: idp, Subject: "a#lice"},
		{Issuer: idp, Subject: long + "1"},
		{Issuer: idp, Subject: long + "2"},
		auth.Composite("alice"),
	}
	seen := map[string]bool{}
	for _, who := range identities {
		p := who.Caller()
		if seen[p] || len(p) > 200 {
			t.Errorf("caller %q of %+v is taken or too long", p, who)
		}
		seen[p] = true
		back := auth.FromCaller(p, nil)
		if back.Caller() != p {
			t.Errorf("FromCaller(%q) has caller %q", p, back.Caller())
		}
		if len(who.Subject) < 200 && (back.Issuer != who.Issuer || back.Subject != who.Subject) {
			t.Errorf("FromCaller(%q) = %+v, want %+v", p, back, who)
		}
	}
	if auth.Plain("https://idp#alice") || auth.Plain("") || !auth.Plain("alice") {
		t.Error("Plain tells the wrong names apart")
	}
}

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	for pattern, ok := range map[string]bool{"get_*": true, "a[bc]": true, "": false, "a[": false} {
		if err := auth.CheckPattern(pattern); (err == nil) != ok {
			t.Errorf("CheckPattern(%q) = %v", pattern, err)
		}
	}
}

// Who is told how the whole installation stands.
func TestOversees(t *testing.T) {
	t.Parallel()
	ops, dev := auth.Identity{Subject: "olga", Groups: []string{"ops"}}, auth.Identity{Subject: "ann", Groups: []string{"dev"}}
	grant := []auth.Grant{{Tools: []string{"deploy"}, Groups: []string{"ops"}}}
	for name, c := range map[string]struct {
		policy   *auth.Policy
		ops, dev bool
	}{
		"no policy":       {nil, true, true},
		"no rules":        {&auth.Policy{}, true, true},
		"operators":       {&auth.Policy{Operators: grant}, true, false},
		"publishers":      {&auth.Policy{Rules: []auth.Rule{}, Publishers: []auth.Publisher{{Grant: grant[0]}}}, true, false},
		"rules and no op": {&auth.Policy{Rules: []auth.Rule{{Grant: auth.Grant{Tools: []string{"*"}, Groups: []string{"*"}}}}}, false, false},
	} {
		if o, d := c.policy.Oversees(ops), c.policy.Oversees(dev); o != c.ops || d != c.dev {
			t.Errorf("%s: %t, %t", name, o, d)
		}
	}
}
