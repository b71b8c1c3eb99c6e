package backends

import "testing"

// Calls of one caller take one session, also where the headers of their traces are
// forwarded; calls with another header of its own do not.
func TestSessionsAcrossTraces(t *testing.T) {
	t.Parallel()
	d := &dialer{cfg: Config{Transport: StreamableHTTP}}
	of := func(trace, tenant Secret) string {
		return d.identityOf(Caller{Forwarded: Forwarded{Headers: Headers{"Traceparent": trace, "X-Tenant": tenant}}})
	}
	if of("00-1", "a") != of("00-2", "a") {
		t.Error("each trace has a session of its own")
	}
	if of("00-1", "a") == of("00-1", "b") {
		t.Error("two tenants share a session")
	}
	d.cfg.Credentials = ofEach{}
	if tenant := (Forwarded{Headers: Headers{"X-Tenant": "a"}}); d.identityOf(Caller{Name: "ann", Forwarded: tenant}) == d.identityOf(Caller{Name: "ann with headers " + tenant.identity()}) {
		t.Error("a caller shares the session of another, by a name")
	}
	d.cfg.Credentials = nil
	if only := d.identityOf(Caller{Forwarded: Forwarded{Headers: Headers{"Traceparent": "00-1"}}}); only != "" {
		t.Errorf("a trace alone has the session %q", only)
	}
}

// ofEach are credentials of each caller.
type ofEach struct{ fixed }

func (ofEach) Identity(who Caller) string { return who.Name }
