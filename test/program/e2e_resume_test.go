package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology/clients"
)

// A resumer is a client of 2025-11-25 that comes back to streams that break.
type resumer struct {
	clients.Session

	requests int // that must has made
}

// newResumer opens a session.
func newResumer(t *testing.T, url string, ask answerer) *resumer {
	t.Helper()
	r := &resumer{Session: clients.Session{URL: url, Asked: clients.Asked(ask)}}
	perduretest.NoError(t, r.Open(t.Context()))
	return r
}

// call calls a tool and gives its result.
func (r *resumer) call(ctx context.Context, id int, tool, arguments string) (json.RawMessage, error) {
	return r.Request(ctx, id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}}`, tool, arguments, id))
}

// must makes a request that has a result, which is decoded into a value, nil =
// none.
func (r *resumer) must(t *testing.T, method, params string, into any) json.RawMessage {
	t.Helper()
	r.requests++
	raw, err := r.Request(t.Context(), r.requests, method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return raw
}
