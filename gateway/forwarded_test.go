package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
)

// Direct calls pass on the parts of a request that the configuration names, and the run
// that the request starts keeps them; nothing else is kept or passed on.
func TestForwarding(t *testing.T) {
	t.Parallel()
	creds := &fakeCredentials{wanted: map[string]string{}}
	w := newWorld(t, map[string]func(*play){"simple": func(p *play) { p.complete(`{}`) }}, func(o *gateway.Options) {
		o.Credentials = creds
		o.Forwarding = backends.Forwarding{Headers: []string{"x-tenant"}, Meta: []string{"acme.example/*", "perdure/*", "progressToken"}}
	})
	direct := make(chan backends.Call, 1)
	w.catalogue.call = func(_ context.Context, c backends.Call) (*backends.Result, error) {
		direct <- c
		return &backends.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	}
	const meta = `{"acme.example/trip":{"n":12345678901234567890},"other.example/x":1,"perdure/idempotency-key":"k","progressToken":"p"}`
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	ann.call("1", "be_echo", `{}`, meta, "X-Tenant", "blue", "X-Other", "no", "Authorization", "Bearer no").result(false)
	got := (<-direct).Caller.Forwarded
	want := backends.Forwarded{Headers: backends.Headers{"X-Tenant": "blue"}, Meta: map[string]json.RawMessage{"acme.example/trip": json.RawMessage(`{"n":12345678901234567890}`)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a direct call passes on (-want +got):\n%s", diff)
	}
	ann.call("2", "simple", `{}`, meta, "X-Tenant", "blue").result(false)
	ann.call("3", "simple", `{}`, `{}`).result(false)
	if diff := cmp.Diff([]string{`user-ann simple blue {"n":12345678901234567890}`}, creds.kept); diff != "" {
		t.Errorf("kept for runs (-want +got):\n%s", diff)
	}
	long := ann.call("4", "be_echo", `{}`, fmt.Sprintf(`{"acme.example/x":%q}`, strings.Repeat("x", 70<<10))).message()
	if long.Error == nil || long.Error.Code != -32602 || !strings.Contains(long.Error.Message, "the limit is 65536") {
		t.Errorf("too much is answered %+v", long.Error)
	}
}

// TestAttackForwardedOfAnother: a call whose request forwards something else, such as a
// tenant, is not given a run whose answer was lost, though the caller and the arguments are
// the same. What is new in each request, as a trace is, makes no difference.
func TestAttackForwardedOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"does": released(t.Context().Done())}, func(o *gateway.Options) {
		o.Credentials = &fakeCredentials{wanted: map[string]string{}}
		o.Forwarding = backends.Forwarding{Headers: []string{"X-Tenant"}, Meta: []string{"acme.example/tenant", "traceparent"}}
	})
	started := func() (n int) {
		w.runs.change(func() { n = len(w.runs.runs) })
		return n
	}
	for _, call := range []struct {
		tenant, trace string
		runs          int // in all after the call
	}{{"blue", "1", 1}, {"green", "2", 2}, {"blue", "3", 2}, {"green", "4", 2}} {
		c, leave := leaving(t, w.url)
		c.keyed("does", fmt.Sprintf(`"_meta":{"acme.example/tenant":%q,"traceparent":%q`, call.tenant, call.trace)).progress()
		if got := started(); got != call.runs {
			t.Errorf("after a call for %s with trace %s there are %d runs, want %d", call.tenant, call.trace, got, call.runs)
		}
		leave()
		w.gateway.AwaitIdle()
	}
}

// TestAttackForwardedWithAKey: a call with a key that was used for another tenant is refused,
// also where the caller and the arguments are the same. It starts no run, as a call that is
// sent again with a renewed token must not.
func TestAttackForwardedWithAKey(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) {
			o.Credentials = &fakeCredentials{wanted: map[string]string{}}
			o.Forwarding = backends.Forwarding{Headers: []string{"X-Tenant"}, Meta: []string{"acme.example/tenant", "traceparent"}}
		})
		session := connect(t, w.url, "ann", "2025-11-25", `{}`)
		modern := &wire{T: t, url: w.url, caller: "ann"}
		for i, call := range []struct {
			tenant, trace string
			refused       bool
		}{{"blue", "1", false}, {"green", "2", true}, {"blue", "3", false}, {"green", "4", true}} {
			meta := fmt.Sprintf(`"perdure/idempotency-key":"k","acme.example/tenant":%q,"traceparent":%q`, call.tenant, call.trace)
			var m *msg
			if version == "2025-11-25" {
				m = session.call(fmt.Sprint(i+1), "echoed", `{"message":"m"}`, "{"+meta+"}").result(call.refused)
			} else {
				m = modern.keyed("echoed", `"_meta":{`+meta).result(call.refused)
			}
			if why := string(m.Result.Meta["perdure/error"]); strings.Contains(why, "key_reused") != call.refused {
				t.Errorf("%s: a call for %s got %s", version, call.tenant, why)
			}
			w.runs.change(func() {
				if n := len(w.runs.runs); n != 1 {
					t.Errorf("%s: after a call for %s there are %d runs, want 1", version, call.tenant, n)
				}
			})
		}
	}
}

// TestAttackForwardedInASession: a request of a session that has the id of an earlier one and
// forwards something else is not given the run of that one. The same one, sent again, is.
func TestAttackForwardedInASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) {
		o.Credentials = &fakeCredentials{wanted: map[string]string{}}
		o.Forwarding = backends.Forwarding{Headers: []string{"X-Tenant"}, Meta: []string{"traceparent"}}
	})
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	for i, call := range []struct {
		tenant string
		runs   int // in all after the call
	}{{"blue", 1}, {"blue", 1}, {"green", 2}} {
		ann.call("1", "echoed", `{"message":"m"}`, fmt.Sprintf(`{"traceparent":"%d"}`, i), "X-Tenant", call.tenant).result(false)
		w.runs.change(func() {
			if n := len(w.runs.runs); n != call.runs {
				t.Errorf("after a call for %s there are %d runs, want %d", call.tenant, n, call.runs)
			}
		})
	}
}
